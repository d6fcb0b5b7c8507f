//! How fast each stream may send where the bandwidth of the link is known: pure decisions.
//!
//! TCP sends a window as fast as its own machine can. The windows of many streams over a long way are more than the queue in front of the
//! link holds, so that every large message would begin with a loss that takes many round trips to make good. Spread over the time that the
//! link needs for them they find the queue all but empty. A figure that is too low would hold the path up: where as much passes as it lets
//! pass and no queue is seen, more is believed.

use super::tuning::Measured;

/// Streams together may send so much more than the link is said to carry: some have nothing to send at times, and figures are not exact.
const MORE: f64 = 1.15;

/// As much passes as is let pass if it is such a part of it; of a link that is as its figure says less passes.
const HELD_UP: f64 = 0.92;

/// Then the link is believed to carry so much more.
const GROWTH: f64 = 1.5;

/// What the link is believed to carry, and what each stream was told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pacing {
    /// Bytes per second; `None`: nothing is known, and nobody is held up.
    bandwidth: Option<f64>,
    /// Bytes per second of each stream.
    each: Option<u64>,
}

impl Pacing {
    /// Begins with what the link is said to carry, in bytes per second.
    pub fn new(bandwidth: Option<f64>) -> Pacing {
        Pacing { bandwidth, each: None }
    }

    /// The link is said to carry so much from now on.
    pub fn set_bandwidth(&mut self, bandwidth: Option<f64>) {
        self.bandwidth = bandwidth;
    }

    /// What each stream may send, in bytes per second; `None`: as much as it can.
    pub fn each(&self) -> Option<u64> {
        self.each
    }

    /// So many streams get on: whether each may send another amount from now on. One of them is kept for what is urgent.
    pub fn share(&mut self, streams: usize) -> bool {
        let bulk = streams.saturating_sub(1).max(1) as f64;
        let each = self.bandwidth.map(|bandwidth| (bandwidth * MORE / bulk) as u64);
        std::mem::replace(&mut self.each, each) != each
    }

    /// Takes in what was measured.
    pub fn heed(&mut self, measured: &Measured) {
        if let Some(bandwidth) = &mut self.bandwidth {
            if measured.rate > *bandwidth * MORE * HELD_UP && !measured.is_queued() {
                *bandwidth *= GROWTH;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rate: f64, queued: f64) -> Measured {
        Measured { rate, held: 0.0, queued, needed: 4 }
    }

    #[test]
    fn all_streams_together_may_send_a_little_more_than_the_link_carries() {
        for streams in [2, 8, 64] {
            let mut pacing = Pacing::new(Some(125e6));
            assert!(pacing.share(streams));
            let bulk = pacing.each().unwrap() as f64 * (streams - 1) as f64;
            assert!((130e6..160e6).contains(&bulk), "{bulk}");
            assert!(!pacing.share(streams), "nothing new");
        }
    }

    #[test]
    fn one_stream_alone_may_send_what_the_link_carries() {
        let mut pacing = Pacing::new(Some(125e6));
        pacing.share(1);
        assert!(pacing.each().unwrap() >= 125_000_000);
    }

    #[test]
    fn nobody_is_held_up_where_nothing_is_known() {
        let mut pacing = Pacing::new(None);
        assert!(!pacing.share(8) && pacing.each().is_none());
        pacing.heed(&measured(1e9, 0.0));
        assert!(!pacing.share(4));
    }

    #[test]
    fn a_link_that_carries_more_than_is_said_of_it_is_found_out() {
        // A link of 10 Gbit/s of which 100 Mbit/s are said: what passes is what is let pass.
        let (mut pacing, mut rate) = (Pacing::new(Some(12.5e6)), 0.0);
        for _ in 0..15 {
            pacing.share(9);
            rate = f64::min(pacing.each().unwrap() as f64 * 8.0, 1.25e9 * 0.95);
            pacing.heed(&measured(rate, 0.0));
        }
        assert!(rate > 1.1e9, "{rate}");
    }

    #[test]
    fn a_link_that_is_as_its_figure_says_stays_so() {
        let mut pacing = Pacing::new(Some(125e6));
        pacing.share(9);
        let before = pacing;
        pacing.heed(&measured(125e6, 0.0));
        assert_eq!(pacing, before);
        pacing.heed(&measured(140e6, 0.9));
        assert_eq!(pacing, before, "packets wait in its queue");
    }
}
