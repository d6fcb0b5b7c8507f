use xmml_path::{Credentials, Lane};

use super::*;
use crate::relay::testing::{memory_log, next_message, paths};

/// Adds an open link of the run `canal` to a table; returns the path of the relay at its other end, too.
pub fn link(table: &mut LinkTable) -> (Token, Path) {
    let [near, far] = paths();
    let token = table.add(Link::new("canal", near, None, RoundTrip::new(ROUND_TRIP))).unwrap();
    let (has_opened, _) = table.get_mut(token).unwrap().drive();
    assert!(has_opened);
    (token, far)
}

/// Returns the links of a relay of site b with the run `canal`.
pub fn links_of_b() -> Links {
    let mut links = Links::new("b", &Poller::new().unwrap()).unwrap();
    links.add_run("canal", &RelayKey::of(b"the secret"), Instant::now()).unwrap();
    links
}

/// Links a relay to one of another site, which has introduced itself by this number and is measured.
pub fn neighbour(links: &mut Links, site: &str, life: u64) -> (Token, Path) {
    let (token, far) = link(&mut links.table);
    let now = Instant::now();
    links.welcome(token, site, life, now);
    links.on_pong(token, 1, now, &mut memory_log());
    let neighbours = BTreeMap::from([("b".to_owned(), 10)]);
    let said = Announcement::new(site, life, neighbours);
    links.on_announcement(token, said, now, &mut memory_log());
    (token, far)
}

/// Returns all messages that the relay at the other end of the only link has been sent.
fn messages(links: &mut Links, far: &Path) -> Vec<LinkMessage> {
    let token = links.table.iter().next().unwrap().0;
    links.table.send(token, &LinkMessage::Pong { number: 77 });
    links.table.flush();
    let is_last = |message: &LinkMessage| matches!(message, LinkMessage::Pong { number: 77 });
    std::iter::repeat_with(|| next_message(far)).take_while(|message| !is_last(message)).collect()
}

#[test]
fn a_neighbour_is_in_reach_and_the_route_to_it_begins_with_its_link() {
    let mut links = links_of_b();
    assert!(links.route("canal", "a").unwrap_err().contains("no other relay is linked now"));
    let (link, _far) = neighbour(&mut links, "a", 1);
    assert_eq!(links.sites_in_reach("canal"), ["a", "b"]);
    assert_eq!(links.route("canal", "a"), Ok((link, vec!["a".to_owned()])));
    assert!(links.route("canal", "c").unwrap_err().ends_with("in reach for this run: a"));
    assert_eq!(links.route("river", "a"), Err("the run has ended here".to_owned()));
}

#[test]
fn a_new_link_begins_with_the_site_and_the_number_of_this_process() {
    let mut links = links_of_b();
    let [near, far] = paths();
    links.add("canal", near, None).unwrap();
    assert_eq!(messages(&mut links, &far)[0], LinkMessage::Hello { site: "b".into(), life: links.life });
    assert!(links.next_time().is_some(), "it is measured");
}

#[test]
fn a_relay_that_is_welcome_gets_all_announcements_and_a_ping() {
    let mut links = links_of_b();
    let (token, far) = link(&mut links.table);
    links.welcome(token, "a", 1, Instant::now());
    let messages = messages(&mut links, &far);
    assert!(matches!(&messages[0], LinkMessage::Neighbours(said) if said.site == "b"));
    assert_eq!(messages[1], LinkMessage::Ping { number: 1 });
}

#[test]
fn a_measured_link_makes_a_neighbour_which_all_are_told() {
    let mut links = links_of_b();
    let (_, far) = neighbour(&mut links, "a", 1);
    let is_it = |message: &LinkMessage| match message {
        LinkMessage::Neighbours(said) => said.site == "b" && said.neighbours.contains_key("a"),
        _ => false,
    };
    assert!(messages(&mut links, &far).iter().any(is_it));
}

#[test]
fn what_a_relay_announces_after_it_was_started_again_is_believed_although_it_counts_anew() {
    let mut links = links_of_b();
    let (token, _far) = link(&mut links.table);
    for number in [50, 1] {
        let its = Credentials::make("a", Duration::from_secs(3600)).unwrap();
        links.trust(&[], BTreeMap::from([("a".to_owned(), its.fingerprint())]), Instant::now());
        let said = Announcement::new("a", number, BTreeMap::from([("b".to_owned(), 10)]));
        let signature = its.sign(&said.signed_text("canal")).ok();
        links.on_announcement(token, Announcement { signature, ..said }, Instant::now(), &mut memory_log());
        let known = links.runs["canal"].routing.topology().all().find(|known| known.site == "a");
        assert_eq!(known.map(|known| known.number), Some(number));
    }
}

#[test]
fn what_a_relay_has_announced_is_believed_when_its_certificate_is_told() {
    let mut links = links_of_b();
    let (token, _far) = link(&mut links.table);
    let [former, new] = [(); 2].map(|()| Credentials::make("a", Duration::from_secs(3600)).unwrap());
    links.trust(&[], BTreeMap::from([("a".to_owned(), former.fingerprint())]), Instant::now());
    let said = Announcement::new("a", 1, BTreeMap::new());
    let signature = new.sign(&said.signed_text("canal")).ok();
    links.on_announcement(token, Announcement { signature, ..said }, Instant::now(), &mut memory_log());
    let knows_a = |links: &Links| links.runs["canal"].routing.topology().all().any(|known| known.site == "a");
    assert!(!knows_a(&links));
    links.trust(&[], BTreeMap::from([("a".to_owned(), new.fingerprint())]), Instant::now());
    assert!(knows_a(&links));
}

#[test]
fn few_announcements_are_kept_that_are_not_believed() {
    let mut links = links_of_b();
    let (token, _far) = link(&mut links.table);
    let its = links.encryption().tls.fingerprint();
    links.trust(&[], BTreeMap::from([("b".to_owned(), its)]), Instant::now());
    for number in 0..100 {
        let said = Announcement::new(&format!("s{}", number % 50), number, BTreeMap::new());
        links.on_announcement(token, said, Instant::now(), &mut memory_log());
    }
    assert_eq!(links.runs["canal"].doubted.len(), DOUBTED_MAX);
}

#[test]
fn an_announcement_is_of_one_run_alone() {
    let its = Credentials::make("a", Duration::from_secs(3600)).unwrap();
    for (run, is_believed) in [("canal", true), ("river", false)] {
        let mut links = links_of_b();
        let (token, _far) = link(&mut links.table);
        links.trust(&[], BTreeMap::from([("a".to_owned(), its.fingerprint())]), Instant::now());
        let said = Announcement::new("a", 2, BTreeMap::new());
        let signature = its.sign(&said.signed_text(run)).ok();
        links.on_announcement(token, Announcement { signature, ..said }, Instant::now(), &mut memory_log());
        let is_known = links.runs["canal"].routing.topology().all().any(|known| known.site == "a");
        assert_eq!(is_known, is_believed);
    }
}

#[test]
fn a_link_in_clear_may_be_of_the_sites_that_dial_in_clear_alone() {
    let mut links = links_of_b();
    let its = links.encryption().tls.fingerprint();
    links.trust(&[], BTreeMap::from([("b".to_owned(), its)]), Instant::now());
    links.take_clear_from(BTreeSet::from(["a".to_owned()]));
    let (token, _far) = link(&mut links.table);
    assert!(links.on_hello(token, "c", 1).unwrap_err().contains("no link in clear is taken from c"));
    assert_eq!(links.on_hello(token, "a", 1), Ok(vec![]));
}

#[test]
fn a_relay_of_this_site_or_of_none_is_not_linked() {
    let mut links = links_of_b();
    let (token, _far) = link(&mut links.table);
    assert!(links.on_hello(token, "b", 1).unwrap_err().contains("two relays of one site"));
    assert!(links.on_hello(token, "b/c", 1).is_err());
}

#[test]
fn a_relay_that_was_started_again_replaces_its_former_link_and_not_the_other_way_round() {
    let mut links = links_of_b();
    let (former, far) = neighbour(&mut links, "a", 1);
    let (newer, _other) = link(&mut links.table);
    let came = "another relay of a has come".to_owned();
    assert_eq!(links.on_hello(newer, "a", 2), Ok(vec![(former, came.clone())]));
    links.welcome(newer, "a", 2, Instant::now());
    links.remove(former, &came, &mut memory_log());
    let refused =
        std::iter::repeat_with(|| next_message(&far)).find(|message| matches!(message, LinkMessage::Refused { .. }));
    assert_eq!(refused, Some(LinkMessage::Refused { stream: 0, reason: came }));
    let (again, _third) = link(&mut links.table);
    assert!(links.on_hello(again, "a", 1).unwrap_err().contains("which came later"));
}

#[test]
fn a_link_that_is_lost_is_not_a_way_any_more() {
    let mut links = links_of_b();
    let mut log = memory_log();
    let (link, _far) = neighbour(&mut links, "a", 1);
    assert_eq!(links.remove(link, "it broke", &mut log), Some(("canal".to_owned(), "a".to_owned())));
    links.review_neighbours("canal");
    assert_eq!(links.sites_in_reach("canal"), ["b"]);
    assert!(log.written().contains("a link was lost"), "{}", log.written());
    assert_eq!(links.remove(link, "it broke", &mut log), None);
}

#[test]
fn links_are_made_anew_when_they_are_to_be_protected_in_another_way() {
    let mut links = links_of_b();
    let (link, _far) = link(&mut links.table);
    let same = links.encryption().clone();
    assert!(links.encrypt(same).is_empty());
    assert_eq!(links.encrypt(Encryption::self_made("b").unwrap()), [link]);
}

#[test]
fn a_run_that_is_removed_gives_up_its_links_and_its_listener() {
    let mut links = links_of_b();
    let listener = links.runs["canal"].token;
    let (link, _far) = link(&mut links.table);
    assert!(links.owns_listener(listener));
    assert_eq!(links.remove_run("canal"), [link]);
    assert!(!links.owns_listener(listener));
}

#[test]
fn the_nearest_of_two_links_to_a_site_is_taken() {
    let mut links = links_of_b();
    let near = Instant::now();
    let (far_token, _far) = link(&mut links.table);
    links.welcome(far_token, "a", 1, near);
    links.on_pong(far_token, 1, near + Duration::from_millis(40), &mut memory_log());
    let (near_token, _near) = link(&mut links.table);
    links.welcome(near_token, "a", 1, near);
    links.on_pong(near_token, 1, near + Duration::from_millis(4), &mut memory_log());
    assert_eq!(links.link_to("canal", "a"), Ok(near_token));
    assert_eq!(links.link_to("canal", "c"), Err("the link from b to c is down".to_owned()));
    assert_eq!(links.table.round_trip(near_token), Duration::from_millis(4));
    assert!(links.table.has_room(near_token, Lane::Bulk));
}
