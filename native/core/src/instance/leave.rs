//! The end of an instance, and what it says to people before.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use xmml_wire::error::Result;

use crate::control::ToCoordinator;
use crate::filters::Chain;
use crate::runtime::state::State;
use crate::runtime::wait::{wait, WaitFor};
use crate::runtime::{Read, Runtime};

use super::{Backend, Instance};

/// How long the coordinator may take to write down that an instance left. After that the instance ends anyway.
const FAREWELL_LIMIT: Duration = Duration::from_secs(5);

/// The same where what breaks comes back: silence is noticed after half a minute, and it may be away for a whole one.
const LATEST_FAREWELL: Duration = Duration::from_secs(120);

/// For so long taps may take what is left for them.
const TAPS_LIMIT: Duration = Duration::from_secs(1);

impl Instance {
    /// Tells people something, through the coordinator (alone: on standard error).
    pub fn warn(&self, text: &str) {
        match &self.backend {
            Backend::Run { runtime } => runtime.tell(&ToCoordinator::Warning { text: text.to_owned() }),
            Backend::Alone(_) => eprintln!("warning: {text}"),
        }
    }

    /// Tells the coordinator that this instance failed, and why; does not end the program.
    pub fn fail(&self, text: &str) {
        match &self.backend {
            Backend::Run { .. } if self.is_forked() => {} // it is the parent's instance
            Backend::Run { runtime } => {
                runtime.tell(&runtime.progress_report());
                runtime.tell(&ToCoordinator::Failed { text: text.to_owned() });
            }
            Backend::Alone(_) => eprintln!("failed: {text}"),
        }
    }

    /// [`Instance::leave`], as far as this process has to do with it.
    pub(super) fn leave_here(&self) -> Result<()> {
        {
            let program = self.program_even_after_leaving();
            if program.left || self.is_forked() {
                return Ok(());
            }
            program.sequence.may_leave()?;
        }
        self.end_run_of_outlets()?;
        self.tell_rest_of_groups();
        let left_over: Vec<String> = self.program()?.outlets.iter().flat_map(Chain::left_over).collect();
        left_over.iter().for_each(|text| self.warn(text));
        if let Backend::Run { runtime } = &self.backend {
            self.say_goodbye(runtime)?;
        }
        self.program_even_after_leaving().left = true;
        self.stop();
        Ok(())
    }

    /// The run of the program is over: sends what the filters held back for its end.
    pub(super) fn end_run_of_outlets(&self) -> Result<()> {
        (0..self.filters_outlet.len())
            .filter(|end| self.has_filters(*end))
            .try_for_each(|end| self.end_run_of_outlet(end))
    }

    pub(super) fn end_run_of_outlet(&self, end: usize) -> Result<()> {
        let messages = {
            let mut program = self.program()?;
            if program.outlets[end].is_empty() {
                return Ok(());
            }
            program.outlets[end].end_of_run()?
        };
        let port = self.with_state(|state| state.conduits.sending[end].spec.sender_port.clone());
        for message in &messages {
            self.transmit(&port, end, message)?;
        }
        Ok(())
    }

    fn say_goodbye(&self, runtime: &Runtime) -> Result<()> {
        if self.pools.read.values().any(|read| read.may_die) {
            self.hand_over_products(None)?;
        }
        // Memory takes messages for a receiver that is gone; a socket would not.
        let connections: Vec<_> = runtime.state().connections.outbound().cloned().collect();
        for connection in connections.iter().filter(|connection| connection.is_memory()) {
            // In the socket a wake-up that nobody has taken lies before the end, and one call takes it alone; receipts may lie there, too.
            connection.drain_wakeups();
            runtime.after_wakeup(connection);
            while runtime.read(connection) == Read::Something {}
        }
        let (all, mut backlogs): (Vec<usize>, Vec<usize>) = {
            let mut state = runtime.state();
            for end in 0..state.conduits.receiving.len() {
                if state.conduits.receiving[end].is_settled_by_program() {
                    state.settle(end);
                }
            }
            // First the senders, so that none of them waits for room that will never come.
            for end in 0..state.conduits.receiving.len() {
                if !state.conduits.receiving[end].has_everything() {
                    let State { conduits, connections, deferred, .. } = &mut *state;
                    if let Some(connection) = connections.answers_by(&conduits.receiving[end]) {
                        deferred.queue(connection, conduits.receiving[end].encode_gone().into());
                    }
                }
            }
            // What it sent to itself and did not take, nobody will take any more.
            for end in 0..state.conduits.receiving.len() {
                if state.conduits.receiving[end].spec.sender == self.name()
                    && !state.conduits.receiving[end].has_everything()
                {
                    let (conduit, taken) =
                        (state.conduits.receiving[end].spec.id, state.conduits.receiving[end].done());
                    if let Some(own) = state.conduits.sending_end(conduit) {
                        // It is its own receiver: what was taken was sent.
                        let _ = state.conduits.sending[own].receiver_gone(taken);
                        let (backlogs, mut routing) = state.backlogs_and_routing();
                        backlogs.on_gone(own, &mut routing);
                    }
                }
            }
            // What others share has not ended before all of it is dealt with: one of them may leave, and others take what it had.
            for end in 0..state.conduits.sending.len() {
                if !state.backlogs.serve(end) {
                    state.routing().end(end);
                }
            }
            let (backlogs, mut routing) = state.backlogs_and_routing();
            let backlogs = backlogs.finish(&mut routing);
            ((0..state.conduits.sending.len()).collect(), backlogs)
        };
        part_from_taps(runtime);
        while !backlogs.is_empty() {
            let served: Vec<usize> = runtime.state().backlogs.all_ends().collect();
            let settled = wait(runtime, &WaitFor::settled(&served), None, |state| {
                let place = backlogs.iter().position(|number| state.backlogs.is_settled(*number));
                let Some(place) = place else { return Ok(None) };
                for end in state.backlogs.ends(backlogs[place]).to_vec() {
                    state.routing().end(end);
                }
                Ok(Some(place))
            })?;
            settled.into_iter().for_each(|place| _ = backlogs.swap_remove(place));
        }
        let what = WaitFor { sending: all.into(), ..WaitFor::default() };
        wait(runtime, &what, None, |state| {
            let flushed = state.conduits.sending.iter().all(|end| end.is_flushed() || end.is_unused());
            Ok((flushed && state.connections.are_flushed()).then_some(()))
        })?;
        runtime.tell(&runtime.progress_report());
        let (runs, conduits) = {
            let runs = self.program_even_after_leaving().sequence.runs();
            (runs, runtime.state().conduits.totals())
        };
        runtime.tell(&ToCoordinator::Leaving { runs, conduits, waited_s: runtime.progress.waited().as_secs_f64() });
        // Without an answer the messages are delivered all the same; the executor sees the exit.
        let is_answered = |state: &mut State| {
            let is_in_vain = state.standing.coordinator_lost.as_ref().is_some_and(|lost| lost.for_good);
            Ok((state.standing.farewell || is_in_vain).then_some(()))
        };
        // Where a connection may break and be made again, the answer may come by the next one.
        let latest = Instant::now() + LATEST_FAREWELL;
        while let Ok(None) = wait(runtime, &WaitFor::default(), Some(Instant::now() + FAREWELL_LIMIT), is_answered) {
            let is_hopeless = !runtime.control.is_kept() && runtime.state().standing.coordinator_lost.is_none();
            if is_hopeless || Instant::now() > latest {
                break;
            }
        }
        Ok(())
    }

    /// Ends without leaving, as a program does that ends before it has left: for processes that go on with other instances.
    pub fn abandon(&self) {
        self.quit();
    }

    /// Says that it ends without leaving, so that nobody waits for it to come back, and stops.
    fn quit(&self) {
        // First of all: in a child after fork, whoever had the program then has it for ever.
        if self.is_forked() {
            return;
        }
        let has_left = std::mem::replace(&mut self.program_even_after_leaving().left, true);
        if let (Backend::Run { runtime }, false) = (&self.backend, has_left) {
            runtime.tell(&ToCoordinator::Quits);
        }
        self.stop();
    }

    /// Has the I/O thread let go of this instance, and closes every connection. In a child after fork it does nothing: the connections
    /// are the parent's.
    fn stop(&self) {
        let Backend::Run { runtime } = &self.backend else { return };
        if self.is_forked() {
            return;
        }
        runtime.commands.end();
        runtime.attention.fetch_add(1, Ordering::Release);
        let state = runtime.state();
        state.connections.close();
        runtime.control.close();
    }

    fn is_forked(&self) -> bool {
        std::process::id() != self.pid
    }
}

/// Shows taps what is left for them, and that it is all, as far as they take it soon.
fn part_from_taps(runtime: &Runtime) {
    let taps = runtime.state().backlogs.of_taps();
    if taps.is_empty() {
        return;
    }
    let until = Some(Instant::now() + TAPS_LIMIT);
    let ends: Vec<usize> = taps.iter().map(|(_, end)| *end).collect();
    // Whatever ends these waits early, it is the end for taps.
    let _ = wait(runtime, &WaitFor::settled(&ends).unreported(), until, |state| {
        Ok(taps.iter().all(|(number, _)| state.backlogs.is_settled(*number)).then_some(()))
    });
    {
        let mut state = runtime.state();
        for (number, end) in &taps {
            if state.backlogs.is_settled(*number) {
                state.routing().end(*end);
            }
        }
    }
    let what = WaitFor { sending: ends.iter().copied().collect(), ..WaitFor::default() };
    let _ = wait(runtime, &what, until, |state| {
        let sending = ends.iter().map(|end| &state.conduits.sending[*end]);
        Ok(sending.into_iter().all(|end| end.is_flushed() || end.is_unused()).then_some(()))
    });
    let mut state = runtime.state();
    for (number, end) in taps {
        state.conduits.sending[end].dropped += state.backlogs.missed_by_tap(number);
        // A connection stays that still brings it the end.
        let link = state.conduits.sending[end].link;
        let connection = state.connections.links[link].connection.as_ref();
        let is_done = state.backlogs.is_settled(number)
            && state.conduits.sending[end].is_flushed()
            && connection.is_none_or(|connection| connection.writer().is_empty());
        let tap = state.conduits.sending[end].spec.receiver.clone();
        if is_done {
            state.conduits.sending[end].receiver_died();
        } else {
            state.peer_died(&tap);
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.quit();
    }
}
