//! What can be set on a path, most of it also while it runs.

use std::time::Duration;

use xmml_wire::error::{Error, Result};

use crate::congestion::check_congestion;

/// Most streams of one path.
pub const MAX_STREAMS: u32 = 128;

/// Smallest window of a lane, in bytes.
pub const LEAST_WINDOW: u64 = 64 * 1024;

/// Longer than any program runs. Unlike the longest [`Duration`] it can be added to a time.
const WITHOUT_END: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How many TCP streams a path has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// So many, 1 to [`MAX_STREAMS`].
    Fixed(u32),
    /// As many as pay: begins by the link's figures, measures, grows and shrinks.
    Auto,
}

/// Whether streams send without copying into the kernel (`MSG_ZEROCOPY`): pieces of 64 KiB and more, on paths that are not encrypted, from
/// memory that nobody can change meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroCopy {
    /// Where the kernel says that it does not copy all the same; each stream finds out with one piece.
    Auto,
    /// Also where it copies all the same, which costs more: for tests and measurements.
    On,
    /// Never.
    Off,
}

impl ZeroCopy {
    /// As the languages name it: "auto", "on", "off".
    pub fn from_name(name: &str) -> Option<ZeroCopy> {
        match name {
            "auto" => Some(ZeroCopy::Auto),
            "on" => Some(ZeroCopy::On),
            "off" => Some(ZeroCopy::Off),
            _ => None,
        }
    }
}

/// What is known of a link beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkFigures {
    /// Round trip time.
    pub round_trip: Duration,
    /// Bytes per second, more than 0.
    pub bandwidth: f64,
}

/// What can be set on a path. Each end has its own; windows, pacing and congestion control act on what the end itself sends or takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Streams. Only the dialling end opens them; set at the listening end, it asks the other. A fixed number holds while the other end is
    /// on auto; of two the dialling end's, until one is set anew.
    pub streams: Streams,
    /// Bytes of a piece of a message; `None`: adapted to the rate, 16 KiB to 1 MiB.
    pub chunk: Option<u64>,
    /// Bytes of the bulk lane that the other end may send ahead of what the program takes; a message may be longer than that.
    pub window: u64,
    /// Bytes of the bulk lane that may be queued or on their way at this end before [`super::Path::has_room`] says no.
    pub queue: u64,
    /// Longest message that is taken, in bytes; a longer one fails the path at both ends.
    pub max_message: u64,
    /// Bytes of the kernel's buffers of each stream, in both directions (the TCP window); `None`: the kernel tunes them.
    pub socket_buffer: Option<usize>,
    /// Most bytes per second of each stream.
    pub pace: Option<u64>,
    /// The TCP congestion control of each stream, as the kernel names it; `None`: its default.
    pub congestion: Option<String>,
    /// For so long the dialling end tries to open a path.
    pub connect: Duration,
    /// For so long a path waits without a single stream before it is given up. Streams that come and go within [`Settings::silence`] and
    /// bring nothing of what waits at this end count as none.
    pub patience: Duration,
    /// A stream on which nothing is heard for so long is dead; a sign of life is sent four times as often.
    pub silence: Duration,
    /// Threads that carry streams, and so encrypt and decrypt, besides the one that drives the path; `None`: as many as there are cores, of
    /// an encrypted path while much passes.
    pub workers: Option<usize>,
    /// Whether streams send without copying into the kernel.
    pub zero_copy: ZeroCopy,
    /// Whether the program passes on what comes by this path ([`super::relay`]). Then the other end is told that a message has arrived when
    /// it has come through, or the program has taken it otherwise. A relay does so from when it begins; this, from the first message on.
    pub relays: bool,
    /// What is known of the link.
    pub link: Option<LinkFigures>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            streams: Streams::Auto,
            chunk: None,
            window: 64 << 20,
            queue: 64 << 20,
            max_message: 16 << 30,
            socket_buffer: None,
            pace: None,
            congestion: None,
            connect: Duration::from_secs(30),
            patience: Duration::from_secs(120),
            silence: Duration::from_secs(10),
            workers: None,
            zero_copy: ZeroCopy::Auto,
            relays: false,
            link: None,
        }
    }
}

impl Settings {
    /// The same for a program that waits so long for the path to open, `None`: without end. It is dialled at least for that long.
    pub fn connecting_for(self, limit: Option<Duration>) -> Settings {
        let connect = limit.map_or(WITHOUT_END, |limit| self.connect.max(limit)).min(WITHOUT_END);
        Settings { connect, ..self }
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// [`Error::Usage`] that says what is allowed.
    pub fn check(&self) -> Result<()> {
        let wrong = |problem: String| Err(Error::Usage { problem });
        match self.streams {
            Streams::Fixed(count) if !(1..=MAX_STREAMS).contains(&count) => {
                return wrong(format!("{count} streams: a path has 1 to {MAX_STREAMS}"));
            }
            _ => {}
        }
        if self.window < LEAST_WINDOW {
            return wrong(format!("a window of {} bytes: at least {LEAST_WINDOW} are needed", self.window));
        }
        if self.queue == 0 {
            return wrong("a queue of 0 bytes would let nothing be sent: at least 1 is needed".to_owned());
        }
        if self.chunk.is_some_and(|chunk| !(super::frame::GRAIN..=super::frame::MAX_CHUNK).contains(&chunk)) {
            let (least, most) = (super::frame::GRAIN, super::frame::MAX_CHUNK);
            return wrong(format!("a chunk has {least} to {most} bytes"));
        }
        if self.pace == Some(0) || self.socket_buffer == Some(0) {
            return wrong("a pace or a socket buffer of 0 would let nothing pass; leave it out instead".to_owned());
        }
        if self.workers.is_some_and(|workers| workers > MAX_STREAMS as usize) {
            return wrong(format!("a path has at most {MAX_STREAMS} threads"));
        }
        if self.silence < Duration::from_millis(100) {
            return wrong("a stream needs at least 0.1 s to be heard of".to_owned());
        }
        // Beyond that, times could not be reckoned with.
        for (name, time) in [("connect", self.connect), ("patience", self.patience), ("silence", self.silence)] {
            if time > WITHOUT_END {
                let most = WITHOUT_END.as_secs();
                return wrong(format!(
                    "{name} of {} s: a path waits at most {most} s, a hundred years",
                    time.as_secs()
                ));
            }
        }
        if let Some(LinkFigures { bandwidth, .. }) = self.link {
            if !(bandwidth > 0.0 && bandwidth.is_finite()) {
                return wrong(format!(
                    "a link with a bandwidth of {bandwidth} bytes per second: more than 0 is needed; leave the link out if it is not known"
                ));
            }
        }
        self.congestion.as_deref().map_or(Ok(()), check_congestion)
    }
}
