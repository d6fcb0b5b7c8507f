//! How a relay is controlled: by requests of its owner, by signals, and by a flag that stops it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_path::Fingerprint;
use xmml_wire::error::Error;
use xmml_wire::wakeup::{EventFd, Interest, Ready};

use super::control_client::ControlClient;
use super::deadlines::Deadlines;
use super::poller::{Poller, SIGNALS, STOP};
use crate::control_protocol::{Answer, Request};
use crate::registry::Token;
use crate::signals::{Signal, Signals};

/// Clients that may be connected to the control socket at the same time.
const CLIENTS_MAX: usize = 16;

/// A client from which no more requests come gets the answers that still wait if it takes some of them within so long each time.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// The clients of the relay's owner, the signals, and whether the relay is to stop.
pub struct Control {
    poller: Arc<Poller>,
    stop: Arc<EventFd>,
    signals: Option<Signals>,
    clients: HashMap<Token, ControlClient>,
    deadlines: Deadlines,
    /// A client has asked the relay to stop, or the one that holds it has left.
    is_to_stop: bool,
}

impl Control {
    /// Returns the control of a relay that has no client yet.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn new(poller: &Arc<Poller>) -> io::Result<Control> {
        let stop = Arc::new(EventFd::new()?);
        poller.add(stop.as_raw_fd(), STOP, Interest::READ)?;
        Ok(Control {
            poller: poller.clone(),
            stop,
            signals: None,
            clients: HashMap::new(),
            deadlines: Deadlines::default(),
            is_to_stop: false,
        })
    }

    /// Returns the flag that stops the relay when it is raised.
    pub fn stop_flag(&self) -> Arc<EventFd> {
        self.stop.clone()
    }

    /// Obeys these signals from now on.
    ///
    /// # Errors
    /// They cannot be watched.
    pub fn obey_signals(&mut self, signals: Signals) -> io::Result<()> {
        self.poller.add(signals.as_raw_fd(), SIGNALS, Interest::READ)?;
        self.signals = Some(signals);
        Ok(())
    }

    /// Returns the next signal that has come.
    pub fn next_signal(&self) -> Option<Signal> {
        self.signals.as_ref().and_then(Signals::next)
    }

    /// Stops the relay at the end of this turn.
    pub fn stop(&mut self) {
        self.is_to_stop = true;
    }

    /// Returns whether the relay is to stop.
    pub fn is_to_stop(&self) -> bool {
        self.is_to_stop
    }

    /// Takes requests from a client.
    ///
    /// # Errors
    /// It cannot be watched (its input is a file, say).
    pub fn add(&mut self, client: ControlClient) -> io::Result<()> {
        let token = self.poller.token();
        client.watch(&self.poller, token)?;
        self.clients.insert(token, client);
        Ok(())
    }

    /// Takes requests from a client that was accepted at the control socket. Where there are too many, or it cannot be watched, its
    /// connection closes.
    pub fn add_accepted(&mut self, client: ControlClient) {
        if self.clients.len() < CLIENTS_MAX {
            let _ = self.add(client);
        }
    }

    /// Returns whether the token is that of a client.
    pub fn owns(&self, token: Token) -> bool {
        self.clients.contains_key(&token)
    }

    /// Returns the next request of a client, or what is wrong with it; see [`ControlClient::next_request`].
    ///
    /// # Errors
    /// Its connection is broken, or it has left.
    pub fn next_request(&mut self, token: Token) -> io::Result<Option<Result<Request, String>>> {
        self.client(token)?.next_request()
    }

    /// Puts an answer on the connection of a client.
    pub fn answer(&mut self, token: Token, answer: &Answer) {
        if let Some(client) = self.clients.get_mut(&token) {
            client.answer(answer);
        }
    }

    /// Reads what a client has sent.
    ///
    /// # Errors
    /// As of [`Control::next_request`].
    pub fn receive(&mut self, event: Ready) -> io::Result<()> {
        self.client(event.token)?.receive(event)
    }

    /// Watches a client for what is to be done next; returns false if nothing is, because it has left and has every answer.
    ///
    /// # Errors
    /// It cannot be watched, or has left.
    pub fn settle(&mut self, token: Token, now: Instant) -> io::Result<bool> {
        let client = self.clients.get(&token).ok_or(io::ErrorKind::NotConnected)?;
        client.watch(&self.poller, token)?;
        match client.is_leaving() {
            true => self.deadlines.set(token, now + LAST_ANSWERS),
            false => self.deadlines.cancel(token),
        }
        Ok(!client.is_over())
    }

    /// Closes the connection of a client. If it holds the relay, the relay stops.
    pub fn remove(&mut self, token: Token) {
        self.deadlines.cancel(token);
        if let Some(client) = self.clients.remove(&token) {
            client.unwatch(&self.poller);
            self.is_to_stop |= client.is_holder();
        }
    }

    /// Closes the connections of clients that have left and do not take their answers.
    pub fn expire(&mut self, now: Instant) {
        while let Some(token) = self.deadlines.take_expired(now) {
            self.remove(token);
        }
    }

    /// Returns when the first connection is closed unless its client takes answers.
    pub fn next_time(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    fn client(&mut self, token: Token) -> io::Result<&mut ControlClient> {
        self.clients.get_mut(&token).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// Returns the lease of a run that is to be added.
///
/// # Errors
/// Returns what is wrong with the request.
pub fn lease_of(lease_s: Option<f64>) -> Result<Option<Duration>, String> {
    let lease = lease_s.map(Duration::try_from_secs_f64).transpose();
    match lease {
        Ok(lease) if lease_s.is_none_or(|seconds| seconds > 0.0) => Ok(lease),
        _ => Err("lease_s must be a number of seconds above 0".to_owned()),
    }
}

/// The certificates that are to be trusted: those of relays of any site, and that of the relay of each site.
pub type Trusted = (Vec<Fingerprint>, BTreeMap<String, Fingerprint>);

/// Returns the certificates that are to be trusted.
///
/// # Errors
/// Returns what is wrong with the request.
pub fn trusted_of(fingerprints: &[String], relays: &BTreeMap<String, String>) -> Result<Trusted, String> {
    if fingerprints.is_empty() && relays.is_empty() {
        return Err("fingerprints or relays must name the SHA-256 of one certificate at least".to_owned());
    }
    let of_any: Result<_, _> = fingerprints.iter().map(|text| text.parse()).collect();
    let of_each: Result<_, _> = relays.iter().map(|(site, text)| Ok((site.clone(), text.parse()?))).collect();
    Ok((
        of_any.map_err(|problem: Error| format!("fingerprints: {problem}"))?,
        of_each.map_err(|problem: Error| format!("relays: {problem}"))?,
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The control of a relay, and a client that holds it, by its token and the owner's end.
    fn held() -> (Control, Token, UnixStream) {
        let (owner, relay) = UnixStream::pair().unwrap();
        relay.set_nonblocking(true).unwrap();
        let mut control = Control::new(&Poller::new().unwrap()).unwrap();
        control.add(ControlClient::holding(relay)).unwrap();
        let token = *control.clients.keys().next().unwrap();
        (control, token, owner)
    }

    fn readable(token: Token) -> Ready {
        Ready { token, readable: true, writable: false, hung_up: false }
    }

    #[test]
    fn a_relay_stops_when_the_client_that_holds_it_leaves() {
        let (mut control, token, owner) = held();
        drop(owner);
        control.receive(readable(token)).unwrap();
        assert!(!control.settle(token, Instant::now()).unwrap());
        assert!(!control.is_to_stop());
        control.remove(token);
        assert!(control.is_to_stop());
        assert!(!control.owns(token));
    }

    #[test]
    fn a_client_that_has_left_has_a_while_to_take_its_answers() {
        let (mut control, token, mut owner) = held();
        owner.write_all(b"{\"command\":\"status\"}\n").unwrap();
        owner.shutdown(std::net::Shutdown::Write).unwrap();
        control.receive(readable(token)).unwrap();
        control.receive(readable(token)).unwrap();
        assert_eq!(control.next_request(token).unwrap(), Some(Ok(Request::Status)));
        control.answer(token, &Answer::done(true));
        let now = Instant::now();
        assert!(control.settle(token, now).unwrap());
        assert_eq!(control.next_time(), Some(now + LAST_ANSWERS));
        control.expire(now + LAST_ANSWERS);
        assert!(!control.owns(token));
    }

    #[test]
    fn clients_beyond_the_limit_are_closed() {
        let mut control = Control::new(&Poller::new().unwrap()).unwrap();
        let owners: Vec<UnixStream> = (0..=CLIENTS_MAX)
            .map(|_| {
                let (owner, relay) = UnixStream::pair().unwrap();
                control.add_accepted(ControlClient::holding(relay));
                owner
            })
            .collect();
        assert_eq!(control.clients.len(), CLIENTS_MAX);
        let mut last = &owners[CLIENTS_MAX];
        assert_eq!(std::io::Read::read(&mut last, &mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_lease_is_a_time_above_zero() {
        assert_eq!(lease_of(Some(1.5)), Ok(Some(Duration::from_millis(1500))));
        assert_eq!(lease_of(None), Ok(None));
        for wrong in [0.0, -1.0, f64::NAN, 1e300] {
            assert!(lease_of(Some(wrong)).unwrap_err().contains("lease_s"), "{wrong}");
        }
    }

    #[test]
    fn an_empty_list_of_fingerprints_is_refused() {
        let of_a = |text: &str| BTreeMap::from([("a".to_owned(), text.to_owned())]);
        assert!(trusted_of(&[], &BTreeMap::new()).unwrap_err().contains("one certificate at least"));
        assert!(trusted_of(&["xyz".to_owned()], &BTreeMap::new()).unwrap_err().starts_with("fingerprints: "));
        assert!(trusted_of(&[], &of_a("xyz")).unwrap_err().starts_with("relays: "));
        let (of_any, of_each) = trusted_of(&["ab".repeat(32)], &of_a(&"cd".repeat(32))).unwrap();
        assert_eq!((of_any.len(), of_each["a"].to_string()), (1, "cd".repeat(32)));
    }
}
