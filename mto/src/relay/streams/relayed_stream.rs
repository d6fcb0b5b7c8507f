//! One open stream: what arrives at one end goes out at the other by the same turn of the loop. What the other end does not take waits, and
//! while it waits nothing more is read, or granted.

use std::io;
use std::time::Instant;

use xmml_path::Lane;
use xmml_wire::buffer::Buffer;
use xmml_wire::methods::relay::protocol::FromRelay;
use xmml_wire::methods::{Stream, TrafficClass, TrafficKind};
use xmml_wire::wakeup::{Interest, Ready};

use super::frame;
use crate::link_frame::{self, LinkMessage, StreamId, DATA_HEAD};
use crate::nonblocking_tcp::NonblockingTcp;
use crate::read_buffer::{ReadBuffer, READ};
use crate::registry::Token;
use crate::relay::links::{EndId, LinkTable};
use crate::relay::poller::Poller;
use crate::stream_buffer::StreamBuffer;
use crate::window::{self, Window};

/// How often one end is read in a row before others have their turn.
const READS_IN_A_ROW: usize = 4;

/// The end of a stream that is a process of this site.
pub struct ProcessEnd {
    token: Token,
    wire: NonblockingTcp,
    /// What it is watched for; `None`: it is not watched.
    interest: Option<Interest>,
    /// Both directions have ended at the socket, in order. What has arrived and was not read yet is still there.
    has_hung_up: bool,
}

impl ProcessEnd {
    /// Returns the token of its connection.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Watches its connection for input, whatever that was watched for before.
    pub fn begin(&self, poller: &Poller) {
        poller.change(self.wire.fd(), self.token, Interest::READ);
    }

    /// Watches the process for this from now on.
    fn watch(&mut self, wanted: Option<Interest>, poller: &Poller) {
        if wanted == self.interest {
            return;
        }
        match (wanted, self.interest.is_some()) {
            (Some(wanted), true) => poller.change(self.wire.fd(), self.token, wanted),
            // The system refuses that only where it has no memory.
            (Some(wanted), false) => drop(poller.add(self.wire.fd(), self.token, wanted)),
            (None, _) => poller.remove(self.wire.fd()),
        }
        self.interest = wanted;
    }
}

/// The end of a stream that is the next relay on its way.
pub struct LinkEnd {
    link: Token,
    stream: StreamId,
    lane: Lane,
    /// The ends of the stream protect its bytes from each other to each other.
    is_protected: bool,
    /// So many bytes the next relay takes.
    credit: u64,
    /// What it may send.
    window: Window,
}

impl LinkEnd {
    /// Returns the link, and the number of the stream on it.
    pub fn on_link(&self) -> (Token, StreamId) {
        (self.link, self.stream)
    }

    /// Returns whether it takes a frame more.
    fn has_room(&self, links: &mut LinkTable) -> bool {
        self.credit > 0 && links.has_room(self.link, self.lane)
    }

    /// Returns a message as far as the credit goes, and what is left of it. (Where memory is scarce, nothing is sent that was not granted.)
    fn within_credit(&self, message: Buffer) -> (Buffer, Option<Buffer>) {
        match usize::try_from(self.credit) {
            Ok(credit) if credit < message.len() - DATA_HEAD => {
                let (message, rest) = link_frame::split(&message, self.stream, credit);
                (message, Some(rest))
            }
            _ => (message, None),
        }
    }

    /// Sends data that the credit covers; returns how many bytes of the stream it is.
    fn send(&mut self, message: Buffer, links: &mut LinkTable) -> io::Result<usize> {
        let bytes = message.len() - DATA_HEAD;
        self.credit -= bytes as u64;
        let link = links.get_mut(self.link).ok_or(io::ErrorKind::NotConnected)?;
        link.put_data(self.lane, message, self.is_protected)?;
        Ok(bytes)
    }

    /// Grants the next relay credit.
    fn grant(&self, bytes: u64, links: &mut LinkTable) {
        if bytes > 0 {
            links.send(self.link, &LinkMessage::Credit { stream: self.stream, bytes });
        }
    }
}

/// An end of a stream.
pub enum End {
    /// A process of this site.
    Process(ProcessEnd),
    /// The next relay on its way.
    Link(LinkEnd),
}

impl End {
    /// Returns an end that is a process, which is watched for input.
    pub fn process(token: Token, wire: NonblockingTcp) -> End {
        End::Process(ProcessEnd { token, wire, interest: Some(Interest::READ), has_hung_up: false })
    }

    /// Returns an end that is a relay.
    pub fn link(link: Token, stream: StreamId, traffic: TrafficKind) -> End {
        let lane = match traffic.class {
            Some(TrafficClass::Control) => Lane::Control,
            Some(TrafficClass::Bulk) | None => Lane::Bulk,
        };
        let (credit, window) = (window::FIRST, Window::new(Instant::now()));
        End::Link(LinkEnd { link, stream, lane, is_protected: traffic.is_protected, credit, window })
    }

    /// Returns whether it takes more.
    fn has_room(&self, links: &mut LinkTable) -> bool {
        match self {
            End::Process(_) => true,
            End::Link(end) => end.has_room(links),
        }
    }

    /// Returns a buffer that begins with the message that the stream is open, where that is sent in the stream itself.
    fn greeting(&self) -> StreamBuffer {
        match self {
            End::Process(_) => StreamBuffer::beginning_with(frame(&FromRelay::Opened {})),
            End::Link(_) => StreamBuffer::default(),
        }
    }
}

/// A stream between two ends. Buffer `i` leads from end `i` to the other one.
pub struct RelayedStream {
    id: u64,
    run: String,
    ends: [End; 2],
    buffers: [StreamBuffer; 2],
}

impl RelayedStream {
    /// Joins two ends to a stream.
    pub fn new(id: u64, run: &str, ends: [End; 2]) -> RelayedStream {
        let buffers = [ends[1].greeting(), ends[0].greeting()];
        RelayedStream { id, run: run.to_owned(), ends, buffers }
    }

    /// Returns its run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Returns its ends.
    pub fn ends(&self) -> &[End; 2] {
        &self.ends
    }

    /// Returns the bytes that have passed, both ways together.
    pub fn passed(&self) -> u64 {
        self.buffers.iter().map(StreamBuffer::passed).sum()
    }

    /// Returns the bytes that wait.
    pub fn held(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.waiting() as u64).sum()
    }

    /// Returns whether neither of its ends is a process of this site.
    pub fn is_passing(&self) -> bool {
        self.ends.iter().all(|end| matches!(end, End::Link(_)))
    }

    /// Serves an end that is a process and ready.
    ///
    /// # Errors
    /// The stream is broken.
    pub fn serve(
        &mut self,
        side: usize,
        event: Ready,
        links: &mut LinkTable,
        input: &mut ReadBuffer,
    ) -> io::Result<()> {
        let End::Process(end) = &mut self.ends[side] else { return Ok(()) };
        let Some(interest) = end.interest else { return Ok(()) };
        if event.hung_up && !interest.read && !interest.write {
            // An end in order, of both directions, is no reset: what came before it is read when there is room for it.
            end.has_hung_up = true;
            return end.wire.broken();
        }
        if event.writable && interest.write {
            self.write(side, links)?;
        }
        if event.readable && interest.read {
            self.read(side, links, input)?;
        }
        Ok(())
    }

    /// Sends an end what waits for it, as far as it takes that.
    ///
    /// # Errors
    /// The stream is broken.
    pub fn write(&mut self, side: usize, links: &mut LinkTable) -> io::Result<()> {
        let buffer = &mut self.buffers[1 - side];
        let count = match &mut self.ends[side] {
            End::Process(end) => buffer.drain(|parts| end.wire.write(parts))?,
            End::Link(end) if !links.contains(end.link) => return Err(io::ErrorKind::NotConnected.into()),
            End::Link(end) => {
                let mut count = 0;
                while end.has_room(links) {
                    let Some(message) = buffer.take_whole() else { break };
                    let (message, rest) = end.within_credit(message);
                    rest.into_iter().for_each(|rest| buffer.put_back(rest));
                    count += end.send(message, links)?;
                }
                count
            }
        };
        self.credit_source(1 - side, count, links);
        Ok(())
    }

    /// Reads from an end that is a process, and forwards what has arrived.
    fn read(&mut self, side: usize, links: &mut LinkTable, input: &mut ReadBuffer) -> io::Result<()> {
        let [first, second] = &mut self.ends;
        let (from, to) = if side == 0 { (first, second) } else { (second, first) };
        let End::Process(from) = from else { return Ok(()) };
        let buffer = &mut self.buffers[side];
        for _ in 0..READS_IN_A_ROW {
            if buffer.waiting() > 0 || !to.has_room(links) {
                return Ok(());
            }
            let most = match to {
                End::Process(_) => READ,
                End::Link(end) => READ.min(usize::try_from(end.credit).unwrap_or(READ)),
            };
            let count = match input.read(most, |into| from.wire.read(into)) {
                Ok(0) => {
                    buffer.end();
                    return Ok(());
                }
                Ok(count) => count,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                },
            };
            match to {
                End::Process(end) => buffer.pass(input.bytes(), |parts| end.wire.write(parts))?,
                End::Link(end) => {
                    buffer.pass_whole(Buffer::empty(), count, false);
                    end.send(input.frame(end.stream)?, links)?;
                }
            }
            if count < most {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Forwards data that has arrived by a link; `message` is the whole frame.
    ///
    /// # Errors
    /// The stream is broken.
    pub fn on_data(&mut self, side: usize, message: Buffer, links: &mut LinkTable) -> io::Result<()> {
        let bytes = message.len() - DATA_HEAD;
        let buffer = &mut self.buffers[side];
        let goes_on = buffer.waiting() == 0 && self.ends[1 - side].has_room(links);
        if let End::Link(from) = &mut self.ends[side] {
            if buffer.has_ended() || !from.window.came(bytes as u64) {
                return Err(io::Error::other("the other relay sends more than it may"));
            }
        }
        let out = match &mut self.ends[1 - side] {
            End::Process(end) => {
                let data = message.slice(DATA_HEAD..message.len());
                buffer.pass_buffer(data, |parts| end.wire.write(parts))?
            }
            End::Link(end) if goes_on => {
                let (message, rest) = end.within_credit(message);
                let out = message.len() - DATA_HEAD;
                buffer.pass_whole(Buffer::empty(), out, false);
                rest.into_iter().for_each(|rest| buffer.pass_whole(rest, bytes - out, true));
                end.send(message, links)?
            }
            End::Link(_) => {
                buffer.pass_whole(message, bytes, true);
                0
            }
        };
        self.credit_source(side, out, links);
        Ok(())
    }

    /// So many bytes that came from an end are out: if it is a relay, that is worth credit.
    fn credit_source(&mut self, side: usize, bytes: usize, links: &mut LinkTable) {
        let End::Link(end) = &mut self.ends[side] else { return };
        let round_trip = links.round_trip(end.link);
        let budget = (&mut links.budget, self.run.as_str());
        let credit = end.window.passed_on(bytes as u64, round_trip, budget, Instant::now());
        end.grant(credit, links);
    }

    /// Lets the ends that are relays send as much as is usual, as far as there is memory: the stream is open on its whole way.
    pub fn widen(&mut self, links: &mut LinkTable) {
        for end in &mut self.ends {
            if let End::Link(end) = end {
                let credit = end.window.widen(&mut links.budget, &self.run);
                end.grant(credit, links);
            }
        }
    }

    /// Notes that an end sends nothing more.
    pub fn finish(&mut self, side: usize) {
        self.buffers[side].end();
    }

    /// Notes that the relay at an end takes so many bytes more.
    pub fn add_credit(&mut self, side: usize, bytes: u64) {
        if let End::Link(end) = &mut self.ends[side] {
            end.credit = end.credit.saturating_add(bytes).min(2 * window::MOST);
        }
    }

    /// After something was done with the stream: passes on ends, and watches what must be watched now. Returns whether the stream is over.
    pub fn settle(&mut self, links: &mut LinkTable, poller: &Poller) -> bool {
        for side in [0, 1] {
            if self.buffers[side].must_tell_end() {
                match &self.ends[1 - side] {
                    End::Process(end) => end.wire.finish(),
                    End::Link(end) => {
                        if let Some(link) = links.get_mut(end.link) {
                            // If it fails, so does the link, which breaks all of its streams.
                            let _ = link.put(end.lane, link_frame::finish(end.stream));
                        }
                    }
                }
            }
        }
        if self.buffers.iter().all(StreamBuffer::is_over) {
            return true;
        }
        let has_room = [0, 1].map(|side| self.ends[side].has_room(links));
        for side in [0, 1] {
            let (out, back) = (&self.buffers[side], &self.buffers[1 - side]);
            let read = !out.has_ended() && out.waiting() == 0 && has_room[1 - side];
            match &mut self.ends[side] {
                End::Process(end) => {
                    // Both of its directions are done with: what the kernel says about it is no news any more.
                    let is_news = !out.has_ended() || !back.is_over();
                    // The kernel would say again and again that it has hung up.
                    let is_watched = is_news && (read || !end.has_hung_up);
                    let wanted = Interest { read, write: back.waiting() > 0, close: false };
                    end.watch(is_watched.then_some(wanted), poller);
                }
                End::Link(end) => {
                    // Also where there is room again already, which threads of the link may have made since it was looked at.
                    if !has_room[side] || back.waiting() > 0 {
                        if let Some(link) = links.get_mut(end.link) {
                            link.block(EndId { stream: self.id, side });
                        }
                    }
                }
            }
        }
        false
    }

    /// Breaks the stream at its ends, except for the one that knows already.
    pub fn abort(&self, knows: Option<usize>, links: &mut LinkTable) {
        for (side, end) in self.ends.iter().enumerate() {
            match end {
                End::Process(end) => end.wire.abort(),
                End::Link(end) if knows != Some(side) => {
                    links.send(end.link, &LinkMessage::Reset { stream: end.stream });
                }
                End::Link(_) => {}
            }
        }
    }

    /// Releases what the stream has of the links, at its end.
    pub fn release(&self, links: &mut LinkTable) {
        for (side, end) in self.ends.iter().enumerate() {
            if let End::Link(end) = end {
                links.budget.give_back(&self.run, end.window.growth());
                if let Some(link) = links.get_mut(end.link) {
                    link.unblock(EndId { stream: self.id, side });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use crate::relay::testing::tcp;
    use crate::waiting::await_that;

    /// A stream between two processes, these, and what it needs.
    struct Between {
        stream: RelayedStream,
        peers: [TcpStream; 2],
        links: LinkTable,
        poller: std::sync::Arc<Poller>,
        input: ReadBuffer,
    }

    impl Between {
        fn new() -> Between {
            let poller = Poller::new().unwrap();
            let (ends, peers): (Vec<_>, Vec<_>) = [tcp(), tcp()]
                .into_iter()
                .map(|(wire, peer)| {
                    let token = poller.watch(wire.fd()).unwrap();
                    (End::process(token, wire), peer)
                })
                .unzip();
            let stream = RelayedStream::new(1, "canal", ends.try_into().ok().unwrap());
            let links = LinkTable::new(&poller);
            let mut between =
                Between { stream, peers: peers.try_into().unwrap(), links, poller, input: ReadBuffer::default() };
            let opened = frame(&FromRelay::Opened {});
            for side in [0, 1] {
                between.stream.write(side, &mut between.links).unwrap();
                let mut greeting = vec![0; opened.len()];
                between.peers[side].read_exact(&mut greeting).unwrap();
                assert_eq!(greeting, opened);
            }
            between
        }

        /// Serves what is ready; returns whether the stream is over.
        fn turn(&mut self) -> io::Result<bool> {
            let mut ready = Vec::new();
            self.poller.wait(&mut ready, Some(Instant::now() + Duration::from_millis(100)))?;
            for event in ready {
                let End::Process(first) = &self.stream.ends()[0] else { unreachable!() };
                let side = usize::from(first.token() != event.token);
                self.stream.serve(side, event, &mut self.links, &mut self.input)?;
            }
            Ok(self.stream.settle(&mut self.links, &self.poller))
        }
    }

    #[test]
    fn bytes_pass_from_each_end_to_the_other() {
        let mut between = Between::new();
        for side in [0, 1] {
            between.peers[side].write_all(b"hello").unwrap();
            between.turn().unwrap();
            let mut bytes = [0; 5];
            between.peers[1 - side].read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"hello");
        }
        assert_eq!((between.stream.passed(), between.stream.held()), (10, 0));
    }

    #[test]
    fn nothing_more_is_read_while_the_other_end_takes_nothing() {
        let mut between = Between::new();
        between.peers[0].set_nonblocking(true).unwrap();
        let mut written = 0;
        await_that("bytes wait, and the sender is not read", || {
            written += between.peers[0].write(&[7; 1 << 20]).unwrap_or(0);
            between.turn().unwrap();
            let End::Process(sender) = &between.stream.ends[0] else { return false };
            between.stream.held() > 0 && sender.interest.is_some_and(|interest| !interest.read)
        });
        assert!(between.stream.held() <= READ as u64, "{} wait", between.stream.held());
        let mut taken = 0;
        while taken < written {
            let _ = between.turn().unwrap();
            between.peers[1].set_nonblocking(true).unwrap();
            taken += between.peers[1].read(&mut vec![0; 1 << 20]).unwrap_or(0);
        }
        assert_eq!(between.stream.held(), 0);
    }

    #[test]
    fn a_stream_is_over_when_both_of_its_directions_have_ended() {
        let mut between = Between::new();
        between.peers[0].write_all(b"last").unwrap();
        between.peers[0].shutdown(std::net::Shutdown::Write).unwrap();
        let mut all = Vec::new();
        await_that("the first end is passed on", || {
            assert!(!between.turn().unwrap());
            between.stream.buffers[0].is_over()
        });
        between.peers[1].read_to_end(&mut all).unwrap();
        assert_eq!(all, b"last");
        between.peers[1].shutdown(std::net::Shutdown::Write).unwrap();
        await_that("the stream is over", || between.turn().unwrap());
    }

    #[test]
    fn a_stream_that_is_broken_breaks_at_the_other_end() {
        let Between { stream, peers: [mut peer, _other], mut links, .. } = Between::new();
        stream.abort(None, &mut links);
        drop(stream);
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_link_end_sends_no_more_than_its_credit() {
        let End::Link(mut end) = End::link(7, 9, TrafficKind::default()) else { unreachable!() };
        end.credit = 3;
        let (now, rest) = end.within_credit(link_frame::data(9, b"abcde").into());
        assert_eq!((&now[DATA_HEAD..], &rest.unwrap()[DATA_HEAD..]), (&b"abc"[..], &b"de"[..]));
        end.credit = 5;
        assert!(end.within_credit(link_frame::data(9, b"abcde").into()).1.is_none());
    }

    #[test]
    fn data_beyond_what_was_granted_breaks_the_stream() {
        let (wire, _peer) = tcp();
        let mut links = LinkTable::new(&Poller::new().unwrap());
        let ends = [End::link(7, 9, TrafficKind::default()), End::process(1, wire)];
        let mut stream = RelayedStream::new(1, "canal", ends);
        let most = window::FIRST as usize;
        stream.on_data(0, link_frame::data(9, &vec![0; most]).into(), &mut links).unwrap();
        let error = stream.on_data(0, link_frame::data(9, &vec![0; 100 * most]).into(), &mut links).unwrap_err();
        assert!(error.to_string().contains("more than it may"), "{error}");
    }
}
