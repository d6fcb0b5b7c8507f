//! Who may be in the middle of a handshake at a listener. Their number is bounded, so that strangers cost little memory and few
//! descriptors. A source may hold at most as many places as remain free, which is its share. So one host takes half of the places, four take
//! fifteen sixteenths, and whoever comes from elsewhere finds room. An entrant keeps its place for [`MINIMUM_TIME`], so that one from far
//! away is not displaced amid its round trips.
//!
//! A source that holds its share displaces its own entrants: those that have had the minimum time, else the younger half. So an honest
//! neighbour of a flooder, who needs a moment only, gets in too. Where no place is free, the source that holds most gives way.
//!
//! Whoever holds the connections asks [`Entrants::place`] before each new one and notes who comes and goes; no socket is touched here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// How long an entrant stays at least, but for the younger half of a source that holds its share, or that holds most where no place is free. An honest
/// one needs one to three round trips, or a second more if a packet is lost. (How long it may stay at most is [`crate::handshake::TIMEOUT_S`].)
pub const MINIMUM_TIME: Duration = Duration::from_secs(2);

/// Places at a listener at most, whatever the process may open.
const PLACES: usize = 1024;

/// Of the descriptors that a process may have, a listener uses one part in so many.
const PART_OF_DESCRIPTORS: u64 = 4;

/// Bits of an IPv6 address that name a network, whose hosts choose the rest as they like.
const NETWORK_BITS: u32 = 64;

/// Sources that were refused and are remembered, so that each is reported once.
const REPORTED: usize = 1024;

/// Where connections come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A host, or a network of IPv6, where anybody may be.
    Network(IpAddr),
    /// Somebody for whom the kernel (a process of the same user) or the relay of the site (a member of the run) vouches.
    Vouched(String),
}

impl Source {
    /// The source of a connection whose other end is described so ([`crate::methods::Stream::peer`]).
    pub fn of(peer: &str) -> Source {
        let address = peer.strip_prefix("tcp:").unwrap_or(peer);
        address
            .parse()
            .map_or_else(|_| Source::Vouched(peer.to_owned()), |address: SocketAddr| Source::of_address(address.ip()))
    }

    /// The source of a connection from this address.
    pub fn of_address(address: IpAddr) -> Source {
        Source::Network(match address.to_canonical() {
            IpAddr::V6(host) => Ipv6Addr::from_bits(host.to_bits() & (u128::MAX << (128 - NETWORK_BITS))).into(),
            host => host,
        })
    }
}

/// What a newcomer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A free place.
    Free,
    /// The place of the entrant with this token.
    InsteadOf(u64),
    /// None: the source holds its share, or no place is free, and nobody who would have to give way can be displaced yet.
    None,
}

struct Entrant {
    source: Source,
    since: Instant,
}

/// The entrants of a listener, or of several that share their places.
pub struct Entrants {
    places: usize,
    /// Tokens grow: the first is the oldest.
    entrants: BTreeMap<u64, Entrant>,
    by_source: HashMap<Source, BTreeSet<u64>>,
    reported: BTreeSet<Source>,
}

impl Default for Entrants {
    /// With as many places as the descriptors of this process allow.
    fn default() -> Entrants {
        Entrants::with_places(default_places())
    }
}

impl Entrants {
    /// With so many places.
    pub fn with_places(places: usize) -> Entrants {
        Entrants { places, entrants: BTreeMap::new(), by_source: HashMap::new(), reported: BTreeSet::new() }
    }

    /// Adds places: as many more honest ones may come at once.
    pub fn add_places(&mut self, more: usize) {
        self.places += more;
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entrants.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entrants.is_empty()
    }

    /// What a newcomer from `source` gets.
    pub fn place(&self, source: &Source, now: Instant) -> Place {
        let free = self.places.saturating_sub(self.len());
        let own = self.by_source.get(source).map_or(0, BTreeSet::len);
        let has_its_share = matches!(source, Source::Network(_)) && own >= free;
        let displaced = match (has_its_share, free) {
            (false, 1..) => return Place::Free,
            (true, 1..) => self.displaceable_of(&self.by_source[source], now),
            (_, 0) => self.displaceable(now),
        };
        displaced.map_or(Place::None, Place::InsteadOf)
    }

    /// Whether somebody who is vouched for may enter; if not, it waits in the kernel's queue until [`Entrants::next_room`].
    pub fn have_room(&self, now: Instant) -> bool {
        self.len() < self.places || self.displaceable(now).is_some()
    }

    /// Who gives way of the source that has most, also where the system has no descriptor for the next.
    pub fn displaceable(&self, now: Instant) -> Option<u64> {
        self.displaceable_of(self.largest()?, now)
    }

    /// When somebody can be displaced, if nobody can be now.
    pub fn next_room(&self) -> Option<Instant> {
        self.largest()?.first().map(|oldest| self.had_its_time(*oldest))
    }

    /// Somebody has entered, by this token, which is higher than all before.
    pub fn enter(&mut self, token: u64, source: Source, now: Instant) {
        self.by_source.entry(source.clone()).or_default().insert(token);
        self.entrants.insert(token, Entrant { source, since: now });
    }

    /// Somebody has proved who it is, or was turned away. Does nothing for one who never entered.
    pub fn leave(&mut self, token: u64) {
        let Some(entrant) = self.entrants.remove(&token) else { return };
        if let Some(own) = self.by_source.get_mut(&entrant.source) {
            own.remove(&token);
            if own.is_empty() {
                self.by_source.remove(&entrant.source);
            }
        }
    }

    /// Whether nobody from there was refused before: then people are told.
    pub fn is_first_refusal(&mut self, source: &Source) -> bool {
        self.reported.len() < REPORTED && self.reported.insert(source.clone())
    }

    /// The entrants of the source that has most; of two that have as many, the one that has been here longer.
    fn largest(&self) -> Option<&BTreeSet<u64>> {
        self.by_source.values().max_by_key(|own| (own.len(), std::cmp::Reverse(own.first().copied())))
    }

    /// Who gives way of a source: the oldest, if that one has had its time; else the oldest of the younger half.
    fn displaceable_of(&self, own: &BTreeSet<u64>, now: Instant) -> Option<u64> {
        let oldest = own.first().filter(|token| self.had_its_time(**token) <= now);
        oldest.or_else(|| own.iter().nth(own.len() / 2).filter(|_| own.len() > 1)).copied()
    }

    fn had_its_time(&self, token: u64) -> Instant {
        self.entrants[&token].since + MINIMUM_TIME
    }
}

/// A part of the descriptors that this process may have.
fn default_places() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the call.
    let status = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let part = if status == 0 { limit.rlim_cur / PART_OF_DESCRIPTORS } else { u64::MAX };
    usize::try_from(part).unwrap_or(PLACES).clamp(2, PLACES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u8) -> Source {
        Source::of(&format!("tcp:192.0.2.{number}:{}", 1000 + u32::from(number)))
    }

    /// Has a source come as often as it likes; returns how many of its connections were let in.
    fn flood(entrants: &mut Entrants, source: &Source, first_token: u64, now: Instant) -> usize {
        let before = entrants.len();
        for token in first_token..first_token + 5000 {
            match entrants.place(source, now) {
                Place::Free => entrants.enter(token, source.clone(), now),
                Place::InsteadOf(other) => {
                    entrants.leave(other);
                    entrants.enter(token, source.clone(), now);
                }
                Place::None => {}
            }
        }
        entrants.len() - before
    }

    #[test]
    fn one_host_has_half_of_the_places_and_four_leave_room_for_a_fifth() {
        let (mut entrants, now) = (Entrants::with_places(1024), Instant::now());
        let had: Vec<usize> =
            (0..4).map(|number| flood(&mut entrants, &host(number), u64::from(number) * 10_000, now)).collect();
        assert_eq!(had, [512, 256, 128, 64]);
        assert_eq!(entrants.place(&host(9), now), Place::Free);
    }

    #[test]
    fn of_a_source_that_has_its_due_the_younger_half_give_way_and_the_older_when_they_have_had_their_time() {
        let (mut entrants, begin) = (Entrants::with_places(16), Instant::now());
        (1..=8).for_each(|token| entrants.enter(token, host(1), begin));
        assert_eq!(entrants.place(&host(1), begin + MINIMUM_TIME / 2), Place::InsteadOf(5));
        assert_eq!(entrants.place(&host(1), begin + MINIMUM_TIME), Place::InsteadOf(1));
        assert_eq!(entrants.next_room(), Some(begin + MINIMUM_TIME));
    }

    #[test]
    fn a_distant_entrant_keeps_its_place_while_four_hosts_flood() {
        let (mut entrants, now) = (Entrants::with_places(1024), Instant::now());
        flood(&mut entrants, &host(1), 0, now);
        entrants.enter(5_000, host(9), now);
        for number in 1..5u8 {
            flood(&mut entrants, &host(number), u64::from(number) * 10_000, now + MINIMUM_TIME / 2);
        }
        assert!(entrants.entrants.contains_key(&5_000) && entrants.len() < 1024);
    }

    #[test]
    fn a_source_that_has_its_due_displaces_its_own_only() {
        let (mut entrants, begin) = (Entrants::with_places(8), Instant::now());
        entrants.enter(1, host(1), begin);
        flood(&mut entrants, &host(2), 10, begin);
        assert_eq!(entrants.place(&host(2), begin + MINIMUM_TIME), Place::InsteadOf(10));
    }

    #[test]
    fn where_all_places_are_taken_the_source_that_has_most_gives_way() {
        let (mut entrants, begin) = (Entrants::with_places(4), Instant::now());
        for (token, number) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
            entrants.enter(token, host(number), begin);
        }
        assert_eq!(entrants.place(&host(9), begin), Place::InsteadOf(3));
        assert_eq!(entrants.place(&host(9), begin + MINIMUM_TIME), Place::InsteadOf(2));
    }

    #[test]
    fn where_all_places_are_taken_a_neighbour_of_an_honest_entrant_displaces_none_but_of_the_source_that_has_most() {
        let (mut entrants, begin) = (Entrants::with_places(4), Instant::now());
        for (token, number) in [(1, 1), (2, 2), (3, 2), (4, 2)] {
            entrants.enter(token, host(number), begin);
        }
        assert_eq!(entrants.place(&host(1), begin), Place::InsteadOf(3));
    }

    #[test]
    fn where_every_source_has_one_place_each_keeps_it_for_the_minimum_time() {
        let (mut entrants, begin) = (Entrants::with_places(4), Instant::now());
        (1..5).for_each(|token| entrants.enter(token, host(token as u8), begin));
        assert_eq!(entrants.place(&host(9), begin), Place::None);
        assert_eq!(entrants.place(&host(9), begin + MINIMUM_TIME), Place::InsteadOf(1));
    }

    #[test]
    fn who_is_vouched_for_has_every_free_place() {
        let (mut entrants, now) = (Entrants::with_places(8), Instant::now());
        for token in 1..9 {
            let process = Source::of(&format!("unix: process {token}"));
            assert_eq!(entrants.place(&process, now), Place::Free);
            entrants.enter(token, process, now);
        }
        assert!(!entrants.have_room(now) && entrants.have_room(now + MINIMUM_TIME));
        entrants.leave(3);
        assert!(entrants.have_room(now));
    }

    #[test]
    fn a_source_is_a_host_a_network_of_ipv6_or_who_is_vouched_for() {
        assert_eq!(Source::of("tcp:192.0.2.1:7"), Source::of("192.0.2.1:8"));
        assert_eq!(Source::of("tcp:[::ffff:192.0.2.1]:7"), Source::of("192.0.2.1:8"));
        assert_eq!(Source::of("[2001:db8::1]:7"), Source::of("[2001:db8::ffff]:8"));
        assert_ne!(Source::of("[2001:db8::1]:7"), Source::of("[2001:db8:0:1::1]:7"));
        assert_ne!(Source::of("unix: process 7"), Source::of("unix: process 8"));
    }

    #[test]
    fn who_has_left_leaves_nothing_behind() {
        let (mut entrants, now) = (Entrants::with_places(8), Instant::now());
        flood(&mut entrants, &host(1), 1, now);
        (1..=5000).for_each(|token| entrants.leave(token));
        assert!(entrants.is_empty() && entrants.by_source.is_empty());
        entrants.leave(1);
    }

    #[test]
    fn a_source_is_reported_once_and_not_for_ever_more_of_them() {
        let mut entrants = Entrants::default();
        assert!(entrants.is_first_refusal(&host(1)) && !entrants.is_first_refusal(&host(1)));
        let told = (0..2 * REPORTED).filter(|number| entrants.is_first_refusal(&Source::Vouched(number.to_string())));
        assert_eq!(told.count(), REPORTED - 1);
    }
}
