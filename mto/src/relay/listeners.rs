//! The sockets at which the relay accepts connections: of processes of the site and other relays, of its owner, and of programs that
//! read its figures.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use xmml_wire::methods::{self, Stream};
use xmml_wire::wakeup::Interest;

use super::poller::Poller;
use crate::control_protocol;
use crate::log::{Level, Log, SYSTEM};
use crate::nonblocking_tcp::NonblockingTcp;
use crate::registry::Token;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// How long all listeners pause when the system has no descriptor for the next connection.
const PAUSE: Duration = Duration::from_millis(200);

/// A connection that was accepted, by what it is for.
pub enum Accepted {
    /// A process of the site or another relay, which has proved nothing yet.
    Peer(NonblockingTcp),
    /// The owner.
    Owner(Box<dyn Stream>),
    /// A program that reads figures.
    Scraper(NonblockingTcp),
    /// Nothing: the peer has closed the connection again.
    Closed,
}

enum Listener {
    Peers(TcpListener),
    Owner(Box<dyn methods::Listener>),
    Scrapers(TcpListener),
}

impl Listener {
    fn fd(&self) -> RawFd {
        match self {
            Listener::Peers(listener) | Listener::Scrapers(listener) => listener.as_raw_fd(),
            Listener::Owner(listener) => listener.fd(),
        }
    }

    fn accept(&self) -> io::Result<Accepted> {
        let tcp = |listener: &TcpListener, of: fn(NonblockingTcp) -> Accepted| {
            let (socket, from) = listener.accept()?;
            Ok(NonblockingTcp::new(socket, from).map_or(Accepted::Closed, of))
        };
        match self {
            Listener::Peers(listener) => tcp(listener, Accepted::Peer),
            Listener::Scrapers(listener) => tcp(listener, Accepted::Scraper),
            Listener::Owner(listener) => match listener.accept()? {
                Some(stream) => Ok(Accepted::Owner(stream)),
                None => Err(io::ErrorKind::WouldBlock.into()),
            },
        }
    }
}

/// All listeners of the relay. They pause together: when the system has no descriptor left, connections that wait at any of them would wake
/// the relay without end.
pub struct Listeners {
    poller: Arc<Poller>,
    listeners: HashMap<Token, Listener>,
    /// Where processes of the site connect, in the order in which that was configured.
    addresses: Vec<String>,
    /// The name of the control socket; empty without one.
    control: String,
    paused_until: Option<Instant>,
}

impl Listeners {
    /// Returns a relay's listeners, none yet.
    pub fn new(poller: &Arc<Poller>) -> Listeners {
        Listeners {
            poller: poller.clone(),
            listeners: HashMap::new(),
            addresses: Vec::new(),
            control: String::new(),
            paused_until: None,
        }
    }

    /// Listens for peers at each of these addresses of one host that belongs to this machine, at the same port; returns the first.
    ///
    /// # Errors
    /// No address belongs to this machine, or one is taken.
    pub fn listen(&mut self, addresses: &[SocketAddr]) -> io::Result<SocketAddr> {
        let mut first: Option<SocketAddr> = None;
        let mut why = io::Error::new(io::ErrorKind::NotFound, "the host has no internet address");
        for address in addresses {
            let mut address = *address;
            if let (Some(first), 0) = (first, address.port()) {
                address.set_port(first.port());
            }
            match self.listen_at_one(address) {
                Ok(bound) => drop(first.get_or_insert(bound)),
                // A name may stand for more than this machine has: an address of IPv6 where that is off, for example.
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => why = error,
                Err(error) => return Err(error),
            }
        }
        first.ok_or(why)
    }

    fn listen_at_one(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        // A relay that is started again immediately must get its port although old connections linger.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let listener: TcpListener = socket.into();
        let bound = listener.local_addr()?;
        self.add(Listener::Peers(listener))?;
        self.addresses.push(bound.to_string());
        Ok(bound)
    }

    /// Listens for programs that read figures, at a loopback address; returns the address.
    ///
    /// # Errors
    /// The address is taken, or is no loopback address.
    pub fn listen_for_scrapers(&mut self, address: &str) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        if !bound.ip().is_loopback() {
            // A name may begin like a loopback address.
            let problem = format!("{} is not a loopback address; use 127.0.0.1:PORT", bound.ip());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        self.add(Listener::Scrapers(listener))?;
        Ok(bound)
    }

    /// Listens for the owner at a control socket of this name.
    ///
    /// # Errors
    /// There is a socket of this name already.
    pub fn listen_for_owner(&mut self, name: &str) -> io::Result<()> {
        self.add(Listener::Owner(control_protocol::listen(name)?))?;
        name.clone_into(&mut self.control);
        Ok(())
    }

    fn add(&mut self, listener: Listener) -> io::Result<()> {
        let token = self.poller.watch(listener.fd())?;
        self.listeners.insert(token, listener);
        Ok(())
    }

    /// Returns whether the token is that of a listener.
    pub fn owns(&self, token: Token) -> bool {
        self.listeners.contains_key(&token)
    }

    /// Accepts the next connection of a listener.
    ///
    /// # Errors
    /// `WouldBlock`: no connection waits. Or the system refuses it.
    pub fn accept(&self, token: Token) -> io::Result<Accepted> {
        self.listeners.get(&token).map_or_else(|| Err(io::ErrorKind::WouldBlock.into()), Listener::accept)
    }

    /// Stops accepting for a moment, because the system refuses what the next connection needs.
    pub fn pause(&mut self, why: &io::Error, now: Instant, log: &mut Log) {
        let reason = xmml_wire::error::explained(why);
        log.once(SYSTEM, Level::Error, "cannot accept connections for a moment", &[("reason", &reason)]);
        self.listeners.values().for_each(|listener| self.poller.remove(listener.fd()));
        self.paused_until = Some(now + PAUSE);
    }

    /// Accepts connections again if the pause is over.
    pub fn resume_if_due(&mut self, now: Instant) {
        if self.paused_until.take_if(|until| *until <= now).is_some() {
            for (token, listener) in &self.listeners {
                // Fails only if it is watched already.
                let _ = self.poller.add(listener.fd(), *token, Interest::READ);
            }
        }
    }

    /// Returns when the pause is over, if there is one.
    pub fn next_time(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Returns where processes of the site connect.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Returns the name of the control socket; empty without one.
    pub fn control(&self) -> &str {
        &self.control
    }

    /// Returns where figures can be read; empty: nowhere.
    pub fn metrics_address(&self) -> String {
        let address = self.listeners.values().find_map(|listener| match listener {
            Listener::Scrapers(listener) => listener.local_addr().ok(),
            _ => None,
        });
        address.map(|address| address.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::relay::testing::memory_log;

    fn local() -> Vec<SocketAddr> {
        vec!["127.0.0.1:0".parse().unwrap()]
    }

    fn tokens_of_ready(poller: &Poller, until: Instant) -> Vec<Token> {
        let mut ready = Vec::new();
        poller.wait(&mut ready, Some(until)).unwrap();
        ready.iter().map(|event| event.token).collect()
    }

    #[test]
    fn a_connection_is_accepted_for_what_its_listener_is_for() {
        let poller = Poller::new().unwrap();
        let mut listeners = Listeners::new(&poller);
        let soon = Instant::now() + Duration::from_secs(10);
        let address = listeners.listen(&local()).unwrap();
        let _peer = TcpStream::connect(address).unwrap();
        let token = tokens_of_ready(&poller, soon)[0];
        assert!(listeners.owns(token));
        assert!(matches!(listeners.accept(token), Ok(Accepted::Peer(_))));
        let address = listeners.listen_for_scrapers("127.0.0.1:0").unwrap();
        let _scraper = TcpStream::connect(address).unwrap();
        let token = tokens_of_ready(&poller, soon)[0];
        assert!(matches!(listeners.accept(token), Ok(Accepted::Scraper(_))));
        assert_eq!(listeners.accept(token).err().map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    }

    #[test]
    fn all_addresses_of_a_host_get_the_port_of_the_first() {
        let mut listeners = Listeners::new(&Poller::new().unwrap());
        let both: Vec<SocketAddr> = vec!["127.0.0.1:0".parse().unwrap(), "127.0.0.2:0".parse().unwrap()];
        let first = listeners.listen(&both).unwrap();
        assert_eq!(listeners.addresses(), [first.to_string(), format!("127.0.0.2:{}", first.port())]);
    }

    #[test]
    fn an_address_of_another_machine_is_passed_over_if_the_host_has_one_of_this() {
        let mut listeners = Listeners::new(&Poller::new().unwrap());
        let elsewhere: SocketAddr = "192.0.2.1:0".parse().unwrap();
        assert!(listeners.listen(&[elsewhere]).is_err());
        assert!(listeners.listen(&[&[elsewhere], &local()[..]].concat()).is_ok());
        assert_eq!(listeners.addresses().len(), 1);
    }

    #[test]
    fn figures_are_at_a_loopback_address_only() {
        let mut listeners = Listeners::new(&Poller::new().unwrap());
        let error = listeners.listen_for_scrapers("0.0.0.0:0").unwrap_err();
        assert!(error.to_string().contains("not a loopback address"), "{error}");
        assert_eq!(listeners.metrics_address(), "");
        let address = listeners.listen_for_scrapers("127.0.0.1:0").unwrap();
        assert_eq!(listeners.metrics_address(), address.to_string());
    }

    #[test]
    fn a_connection_wakes_nobody_during_a_pause_and_is_accepted_after_it() {
        let poller = Poller::new().unwrap();
        let mut listeners = Listeners::new(&poller);
        let mut log = memory_log();
        let address = listeners.listen(&local()).unwrap();
        let begin = Instant::now();
        listeners.pause(&io::Error::from_raw_os_error(libc::EMFILE), begin, &mut log);
        assert!(log.written().contains("cannot accept connections for a moment"), "{}", log.written());
        let _peer = TcpStream::connect(address).unwrap();
        listeners.resume_if_due(begin);
        assert!(tokens_of_ready(&poller, Instant::now()).is_empty());
        assert_eq!(listeners.next_time(), Some(begin + PAUSE));
        listeners.resume_if_due(begin + PAUSE);
        assert_eq!(listeners.next_time(), None);
        let token = tokens_of_ready(&poller, Instant::now() + Duration::from_secs(10))[0];
        assert!(matches!(listeners.accept(token), Ok(Accepted::Peer(_))));
    }
}
