//! A path measures itself while it runs, and sets what it can set: the number of streams, how fast they send, the length of pieces; and it
//! notices streams that do not get on.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::thread_pool;
use super::{Driver, End, Shared};
use crate::frame::PathFrame;
use crate::pacing::Pacing;
use crate::settings::{Settings, Streams};
use crate::socket;
use crate::stream::Stream;
use crate::tcp_info::TcpInfo;
use crate::tuning::{self, Measured, Tuner};

/// While something is under way, streams are looked at so often. (In tests seldom, so that nobody waits for it unnoticed.)
pub(crate) const ROUND: Duration = Duration::from_millis(if cfg!(test) { 2000 } else { 100 });

/// While nothing is, so seldom.
const IDLE_ROUND: Duration = Duration::from_secs(2);

/// Before the number of streams is decided on, they have had something to send for at least so many round trips.
const ROUND_TRIPS: u32 = 8;

/// And at least so long.
const LEAST_DECISION: Duration = Duration::from_millis(400);

/// And have carried so much: what a few small messages take says nothing.
const LEAST_CARRIED: u64 = 4 << 20;

/// Threads are worth their while from so many bytes per second on, both directions together.
const MUCH: f64 = 60e6;

/// And are kept until less than this passes.
const LITTLE: f64 = 10e6;

/// For so many rounds.
const QUIET_ROUNDS: u32 = 20;

/// What a path remembers of its measurements.
pub(crate) struct Tuning {
    tuner: Tuner,
    /// What the link carries in a second by the settings of this end, in bytes.
    own: Option<f64>,
    /// The same as the other end has said.
    theirs: Option<f64>,
    /// How fast streams may send.
    pacing: Pacing,
    /// When to look next.
    pub at: Instant,
    /// When streams were looked at last.
    last: Instant,
    /// What they have done since the last decision on their number.
    done: Done,
    /// A number for the round trip time was decided on.
    knows_round_trip: bool,
    /// Bytes that had come when streams were looked at last.
    bytes_in: u64,
    /// For so many rounds little has passed.
    quiet_rounds: u32,
}

/// What all streams together have done between two looks.
#[derive(Clone, Copy, Default)]
struct Done {
    /// Bytes that the other end acknowledged.
    acked: u64,
    /// For how long there was something to send; while the program pauses there is not.
    active: Duration,
    /// The same, of each stream for itself and added up.
    busy: Duration,
    /// How long of that a window held a stream up.
    held: Duration,
    /// How long of that packets waited in a queue on the way.
    queued: Duration,
}

impl Done {
    fn add(&mut self, more: &Done) {
        self.acked += more.acked;
        self.active += more.active;
        self.busy += more.busy;
        self.held += more.held;
        self.queued += more.queued;
    }

    /// Takes in what one stream has done, by what the kernel said before and says now.
    fn of_one(&mut self, before: &TcpInfo, now: &TcpInfo) {
        let held = |info: &TcpInfo| info.held_by_receiver + info.held_by_sender;
        let busy = now.busy.saturating_sub(before.busy);
        self.acked += now.acked.saturating_sub(before.acked);
        self.active = self.active.max(busy);
        self.busy += busy;
        self.held += held(now).saturating_sub(held(before));
        if tuning::is_queued(now.round_trip, now.least_round_trip) {
            self.queued += busy;
        }
    }
}

impl Tuning {
    /// Begins with so many streams, over a link that is said to carry so much [B/s].
    pub fn new(count: u32, bandwidth: Option<f64>, now: Instant) -> Tuning {
        Tuning {
            tuner: Tuner::new(count, bandwidth),
            own: bandwidth,
            theirs: None,
            pacing: Pacing::new(bandwidth),
            at: now + ROUND,
            last: now,
            done: Done::default(),
            knows_round_trip: false,
            bytes_in: 0,
            quiet_rounds: 0,
        }
    }

    /// The same from new settings on.
    pub fn begin(&mut self, count: u32, bandwidth: Option<f64>) {
        self.go_on(bandwidth);
        self.tuner = Tuner::new(count, self.own.or(self.theirs));
        self.done = Done::default();
        self.knows_round_trip = false;
    }

    /// From new settings on that leave the number of streams as it is.
    pub fn go_on(&mut self, bandwidth: Option<f64>) {
        self.own = bandwidth;
        let known = self.own.or(self.theirs);
        self.tuner.set_bandwidth(known);
        self.pacing = Pacing::new(known);
    }

    /// What the link carries in a second as the other end knows it, in bytes; 0: it does not. The settings of this end come first.
    pub fn hear_of_bandwidth(&mut self, bandwidth: u64) {
        let theirs = (bandwidth > 0).then_some(bandwidth as f64);
        if std::mem::replace(&mut self.theirs, theirs) != theirs && self.own.is_none() {
            self.tuner.set_bandwidth(theirs);
            self.pacing.set_bandwidth(theirs);
        }
    }

    /// The other end has decided on so many streams; whether that is another number.
    pub fn follow(&mut self, count: u32) -> bool {
        let is_new = self.tuner.follow(count);
        if is_new {
            self.done = Done::default();
        }
        is_new
    }

    /// The number of streams for the round trip time, when that is known for the first time.
    pub fn begin_at(&mut self, round_trip: Duration, settings: &Settings) -> Option<u32> {
        if self.knows_round_trip || round_trip.is_zero() {
            return None;
        }
        let count = tuning::streams_at(round_trip, settings);
        if let Some(count) = count {
            self.begin(count, self.own);
        }
        self.knows_round_trip = true;
        count
    }

    /// Whether enough was measured to decide on the number of streams.
    fn is_due(&self, round_trip: Duration) -> bool {
        self.done.active >= LEAST_DECISION.max(round_trip * ROUND_TRIPS) && self.done.acked >= LEAST_CARRIED
    }

    /// What was measured since this was last asked, over a way whose shortest round trip took so long.
    fn measured(&mut self, least_round_trip: Duration, settings: &Settings) -> Measured {
        let Done { acked, active, busy, held, queued } = std::mem::take(&mut self.done);
        let part = |time: Duration| time.as_secs_f64() / busy.as_secs_f64().max(1e-9);
        let rate = acked as f64 / active.as_secs_f64().max(1e-9);
        let needed = tuning::needed(rate, least_round_trip, settings);
        Measured { rate, held: part(held), queued: part(queued), needed }
    }
}

impl Shared {
    /// Looks at the streams.
    pub(crate) fn tune(&self, driver: &mut Driver, now: Instant, settings: &Settings) {
        // What is sent from here on takes it back.
        self.rests.store(true, Ordering::Relaxed);
        let is_busy = self.session().has_unsent();
        let (infos, done) = self.look(now);
        let tuning = &mut driver.tuning;
        let passed = (now - tuning.last).as_secs_f64().max(1e-3);
        let rate = done.acked as f64 / passed;
        let bytes_in: u64 = self.carrying().iter().map(|stream| stream.io().bytes_in).sum();
        let rate_in = bytes_in.saturating_sub(tuning.bytes_in) as f64 / passed;
        (tuning.bytes_in, tuning.last) = (bytes_in, now);
        let passes = rate + rate_in;
        tuning.quiet_rounds = if passes < LITTLE { tuning.quiet_rounds + 1 } else { 0 };
        let wanted = match settings.workers {
            Some(count) => Some(count),
            None if !self.is_encrypted => None,
            None if passes > MUCH => Some(thread_pool::sensible()),
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
                let fastest = infos.iter().map(|info| info.delivery_rate).max().unwrap_or_default();
                let pace = settings.pace.or(tuning.pacing.each()).unwrap_or(u64::MAX);
                self.set_chunk(tuning::chunk(rate, infos.len(), fastest.min(pace)));
            }
        }
        // What is on its way may be stuck: that shall not be found out only much later.
        let is_awaited = infos.iter().any(|info| info.unacked > 0);
        let rests = !is_active && !is_awaited;
        tuning.at = now + if rests { IDLE_ROUND } else { ROUND };
        if !rests {
            self.rests.store(false, Ordering::Relaxed);
        }
        let round_trip = infos.iter().map(|info| info.round_trip).max().unwrap_or_default();
        let least_round_trip = infos.iter().map(|info| info.least_round_trip).min().unwrap_or_default();
        let is_open = settings.streams == Streams::Auto && driver.theirs.is_none();
        tuning.done.add(&done);
        match &mut driver.end {
            End::Dialling(dialling) => {
                if let Some(count) = is_open.then(|| tuning.begin_at(round_trip, settings)).flatten() {
                    dialling.want(count);
                } else if tuning.is_due(round_trip) {
                    let measured = tuning.measured(least_round_trip, settings);
                    tuning.pacing.heed(&measured);
                    if is_open {
                        dialling.want(tuning.tuner.next(&measured));
                    }
                }
            }
            End::Listening(_) => {
                // If there are others than this end has asked for, the other end has decided on them.
                let standing = infos.len() as u32;
                if tuning.is_due(round_trip) && !(is_open && tuning.follow(standing)) {
                    let measured = tuning.measured(least_round_trip, settings);
                    tuning.pacing.heed(&measured);
                    let count = if is_open { tuning.tuner.next(&measured) } else { standing };
                    if count != standing {
                        self.tell(&self.wish(count));
                    }
                }
            }
        }
        self.pace_streams(driver, settings);
    }

    /// Gives the streams that get on what the link carries, in equal shares.
    fn pace_streams(&self, driver: &mut Driver, settings: &Settings) {
        if settings.pace.is_some() {
            return;
        }
        let streams = self.carrying();
        let get_on = streams.iter().filter(|stream| !stream.io().is_passed_over).count();
        if driver.tuning.pacing.share(get_on) {
            for stream in &streams {
                self.pace_stream(driver, stream, settings);
            }
        }
    }

    /// Lets a stream send what each one may at present.
    pub(crate) fn pace_stream(&self, driver: &Driver, stream: &Stream, settings: &Settings) {
        if settings.pace.is_none() {
            // It is a gain where the system can do it, and no loss where it cannot.
            let _ = socket::pace(stream.wire.fd(), driver.tuning.pacing.each());
        }
    }

    /// That this end would like so many streams.
    pub(crate) fn wish(&self, count: u32) -> PathFrame {
        PathFrame::Streams { count, is_fixed: matches!(self.settings().streams, Streams::Fixed(_)) }
    }

    /// What the dialling end, which opens the streams, has to say of their number.
    pub(crate) fn own_streams(&self) -> PathFrame {
        match self.settings().streams {
            Streams::Fixed(count) => PathFrame::Streams { count, is_fixed: true },
            Streams::Auto => PathFrame::Streams { count: 0, is_fixed: false },
        }
    }

    /// What this end knows of the link.
    pub(crate) fn carries(&self) -> PathFrame {
        PathFrame::Carries { bandwidth: self.settings().link.map_or(0, |link| link.bandwidth as u64) }
    }

    /// Says something about the path to the other end.
    pub(crate) fn tell(&self, word: &PathFrame) {
        let streams = self.carrying();
        if let Some(stream) = streams.iter().min_by_key(|stream| stream.io().is_passed_over) {
            stream.push(word);
            self.write(stream);
        }
    }

    /// What the kernel says of each stream, and what all of them have done since the last look; those that do not get on are passed over, if
    /// others do.
    fn look(&self, now: Instant) -> (Vec<TcpInfo>, Done) {
        let streams = self.carrying();
        let mut infos = Vec::with_capacity(streams.len());
        let (mut stuck, mut others) = (Vec::new(), 0);
        let mut done = Done::default();
        for stream in &streams {
            let Some(info) = TcpInfo::of(stream.wire.fd()) else { continue };
            infos.push(info);
            let mut io = stream.io();
            let gets_on = info.acked > io.info.acked;
            done.of_one(&io.info, &info);
            io.info = info;
            let patience = tuning::patience(info.round_trip);
            let is_stuck =
                !gets_on && info.unacked > 0 && info.since_ack > patience && now - io.spoke.min(now) > patience / 2;
            match is_stuck || (!gets_on && !io.is_idle() && now - io.spoke.min(now) > patience) {
                true if !io.is_passed_over => stuck.push(stream),
                true => {}
                // What was written to it is no sign of life: only what is acknowledged is.
                false if gets_on || (info.unacked == 0 && io.is_idle()) => {
                    (io.is_passed_over, others) = (false, others + 1)
                }
                false => others += usize::from(!io.is_passed_over),
            }
        }
        // Those that carry nothing at the moment take over as well: what is stuck may be all that there is to send.
        if others > 0 {
            for stream in stuck {
                stream.io().is_passed_over = true;
                self.session().send_again(stream.id);
            }
            self.pump();
        }
        (infos, done)
    }

    /// Takes streams out of use that are more than needed.
    pub(crate) fn retire(&self, spare: Vec<u32>) {
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
