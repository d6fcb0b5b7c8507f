//! Which relays there are for a run, and the way to each: every relay tells all others who its neighbours are and how far, and works out
//! the shortest way itself. The relay where a stream begins writes its whole way down, so that no stream can run in a circle. No socket
//! and no clock here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde::{Deserialize, Serialize};
use xmml_path::Signature;
use xmml_wire::message_pack;
use xmml_wire::methods::relay::address::site_problem;

/// Relays that a stream may pass, at most, the first and the last included.
pub const HOPS_MAX: usize = 16;

/// Sites of a run, at most.
pub const SITES_MAX: usize = 256;

/// Bytes of a signature in MessagePack, with its certificate: relays keep those of others.
const SIGNATURE_MAX: usize = 16 << 10;

/// What a relay says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// Its site.
    pub site: String,
    /// Higher than that of what it said before.
    pub number: u64,
    /// The sites to which it has a link, and the time there and back [us].
    pub neighbours: BTreeMap<String, u32>,
    /// Of the relay itself, so that no other can say anything in its name ([`Announcement::signed_text`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

impl Announcement {
    /// Returns what a relay says of itself, unsigned.
    pub fn new(site: &str, number: u64, neighbours: BTreeMap<String, u32>) -> Announcement {
        Announcement { site: site.to_owned(), number, neighbours, signature: None }
    }

    /// Returns what the signature is of: all of it, for this run alone.
    pub fn signed_text(&self, run: &str) -> Vec<u8> {
        message_pack::encode(&("announcement of an xMML relay", run, &self.site, self.number, &self.neighbours))
    }
}

/// What became of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementEffect {
    /// It was known.
    Known,
    /// It is news, to be sent to the other neighbours.
    News,
    /// It is about this relay itself, from an earlier life, and must be corrected: [`Topology::correct`].
    Outdated,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Topology {
    me: String,
    known: BTreeMap<String, Announcement>,
    /// The highest number under which others have heard something else of this site.
    claimed: u64,
}

impl Topology {
    /// A relay without neighbours.
    pub fn new(site: &str) -> Topology {
        let own = Announcement::new(site, 1, BTreeMap::new());
        Topology { me: site.to_owned(), known: BTreeMap::from([(site.to_owned(), own)]), claimed: 0 }
    }

    /// What this relay says of itself.
    pub fn own(&self) -> &Announcement {
        &self.known[&self.me]
    }

    /// These are the neighbours now. True: others must be told.
    pub fn set_neighbours(&mut self, neighbours: BTreeMap<String, u32>) -> bool {
        let Some(own) = self.known.get_mut(&self.me) else { return false };
        let differs = |a: u32, b: u32| a.abs_diff(b) > 200 && a.abs_diff(b) > a.min(b) / 3;
        let is_news = own.neighbours.len() != neighbours.len()
            || neighbours
                .iter()
                .any(|(site, now)| own.neighbours.get(site).is_none_or(|before| differs(*before, *now)));
        if is_news {
            own.neighbours = neighbours;
            own.number = own.number.max(self.claimed).saturating_add(1);
        }
        is_news
    }

    /// Says it again under a number that is higher than all that others have heard; send what is returned to all.
    pub fn correct(&mut self) -> Announcement {
        if let Some(own) = self.known.get_mut(&self.me) {
            own.number = own.number.max(self.claimed).saturating_add(1);
        }
        self.own().clone()
    }

    /// Whether an announcement of another relay brings nothing: this, or something newer, was heard before.
    pub fn knows(&self, said: &Announcement) -> bool {
        let known = self.known.get(&said.site).filter(|known| known.site != self.me);
        // Two relays of one site may give two things one number: the same of them holds everywhere then, and the other relay hears of it.
        known.is_some_and(|known| (known.number, &known.neighbours) >= (said.number, &said.neighbours))
    }

    /// Forgets what other relays have said of themselves, except of these sites.
    pub fn forget_all_but(&mut self, kept: impl Fn(&str) -> bool) {
        let me = self.me.clone();
        self.known.retain(|site, _| *site == me || kept(site));
    }

    /// Another relay has said something of itself.
    ///
    /// # Errors
    /// It cannot be, and why.
    pub fn on_announcement(&mut self, said: Announcement) -> Result<AnnouncementEffect, String> {
        if said.neighbours.len() > SITES_MAX {
            return Err(format!("{} claims {} neighbours", said.site, said.neighbours.len()));
        }
        if message_pack::encode(&said.signature).len() > SIGNATURE_MAX {
            return Err(format!("the signature of {} is too long", said.site));
        }
        if let Some(problem) =
            std::iter::once(&said.site).chain(said.neighbours.keys()).find_map(|site| site_problem(site))
        {
            return Err(problem);
        }
        if said.site == self.me {
            let own = self.own();
            if said.number < own.number || (said.number, &said.neighbours) == (own.number, &own.neighbours) {
                return Ok(AnnouncementEffect::Known);
            }
            self.claimed = self.claimed.max(said.number);
            return Ok(AnnouncementEffect::Outdated);
        }
        if !self.known.contains_key(&said.site) && self.known.len() >= SITES_MAX {
            self.forget_unreachable();
        }
        match self.known.contains_key(&said.site) {
            true if self.knows(&said) => Ok(AnnouncementEffect::Known),
            false if self.known.len() >= SITES_MAX => Err(format!("more than {SITES_MAX} sites")),
            _ => {
                self.known.insert(said.site.clone(), said);
                Ok(AnnouncementEffect::News)
            }
        }
    }

    /// Everything known, for a new neighbour.
    pub fn all(&self) -> impl Iterator<Item = &Announcement> {
        self.known.values()
    }

    /// The sites on the shortest way to `site`, this one excluded; `None`: there is no way (of at most [`HOPS_MAX`] relays).
    pub fn route(&self, site: &str) -> Option<Vec<String>> {
        let mut way = vec![site.to_owned()];
        let reached = self.distances();
        while let Some((_, _, before)) = reached.get(&way[way.len() - 1]) {
            match before {
                Some(before) if *before == self.me => {
                    way.reverse();
                    return Some(way);
                }
                Some(before) => way.push(before.clone()),
                None => return None,
            }
        }
        None
    }

    /// Every site that can be reached: how far it is [us], over how many links, and from which site one comes there.
    pub fn distances(&self) -> BTreeMap<String, (u64, usize, Option<String>)> {
        let mut reached: BTreeMap<String, (u64, usize, Option<String>)> = BTreeMap::new();
        let mut queue = BinaryHeap::from([Reverse((0u64, 0usize, self.me.clone(), None))]);
        while let Some(Reverse((distance, links, site, before))) = queue.pop() {
            if reached.contains_key(&site) || links >= HOPS_MAX {
                continue;
            }
            reached.insert(site.clone(), (distance, links, before));
            let Some(here) = self.known.get(&site) else { continue };
            for (next, out) in &here.neighbours {
                // A link counts if both of its ends say so: a relay that is gone says nothing, and is found out by the others.
                let back = self.known.get(next).and_then(|there| there.neighbours.get(&site));
                if let Some(back) = back {
                    // A link costs something even if it takes no time: of two equal ways, the one over fewer links.
                    let length = u64::from(*out.max(back)) + 1;
                    queue.push(Reverse((distance + length, links + 1, next.clone(), Some(site.clone()))));
                }
            }
        }
        reached
    }

    /// Makes room. What is out of reach is kept as long as there is some: a link that is about to be noted at both of its ends, or that
    /// comes back, brings it within reach again, and nobody would say it a second time.
    fn forget_unreachable(&mut self) {
        let reached = self.distances();
        let me = self.me.clone();
        self.known.retain(|site, _| *site == me || reached.contains_key(site));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(site: &str, number: u64, neighbours: &[(&str, u32)]) -> Announcement {
        let neighbours = neighbours.iter().map(|(site, far)| ((*site).to_owned(), *far)).collect();
        Announcement::new(site, number, neighbours)
    }

    fn topology(own: &[(&str, u32)], others: &[(&str, &[(&str, u32)])]) -> Topology {
        let mut topology = Topology::new("a");
        for (site, neighbours) in others {
            topology.on_announcement(announcement(site, 1, neighbours)).unwrap();
        }
        topology.set_neighbours(own.iter().map(|(site, far)| ((*site).to_owned(), *far)).collect());
        // What was out of reach when it was heard is said again by the new neighbour.
        for (site, neighbours) in others {
            topology.on_announcement(announcement(site, 1, neighbours)).unwrap();
        }
        topology
    }

    #[test]
    fn the_way_is_the_fastest_not_the_one_with_the_fewest_relays() {
        let direct_is_slow = topology(
            &[("b", 1000), ("c", 9000)],
            &[("b", &[("a", 1000), ("c", 1000)]), ("c", &[("a", 9000), ("b", 1000)])],
        );
        assert_eq!(direct_is_slow.route("c").unwrap(), ["b", "c"]);
        let direct_is_fast = topology(
            &[("b", 1000), ("c", 1500)],
            &[("b", &[("a", 1000), ("c", 1000)]), ("c", &[("a", 1500), ("b", 1000)])],
        );
        assert_eq!(direct_is_fast.route("c").unwrap(), ["c"]);
    }

    #[test]
    fn what_is_heard_before_a_link_is_noted_at_both_ends_counts_afterwards() {
        let mut topology = Topology::new("c");
        topology.on_announcement(announcement("b", 2, &[("a", 10)])).unwrap();
        topology.on_announcement(announcement("a", 2, &[("b", 10)])).unwrap();
        assert!(topology.set_neighbours(BTreeMap::from([("b".to_owned(), 10)])));
        topology.on_announcement(announcement("b", 3, &[("a", 10), ("c", 10)])).unwrap();
        assert_eq!(topology.route("a").unwrap(), ["b", "a"]);
    }

    #[test]
    fn who_claims_that_a_relay_has_used_up_its_numbers_does_not_end_it() {
        let mut topology = Topology::new("a");
        assert_eq!(topology.on_announcement(announcement("a", u64::MAX, &[])), Ok(AnnouncementEffect::Outdated));
        assert!(topology.set_neighbours(BTreeMap::from([("b".to_owned(), 10)])));
        assert_eq!(topology.own().number, u64::MAX);
    }

    #[test]
    fn what_is_out_of_reach_gives_way_when_there_is_no_more_room() {
        let mut topology = Topology::new("a");
        for site in 1..SITES_MAX {
            topology.on_announcement(announcement(&format!("s{site}"), 1, &[])).unwrap();
        }
        assert_eq!(topology.all().count(), SITES_MAX);
        topology.on_announcement(announcement("late", 1, &[])).unwrap();
        assert_eq!(topology.all().count(), 2);
    }

    #[test]
    fn a_link_of_which_only_one_end_knows_leads_nowhere() {
        let topology = topology(&[("b", 10)], &[("b", &[("a", 10), ("c", 10)]), ("c", &[])]);
        assert_eq!(topology.route("b").unwrap(), ["b"]);
        assert_eq!(topology.route("c"), None);
    }

    #[test]
    fn a_relay_that_was_lost_is_gone_around_or_not_at_all() {
        let others: &[(&str, &[(&str, u32)])] =
            &[("b", &[("a", 10), ("d", 10)]), ("c", &[("a", 50), ("d", 50)]), ("d", &[("b", 10), ("c", 50)])];
        let mut topology = topology(&[("b", 10), ("c", 50)], others);
        assert_eq!(topology.route("d").unwrap(), ["b", "d"]);
        assert!(topology.set_neighbours(BTreeMap::from([("c".to_owned(), 50)])));
        assert_eq!(topology.route("d").unwrap(), ["c", "d"]);
        assert!(topology.set_neighbours(BTreeMap::new()));
        assert_eq!(topology.route("d"), None);
        assert!(topology.set_neighbours(BTreeMap::from([("c".to_owned(), 50)])));
        assert_eq!(topology.route("d").unwrap(), ["c", "d"], "what was known is known when the link is back");
    }

    #[test]
    fn only_what_is_newer_is_news() {
        let mut topology = Topology::new("a");
        assert_eq!(topology.on_announcement(announcement("b", 5, &[])), Ok(AnnouncementEffect::News));
        assert_eq!(topology.on_announcement(announcement("b", 5, &[])), Ok(AnnouncementEffect::Known));
        assert_eq!(topology.on_announcement(announcement("b", 4, &[("c", 1)])), Ok(AnnouncementEffect::Known));
        assert_eq!(topology.on_announcement(announcement("b", 6, &[("c", 1)])), Ok(AnnouncementEffect::News));
    }

    #[test]
    fn of_two_things_under_one_number_the_same_holds_whichever_is_heard_first() {
        let said = [announcement("b", 5, &[("c", 1)]), announcement("b", 5, &[("d", 1)])];
        for first in [0, 1] {
            let mut topology = Topology::new("a");
            topology.on_announcement(said[first].clone()).unwrap();
            topology.on_announcement(said[1 - first].clone()).unwrap();
            assert!(topology.all().any(|known| *known == said[1]));
        }
        let mut other = Topology::new("b");
        other.set_neighbours(BTreeMap::from([("c".to_owned(), 1)]));
        let number = other.own().number;
        assert_eq!(other.on_announcement(announcement("b", number, &[("d", 1)])), Ok(AnnouncementEffect::Outdated));
    }

    #[test]
    fn a_relay_that_was_started_again_outdoes_what_it_said_before() {
        let mut topology = Topology::new("a");
        assert_eq!(topology.on_announcement(announcement("a", 70, &[("x", 1)])), Ok(AnnouncementEffect::Outdated));
        assert_eq!(topology.correct().number, 71);
        assert_eq!(topology.on_announcement(announcement("a", 70, &[("x", 1)])), Ok(AnnouncementEffect::Known));
    }

    #[test]
    fn small_changes_of_latency_are_not_told() {
        let mut topology = topology(&[("b", 1000)], &[]);
        let far = |far: u32| BTreeMap::from([("b".to_owned(), far)]);
        assert!(!topology.set_neighbours(far(1200)));
        assert!(!topology.set_neighbours(far(900)));
        assert!(topology.set_neighbours(far(2000)));
    }

    #[test]
    fn a_way_has_an_end() {
        let sites: Vec<String> = (0..HOPS_MAX + 3).map(|number| format!("s{number:02}")).collect();
        let mut topology = Topology::new(&sites[0]);
        let neighbours = |at: usize| {
            let before = at.checked_sub(1).map(|at| (sites[at].clone(), 1));
            before.into_iter().chain(sites.get(at + 1).map(|next| (next.clone(), 1))).collect::<BTreeMap<_, _>>()
        };
        topology.set_neighbours(neighbours(0));
        for (at, site) in sites.iter().enumerate().skip(1) {
            topology.on_announcement(Announcement::new(site, 1, neighbours(at))).unwrap();
        }
        assert_eq!(topology.route(&sites[HOPS_MAX - 1]).unwrap().len(), HOPS_MAX - 1);
        assert_eq!(topology.route(&sites[HOPS_MAX]), None);
    }

    #[test]
    fn nonsense_is_refused() {
        let mut topology = Topology::new("a");
        assert!(topology.on_announcement(announcement("b/c", 1, &[])).is_err());
        let many = (0..=SITES_MAX).map(|site| (format!("s{site}"), 1)).collect();
        assert!(topology.on_announcement(Announcement::new("b", 1, many)).is_err());
        let sites: Vec<String> = (1..SITES_MAX).map(|site| format!("s{site}")).collect();
        topology.set_neighbours(sites.iter().map(|site| (site.clone(), 1)).collect());
        for site in &sites {
            topology.on_announcement(announcement(site, 1, &[("a", 1)])).unwrap();
        }
        assert!(topology.on_announcement(announcement("one-more", 1, &[])).unwrap_err().contains("more than"));
    }
}
