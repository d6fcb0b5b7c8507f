//! A path measures itself while it runs, and sets what it can set: the number of streams, the length of pieces; and it notices streams that
//! do not get on.

use std::time::{Duration, Instant};

use super::crew;
use super::driver::{Driver, End, Shared};
use super::frame::PathFrame;
use super::settings::{Settings, Streams};
use super::tcp_info::TcpInfo;
use super::tuning::{self, Measured, Tuner};

/// While something is under way, streams are looked at so often.
const ROUND: Duration = Duration::from_millis(100);

/// While nothing is, so seldom.
const IDLE_ROUND: Duration = Duration::from_secs(2);

/// A round that decides on the number of streams takes at least so many round trips.
const ROUND_TRIPS: u32 = 8;

/// And at least so long.
const LEAST_DECISION: Duration = Duration::from_millis(400);

/// Threads are worth their while from so many bytes per second on, both directions together.
const MUCH: f64 = 60e6;

/// And are kept until less than this passes.
const LITTLE: f64 = 10e6;

/// For so many rounds.
const QUIET_ROUNDS: u32 = 20;

/// What a path remembers of its measurements.
pub(super) struct Tuning {
    tuner: Tuner,
    /// When to look next.
    pub at: Instant,
    /// Since when the present decision is measured.
    since: Instant,
    /// The sums over all streams at that time.
    sums: Sums,
    /// When streams were looked at last, and the bytes acknowledged by then.
    last: (Instant, u64),
    was_busy: bool,
    /// What the other end was asked for last.
    asked: u32,
    /// Bytes that had come when streams were looked at last.
    bytes_in: u64,
    /// For so many rounds little has passed.
    quiet_rounds: u32,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    acked: u64,
    busy: Duration,
    held: Duration,
}

impl Tuning {
    pub fn new(tuner: Tuner, now: Instant) -> Tuning {
        Tuning {
            tuner,
            at: now + ROUND,
            since: now,
            sums: Sums::default(),
            last: (now, 0),
            was_busy: false,
            asked: 0,
            bytes_in: 0,
            quiet_rounds: 0,
        }
    }

    /// From a new number of streams on.
    pub fn begin(&mut self, count: u32) {
        self.tuner = Tuner::new(count);
        self.since = Instant::now();
        self.was_busy = false;
    }
}

impl Shared {
    /// Looks at the streams.
    pub(super) fn tune(&self, driver: &mut Driver, now: Instant, settings: &Settings) {
        let is_busy = self.session().has_unsent();
        let infos = self.look(now, is_busy);
        let sums = infos.iter().fold(Sums::default(), |sums, info| Sums {
            acked: sums.acked + info.acked,
            busy: sums.busy + info.busy,
            held: sums.held + info.held_by_receiver + info.held_by_sender,
        });
        let tuning = &mut driver.tuning;
        let (last, acked) = tuning.last;
        let rate = sums.acked.saturating_sub(acked) as f64 / (now - last).as_secs_f64().max(1e-3);
        let bytes_in: u64 = self.carrying().iter().map(|stream| stream.io().bytes_in).sum();
        let rate_in = bytes_in.saturating_sub(tuning.bytes_in) as f64 / (now - last).as_secs_f64().max(1e-3);
        tuning.bytes_in = bytes_in;
        tuning.last = (now, sums.acked);
        let passes = rate + rate_in;
        tuning.quiet_rounds = if passes < LITTLE { tuning.quiet_rounds + 1 } else { 0 };
        let wanted = match settings.workers {
            Some(count) => Some(count),
            None if !self.is_encrypted => None,
            None if passes > MUCH => Some(crew::sensible()),
            None if tuning.quiet_rounds > QUIET_ROUNDS => Some(0),
            None => None,
        };
        // While there are threads, streams that have come since are handed to them as well.
        let wanted = wanted.unwrap_or_else(|| self.crew.count());
        if wanted > 0 || self.crew.count() > 0 {
            if let Some(path) = self.this.upgrade() {
                path.employ(wanted);
            }
        }
        let is_active = is_busy || passes > 0.0;
        if is_active {
            self.set_rate(rate);
            if settings.chunk.is_none() && rate > 1e6 {
                self.set_chunk(tuning::chunk(rate, infos.len()));
            }
        }
        tuning.at = now + if is_active { ROUND } else { IDLE_ROUND };
        let round_trip = infos.iter().map(|info| info.round_trip).max().unwrap_or_default();
        if !is_busy {
            (tuning.since, tuning.sums, tuning.was_busy) = (now, sums, false);
            return;
        }
        if !tuning.was_busy {
            (tuning.since, tuning.sums, tuning.was_busy) = (now, sums, true);
            return;
        }
        if now - tuning.since < LEAST_DECISION.max(round_trip * ROUND_TRIPS) || settings.streams != Streams::Auto {
            return;
        }
        let busy = sums.busy.saturating_sub(tuning.sums.busy).as_secs_f64();
        let held = sums.held.saturating_sub(tuning.sums.held).as_secs_f64();
        let measured = Measured {
            rate: sums.acked.saturating_sub(tuning.sums.acked) as f64 / (now - tuning.since).as_secs_f64(),
            held: if busy > 0.0 { held / busy } else { 0.0 },
            was_busy: true,
        };
        let count = tuning.tuner.next(&measured);
        (tuning.since, tuning.sums) = (now, sums);
        match &mut driver.end {
            End::Dialling(dialling) => dialling.want(count),
            End::Listening(_) if tuning.asked != count => {
                tuning.asked = count;
                self.ask_for(count);
            }
            End::Listening(_) => {}
        }
    }

    /// Asks the other end, which opens the streams, for so many.
    pub(super) fn ask_for(&self, count: u32) {
        if let Some(stream) = self.carrying().first() {
            stream.push(&PathFrame::Streams(count));
            self.write(stream);
        }
    }

    /// What the kernel says of each stream; those that do not get on are passed over, if others do.
    fn look(&self, now: Instant, is_busy: bool) -> Vec<TcpInfo> {
        let streams = self.carrying();
        let mut infos = Vec::with_capacity(streams.len());
        let mut stuck = Vec::new();
        let mut some_get_on = false;
        for stream in &streams {
            let Some(info) = TcpInfo::of(stream.wire.fd()) else { continue };
            infos.push(info);
            let mut io = stream.io();
            let gets_on = info.acked > io.info.acked;
            io.info = info;
            some_get_on |= gets_on;
            let patience = tuning::patience(info.round_trip);
            let is_stuck =
                !gets_on && info.unacked > 0 && info.since_ack > patience && now - io.spoke.min(now) > patience / 2;
            match is_stuck || (!gets_on && !io.is_idle() && now - io.spoke.min(now) > patience) {
                true if !io.is_passed_over => stuck.push(stream),
                true => {}
                false => io.is_passed_over = false,
            }
        }
        if (some_get_on || is_busy) && stuck.len() < streams.len() {
            for stream in stuck {
                stream.io().is_passed_over = true;
                self.session().send_again(stream.id);
            }
            self.pump();
        }
        infos
    }

    /// Takes streams out of use that are more than needed.
    pub(super) fn retire(&self, spare: Vec<u32>) {
        for stream in self.carrying().iter().filter(|stream| spare.contains(&stream.id)) {
            let mut io = stream.io();
            if !std::mem::replace(&mut io.is_retired, true) {
                drop(io);
                stream.push(&PathFrame::Retire);
                self.write(stream);
            }
        }
    }
}
