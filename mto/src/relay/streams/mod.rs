//! Streams between processes of this site and processes here or at other sites: names are registered, streams to them are asked for, taken,
//! and open until both of their directions have ended.

mod open_streams;
mod registrations;
mod relayed_stream;
mod requests;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::buffer::Buffer;
use xmml_wire::frame::encode_control;
use xmml_wire::message_pack;
use xmml_wire::methods::relay::asking::write_out;
use xmml_wire::methods::relay::protocol::{FromRelay, ToRelay};
use xmml_wire::methods::TrafficKind;
use xmml_wire::wakeup::Ready;

use super::links::{random_number, EndId, Link, Links};
use super::poller::Poller;
use crate::link_frame::{LinkMessage, StreamId};
use crate::log::{Level, Log};
use crate::nonblocking_tcp::NonblockingTcp;
use crate::registry::Token;
use crate::routes::HOPS_MAX;
use crate::status::RunStatus;

use open_streams::OpenStreams;
use registrations::Registrations;
use relayed_stream::End;
use requests::{Awaited, Request, Requests, TAKEN_WITHIN};

/// Streams of a run between two other relays, at most: they take no descriptor, which would bound them.
pub const PASSING_MAX: usize = 16_384;

/// Who opens a stream to whom, and what for.
#[derive(Clone, Debug)]
pub struct Parties {
    /// The name that it is to.
    pub to: String,
    /// The site where it begins.
    pub from_site: String,
    /// The name that opens it.
    pub from: String,
    /// What it is for.
    pub traffic: TrafficKind,
}

impl Parties {
    /// Returns the message that asks the first relay of a route for this stream.
    fn open(self, stream: StreamId, route: Vec<String>) -> LinkMessage {
        let Parties { to: name, from_site, from, traffic } = self;
        LinkMessage::Open { stream, route, name, from_site, from, traffic }
    }
}

/// Returns the bytes of an answer to a process.
fn frame(answer: &FromRelay) -> Vec<u8> {
    encode_control(&message_pack::encode(answer))
}

/// Sends a process the reason why not, as far as it listens; its connection ends.
fn refuse(wire: &NonblockingTcp, reason: String) {
    let _ = write_out(&mut frame(&FromRelay::Refused { reason }), wire);
    wire.finish();
}

/// All streams of a relay, and the processes of its site that open and take them.
pub struct Streams {
    poller: Arc<Poller>,
    site: String,
    registrations: Registrations,
    requests: Requests,
    open: OpenStreams,
    /// The number that the last stream has which began here.
    last_number: StreamId,
}

impl Streams {
    /// Returns the streams of a relay of this site, none yet.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new(site: &str, poller: &Arc<Poller>) -> io::Result<Streams> {
        Ok(Streams {
            poller: poller.clone(),
            site: site.to_owned(),
            registrations: Registrations::new(site, poller),
            requests: Requests::default(),
            open: OpenStreams::new(poller),
            last_number: random_number()?,
        })
    }

    /// Carries streams of a run from now on.
    pub fn add_run(&mut self, run: &str) {
        self.registrations.add_run(run);
        self.open.add_run(run);
    }

    /// Breaks the open streams of a run.
    pub fn abort_run(&mut self, run: &str, links: &mut Links) {
        self.open.remove_run(run, &mut links.table);
    }

    /// Closes the connections of all processes of a run, whose streams and links have ended.
    pub fn remove_run(&mut self, run: &str) {
        self.registrations.remove_run(run);
        self.requests.remove_run(run);
    }

    /// Returns whether the token is that of a process.
    pub fn owns(&self, token: Token) -> bool {
        self.open.owns(token) || self.registrations.owns(token) || self.requests.owns(token)
    }

    /// Serves a process whose connection is ready.
    pub fn serve(&mut self, event: Ready, links: &mut Links, log: &mut Log) {
        if self.open.owns(event.token) {
            self.open.serve(event, &mut links.table, log);
        } else if self.registrations.owns(event.token) {
            self.registrations.serve(event.token, log);
        } else if let Some(request) = self.requests.remove(event.token) {
            // A process that waits for its stream has sent something or left: it does not want the stream any more.
            self.cancel(&request, links);
        }
    }

    /// Does what a process asks for, whose connection becomes what it asks for.
    pub fn request(
        &mut self,
        token: Token,
        wire: NonblockingTcp,
        (run, name): (String, String),
        request: ToRelay,
        links: &mut Links,
        log: &mut Log,
    ) {
        match request {
            ToRelay::Register { site, silence_ms } => {
                let time_out = Duration::from_millis(silence_ms);
                self.registrations.register(token, wire, (run, name, &site), time_out, log);
            }
            ToRelay::Open { site, name: to, traffic } => {
                let parties = Parties { to, from_site: self.site.clone(), from: name, traffic };
                let asked = match site == self.site {
                    true => self.registrations.offer(&run, &parties, token, log).map(Awaited::Taker),
                    false => self.ask_relay(&run, &site, parties, links),
                };
                match asked {
                    Ok(awaited) => self.requests.add(token, Request::Local { wire, run, awaited }, Instant::now()),
                    Err(reason) => refuse(&wire, reason),
                }
            }
            ToRelay::Take { ticket } => match self.registrations.take(&run, &name, ticket) {
                Ok(opener) => self.take(opener, End::process(token, wire), links, log),
                Err(reason) => refuse(&wire, reason),
            },
        }
    }

    /// Asks the next relay on the route to a site for a stream.
    fn ask_relay(&mut self, run: &str, site: &str, parties: Parties, links: &mut Links) -> Result<Awaited, String> {
        let (link, route) = links.route(run, site)?;
        self.last_number = self.last_number.wrapping_add(1).max(1);
        let (stream, traffic) = (self.last_number, parties.traffic);
        links.table.send(link, &parties.open(stream, route));
        Ok(Awaited::Remote { link, stream, traffic })
    }

    /// Opens the stream of a request, which a process takes.
    fn take(&mut self, opener: Token, taker: End, links: &mut Links, log: &mut Log) {
        match self.requests.remove(opener) {
            Some(Request::Local { wire, run, .. }) => {
                self.open.join(&run, [End::process(opener, wire), taker], &mut links.table, log);
            }
            Some(Request::Remote { run, link, stream, traffic, .. }) => {
                links.table.send(link, &LinkMessage::Opened { stream });
                let ends = [End::link(link, stream, traffic), taker];
                let joined = self.open.join(&run, ends, &mut links.table, log);
                self.open.widen(joined, &mut links.table);
            }
            None => {}
        }
    }

    /// Cancels what a request waits for, which has been removed; returns who has not answered it, for people.
    fn cancel(&mut self, request: &Request, links: &mut Links) -> String {
        match request {
            Request::Local { run, awaited: Awaited::Taker(ticket), .. } | Request::Remote { run, ticket, .. } => {
                self.registrations.cancel_offer(run, *ticket).unwrap_or_else(|| "nobody".to_owned())
            }
            Request::Local { awaited: Awaited::Remote { link, stream, .. }, .. } => {
                links.table.send(*link, &LinkMessage::Reset { stream: *stream });
                "the other site".to_owned()
            }
        }
    }

    /// Refuses a request that has timed out.
    fn time_out(&mut self, request: Request, links: &mut Links) {
        let name = self.cancel(&request, links);
        let reason = format!("{name} did not take the stream within {} s", TAKEN_WITHIN.as_secs());
        match request {
            Request::Local { wire, .. } => refuse(&wire, reason),
            Request::Remote { link, stream, .. } => links.table.send(link, &LinkMessage::Refused { stream, reason }),
        }
    }

    /// A relay asks for a stream to a name here, or at a site further on its route, which begins with this site.
    ///
    /// # Errors
    /// The route is impossible: the link must be closed.
    pub fn on_open(
        &mut self,
        link: Token,
        stream: StreamId,
        route: &[String],
        parties: Parties,
        links: &mut Links,
        log: &mut Log,
    ) -> Result<(), String> {
        if route.len() > HOPS_MAX || route.first() != Some(&self.site) {
            return Err(format!("it opens a stream with an impossible route: {route:?}"));
        }
        let done = match &route[1..] {
            _ if self.is_known(link, stream) => Err("there is a stream with this number".to_owned()),
            [] => self.offer(link, stream, parties, links, log),
            onward => self.forward(link, stream, onward, parties, links, log),
        };
        if let Err(reason) = done {
            links.table.send(link, &LinkMessage::Refused { stream, reason });
        }
        Ok(())
    }

    /// Returns whether a stream has this number on a link.
    fn is_known(&self, link: Token, stream: StreamId) -> bool {
        self.open.find(link, stream).is_some() || self.requests.find(link, stream).is_some()
    }

    /// Offers a process of this site a stream that a relay has asked for.
    fn offer(
        &mut self,
        link: Token,
        stream: StreamId,
        parties: Parties,
        links: &Links,
        log: &mut Log,
    ) -> Result<(), String> {
        let (token, run) = (self.poller.token(), links.run_of(link));
        let ticket = self.registrations.offer(&run, &parties, token, log)?;
        let request = Request::Remote { run, ticket, link, stream, traffic: parties.traffic };
        self.requests.add(token, request, Instant::now());
        Ok(())
    }

    /// Asks the next relay on its route for a stream, and forwards what arrives of it meanwhile.
    fn forward(
        &mut self,
        link: Token,
        stream: StreamId,
        route: &[String],
        parties: Parties,
        links: &mut Links,
        log: &mut Log,
    ) -> Result<(), String> {
        let run = links.run_of(link);
        let onward = links.link_to(&run, &route[0])?;
        if onward == link || self.is_known(onward, stream) {
            return Err(format!("it would come back to {}", self.site));
        }
        if self.open.passing(&run).is_none_or(|passing| passing >= PASSING_MAX) {
            let reason = format!("{PASSING_MAX} streams of this run pass {} already", self.site);
            let site = links.table.get(link).and_then(Link::site).unwrap_or_default();
            let facts = [("run", run.as_str()), ("site", site)];
            log.once_for(site, &reason, Level::Warning, "a stream of another relay was refused", &facts);
            return Err(reason);
        }
        let ends = [link, onward].map(|link| End::link(link, stream, parties.traffic));
        self.open.join(&run, ends, &mut links.table, log);
        links.table.send(onward, &parties.open(stream, route.to_vec()));
        Ok(())
    }

    /// A relay has opened a stream.
    pub fn on_opened(&mut self, link: Token, stream: StreamId, links: &mut Links, log: &mut Log) {
        if self.open_requested(link, stream, links, log) {
            return;
        }
        let Some(end) = self.open.find(link, stream) else { return };
        if let Some((link, stream)) = self.open.opposite(end) {
            links.table.send(link, &LinkMessage::Opened { stream });
            self.open.widen(end.stream, &mut links.table);
        }
    }

    /// Opens the stream that a process waits for. Returns false if no process waits for this one.
    fn open_requested(&mut self, link: Token, stream: StreamId, links: &mut Links, log: &mut Log) -> bool {
        let Some((token, wire, run, traffic)) = self.requests.take_awaiting(link, stream) else { return false };
        let ends = [End::process(token, wire), End::link(link, stream, traffic)];
        let joined = self.open.join(&run, ends, &mut links.table, log);
        self.open.widen(joined, &mut links.table);
        true
    }

    /// A relay has refused a stream.
    pub fn on_refused(&mut self, link: Token, stream: StreamId, reason: String, links: &mut Links) {
        if let Some((_, wire, ..)) = self.requests.take_awaiting(link, stream) {
            return refuse(&wire, reason);
        }
        let Some(end) = self.open.find(link, stream) else { return };
        let back = self.open.opposite(end);
        self.open.close(end.stream, &mut links.table);
        if let Some((link, stream)) = back {
            links.table.send(link, &LinkMessage::Refused { stream, reason });
        }
    }

    /// A stream is broken at the other end of a link.
    pub fn on_reset(&mut self, link: Token, stream: StreamId, reason: &str, links: &mut Links) {
        if let Some(end) = self.open.find(link, stream) {
            self.open.abort(end.stream, Some(end.side), &mut links.table);
        } else if let Some((_, wire, ..)) = self.requests.take_awaiting(link, stream) {
            refuse(&wire, reason.to_owned());
        } else if let Some(request) = self.requests.find(link, stream).and_then(|token| self.requests.remove(token)) {
            self.cancel(&request, links);
        }
    }

    /// A link was lost, which was called `name`, and with it the streams on it.
    pub fn link_lost(&mut self, link: Token, name: &str, links: &mut Links) {
        let reason = format!("the link to {name} was lost");
        let streams = [self.open.on_link(link), self.requests.on_link(link)].concat();
        streams.into_iter().for_each(|stream| self.on_reset(link, stream, &reason, links));
    }

    /// Data of a stream has arrived by a link; `message` is the whole frame.
    pub fn on_data(&mut self, link: Token, stream: StreamId, message: Buffer, links: &mut Links, log: &mut Log) {
        if let Some(end) = self.find(link, stream, links, log) {
            self.open.on_data(end, message, &mut links.table, log);
        }
    }

    /// The relay at the other end of a link sends nothing more of a stream.
    pub fn on_finish(&mut self, link: Token, stream: StreamId, links: &mut Links, log: &mut Log) {
        if let Some(end) = self.find(link, stream, links, log) {
            self.open.on_finish(end, &mut links.table, log);
        }
    }

    /// Returns the end that has this number on a link. (Data may overtake the message that the stream is open; what follows its end belongs
    /// to nobody.)
    fn find(&mut self, link: Token, stream: StreamId, links: &mut Links, log: &mut Log) -> Option<EndId> {
        let end = self.open.find(link, stream);
        if end.is_none() && self.open_requested(link, stream, links, log) {
            return self.open.find(link, stream);
        }
        end
    }

    /// The relay at the other end of a link takes so many bytes more of a stream.
    pub fn on_credit(&mut self, link: Token, stream: StreamId, bytes: u64, links: &mut Links, log: &mut Log) {
        if let Some(end) = self.open.find(link, stream) {
            self.open.on_credit(end, bytes, &mut links.table, log);
        }
    }

    /// Goes on with an end whose link takes more now.
    pub fn resume(&mut self, end: EndId, links: &mut Links, log: &mut Log) {
        self.open.resume(end, &mut links.table, log);
    }

    /// Closes the connections of processes that have not done in time what they must.
    pub fn expire(&mut self, now: Instant, links: &mut Links, log: &mut Log) {
        self.registrations.expire(now, log);
        while let Some(request) = self.requests.take_expired(now) {
            self.time_out(request, links);
        }
    }

    /// Returns when the first of them is late.
    pub fn next_time(&self) -> Option<Instant> {
        self.registrations.next_time().into_iter().chain(self.requests.next_time()).min()
    }

    /// Returns the runs that are in use: of which processes are connected, or streams are open.
    pub fn runs_in_use(&self) -> BTreeSet<&str> {
        self.open.runs().chain(self.registrations.runs_in_use()).chain(self.requests.local_runs()).collect()
    }

    /// Returns the state of a run, as far as it is about streams.
    pub fn status(&self, run: &str) -> RunStatus {
        let mut status = RunStatus::default();
        self.registrations.report(run, &mut status);
        self.open.report(run, &mut status);
        status
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use xmml_path::Path;
    use xmml_wire::methods::Stream;

    use super::*;
    use crate::relay::links::tests::{links_of_b, neighbour};
    use crate::relay::testing::{await_ready, memory_log, next_answer, next_message, tcp};

    /// The streams of a relay of site b for the run `canal`, and what they need.
    struct Site {
        poller: Arc<Poller>,
        streams: Streams,
        links: Links,
        log: Log,
    }

    impl Site {
        fn new() -> Site {
            let poller = Poller::new().unwrap();
            let mut streams = Streams::new("b", &poller).unwrap();
            streams.add_run("canal");
            Site { poller, streams, links: links_of_b(), log: memory_log() }
        }

        /// A process with this name asks for something.
        fn ask(&mut self, name: &str, request: ToRelay) -> TcpStream {
            let (wire, process) = tcp();
            let token = self.poller.watch(wire.fd()).unwrap();
            let who = ("canal".to_owned(), name.to_owned());
            self.streams.request(token, wire, who, request, &mut self.links, &mut self.log);
            process
        }

        fn register(&mut self, name: &str) -> TcpStream {
            let process = self.ask(name, ToRelay::Register { site: "b".into(), silence_ms: 5000 });
            assert_eq!(next_answer(&process), FromRelay::Registered {});
            process
        }

        fn open(&mut self, site: &str, name: &str) -> TcpStream {
            let traffic = TrafficKind::default();
            self.ask("opener", ToRelay::Open { site: site.into(), name: name.into(), traffic })
        }

        /// A relay at the other end of a link asks for a stream to `sub`, on this route.
        fn open_by(&mut self, link: Token, stream: StreamId, route: &[&str]) -> Result<(), String> {
            let route: Vec<String> = route.iter().map(|site| (*site).to_owned()).collect();
            let traffic = TrafficKind::default();
            let parties = Parties { to: "sub".into(), from_site: "a".into(), from: "m".into(), traffic };
            self.streams.on_open(link, stream, &route, parties, &mut self.links, &mut self.log)
        }

        fn neighbour(&mut self, site: &str) -> (Token, Path) {
            neighbour(&mut self.links, site, 1)
        }

        /// Waits for the next message about a stream that arrives on a path.
        fn next_of_stream(&mut self, path: &Path) -> LinkMessage {
            self.links.table.flush();
            let is_about_links = |message: &LinkMessage| {
                matches!(message, LinkMessage::Neighbours(_) | LinkMessage::Ping { .. } | LinkMessage::Hello { .. })
            };
            std::iter::repeat_with(|| next_message(path)).find(|message| !is_about_links(message)).unwrap()
        }

        fn serve_ready(&mut self) {
            for event in await_ready(&self.poller) {
                self.streams.serve(event, &mut self.links, &mut self.log);
            }
        }

        fn open_streams(&self) -> u64 {
            self.streams.status("canal").streams
        }
    }

    fn ticket_of(answer: FromRelay) -> u64 {
        let FromRelay::Incoming { ticket, .. } = answer else { panic!("{answer:?} offers no stream") };
        ticket
    }

    #[test]
    fn a_stream_between_two_processes_of_the_site_is_open_once_it_is_taken() {
        let mut site = Site::new();
        let sub = site.register("sub");
        let mut opener = site.open("b", "sub");
        let ticket = ticket_of(next_answer(&sub));
        assert_eq!((site.open_streams(), site.streams.status("canal").waiting), (0, 1));
        let taker = site.ask("sub", ToRelay::Take { ticket });
        assert_eq!(site.open_streams(), 1);
        assert_eq!([next_answer(&opener), next_answer(&taker)], [FromRelay::Opened {}, FromRelay::Opened {}]);
        (&taker).write_all(b"hello").unwrap();
        site.serve_ready();
        let mut bytes = [0; 5];
        opener.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"hello");
    }

    #[test]
    fn a_stream_that_nobody_takes_is_refused_after_a_while() {
        let mut site = Site::new();
        let sub = site.register("sub");
        let opener = site.open("b", "sub");
        let ticket = ticket_of(next_answer(&sub));
        site.streams.expire(Instant::now() + TAKEN_WITHIN, &mut site.links, &mut site.log);
        let reason = "sub did not take the stream within 4 s".to_owned();
        assert_eq!(next_answer(&opener), FromRelay::Refused { reason });
        let taker = site.ask("sub", ToRelay::Take { ticket });
        assert!(matches!(next_answer(&taker), FromRelay::Refused { .. }));
    }

    #[test]
    fn a_process_that_waits_and_leaves_is_waited_for_no_more() {
        let mut site = Site::new();
        let _sub = site.register("sub");
        drop(site.open("b", "sub"));
        site.serve_ready();
        assert_eq!(site.streams.status("canal").waiting, 0);
    }

    #[test]
    fn a_stream_to_another_site_is_open_when_the_relay_there_says_so() {
        let mut site = Site::new();
        let (link, path) = site.neighbour("a");
        let opener = site.open("a", "sub");
        let LinkMessage::Open { stream, route, name, .. } = site.next_of_stream(&path) else {
            panic!("nothing is asked for")
        };
        assert_eq!((route, name.as_str()), (vec!["a".to_owned()], "sub"));
        assert_eq!(site.open_streams(), 0);
        site.streams.on_opened(link, stream, &mut site.links, &mut site.log);
        assert_eq!(site.open_streams(), 1);
        assert_eq!(next_answer(&opener), FromRelay::Opened {});
    }

    #[test]
    fn data_that_overtakes_the_message_that_a_stream_is_open_opens_it() {
        let mut site = Site::new();
        let (link, _path) = site.neighbour("a");
        let _opener = site.open("a", "sub");
        let stream = site.streams.last_number;
        let data = crate::link_frame::data(stream, b"hello").into();
        site.streams.on_data(link, stream, data, &mut site.links, &mut site.log);
        assert_eq!((site.open_streams(), site.streams.status("canal").bytes), (1, 5));
    }

    #[test]
    fn a_stream_that_another_relay_refuses_is_refused_with_its_reason() {
        let mut site = Site::new();
        let (link, _path) = site.neighbour("a");
        let opener = site.open("a", "sub");
        site.streams.on_refused(link, site.streams.last_number, "sub is busy".to_owned(), &mut site.links);
        assert_eq!(next_answer(&opener), FromRelay::Refused { reason: "sub is busy".to_owned() });
    }

    #[test]
    fn a_stream_to_a_site_out_of_reach_is_refused() {
        let mut site = Site::new();
        let opener = site.open("c", "sub");
        assert!(matches!(next_answer(&opener), FromRelay::Refused { reason } if reason.contains("no way from b to c")));
    }

    #[test]
    fn a_stream_of_another_relay_is_offered_to_the_process_and_open_once_it_is_taken() {
        let mut site = Site::new();
        let (link, path) = site.neighbour("a");
        let sub = site.register("sub");
        site.open_by(link, 9, &["b"]).unwrap();
        let ticket = ticket_of(next_answer(&sub));
        let _taker = site.ask("sub", ToRelay::Take { ticket });
        assert_eq!(site.next_of_stream(&path), LinkMessage::Opened { stream: 9 });
        assert!(matches!(site.next_of_stream(&path), LinkMessage::Credit { stream: 9, .. }));
        assert_eq!(site.open_streams(), 1);
    }

    #[test]
    fn a_number_that_is_in_use_is_refused() {
        let mut site = Site::new();
        let (link, path) = site.neighbour("a");
        let _sub = site.register("sub");
        site.open_by(link, 9, &["b"]).unwrap();
        site.open_by(link, 9, &["b"]).unwrap();
        let reason = "there is a stream with this number".to_owned();
        assert_eq!(site.next_of_stream(&path), LinkMessage::Refused { stream: 9, reason });
    }

    #[test]
    fn a_route_that_does_not_begin_here_is_an_offence() {
        let mut site = Site::new();
        let (link, _path) = site.neighbour("a");
        assert!(site.open_by(link, 9, &["c"]).unwrap_err().contains("impossible route"));
        assert!(site.open_by(link, 9, &[]).is_err());
        assert!(site.open_by(link, 9, &["b"; HOPS_MAX + 1]).is_err());
    }

    #[test]
    fn a_stream_to_a_site_further_on_is_asked_for_there_and_the_answer_passed_back() {
        let mut site = Site::new();
        let ((a, from_a), (c, from_c)) = (site.neighbour("a"), site.neighbour("c"));
        site.open_by(a, 9, &["b", "c"]).unwrap();
        assert!(matches!(site.next_of_stream(&from_c), LinkMessage::Open { stream: 9, route, .. } if route == ["c"]));
        site.streams.on_opened(c, 9, &mut site.links, &mut site.log);
        assert_eq!(site.next_of_stream(&from_a), LinkMessage::Opened { stream: 9 });
    }

    #[test]
    fn a_stream_is_not_sent_back_to_where_it_came_from() {
        let mut site = Site::new();
        let (a, path) = site.neighbour("a");
        site.open_by(a, 9, &["b", "a"]).unwrap();
        let reason = "it would come back to b".to_owned();
        assert_eq!(site.next_of_stream(&path), LinkMessage::Refused { stream: 9, reason });
    }

    #[test]
    fn streams_on_a_lost_link_break_and_those_that_are_asked_for_are_refused() {
        let mut site = Site::new();
        let (link, _path) = site.neighbour("a");
        let (sub, opener) = (site.register("sub"), site.open("a", "other"));
        site.open_by(link, 9, &["b"]).unwrap();
        let ticket = ticket_of(next_answer(&sub));
        let _taker = site.ask("sub", ToRelay::Take { ticket });
        site.open_by(link, 10, &["b"]).unwrap();
        site.streams.link_lost(link, "a", &mut site.links);
        assert_eq!(next_answer(&opener), FromRelay::Refused { reason: "the link to a was lost".to_owned() });
        assert_eq!((site.open_streams(), site.streams.status("canal").waiting), (0, 0));
    }

    #[test]
    fn a_run_is_in_use_while_a_process_of_it_is_here() {
        let mut site = Site::new();
        assert!(site.streams.runs_in_use().is_empty());
        let _sub = site.register("sub");
        assert_eq!(site.streams.runs_in_use(), BTreeSet::from(["canal"]));
        site.streams.remove_run("canal");
        assert!(site.streams.runs_in_use().is_empty());
    }
}
