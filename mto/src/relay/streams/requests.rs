//! Streams that are not open yet: who has asked for each, and what it waits for. No clock here: times are given.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use xmml_wire::methods::TrafficKind;

use crate::link_frame::StreamId;
use crate::nonblocking_tcp::NonblockingTcp;
use crate::registry::Token;
use crate::relay::deadlines::Deadlines;

/// How long a stream may wait to be taken.
pub const TAKEN_WITHIN: Duration = Duration::from_secs(4);

/// How long the process that has opened a stream waits for the other site: longer, for that one knows who did not take it, and not so long
/// that the process asks no more.
const ANSWERED_WITHIN: Duration = Duration::from_millis(4500);

/// What a process that opens a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A process of this site takes it, with this ticket.
    Taker(u64),
    /// It is opened at another relay.
    Remote {
        /// The link to that.
        link: Token,
        /// Its number there.
        stream: StreamId,
        /// What it is for.
        traffic: TrafficKind,
    },
}

/// A stream that is not open yet.
pub enum Request {
    /// A process of this site has asked for it.
    Local {
        /// Its connection, which becomes the stream.
        wire: NonblockingTcp,
        /// Its run.
        run: String,
        /// What it waits for.
        awaited: Awaited,
    },
    /// A relay has asked for it, and a process of this site is to take it.
    Remote {
        /// Its run.
        run: String,
        /// The ticket with which it can be taken.
        ticket: u64,
        /// The link by which it has arrived.
        link: Token,
        /// Its number there.
        stream: StreamId,
        /// What it is for.
        traffic: TrafficKind,
    },
}

impl Request {
    fn run(&self) -> &str {
        match self {
            Request::Local { run, .. } | Request::Remote { run, .. } => run,
        }
    }

    /// Returns the link on which it has a number, and the number.
    fn on_link(&self) -> Option<(Token, StreamId)> {
        match self {
            Request::Local { awaited: Awaited::Taker(_), .. } => None,
            Request::Local { awaited: Awaited::Remote { link, stream, .. }, .. }
            | Request::Remote { link, stream, .. } => Some((*link, *stream)),
        }
    }

    fn time_out(&self) -> Duration {
        match self {
            Request::Local { awaited: Awaited::Remote { .. }, .. } => ANSWERED_WITHIN,
            _ => TAKEN_WITHIN,
        }
    }
}

/// All streams that have been asked for and are not open, by token: for requests of processes, that of the connection.
#[derive(Default)]
pub struct Requests {
    requests: HashMap<Token, Request>,
    on_links: HashMap<(Token, StreamId), Token>,
    deadlines: Deadlines,
}

impl Requests {
    /// Adds a request, which times out after a while.
    pub fn add(&mut self, token: Token, request: Request, now: Instant) {
        self.deadlines.set(token, now + request.time_out());
        if let Some(on_link) = request.on_link() {
            self.on_links.insert(on_link, token);
        }
        self.requests.insert(token, request);
    }

    /// Removes a request.
    pub fn remove(&mut self, token: Token) -> Option<Request> {
        let request = self.requests.remove(&token)?;
        self.deadlines.cancel(token);
        if let Some(on_link) = request.on_link() {
            self.on_links.remove(&on_link);
        }
        Some(request)
    }

    /// Removes all requests of a run.
    pub fn remove_run(&mut self, run: &str) {
        let of_run = self.requests.iter().filter(|(_, request)| request.run() == run);
        let tokens: Vec<Token> = of_run.map(|(token, _)| *token).collect();
        tokens.into_iter().for_each(|token| drop(self.remove(token)));
    }

    /// Returns whether the token is that of a request.
    pub fn owns(&self, token: Token) -> bool {
        self.requests.contains_key(&token)
    }

    /// Returns the request that has this number on a link.
    pub fn find(&self, link: Token, stream: StreamId) -> Option<Token> {
        self.on_links.get(&(link, stream)).copied()
    }

    /// Removes the request of a process that waits for the relay at the other end of a link to open a stream. Returns its token, its
    /// connection, its run and what the stream is for.
    pub fn take_awaiting(
        &mut self,
        link: Token,
        stream: StreamId,
    ) -> Option<(Token, NonblockingTcp, String, TrafficKind)> {
        let token = self.find(link, stream)?;
        if matches!(self.requests.get(&token), Some(Request::Remote { .. })) {
            return None;
        }
        match self.remove(token)? {
            Request::Local { wire, run, awaited: Awaited::Remote { traffic, .. } } => Some((token, wire, run, traffic)),
            _ => None,
        }
    }

    /// Returns the numbers of all requests on a link.
    pub fn on_link(&self, link: Token) -> Vec<StreamId> {
        self.on_links.keys().filter(|(other, _)| *other == link).map(|(_, stream)| *stream).collect()
    }

    /// Removes the first request whose time is over.
    pub fn take_expired(&mut self, now: Instant) -> Option<Request> {
        let token = self.deadlines.take_expired(now)?;
        self.remove(token)
    }

    /// Returns when the first request times out.
    pub fn next_time(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Returns the runs of which processes of this site have asked for streams.
    pub fn local_runs(&self) -> impl Iterator<Item = &str> {
        let is_local = |request: &&Request| matches!(request, Request::Local { .. });
        self.requests.values().filter(is_local).map(Request::run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::testing::tcp;

    const LINK: Token = 7;

    fn remote(run: &str, stream: StreamId) -> Request {
        let traffic = TrafficKind::default();
        Request::Remote { run: run.to_owned(), ticket: 1, link: LINK, stream, traffic }
    }

    fn local(awaited: Awaited) -> Request {
        Request::Local { wire: tcp().0, run: "canal".to_owned(), awaited }
    }

    #[test]
    fn a_request_is_found_by_its_number_on_its_link_until_it_is_removed() {
        let mut requests = Requests::default();
        requests.add(1, remote("canal", 9), Instant::now());
        assert_eq!((requests.find(LINK, 9), requests.find(LINK + 1, 9)), (Some(1), None));
        assert_eq!(requests.on_link(LINK), [9]);
        assert!(requests.remove(1).is_some());
        assert_eq!(requests.find(LINK, 9), None);
        assert!(requests.next_time().is_none());
    }

    #[test]
    fn a_request_times_out() {
        let mut requests = Requests::default();
        let begin = Instant::now();
        requests.add(1, remote("canal", 9), begin);
        assert!(requests.take_expired(begin).is_none());
        assert!(requests.take_expired(begin + TAKEN_WITHIN).is_some());
        assert!(!requests.owns(1) && requests.find(LINK, 9).is_none());
    }

    #[test]
    fn a_process_waits_for_another_site_longer_than_that_site_for_its_own_process() {
        let mut requests = Requests::default();
        let begin = Instant::now();
        let traffic = TrafficKind::default();
        requests.add(1, local(Awaited::Remote { link: LINK, stream: 9, traffic }), begin);
        requests.add(2, local(Awaited::Taker(5)), begin);
        assert_eq!(requests.next_time(), Some(begin + TAKEN_WITHIN));
        requests.take_expired(begin + TAKEN_WITHIN);
        assert_eq!(requests.next_time(), Some(begin + ANSWERED_WITHIN));
    }

    #[test]
    fn only_a_process_waits_for_the_answer_of_a_relay() {
        let mut requests = Requests::default();
        let traffic = TrafficKind::default();
        requests.add(1, local(Awaited::Remote { link: LINK, stream: 9, traffic }), Instant::now());
        requests.add(2, remote("canal", 10), Instant::now());
        assert!(requests.take_awaiting(LINK, 9).is_some_and(|(token, _, run, _)| token == 1 && run == "canal"));
        assert!(requests.take_awaiting(LINK, 9).is_none());
        assert!(requests.take_awaiting(LINK, 10).is_none());
        assert!(requests.owns(2));
    }

    #[test]
    fn the_requests_of_a_run_leave_with_it() {
        let mut requests = Requests::default();
        requests.add(1, remote("canal", 9), Instant::now());
        requests.add(2, remote("river", 10), Instant::now());
        requests.remove_run("canal");
        assert!(!requests.owns(1) && requests.owns(2));
    }

    #[test]
    fn only_requests_of_processes_of_the_site_show_that_a_run_is_in_use_here() {
        let mut requests = Requests::default();
        requests.add(1, remote("river", 9), Instant::now());
        requests.add(2, local(Awaited::Taker(5)), Instant::now());
        assert_eq!(requests.local_runs().collect::<Vec<_>>(), ["canal"]);
    }
}
