//! How many streams pay, and how long pieces should be: pure decisions from what was measured.
//!
//! One stream fills a link if its window holds what the link holds (bandwidth times round trip time). Where windows are smaller, streams
//! add up; where they are not, more streams than a few only disturb each other: windows that together hold more than the link and the
//! queue in front of it lose packets, and over a long way that takes long to make good. So the number doubles while streams are held up by
//! their windows, is tried one step higher now and then otherwise, and falls back when that did not pay. It begins with what the figures of
//! the link ask for, or, where there are none, with what a link of 1 Gbit/s would of the round trip time that was seen. Fewer are tried
//! only if their windows could hold what passes.

use std::time::Duration;

use super::settings::{LinkFigures, Settings, Streams};

/// Without figures a path begins with so many, until a round trip has been seen.
const FIRST: u32 = 4;

/// Bytes per second that a link of which nothing is known is taken to carry.
const LIKELY: f64 = 125e6;

/// More streams than that must be measured to pay where nothing is known.
const MOST_LIKELY: u32 = 32;

/// A stream fills so much of its window: what is sent is not without end, some of it is lost or late, and windows grow slowly.
const FILLED: f64 = 1.0 / 3.0;

/// `auto` has at least so many: one of them is kept for what is urgent.
const LEAST: u32 = 4;

/// More than so many streams were never seen to pay.
const MOST: u32 = 64;

/// Where windows suffice, more than so many disturb each other.
const MOST_WITH_LARGE_WINDOWS: u32 = 8;

/// A change pays if the rate rises by so much.
const GAIN: f64 = 1.05;

/// Streams are held up by their windows if they are for such a part of the time.
const HELD: f64 = 0.2;

/// A link carries what its figures say from so much of it on, up to so much more: they are not exact.
const CARRIES: std::ops::Range<f64> = 0.8..1.1;

/// The same if packets wait in a queue for such a part of the time.
const QUEUED: f64 = 0.5;

/// For so many rounds nothing is tried after something did not pay.
const PAUSE: u32 = 20;

/// The number to begin with is trusted for so many rounds, unless windows hold streams up.
const TRUST: u32 = 5;

/// What was measured in one round.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Bytes per second that the other end acknowledged.
    pub rate: f64,
    /// Which part of the time streams with something to send were held up by the windows of either end.
    pub held: f64,
    /// Which part of the time their packets waited in a queue on the way: the link is full.
    pub queued: f64,
    /// The windows of so many streams hold what passes.
    pub needed: u32,
}

impl Measured {
    /// The link is full, by the queue in front of it.
    pub fn is_queued(&self) -> bool {
        self.queued > QUEUED
    }
}

/// Whether a round trip that takes so long, of which the shortest took `least`, was spent in a queue: not on links so short that other
/// delays are as long.
pub fn is_queued(round_trip: Duration, least: Duration) -> bool {
    round_trip > least + (least / 10).max(Duration::from_millis(5))
}

/// How many streams to begin with.
pub fn first_streams(settings: &Settings) -> u32 {
    match (settings.streams, settings.link) {
        (Streams::Fixed(count), _) => count,
        (Streams::Auto, None) => FIRST,
        (Streams::Auto, Some(link)) => for_link(link, window(settings)),
    }
}

/// How many streams to begin with again when other settings come; `None`: those in use go on, for their number was found out, and nothing
/// is said of it.
pub fn count_anew(before: &Settings, settings: &Settings) -> Option<u32> {
    let stays_open = (before.streams, settings.streams) == (Streams::Auto, Streams::Auto);
    let says_nothing = settings.link.is_none() || settings.link == before.link;
    (!(stays_open && says_nothing)).then(|| first_streams(settings))
}

/// How many streams to have once the round trip is known; `None`: something better is known.
pub fn streams_at(round_trip: Duration, settings: &Settings) -> Option<u32> {
    let is_open = settings.streams == Streams::Auto && settings.link.is_none();
    let likely = LinkFigures { round_trip, bandwidth: LIKELY };
    is_open.then(|| for_link(likely, window(settings)).min(MOST_LIKELY))
}

/// The windows of how many streams hold what passes, `rate` bytes per second over such a way.
pub fn needed(rate: f64, round_trip: Duration, settings: &Settings) -> u32 {
    for_link(LinkFigures { round_trip, bandwidth: rate }, window(settings))
}

/// How many streams hold as much as the link does. A few may be more than that; many whose windows hold more than the link would make the
/// queue in front of it overflow with every large message.
fn for_link(link: LinkFigures, window: f64) -> u32 {
    let windows = link.bandwidth * link.round_trip.as_secs_f64() / window;
    let few = (windows / FILLED).ceil().clamp(f64::from(LEAST), f64::from(MOST_WITH_LARGE_WINDOWS)) as u32;
    // One is kept for what is urgent.
    let many = 1 + windows.round().min(f64::from(MOST - 1)) as u32;
    few.max(many)
}

/// The window that a stream can get here, in bytes.
fn window(settings: &Settings) -> f64 {
    match settings.socket_buffer {
        Some(bytes) => bytes as f64,
        // Half of the buffer is for the kernel's own purposes.
        None => largest_buffer() / 2.0,
    }
}

/// The size up to which the kernel lets buffers grow, in bytes.
fn largest_buffer() -> f64 {
    let most = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        text.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or(4e6)
    };
    f64::min(most("tcp_rmem"), most("tcp_wmem"))
}

/// Decides on the number of streams, round by round.
#[derive(Clone, Debug)]
pub struct Tuner {
    count: u32,
    /// Bytes per second that the link is said to carry.
    bandwidth: Option<f64>,
    /// The number before the one that is being tried, and its rate.
    before: Option<(u32, f64)>,
    /// Rounds until something is tried again.
    pause: u32,
    /// It pauses because the last try did not pay.
    has_failed: bool,
}

impl Tuner {
    /// Begins with so many, over a link that is said to carry so much.
    pub fn new(count: u32, bandwidth: Option<f64>) -> Tuner {
        Tuner { count, bandwidth, before: None, pause: TRUST, has_failed: false }
    }

    /// The link is said to carry so many bytes per second.
    pub fn set_bandwidth(&mut self, bandwidth: Option<f64>) {
        self.bandwidth = bandwidth;
    }

    /// The other end has decided on so many; whether that is another number.
    pub fn follow(&mut self, count: u32) -> bool {
        let is_new = self.count != count;
        if is_new {
            *self = Tuner::new(count, self.bandwidth);
        }
        is_new
    }

    /// Takes in what was measured with the present number; the number from now on.
    pub fn next(&mut self, measured: &Measured) -> u32 {
        if let Some((count, rate)) = self.before.take() {
            let pays = match self.count > count {
                true => measured.rate >= rate * GAIN,
                false => measured.rate * GAIN >= rate,
            };
            if !pays {
                (self.count, self.pause, self.has_failed) = (count, PAUSE, true);
                return self.count;
            }
        }
        let carries_all = self.bandwidth.is_some_and(|bandwidth| CARRIES.contains(&(measured.rate / bandwidth)));
        let is_full = carries_all || measured.is_queued();
        if measured.held > HELD && self.count < MOST && !self.has_failed && !is_full {
            return self.attempt(self.count * 2, measured.rate);
        }
        if self.pause > 0 {
            self.pause -= 1;
            self.has_failed &= self.pause > 0;
            return self.count;
        }
        match self.count {
            // Fewer could not carry what passes: finding that out would cost a large message over a long way a third of its rate.
            more if more > MOST_WITH_LARGE_WINDOWS && more / 2 >= measured.needed => {
                self.attempt(more / 2, measured.rate)
            }
            less if less < MOST_WITH_LARGE_WINDOWS => {
                self.attempt((less + 2).min(MOST_WITH_LARGE_WINDOWS), measured.rate)
            }
            as_it_is => as_it_is,
        }
    }

    fn attempt(&mut self, count: u32, rate: f64) -> u32 {
        self.before = Some((self.count, rate));
        self.count = count.clamp(LEAST, MOST);
        self.count
    }
}

/// How long pieces should be, so that one takes a stream about a millisecond: by what all streams carry on average, `rate` bytes per second,
/// and by what one of them delivers while it has something to send, `burst`. A program that waits for answers leaves streams at rest most of
/// the time; cut by the average its messages would go in pieces each of which wakes the other end.
pub fn chunk(rate: f64, streams: usize, burst: u64) -> u64 {
    let each = f64::max(rate / streams.max(1) as f64, burst as f64);
    ((each * 1e-3) as u64).clamp(16 * 1024, 1 << 20) / super::frame::GRAIN * super::frame::GRAIN
}

/// How long a stream may be without an acknowledgement before others send what it has taken as well.
pub fn patience(round_trip: Duration) -> Duration {
    (round_trip * 3).max(Duration::from_millis(250))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(milliseconds: u64) -> LinkFigures {
        LinkFigures { round_trip: Duration::from_millis(milliseconds), bandwidth: 125e6 }
    }

    /// The rate of a link of 1 Gbit/s with a window for each stream, where more than eight streams disturb each other.
    fn measured(count: u32, window: f64, round_trip: f64) -> Measured {
        let limit = f64::from(count) * window / round_trip;
        let disturbed = 125e6 * 0.9 / (1.0 + f64::from(count.saturating_sub(8)) * 0.01);
        Measured { rate: limit.min(disturbed), held: if limit < disturbed { 0.9 } else { 0.0 }, queued: 0.0, needed: 4 }
    }

    fn settled(mut count: u32, window: f64, round_trip: f64) -> u32 {
        let mut tuner = Tuner::new(count, None);
        for _ in 0..200 {
            count = tuner.next(&measured(count, window, round_trip));
        }
        count
    }

    #[test]
    fn small_windows_need_many_streams_and_large_ones_few() {
        let small = settled(4, 85e3, 0.0376);
        assert!((32..=64).contains(&small), "{small}");
        let large = settled(4, 4e6, 0.0152);
        assert!((4..=8).contains(&large), "{large}");
    }

    #[test]
    fn too_many_streams_are_taken_back() {
        assert!(settled(64, 4e6, 0.001) <= 8);
    }

    #[test]
    fn what_did_not_pay_is_not_tried_again_at_once() {
        // The other end does not take more: its window holds every number of streams up.
        let mut tuner = Tuner::new(4, None);
        let counts: Vec<u32> =
            (0..PAUSE).map(|_| tuner.next(&Measured { rate: 5e6, held: 0.9, queued: 0.0, needed: 4 })).collect();
        assert_eq!(counts[..2], [8, 4]);
        assert!(counts[2..].iter().all(|&count| count == 4), "{counts:?}");
    }

    #[test]
    fn an_end_follows_what_the_other_decides() {
        let mut tuner = Tuner::new(4, None);
        assert!(tuner.follow(32) && !tuner.follow(32));
        assert_eq!(tuner.next(&Measured { rate: 5e6, held: 0.0, queued: 0.0, needed: 4 }), 32);
    }

    #[test]
    fn without_figures_the_round_trip_says_how_many_to_begin_with() {
        let at = |milliseconds, settings: &Settings| streams_at(Duration::from_millis(milliseconds), settings);
        let window = |bytes| Settings { socket_buffer: Some(bytes), ..Settings::default() };
        assert_eq!(at(1, &window(2 << 20)), Some(4));
        assert!((6..=8).contains(&at(38, &window(2 << 20)).unwrap()));
        assert!((16..=18).contains(&at(273, &window(2 << 20)).unwrap()));
        assert_eq!(at(38, &window(16 << 10)), Some(32));
        assert_eq!(at(273, &Settings { streams: Streams::Fixed(2), ..window(2 << 20) }), None);
        assert_eq!(at(273, &Settings { link: Some(link(1)), ..window(2 << 20) }), None);
    }

    #[test]
    fn the_first_number_comes_from_the_figures_of_the_link() {
        let settings = |link, socket_buffer| Settings { link, socket_buffer, ..Settings::default() };
        assert_eq!(first_streams(&settings(None, None)), 4);
        assert_eq!(first_streams(&settings(Some(link(1)), Some(1 << 20))), 4);
        assert!(first_streams(&settings(Some(link(273)), Some(1 << 20))) > 30);
        assert_eq!(first_streams(&Settings { streams: Streams::Fixed(7), ..settings(Some(link(273)), None) }), 7);
    }

    #[test]
    fn the_number_that_was_found_out_stays_unless_settings_say_something_of_it() {
        let auto = Settings { link: Some(link(273)), socket_buffer: Some(1 << 20), ..Settings::default() };
        let fixed = Settings { streams: Streams::Fixed(7), ..auto.clone() };
        assert_eq!(count_anew(&auto, &Settings { pace: Some(1), ..auto.clone() }), None);
        assert_eq!(count_anew(&auto, &Settings { link: None, ..auto.clone() }), None);
        assert_eq!(count_anew(&auto, &Settings { link: Some(link(1)), ..auto.clone() }), Some(4));
        assert_eq!(count_anew(&auto, &fixed), Some(7));
        assert_eq!(count_anew(&fixed, &auto), Some(first_streams(&auto)));
    }

    #[test]
    fn figures_that_say_what_is_seen_anyway_change_nothing() {
        for milliseconds in [1, 15, 38, 273] {
            let told = Settings { link: Some(link(milliseconds)), socket_buffer: Some(2 << 20), ..Settings::default() };
            let untold = Settings { link: None, ..told.clone() };
            let seen = streams_at(Duration::from_millis(milliseconds), &untold);
            assert_eq!(seen, Some(first_streams(&told)), "{milliseconds} ms");
        }
    }

    #[test]
    fn windows_that_hold_streams_up_ask_for_more_only_while_the_link_has_room() {
        let next = |bandwidth, measured| Tuner::new(16, bandwidth).next(&measured);
        let measured = |rate, queued| Measured { rate, held: 0.5, queued, needed: 4 };
        assert_eq!(next(None, measured(60e6, 0.0)), 32);
        assert_eq!(next(None, measured(60e6, 0.9)), 16, "the queue is full");
        assert_eq!(next(Some(125e6), measured(60e6, 0.0)), 32);
        assert_eq!(next(Some(125e6), measured(115e6, 0.0)), 16, "that is what the link carries");
        assert_eq!(next(Some(50e6), measured(60e6, 0.0)), 32, "the figures are wrong");
    }

    #[test]
    fn fewer_streams_are_tried_only_if_they_could_carry_what_passes() {
        let settings = Settings { socket_buffer: Some(2 << 20), ..Settings::default() };
        let later = |count, rate| {
            let needed = needed(rate, Duration::from_millis(273), &settings);
            let mut tuner = Tuner::new(count, None);
            (0..=TRUST).map(|_| tuner.next(&Measured { rate, held: 0.0, queued: 0.9, needed })).last()
        };
        assert_eq!(later(17, 115e6), Some(17), "the windows of 8 streams hold half of that");
        assert_eq!(later(64, 115e6), Some(32));
        assert_eq!(later(17, 50e6), Some(8));
    }

    #[test]
    fn a_queue_is_seen_by_round_trips_that_take_longer_than_the_shortest() {
        let queued = |round_trip, least| is_queued(Duration::from_millis(round_trip), Duration::from_millis(least));
        assert!(queued(330, 273) && queued(44, 38));
        assert!(!queued(280, 273) && !queued(4, 1));
    }

    #[test]
    fn pieces_take_a_stream_about_a_millisecond() {
        assert_eq!(chunk(125e6, 64, 2_000_000), 16 * 1024);
        assert_eq!(chunk(125e6, 1, 125_000_000), 122_880);
        assert_eq!(chunk(8e9, 4, 2_000_000_000), 1 << 20);
    }

    #[test]
    fn pieces_are_no_shorter_because_a_program_waits_for_answers() {
        assert_eq!(chunk(80e6, 4, 500_000_000), 499_712);
    }
}
