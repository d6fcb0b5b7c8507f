//! The streams that are open, and the ends by which they are found.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use xmml_wire::buffer::Buffer;
use xmml_wire::wakeup::Ready;

use super::relayed_stream::{End, RelayedStream};
use crate::link_frame::StreamId;
use crate::log::{Level, Log};
use crate::read_buffer::ReadBuffer;
use crate::registry::Token;
use crate::relay::links::{EndId, LinkTable};
use crate::relay::poller::Poller;
use crate::status::RunStatus;

/// What has passed for a run.
#[derive(Debug, Default)]
struct Traffic {
    /// Streams between two other relays.
    passing: usize,
    /// Streams opened so far.
    opened: u64,
    /// Bytes of streams that are over.
    passed: u64,
}

/// All open streams, by number, by the connections of processes, and by their numbers on links.
pub struct OpenStreams {
    poller: Arc<Poller>,
    streams: HashMap<u64, RelayedStream>,
    last: u64,
    process_ends: HashMap<Token, EndId>,
    link_ends: HashMap<(Token, StreamId), EndId>,
    traffic: BTreeMap<String, Traffic>,
    /// Where what processes send is read to.
    input: ReadBuffer,
}

impl OpenStreams {
    /// Returns the streams of a relay, none yet.
    pub fn new(poller: &Arc<Poller>) -> OpenStreams {
        OpenStreams {
            poller: poller.clone(),
            streams: HashMap::new(),
            last: 0,
            process_ends: HashMap::new(),
            link_ends: HashMap::new(),
            traffic: BTreeMap::new(),
            input: ReadBuffer::default(),
        }
    }

    /// Counts the streams of a run from now on.
    pub fn add_run(&mut self, run: &str) {
        self.traffic.entry(run.to_owned()).or_default();
    }

    /// Breaks all streams of a run, and forgets what has passed.
    pub fn remove_run(&mut self, run: &str, links: &mut LinkTable) {
        let of_run = self.streams.iter().filter(|(_, stream)| stream.run() == run);
        let streams: Vec<u64> = of_run.map(|(id, _)| *id).collect();
        streams.into_iter().for_each(|stream| self.abort(stream, None, links));
        self.traffic.remove(run);
    }

    /// Returns whether the token is that of an end.
    pub fn owns(&self, token: Token) -> bool {
        self.process_ends.contains_key(&token)
    }

    /// Returns the end that has this number on a link.
    pub fn find(&self, link: Token, stream: StreamId) -> Option<EndId> {
        self.link_ends.get(&(link, stream)).copied()
    }

    /// Returns the link, and the number on it, at the other end of a stream, if that is a relay.
    pub fn opposite(&self, end: EndId) -> Option<(Token, StreamId)> {
        match &self.streams.get(&end.stream)?.ends()[1 - end.side] {
            End::Process(_) => None,
            End::Link(end) => Some(end.on_link()),
        }
    }

    /// Returns the numbers of all streams on a link.
    pub fn on_link(&self, link: Token) -> Vec<StreamId> {
        self.link_ends.keys().filter(|(other, _)| *other == link).map(|(_, stream)| *stream).collect()
    }

    /// Returns how many streams of a run are between two other relays; `None`: there is no such run.
    pub fn passing(&self, run: &str) -> Option<usize> {
        self.traffic.get(run).map(|traffic| traffic.passing)
    }

    /// Joins two ends to a stream, and notifies those that it is open that do not know. Returns the stream.
    pub fn join(&mut self, run: &str, ends: [End; 2], links: &mut LinkTable, log: &mut Log) -> u64 {
        self.last += 1;
        let id = self.last;
        for (side, end) in ends.iter().enumerate() {
            let end_id = EndId { stream: id, side };
            match end {
                End::Process(end) => {
                    self.process_ends.insert(end.token(), end_id);
                    end.begin(&self.poller);
                }
                End::Link(end) => drop(self.link_ends.insert(end.on_link(), end_id)),
            }
        }
        let stream = RelayedStream::new(id, run, ends);
        if let Some(traffic) = self.traffic.get_mut(run) {
            traffic.opened += 1;
            traffic.passing += usize::from(stream.is_passing());
        }
        self.streams.insert(id, stream);
        log.event(Level::Debug, "stream opened", &[("run", run)]);
        self.with(id, links, log, |stream, links, _| (0..2).try_for_each(|side| stream.write(side, links)));
        id
    }

    /// Serves the end whose connection is ready.
    pub fn serve(&mut self, event: Ready, links: &mut LinkTable, log: &mut Log) {
        if let Some(end) = self.process_ends.get(&event.token).copied() {
            self.with(end.stream, links, log, |stream, links, input| stream.serve(end.side, event, links, input));
        }
    }

    /// Forwards data that has arrived by a link; `message` is the whole frame.
    pub fn on_data(&mut self, end: EndId, message: Buffer, links: &mut LinkTable, log: &mut Log) {
        self.with(end.stream, links, log, |stream, links, _| stream.on_data(end.side, message, links));
    }

    /// The relay at an end sends nothing more.
    pub fn on_finish(&mut self, end: EndId, links: &mut LinkTable, log: &mut Log) {
        self.with(end.stream, links, log, |stream, _, _| {
            stream.finish(end.side);
            Ok(())
        });
    }

    /// The relay at an end takes so many bytes more.
    pub fn on_credit(&mut self, end: EndId, bytes: u64, links: &mut LinkTable, log: &mut Log) {
        self.with(end.stream, links, log, |stream, links, _| {
            stream.add_credit(end.side, bytes);
            stream.write(end.side, links)
        });
    }

    /// Goes on with an end whose link takes more now.
    pub fn resume(&mut self, end: EndId, links: &mut LinkTable, log: &mut Log) {
        self.with(end.stream, links, log, |stream, links, _| stream.write(end.side, links));
    }

    /// A stream is open on its whole way: lets relays at its ends send as much as is usual.
    pub fn widen(&mut self, stream: u64, links: &mut LinkTable) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.widen(links);
        }
    }

    /// Does something with a stream, and what follows from it; if it fails, the stream breaks.
    fn with(
        &mut self,
        id: u64,
        links: &mut LinkTable,
        log: &mut Log,
        act: impl FnOnce(&mut RelayedStream, &mut LinkTable, &mut ReadBuffer) -> io::Result<()>,
    ) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        match act(stream, links, &mut self.input) {
            Ok(()) if stream.settle(links, &self.poller) => self.close(id, links),
            Ok(()) => {}
            Err(error) => {
                let facts = [("run", stream.run()), ("reason", &error.to_string())];
                log.event(Level::Debug, "stream broke", &facts);
                self.abort(id, None, links);
            }
        }
    }

    /// Breaks a stream at its ends, except for the one that knows already.
    pub fn abort(&mut self, stream: u64, knows: Option<usize>, links: &mut LinkTable) {
        if let Some(broken) = self.streams.get(&stream) {
            broken.abort(knows, links);
            self.close(stream, links);
        }
    }

    /// Closes a stream, of which its ends have been notified.
    pub fn close(&mut self, stream: u64, links: &mut LinkTable) {
        let Some(stream) = self.streams.remove(&stream) else { return };
        stream.release(links);
        for end in stream.ends() {
            match end {
                End::Process(end) => drop(self.process_ends.remove(&end.token())),
                End::Link(end) => drop(self.link_ends.remove(&end.on_link())),
            }
        }
        if let Some(traffic) = self.traffic.get_mut(stream.run()) {
            traffic.passed += stream.passed();
            traffic.passing -= usize::from(stream.is_passing());
        }
    }

    /// Returns the runs of which streams are open.
    pub fn runs(&self) -> impl Iterator<Item = &str> {
        self.streams.values().map(RelayedStream::run)
    }

    /// Adds the figures of a run to its state.
    pub fn report(&self, run: &str, status: &mut RunStatus) {
        if let Some(traffic) = self.traffic.get(run) {
            status.opened = traffic.opened;
            status.bytes = traffic.passed;
        }
        for stream in self.streams.values().filter(|stream| stream.run() == run) {
            status.streams += 1;
            status.bytes += stream.passed();
            status.held_bytes += stream.held();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};
    use std::time::Instant;

    use xmml_path::{Lane, Path};
    use xmml_wire::methods::{Stream, TrafficKind};

    use super::*;
    use crate::link_frame::{self, LinkFrame, LinkMessage};
    use crate::relay::links::tests::link;
    use crate::relay::testing::{memory_log, next_answer, next_frame, next_message, tcp};
    use crate::waiting::await_that;

    /// Streams of the run `canal`, and what they need.
    struct Relay {
        streams: OpenStreams,
        links: LinkTable,
        log: Log,
    }

    impl Relay {
        fn new() -> Relay {
            let poller = Poller::new().unwrap();
            let mut streams = OpenStreams::new(&poller);
            streams.add_run("canal");
            Relay { streams, links: LinkTable::new(&poller), log: memory_log() }
        }

        /// Returns an end that is a process, and that process.
        fn process(&self) -> (End, TcpStream) {
            let (wire, peer) = tcp();
            (End::process(self.streams.poller.watch(wire.fd()).unwrap(), wire), peer)
        }

        /// Returns an end that is the stream of this number on a new link, that link, and the path of the relay there.
        fn relay(&mut self, number: StreamId) -> (End, Token, Path) {
            let (link, path) = link(&mut self.links);
            (End::link(link, number, TrafficKind::default()), link, path)
        }

        fn join(&mut self, ends: [End; 2]) -> u64 {
            self.streams.join("canal", ends, &mut self.links, &mut self.log)
        }

        /// Serves what is ready, and has it leave.
        fn turn(&mut self) {
            let mut ready = Vec::new();
            self.streams.poller.wait(&mut ready, Some(Instant::now())).unwrap();
            ready.into_iter().for_each(|event| self.streams.serve(event, &mut self.links, &mut self.log));
            self.links.flush();
        }

        fn status(&self) -> RunStatus {
            let mut status = RunStatus::default();
            self.streams.report("canal", &mut status);
            status
        }
    }

    #[test]
    fn bytes_of_a_process_arrive_at_the_next_relay_under_the_number_of_the_stream() {
        let mut relay = Relay::new();
        let ((end, mut process), (on_link, link, path)) = (relay.process(), relay.relay(9));
        relay.join([end, on_link]);
        assert!(relay.streams.find(link, 9).is_some());
        process.write_all(b"hello").unwrap();
        await_that("bytes pass", || {
            relay.turn();
            relay.status().bytes == 5
        });
        relay.links.flush();
        assert_eq!(next_frame(&path, Lane::Bulk), LinkFrame::Data(9, link_frame::data(9, b"hello").into()));
    }

    #[test]
    fn data_and_the_end_of_a_relay_arrive_at_the_process() {
        let mut relay = Relay::new();
        let ((end, mut process), (on_link, link, _path)) = (relay.process(), relay.relay(9));
        relay.join([on_link, end]);
        let end = relay.streams.find(link, 9).unwrap();
        relay.streams.on_data(end, link_frame::data(9, b"hello").into(), &mut relay.links, &mut relay.log);
        relay.streams.on_finish(end, &mut relay.links, &mut relay.log);
        assert!(matches!(next_answer(&process), xmml_wire::methods::relay::protocol::FromRelay::Opened {}));
        let mut all = Vec::new();
        process.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"hello");
    }

    #[test]
    fn a_relay_without_credit_gets_more_when_it_grants_some() {
        let mut relay = Relay::new();
        let ((end, mut process), (on_link, link, path)) = (relay.process(), relay.relay(9));
        relay.join([end, on_link]);
        let first = crate::window::FIRST;
        process.write_all(&vec![7; first as usize + 3]).unwrap();
        await_that("the credit is used up", || {
            relay.turn();
            relay.status().bytes == first
        });
        let end = relay.streams.find(link, 9).unwrap();
        relay.streams.on_credit(end, 3, &mut relay.links, &mut relay.log);
        await_that("the rest passes", || {
            relay.turn();
            relay.status().bytes == first + 3
        });
        let mut arrived = 0;
        while arrived < first + 3 {
            let LinkFrame::Data(9, frame) = next_frame(&path, Lane::Bulk) else { panic!("no data") };
            arrived += (frame.len() - link_frame::DATA_HEAD) as u64;
        }
    }

    #[test]
    fn a_stream_that_is_over_is_counted_and_not_found_any_more() {
        let mut relay = Relay::new();
        let ((a, mut first), (b, second)) = (relay.process(), relay.process());
        relay.join([a, b]);
        let token = *relay.streams.process_ends.keys().next().unwrap();
        assert_eq!((relay.status().streams, relay.status().opened), (1, 1));
        first.write_all(b"hello").unwrap();
        [&first, &second].iter().for_each(|peer| peer.shutdown(Shutdown::Write).unwrap());
        await_that("the stream is over", || {
            relay.turn();
            relay.status().streams == 0
        });
        assert!(!relay.streams.owns(token));
        assert_eq!((relay.status().opened, relay.status().bytes), (1, 5));
    }

    #[test]
    fn a_stream_between_two_relays_counts_as_passing_until_it_is_closed() {
        let mut relay = Relay::new();
        let ((a, first, _path), (b, second, _other)) = (relay.relay(9), relay.relay(9));
        let stream = relay.join([a, b]);
        assert_eq!(relay.streams.passing("canal"), Some(1));
        let end = relay.streams.find(first, 9).unwrap();
        assert_eq!(relay.streams.opposite(end), Some((second, 9)));
        assert_eq!((relay.streams.on_link(first), relay.streams.on_link(second)), (vec![9], vec![9]));
        relay.streams.close(stream, &mut relay.links);
        assert_eq!(relay.streams.passing("canal"), Some(0));
        assert!(relay.streams.find(first, 9).is_none() && relay.streams.find(second, 9).is_none());
        assert_eq!(relay.streams.passing("river"), None);
    }

    #[test]
    fn a_relay_is_notified_of_a_broken_stream_unless_it_knows() {
        let mut relay = Relay::new();
        let ((a, _, knows), (b, _, path)) = (relay.relay(9), relay.relay(9));
        let stream = relay.join([a, b]);
        relay.streams.abort(stream, Some(0), &mut relay.links);
        relay.links.flush();
        assert_eq!(next_message(&path), LinkMessage::Reset { stream: 9 });
        assert!(knows.take(Lane::Control).is_none());
    }

    #[test]
    fn streams_of_a_run_break_when_it_is_removed() {
        let mut relay = Relay::new();
        let ((end, mut process), (on_link, _, path)) = (relay.process(), relay.relay(9));
        relay.join([end, on_link]);
        assert_eq!(relay.streams.runs().collect::<Vec<_>>(), ["canal"]);
        relay.streams.remove_run("canal", &mut relay.links);
        relay.links.flush();
        assert_eq!(next_message(&path), LinkMessage::Reset { stream: 9 });
        let broken = process.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(relay.status(), RunStatus::default());
    }
}
