//! How long bytes take to the other end of a link and back. No clock here: times are given.

use std::time::{Duration, Instant};

/// The measurement of one link, one ping at a time: a way that takes longer than the pause between two pings would never be measured else.
#[derive(Debug)]
pub struct RoundTrip {
    /// What it is taken for before the first measurement.
    expected: Duration,
    measured: Option<Duration>,
    /// The number of the last ping.
    number: u64,
    /// When that was sent, until it is answered.
    sent: Option<Instant>,
}

impl RoundTrip {
    /// Returns a round trip of which only the expected time is known.
    pub fn new(expected: Duration) -> RoundTrip {
        RoundTrip { expected, measured: None, number: 0, sent: None }
    }

    /// Returns the number of the ping to be sent now; `None` while one is under way.
    pub fn ping(&mut self, now: Instant) -> Option<u64> {
        if self.sent.is_some() {
            return None;
        }
        self.sent = Some(now);
        self.number += 1;
        Some(self.number)
    }

    /// Notes the answer to a ping. Returns whether this was the first measurement; `None` if nobody waits for this answer.
    pub fn pong(&mut self, number: u64, now: Instant) -> Option<bool> {
        let sent = self.sent.take_if(|_| self.number == number)?;
        let took = now.duration_since(sent);
        let is_first = self.measured.is_none();
        // The least counts for half: queues come and go, the way stays.
        let mixed = self.measured.map_or(took, |before| (before.min(took) + (before + took) / 2) / 2);
        self.measured = Some(mixed);
        Some(is_first)
    }

    /// Forgets the ping that is under way.
    pub fn interrupt(&mut self) {
        self.sent = None;
    }

    /// Returns the time, as expected before it was measured.
    pub fn estimate(&self) -> Duration {
        self.measured.unwrap_or(self.expected)
    }

    /// Returns the time once it was measured.
    pub fn measured(&self) -> Option<Duration> {
        self.measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Duration = Duration::from_millis(50);

    fn measure(round_trip: &mut RoundTrip, took: Duration) -> Option<bool> {
        let now = Instant::now();
        let number = round_trip.ping(now).unwrap();
        round_trip.pong(number, now + took)
    }

    #[test]
    fn a_round_trip_is_as_expected_until_it_is_measured() {
        let mut round_trip = RoundTrip::new(EXPECTED);
        assert_eq!((round_trip.estimate(), round_trip.measured()), (EXPECTED, None));
        assert_eq!(measure(&mut round_trip, Duration::from_millis(8)), Some(true));
        assert_eq!(round_trip.estimate(), Duration::from_millis(8));
    }

    #[test]
    fn the_shorter_of_two_measurements_counts_for_more() {
        let mut round_trip = RoundTrip::new(EXPECTED);
        measure(&mut round_trip, Duration::from_millis(8));
        assert_eq!(measure(&mut round_trip, Duration::from_millis(16)), Some(false));
        assert_eq!(round_trip.measured(), Some(Duration::from_millis(10)));
    }

    #[test]
    fn only_one_ping_is_under_way() {
        let mut round_trip = RoundTrip::new(EXPECTED);
        let now = Instant::now();
        let number = round_trip.ping(now).unwrap();
        assert_eq!(round_trip.ping(now), None);
        assert_eq!(round_trip.pong(number + 1, now), None);
        assert_eq!(round_trip.pong(number, now), Some(true));
        assert_eq!(round_trip.pong(number, now), None);
    }

    #[test]
    fn the_answer_to_an_interrupted_ping_measures_nothing() {
        let mut round_trip = RoundTrip::new(EXPECTED);
        let now = Instant::now();
        let number = round_trip.ping(now).unwrap();
        round_trip.interrupt();
        assert_eq!(round_trip.pong(number, now), None);
        assert_eq!(round_trip.ping(now), Some(number + 1));
    }
}
