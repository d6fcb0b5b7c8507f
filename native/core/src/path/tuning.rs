//! How many streams pay, and how long pieces should be: pure decisions from what was measured.
//!
//! One stream fills a link if its window holds what the link holds (bandwidth times round trip time). Where windows are smaller, streams
//! add up; where they are not, more streams than a few only disturb each other. So the number doubles while streams are held up by their
//! windows, is tried one step higher now and then otherwise, and falls back when that did not pay.

use std::time::Duration;

use super::settings::{LinkFigures, Settings, Streams, MAX_STREAMS};

/// Without figures a path begins with so many.
const FIRST: u32 = 4;

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

/// For so many rounds nothing is tried after something did not pay.
const PAUSE: u32 = 20;

/// What was measured in one round.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Bytes per second that the other end acknowledged.
    pub rate: f64,
    /// Which part of the time streams with something to send were held up by the windows of either end.
    pub held: f64,
    /// Whether there was more to send all the time.
    pub was_busy: bool,
}

/// How many streams to begin with.
pub fn first_streams(settings: &Settings) -> u32 {
    match (settings.streams, settings.link) {
        (Streams::Fixed(count), _) => count,
        (Streams::Auto, None) => FIRST,
        (Streams::Auto, Some(link)) => for_link(link, window(settings)),
    }
}

/// How many streams hold as much as the link does, with half as much again for what is lost or late.
fn for_link(link: LinkFigures, window: f64) -> u32 {
    let holds = link.bandwidth * link.round_trip.as_secs_f64();
    let streams = (1.5 * holds / window).ceil();
    (streams.clamp(1.0, f64::from(MOST)) as u32).max(LEAST)
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
    /// The best number with large windows that was seen, and its rate.
    before: Option<(u32, f64)>,
    /// Rounds until something is tried again.
    pause: u32,
}

impl Tuner {
    /// Begins with so many.
    pub fn new(count: u32) -> Tuner {
        Tuner { count, before: None, pause: 1 }
    }

    /// Takes in what was measured with the present number; the number from now on.
    pub fn next(&mut self, measured: &Measured) -> u32 {
        if !measured.was_busy {
            self.before = None;
            return self.count; // nothing to learn from a pause
        }
        if measured.held > HELD {
            self.before = None;
            self.pause = 1;
            self.count = (self.count * 2).min(MOST);
            return self.count;
        }
        if let Some((count, rate)) = self.before.take() {
            let pays = match self.count > count {
                true => measured.rate >= rate * GAIN,
                false => measured.rate * GAIN >= rate,
            };
            if !pays {
                self.count = count;
                self.pause = PAUSE;
                return self.count;
            }
        }
        if self.pause > 0 {
            self.pause -= 1;
            return self.count;
        }
        let tried = match self.count > MOST_WITH_LARGE_WINDOWS {
            true => self.count / 2,
            false if self.count < MOST_WITH_LARGE_WINDOWS => (self.count + 2).min(MOST_WITH_LARGE_WINDOWS),
            false => return self.count,
        };
        self.before = Some((self.count, measured.rate));
        self.count = tried.clamp(LEAST, MAX_STREAMS);
        self.count
    }
}

/// How long pieces should be: so that one takes a stream about a millisecond.
pub fn chunk(rate: f64, streams: usize) -> u64 {
    let each = rate / streams.max(1) as f64;
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
        Measured { rate: limit.min(disturbed), held: if limit < disturbed { 0.9 } else { 0.0 }, was_busy: true }
    }

    fn settled(mut count: u32, window: f64, round_trip: f64) -> u32 {
        let mut tuner = Tuner::new(count);
        for _ in 0..200 {
            count = tuner.next(&measured(count, window, round_trip));
        }
        count
    }

    #[test]
    fn small_windows_need_many_streams_and_large_ones_few() {
        let small = settled(4, 85e3, 0.0376);
        assert!((50..=64).contains(&small), "{small}");
        let large = settled(4, 4e6, 0.0152);
        assert!((4..=8).contains(&large), "{large}");
    }

    #[test]
    fn too_many_streams_are_taken_back() {
        assert!(settled(64, 4e6, 0.001) <= 8);
    }

    #[test]
    fn nothing_changes_while_there_is_nothing_to_send() {
        let mut tuner = Tuner::new(6);
        for _ in 0..50 {
            assert_eq!(tuner.next(&Measured { rate: 0.0, held: 0.0, was_busy: false }), 6);
        }
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
    fn pieces_take_a_stream_about_a_millisecond() {
        assert_eq!(chunk(125e6, 64), 16 * 1024);
        assert_eq!(chunk(125e6, 1), 122_880);
        assert_eq!(chunk(8e9, 4), 1 << 20);
    }
}
