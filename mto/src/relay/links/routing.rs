//! What the relays of a run announce to each other, as this one takes part in it. No socket and no clock here: times are given.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::routes::{Announcement, AnnouncementEffect, Topology};

/// How often a relay corrects at most what others have been sent about it.
const CORRECTED_EVERY: Duration = Duration::from_secs(1);

/// After so many corrections there is more to them than what a relay said in its former life.
const CONTRADICTED: u32 = 3;

/// What this relay says of itself to correct others.
#[derive(Debug, PartialEq)]
pub struct Correction {
    /// To be sent to all.
    pub own: Announcement,
    /// Another relay of this site seems to be alive, which says something else.
    pub is_contradicted: bool,
}

/// The topology of a run as this relay knows it, and whether others know it otherwise.
pub struct Routing {
    topology: Topology,
    /// Others have been sent something about this relay that it did not say.
    is_outdated: bool,
    /// When that was corrected last, and how often.
    corrected: Option<Instant>,
    corrections: u32,
}

impl Routing {
    /// Returns the routing of a relay of this site, without neighbours.
    pub fn new(site: &str) -> Routing {
        Routing { topology: Topology::new(site), is_outdated: false, corrected: None, corrections: 0 }
    }

    /// Returns what is known of all relays.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Takes in an announcement; returns what became of it.
    ///
    /// # Errors
    /// It is impossible; returns why.
    pub fn on_announcement(&mut self, announcement: Announcement) -> Result<AnnouncementEffect, String> {
        let effect = self.topology.on_announcement(announcement)?;
        self.is_outdated |= effect == AnnouncementEffect::Outdated;
        Ok(effect)
    }

    /// Forgets what other relays have announced, except those of these sites.
    pub fn forget_all_but(&mut self, kept: impl Fn(&str) -> bool) {
        self.topology.forget_all_but(kept);
    }

    /// Sets the neighbours of this relay, and how far they are [us]. Returns what to send to all if that is news.
    pub fn set_neighbours(&mut self, neighbours: BTreeMap<String, u32>) -> Option<Announcement> {
        self.topology.set_neighbours(neighbours).then(|| self.topology.own().clone())
    }

    /// Returns what to send to all because they have been sent something else about this relay, if that is so; not again and again, or
    /// two relays of one site would contradict each other as often as the network allows.
    pub fn correction(&mut self, now: Instant) -> Option<Correction> {
        if !self.is_outdated || self.corrected.is_some_and(|last| now < last + CORRECTED_EVERY) {
            return None;
        }
        (self.is_outdated, self.corrected) = (false, Some(now));
        self.corrections += 1;
        Some(Correction { own: self.topology.correct(), is_contradicted: self.corrections >= CONTRADICTED })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(site: &str, number: u64) -> Announcement {
        Announcement::new(site, number, BTreeMap::new())
    }

    #[test]
    fn new_neighbours_are_announced_once() {
        let mut routing = Routing::new("a");
        let neighbours = BTreeMap::from([("b".to_owned(), 10)]);
        assert_eq!(routing.set_neighbours(neighbours.clone()).unwrap().neighbours, neighbours);
        assert_eq!(routing.set_neighbours(neighbours), None);
    }

    #[test]
    fn only_what_others_have_wrong_is_corrected() {
        let mut routing = Routing::new("a");
        let now = Instant::now();
        assert_eq!(routing.correction(now), None);
        assert_eq!(routing.on_announcement(announcement("a", 70)), Ok(AnnouncementEffect::Outdated));
        let correction = routing.correction(now).unwrap();
        assert_eq!((correction.own.number, correction.is_contradicted), (71, false));
        assert_eq!(routing.correction(now + CORRECTED_EVERY), None);
    }

    #[test]
    fn a_relay_that_is_contradicted_says_so_and_keeps_its_pace() {
        let mut routing = Routing::new("a");
        let mut now = Instant::now();
        let mut contradicted = Vec::new();
        for number in [70, 80, 90] {
            routing.on_announcement(announcement("a", number)).unwrap();
            contradicted.extend(routing.correction(now).map(|correction| correction.is_contradicted));
            routing.on_announcement(announcement("a", number + 5)).unwrap();
            assert_eq!(routing.correction(now + CORRECTED_EVERY / 2), None);
            now += CORRECTED_EVERY;
        }
        assert_eq!(contradicted, [false, false, true]);
    }
}
