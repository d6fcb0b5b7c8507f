//! Streams: what comes in at one end goes out at the other by the same turn of the loop. What the other end does not take waits, and
//! while it waits nothing more is read, or granted.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use xmml_path::Lane;
use xmml_wire::buffer::Buffer;
use xmml_wire::methods::relay::protocol::FromRelay;
use xmml_wire::methods::{Stream, TrafficKind};
use xmml_wire::wakeup::{Interest, Ready};

use super::clients::frame;
use super::far::lane_of;
use super::links::Link;
use super::{Connection, Flow, Relay};
use crate::link_frame::{self, LinkMessage, StreamId, DATA_HEAD};
use crate::log::Level;
use crate::nonblocking_tcp::NonblockingTcp;
use crate::read_buffer::READ;
use crate::registry::Token;
use crate::stream_buffer::StreamBuffer;
use crate::window::{self, Budget, Window};

/// How often one end is read in a row before others have their turn.
const READS_IN_A_ROW: usize = 4;

/// An end of a stream.
pub(super) enum End {
    /// A process of this site.
    Process {
        token: Token,
        wire: NonblockingTcp,
        /// What it is watched for; `None`: it is not watched.
        interest: Option<Interest>,
        /// Both directions have ended at the socket, in order. What has come and was not read yet is still there.
        has_hung_up: bool,
    },
    /// The next relay on its way.
    Far {
        link: Token,
        stream: StreamId,
        lane: Lane,
        /// Its ends protect its bytes from each other to each other.
        is_protected: bool,
        /// So many bytes the next relay takes.
        credit: u64,
        /// What it may send.
        window: Window,
    },
}

impl End {
    pub(super) fn wire(token: Token, wire: NonblockingTcp) -> End {
        End::Process { token, wire, interest: Some(Interest::READ), has_hung_up: false }
    }

    pub(super) fn far(link: Token, stream: StreamId, traffic: TrafficKind) -> End {
        let (lane, is_protected) = (lane_of(traffic), traffic.is_protected);
        End::Far { link, stream, lane, is_protected, credit: window::FIRST, window: Window::new(Instant::now()) }
    }

    /// Begins with the word that the stream is open, where that is told in the stream itself.
    fn greeting(&self) -> StreamBuffer {
        match self {
            End::Process { .. } => StreamBuffer::beginning_with(frame(&FromRelay::Opened {})),
            End::Far { .. } => StreamBuffer::default(),
        }
    }
}

/// A stream. StreamBuffer `i` leads from end `i` to the other one.
pub(super) struct Pipe {
    pub(super) run: String,
    ends: [End; 2],
    directions: [StreamBuffer; 2],
}

impl Pipe {
    /// Bytes that have passed, both ways together.
    pub(super) fn passed(&self) -> u64 {
        self.directions.iter().map(StreamBuffer::passed).sum()
    }

    /// Bytes that wait.
    pub(super) fn held(&self) -> u64 {
        self.directions.iter().map(|direction| direction.waiting() as u64).sum()
    }

    /// Whether neither of its ends is here.
    fn passes(&self) -> bool {
        self.ends.iter().all(|end| matches!(end, End::Far { .. }))
    }

    /// The link and the number of the stream at an end, if it is far.
    pub(super) fn far_end(&self, side: usize) -> Option<(Token, StreamId)> {
        match &self.ends[side] {
            End::Far { link, stream, .. } => Some((*link, *stream)),
            End::Process { .. } => None,
        }
    }
}

/// A message as far as the credit goes, and what is left of it. (Where memory is scarce, nothing is sent that was not granted.)
fn within(credit: u64, stream: StreamId, message: Buffer) -> (Buffer, Option<Buffer>) {
    let bytes = message.len() - DATA_HEAD;
    match usize::try_from(credit) {
        Ok(credit) if credit < bytes => {
            let (message, rest) = link_frame::split(&message, stream, credit);
            (message, Some(rest))
        }
        _ => (message, None),
    }
}

/// Whether an end takes more.
fn takes(end: &End, links: &mut HashMap<Token, Link>, budget: &mut Budget) -> bool {
    match end {
        End::Process { .. } => true,
        End::Far { link, lane, credit, .. } => {
            *credit > 0 && links.get_mut(link).is_some_and(|link| link.has_room(*lane, budget))
        }
    }
}

impl Relay {
    /// What streams together may hold beyond what each of them and each link has in any case, in bytes.
    pub fn limit_memory_of_streams(&mut self, bytes: u64) {
        self.window_budget.set_total(bytes);
    }

    /// Makes a stream of two ends, and tells those that it is open that do not know.
    pub(super) fn join(&mut self, run: &str, a: End, b: End) -> u64 {
        let id = self.token();
        let directions = [b.greeting(), a.greeting()];
        for (side, end) in [&a, &b].into_iter().enumerate() {
            match end {
                End::Process { token, wire, .. } => {
                    self.connections.insert(*token, Connection::End { pipe: id, side });
                    let _ = self.epoll.change(wire.fd(), *token, Interest::READ);
                }
                End::Far { link, stream, .. } => {
                    self.flows.insert((*link, *stream), Flow::Pipe { pipe: id, side });
                }
            }
        }
        let pipe = Pipe { run: run.to_owned(), ends: [a, b], directions };
        let passes = pipe.passes();
        self.pipes.insert(id, pipe);
        if let Some(run) = self.runs.get_mut(run) {
            run.opened += 1;
            run.passing += usize::from(passes);
        }
        self.log.event(Level::Debug, "stream opened", &[("run", run)]);
        let done = [0, 1].into_iter().try_for_each(|side| self.write(id, side));
        self.settle(id, done);
        id
    }

    /// An end that is a process of this site is ready.
    pub(super) fn end_ready(&mut self, id: u64, side: usize, event: Ready) {
        let (interest, wire, has_hung_up) = match self.pipes.get_mut(&id).map(|pipe| &mut pipe.ends[side]) {
            Some(End::Process { interest: Some(interest), wire, has_hung_up, .. }) => (*interest, wire, has_hung_up),
            _ => return,
        };
        let done = if event.hung_up && !interest.read && !interest.write {
            // An end in order, of both directions, is no reset: what came before it is read when there is room for it.
            *has_hung_up = true;
            wire.broken()
        } else {
            let written = if event.writable && interest.write { self.write(id, side) } else { Ok(()) };
            written.and_then(|()| if event.readable && interest.read { self.read(id, side) } else { Ok(()) })
        };
        self.settle(id, done);
    }

    /// Brings to an end what waits for it.
    fn write(&mut self, id: u64, side: usize) -> io::Result<()> {
        let Some(pipe) = self.pipes.get_mut(&id) else { return Ok(()) };
        let direction = &mut pipe.directions[1 - side];
        let mut count = 0;
        match &mut pipe.ends[side] {
            End::Process { wire, .. } => count = direction.drain(|parts| wire.write(parts))?,
            End::Far { link, stream, lane, is_protected, credit, .. } => {
                let Some(link) = self.links.get_mut(link) else { return Err(io::ErrorKind::NotConnected.into()) };
                while *credit > 0 && link.has_room(*lane, &mut self.window_budget) {
                    let Some(message) = direction.take_whole() else { break };
                    let (message, rest) = within(*credit, *stream, message);
                    rest.into_iter().for_each(|rest| direction.put_back(rest));
                    let bytes = message.len() - DATA_HEAD;
                    *credit -= bytes as u64;
                    count += bytes;
                    link.put_data(*lane, message, *is_protected)?;
                }
            }
        }
        self.was_passed_on(id, 1 - side, count);
        Ok(())
    }

    /// So many bytes that came from an end are out: if it is another relay, that is worth credit.
    fn was_passed_on(&mut self, id: u64, side: usize, bytes: usize) {
        let Some(Pipe { run, ends, .. }) = self.pipes.get_mut(&id) else { return };
        let End::Far { link, stream, window, .. } = &mut ends[side] else { return };
        let round_trip = self.links.get(link).map(Link::round_trip).unwrap_or_default();
        let credit = window.passed_on(bytes as u64, round_trip, (&mut self.window_budget, run), Instant::now());
        if credit > 0 {
            let (link, stream) = (*link, *stream);
            self.tell(link, &LinkMessage::Credit { stream, bytes: credit });
        }
    }

    /// The stream is open on its whole way: its ends that are other relays may send as much as is usual, if there is room for that.
    pub(super) fn widen(&mut self, id: u64) {
        let Some(pipe) = self.pipes.get_mut(&id) else { return };
        let mut grants = Vec::new();
        for end in &mut pipe.ends {
            if let End::Far { link, stream, window, .. } = end {
                grants.push((
                    *link,
                    LinkMessage::Credit { stream: *stream, bytes: window.widen(&mut self.window_budget, &pipe.run) },
                ));
            }
        }
        for (link, grant) in grants {
            if !matches!(grant, LinkMessage::Credit { bytes: 0, .. }) {
                self.tell(link, &grant);
            }
        }
    }

    /// Reads from an end that is a process of this site, and passes on what comes.
    fn read(&mut self, id: u64, side: usize) -> io::Result<()> {
        for _ in 0..READS_IN_A_ROW {
            let Some(pipe) = self.pipes.get(&id) else { return Ok(()) };
            if pipe.directions[side].waiting() > 0
                || !takes(&pipe.ends[1 - side], &mut self.links, &mut self.window_budget)
            {
                return Ok(());
            }
            let End::Process { wire: from, .. } = &pipe.ends[side] else { return Ok(()) };
            let most = match &pipe.ends[1 - side] {
                End::Process { .. } => READ,
                End::Far { credit, .. } => READ.min(usize::try_from(*credit).unwrap_or(READ)),
            };
            let read = self.intake.read(most, |into| from.read(into));
            let Some(pipe) = self.pipes.get_mut(&id) else { return Ok(()) };
            let direction = &mut pipe.directions[side];
            let count = match read {
                Ok(0) => {
                    direction.end();
                    return Ok(());
                }
                Ok(count) => count,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                },
            };
            match &mut pipe.ends[1 - side] {
                End::Process { wire, .. } => direction.pass(self.intake.bytes(), |parts| wire.write(parts))?,
                End::Far { link, stream, lane, is_protected, credit, .. } => {
                    let Some(link) = self.links.get_mut(link) else { return Err(io::ErrorKind::NotConnected.into()) };
                    *credit -= count as u64;
                    direction.pass_whole(Buffer::empty(), count, false);
                    link.put_data(*lane, self.intake.frame(*stream)?, *is_protected)?;
                }
            }
            if count < most {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Data has come by a link; `message` is the whole frame.
    pub(super) fn data_came(&mut self, id: u64, side: usize, message: Buffer) {
        let done = self.pass_message(id, side, message);
        self.settle(id, done);
    }

    fn pass_message(&mut self, id: u64, side: usize, message: Buffer) -> io::Result<()> {
        let Some(pipe) = self.pipes.get(&id) else { return Ok(()) };
        let bytes = message.len() - DATA_HEAD;
        let goes_on = pipe.directions[side].waiting() == 0
            && takes(&pipe.ends[1 - side], &mut self.links, &mut self.window_budget);
        let Some(pipe) = self.pipes.get_mut(&id) else { return Ok(()) };
        let direction = &mut pipe.directions[side];
        if let End::Far { window, .. } = &mut pipe.ends[side] {
            if direction.has_ended() || !window.came(bytes as u64) {
                return Err(io::Error::other("the other relay sends more than it may"));
            }
        }
        let out = match &mut pipe.ends[1 - side] {
            End::Process { wire, .. } => {
                direction.pass_buffer(message.slice(DATA_HEAD..message.len()), |parts| wire.write(parts))?
            }
            End::Far { link, stream, lane, is_protected, credit, .. } if goes_on => {
                let Some(link) = self.links.get_mut(link) else { return Err(io::ErrorKind::NotConnected.into()) };
                let (message, rest) = within(*credit, *stream, message);
                let out = message.len() - DATA_HEAD;
                *credit -= out as u64;
                direction.pass_whole(Buffer::empty(), out, false);
                rest.into_iter().for_each(|rest| direction.pass_whole(rest, bytes - out, true));
                link.put_data(*lane, message, *is_protected)?;
                out
            }
            End::Far { .. } => {
                direction.pass_whole(message, bytes, true);
                0
            }
        };
        self.was_passed_on(id, side, out);
        Ok(())
    }

    /// The stream has ended at an end that is another relay.
    pub(super) fn finish_came(&mut self, id: u64, side: usize) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.directions[side].end();
        }
        self.settle(id, Ok(()));
    }

    /// The next relay takes more.
    pub(super) fn credit_came(&mut self, id: u64, side: usize, bytes: u64) {
        if let Some(End::Far { credit, .. }) = self.pipes.get_mut(&id).map(|pipe| &mut pipe.ends[side]) {
            *credit = credit.saturating_add(bytes).min(2 * window::MOST);
        }
        self.go_on(id, side);
    }

    /// An end that is another relay may take more now.
    pub(super) fn go_on(&mut self, id: u64, side: usize) {
        let done = self.write(id, side);
        self.settle(id, done);
    }

    /// After something was done with a stream: passes on ends, watches what must be watched now, and lets go of what is over.
    fn settle(&mut self, id: u64, done: io::Result<()>) {
        if let Err(error) = done {
            let run = self.pipes.get(&id).map(|pipe| pipe.run.clone()).unwrap_or_default();
            self.log.event(Level::Debug, "stream broke", &[("run", &run), ("reason", &error.to_string())]);
            return self.break_pipe(id, None);
        }
        let Some(pipe) = self.pipes.get_mut(&id) else { return };
        for side in [0, 1] {
            if pipe.directions[side].must_tell_end() {
                match &pipe.ends[1 - side] {
                    End::Process { wire, .. } => wire.finish(),
                    End::Far { link, stream, lane, .. } => {
                        if let Some(link) = self.links.get_mut(link) {
                            // If it fails, so does the link, which breaks all of its streams.
                            let _ = link.put(*lane, link_frame::finish(*stream));
                        }
                    }
                }
            }
        }
        if pipe.directions.iter().all(StreamBuffer::is_over) {
            return self.close_pipe(id);
        }
        let Some(pipe) = self.pipes.get(&id) else { return };
        let takes = [0, 1].map(|side| takes(&pipe.ends[side], &mut self.links, &mut self.window_budget));
        let Some(pipe) = self.pipes.get_mut(&id) else { return };
        for side in [0, 1] {
            let (out, back) = (&pipe.directions[side], &pipe.directions[1 - side]);
            let read = !out.has_ended() && out.waiting() == 0 && takes[1 - side];
            let wanted = Interest { read, write: back.waiting() > 0, close: false };
            // Both of its directions are done with: what the kernel says about it is no news any more.
            let is_news = !out.has_ended() || !back.is_over();
            match &mut pipe.ends[side] {
                End::Process { token, wire, interest, has_hung_up } => {
                    // The kernel would say again and again that it has hung up.
                    let wanted = (is_news && (read || !*has_hung_up)).then_some(wanted);
                    if wanted != *interest {
                        match (wanted, interest.is_some()) {
                            (Some(wanted), true) => drop(self.epoll.change(wire.fd(), *token, wanted)),
                            (Some(wanted), false) => drop(self.epoll.add(wire.fd(), *token, wanted)),
                            (None, _) => self.epoll.remove(wire.fd()),
                        }
                        *interest = wanted;
                    }
                }
                End::Far { link, .. } => {
                    // Also where there is room again already, which threads of the link may have made since it was looked at.
                    if !takes[side] || back.waiting() > 0 {
                        if let Some(link) = self.links.get_mut(link) {
                            link.starved.insert((id, side));
                        }
                    }
                }
            }
        }
    }

    /// A stream that broke at one end breaks at the other. `at`: the end that knows already.
    pub(super) fn break_pipe(&mut self, id: u64, at: Option<usize>) {
        let Some(pipe) = self.pipes.get(&id) else { return };
        let mut to_tell = Vec::new();
        for (side, end) in pipe.ends.iter().enumerate() {
            match end {
                End::Process { wire, .. } => wire.abort(),
                End::Far { link, stream, .. } if at != Some(side) => to_tell.push((*link, *stream)),
                End::Far { .. } => {}
            }
        }
        self.close_pipe(id);
        for (link, stream) in to_tell {
            self.tell(link, &LinkMessage::Reset { stream });
        }
    }

    pub(super) fn close_pipe(&mut self, id: u64) {
        let Some(pipe) = self.pipes.remove(&id) else { return };
        for (side, end) in pipe.ends.iter().enumerate() {
            match end {
                End::Process { token, .. } => drop(self.connections.remove(token)),
                End::Far { link, stream, window, .. } => {
                    self.window_budget.give_back(&pipe.run, window.growth());
                    self.flows.remove(&(*link, *stream));
                    if let Some(link) = self.links.get_mut(link) {
                        link.starved.remove(&(id, side));
                    }
                }
            }
        }
        if let Some(run) = self.runs.get_mut(&pipe.run) {
            run.passed += pipe.passed();
            run.passing -= usize::from(pipe.passes());
        }
    }
}
