//! What becomes due on a path: streams to be dialled, receipts, signs of life, its end.

use std::sync::atomic::Ordering;
use std::time::Instant;

use xmml_wire::error::Error;

use super::{Driver, End, Shared, State, FAREWELL, RECEIPT_DELAY};
use crate::driver::measurement::ROUND;
use crate::frame::PathFrame;
use crate::settings::Settings;
use crate::stream::StreamIo;

impl Shared {
    pub(super) fn pass_time(&self, driver: &mut Driver) {
        if matches!(driver.state, State::Closed | State::Failed(_)) {
            return;
        }
        let now = Instant::now();
        let settings = self.settings();
        if let End::Dialling(dialling) = &mut driver.end {
            let resumes = !matches!(driver.state, State::Opening);
            let failures = dialling.pass_time(now, &settings, &self.epoll, resumes, &mut driver.next_token);
            let spare = dialling.spare();
            for failure in failures {
                self.dial_failed(driver, failure);
            }
            self.retire(spare);
        }
        if !self.rests.load(Ordering::Relaxed) {
            driver.tuning.at = driver.tuning.at.min(now + ROUND);
        }
        if driver.tuning.at <= now {
            self.tune(driver, now, &settings);
        }
        if driver.receipt_at.is_some_and(|at| at <= now) {
            driver.receipt_at = match self.send_late_receipts() {
                true => None,
                false => Some(now + RECEIPT_DELAY),
            };
        }
        if driver.tick_at <= now {
            driver.tick_at = now + settings.silence / 8;
            self.look_at_streams(driver, now, &settings);
        }
        self.end_if_over(driver, now);
        self.give_up_if_late(driver, now, &settings);
    }

    /// Whether a stream took them; while all are writing none does, unless receipts go along with what is written.
    fn send_late_receipts(&self) -> bool {
        let streams = self.carrying();
        let goes_on = streams.iter().any(|stream| !stream.io().is_passed_over);
        let is_free = |io: &StreamIo| io.is_idle() && !(goes_on && io.is_passed_over);
        let Some(stream) = streams.iter().find(|stream| is_free(&stream.io())) else {
            return streams.is_empty() || !self.session().owes_receipt();
        };
        let mut io = stream.io();
        while let Some(receipt) = self.session().late_receipt() {
            io.push(receipt);
        }
        drop(io);
        self.write(stream);
        true
    }

    fn look_at_streams(&self, driver: &mut Driver, now: Instant, settings: &Settings) {
        for stream in self.carrying() {
            let io = stream.io();
            let (silent, quiet) = (now - io.heard.min(now), now - io.spoke.min(now));
            let is_idle = io.is_idle();
            drop(io);
            if silent > settings.silence {
                self.lose(driver, &stream, &format!("nothing was heard for {:.1} s", silent.as_secs_f64()));
            } else if quiet > settings.silence / 4 && is_idle {
                stream.push(&PathFrame::Alive);
                self.write(&stream);
            }
        }
    }

    fn end_if_over(&self, driver: &mut Driver, now: Instant) {
        match driver.closing_until {
            Some(until) if until <= now => self.close(driver),
            Some(_) => {}
            None if self.session().is_over() => {
                driver.closing_until = Some(now + FAREWELL);
                for stream in self.carrying() {
                    stream.push(&PathFrame::Bye);
                    self.write(&stream);
                }
                if self.carrying().is_empty() {
                    self.close(driver);
                }
            }
            None => {}
        }
    }

    fn give_up_if_late(&self, driver: &mut Driver, now: Instant, settings: &Settings) {
        let (limit, reason) = match &driver.state {
            State::Opening => (settings.connect, driver.last_reason()),
            State::Broken(reason) => (settings.patience, reason.clone()),
            _ => return,
        };
        if now < driver.since + limit {
            return;
        }
        let (seconds, peer) = (limit.as_secs_f64(), self.peer.clone());
        let problem = match driver.state {
            State::Opening => format!("no path to it could be opened within {seconds} s: {reason}"),
            _ => format!("the path to it was broken and could not be mended within {seconds} s: {reason}"),
        };
        self.fail(driver, Error::Protocol { peer, problem });
    }

    /// Sets the timer if it would go off too late. One that goes off too early costs a look, which is cheaper than to set it anew
    /// whenever something comes.
    pub(super) fn set_timer(&self, driver: &mut Driver) {
        let dial_at = match &driver.end {
            End::Dialling(dialling) => dialling.next_time(),
            End::Listening(_) => None,
        };
        let times = [Some(driver.tick_at), Some(driver.tuning.at), driver.receipt_at, driver.closing_until, dial_at];
        let next = match driver.state {
            _ if !driver.unread.is_empty() => Some(Instant::now()),
            State::Closed | State::Failed(_) => None,
            _ => times.into_iter().flatten().min(),
        };
        let is_in_time = match (driver.timer_at, next) {
            (Some(at), Some(next)) => at <= next,
            (at, next) => at == next,
        };
        if !is_in_time {
            self.timer.set(next);
            driver.timer_at = next;
        }
        if self.hurried.swap(false, Ordering::SeqCst) {
            driver.timer_at = Some(Instant::now());
            self.timer.set(driver.timer_at);
        }
    }
}
