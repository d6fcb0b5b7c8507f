//! The login proxy's view of an agent: the connection to it, and what that says of whether the agent lives.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

use crate::agent_handshake::{AgentHandshake, HandshakeProgress, NEWS};
use crate::system::{poll, For};

/// Time without traffic on a connection to an agent, after which the kernel of its node is probed.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(1);
/// Time between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Probes without an answer after which the node is taken for dead.
const KEEPALIVE_PROBES: u32 = 4;
/// Limit of an attempt to connect to an agent.
const RECONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// An agent whose connection has ended, and which does not prove itself on another one for so long, is gone, whoever accepts at its port.
const PROOF_TIMEOUT: Duration = Duration::from_secs(20);
/// Connections in a row without a proof, after which no more are made to an agent that has never proved itself.
const MOST_UNPROVEN: u32 = 10;
/// Pause before the second of them; each is twice as long as the one before. (The first comes at once: mostly the agent has ended, and it
/// is refused.)
const UNPROVEN_PAUSE: Duration = Duration::from_millis(50);
/// Why an agent is known to be gone whose port somebody else has.
const IMPOSTOR: &str = "its agent has ended without a word, and something else answers at its port";

/// Whether an agent lives.
#[derive(Debug, PartialEq, Eq)]
pub enum Health {
    /// It lives, as far as is known.
    Lives,
    /// Why it is known to be gone.
    Gone(&'static str),
    /// It was never reached, or somebody else answers in its place, so the connection says nothing.
    Unknown,
}

enum State {
    /// Its address is being looked up.
    LookedUp,
    Connecting(Socket),
    /// Both ends prove that they know the secret. Anybody could have accepted: this says nothing of the agent.
    Greeting(Box<AgentHandshake>),
    /// The agent has proved itself, and its kernel keeps the connection.
    Up(TcpStream),
    /// Who has accepted has brought no proof; there is another attempt later.
    Pausing,
    Failed(io::ErrorKind),
}

/// The connection from the login node to an agent. By it both say that there is something new in a file; that it stands, once the agent has
/// proved itself, says that the agent lives, and its node.
///
/// Files cannot tell that. One that does not change may lie on a file system that is slow at the moment; who does not
/// answer is gone.
pub struct AgentMonitor {
    /// Host and port, if the address has to be looked up.
    host: String,
    address: Option<SocketAddr>,
    /// Proves to the agent that we are no stranger, and to us that it is the agent.
    secret: Vec<u8>,
    /// Somebody has accepted a connection: when one is refused later, what has listened there has ended.
    was_accepted: bool,
    has_news: bool,
    /// Connections since the last one with a proof.
    unproven: u32,
    /// When the agent is gone unless it has proved itself again: a connection on which it had done so has ended.
    proof_due: Option<Instant>,
    until: Instant,
    state: State,
}

impl AgentMonitor {
    /// Of an agent at a host and port: an address, to which it begins to connect, or a name to be looked up.
    pub fn new(host: &str, port: u16, secret: Vec<u8>) -> AgentMonitor {
        match host.parse::<IpAddr>() {
            Ok(address) => AgentMonitor::at(SocketAddr::new(address, port), secret),
            Err(_) => AgentMonitor::looked_up(format!("{host}:{port}"), secret),
        }
    }

    /// Of an agent at an address, to which it begins to connect.
    fn at(address: SocketAddr, secret: Vec<u8>) -> AgentMonitor {
        let mut monitor = AgentMonitor { address: Some(address), ..AgentMonitor::looked_up(String::new(), secret) };
        monitor.connect(Instant::now());
        monitor
    }

    /// Of an agent at a host and port, whose address is still to be found.
    fn looked_up(host: String, secret: Vec<u8>) -> AgentMonitor {
        AgentMonitor {
            host,
            address: None,
            secret,
            was_accepted: false,
            has_news: false,
            unproven: 0,
            proof_due: None,
            until: Instant::now(),
            state: State::LookedUp,
        }
    }

    /// Returns the host and port whose address has to be looked up.
    pub fn unknown_host(&self) -> Option<&str> {
        (!self.host.is_empty()).then_some(&self.host)
    }

    /// Takes note of the address of a host and port, if that is what it waits for, and begins to connect.
    pub fn on_address(&mut self, host: &str, address: Option<SocketAddr>, now: Instant) {
        if self.host == host && matches!(self.state, State::LookedUp) {
            self.address = address;
            self.connect(now);
        }
    }

    /// Returns what is to be polled before the next check.
    pub fn awaited(&self) -> Option<For> {
        match &self.state {
            State::Up(connection) => Some(For::Reading(connection.as_raw_fd())),
            State::Greeting(handshake) => Some(For::Reading(handshake.as_raw_fd())),
            State::Connecting(attempt) => Some(For::Writing(attempt.as_raw_fd())),
            State::LookedUp | State::Pausing | State::Failed(_) => None,
        }
    }

    /// Returns whether there may be something new in a file since the last call.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Returns how long nothing happens by itself.
    pub fn due_in(&self, now: Instant) -> Duration {
        let until = match self.state {
            State::Connecting(_) | State::Pausing => Some(self.until),
            State::LookedUp | State::Greeting(_) | State::Up(_) => None,
            State::Failed(_) => Some(now),
        };
        let next = until.into_iter().chain(self.proof_due).min();
        next.map_or(Duration::MAX, |next| next.saturating_duration_since(now))
    }

    /// Begins to connect.
    fn connect(&mut self, now: Instant) {
        self.until = now + RECONNECT_TIMEOUT;
        let attempt = self.address.ok_or(io::ErrorKind::NotFound.into()).and_then(attempt);
        self.state = attempt.map_or_else(|error| State::Failed(error.kind()), State::Connecting);
    }

    /// Says that there are orders.
    pub fn say(&mut self) {
        if let State::Up(connection) = &mut self.state {
            let _ = connection.write(NEWS); // one that is gone shows when it is read
        }
    }

    /// Takes note of what has happened on the connection, and returns what that says of the agent.
    pub fn check(&mut self, now: Instant) -> Health {
        if let State::Up(connection) = &mut self.state {
            let has_ended = match connection.read(&mut [0; 4096]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Health::Lives,
                Ok(count) => count == 0,
                Err(_) => true,
            };
            self.has_news = true;
            if !has_ended {
                return Health::Lives;
            }
            self.proof_due = Some(now + PROOF_TIMEOUT);
            self.connect(now);
        }
        match std::mem::replace(&mut self.state, State::LookedUp) {
            State::Greeting(handshake) => match handshake.advance() {
                HandshakeProgress::Waits(handshake) => self.state = State::Greeting(handshake),
                HandshakeProgress::Proven(connection) => {
                    (self.unproven, self.proof_due) = (0, None);
                    self.state = State::Up(connection);
                }
                HandshakeProgress::Stranger => return self.without_proof(),
                HandshakeProgress::Ended => {
                    self.unproven += 1;
                    match self.unproven {
                        1 => self.connect(now),
                        2..MOST_UNPROVEN => {
                            self.until = now + UNPROVEN_PAUSE * (1 << (self.unproven - 2));
                            self.state = State::Pausing;
                        }
                        _ => return self.without_proof(),
                    }
                }
            },
            State::Pausing if now < self.until => self.state = State::Pausing,
            State::Pausing => self.connect(now),
            other => self.state = other,
        }
        let may_follow = !matches!(self.state, State::Up(_) | State::Failed(_));
        if may_follow && self.proof_due.is_some_and(|due| now >= due) {
            return self.without_proof();
        }
        let failed = match &self.state {
            State::LookedUp | State::Pausing | State::Greeting(_) | State::Up(_) => return Health::Lives,
            State::Failed(kind) => *kind,
            State::Connecting(attempt) => {
                let is_decided = poll(&[For::Writing(attempt.as_raw_fd())], Duration::ZERO).is_ok_and(|ready| ready[0]);
                if !is_decided && now < self.until {
                    return Health::Lives;
                }
                let error = if is_decided { attempt.take_error() } else { Ok(Some(io::ErrorKind::TimedOut.into())) };
                match error.unwrap_or_else(Some) {
                    Some(error) => error.kind(),
                    None => {
                        self.greet();
                        return Health::Lives;
                    }
                }
            }
        };
        match (self.was_accepted, failed) {
            (false, _) => Health::Unknown,
            (true, io::ErrorKind::ConnectionRefused) => Health::Gone("its agent has ended without a word"),
            (true, _) => Health::Gone("its node does not answer"),
        }
    }

    /// What it means that somebody accepts at the agent's port who does not prove to be the agent. As long as that lives it has its port, so
    /// where it has proved itself before, it does not. Else the address may be wrong.
    fn without_proof(&self) -> Health {
        match self.proof_due {
            Some(_) => Health::Gone(IMPOSTOR),
            None => Health::Unknown,
        }
    }

    /// Somebody has accepted: proves to the agent who we are, which then looks for orders.
    fn greet(&mut self) {
        let State::Connecting(attempt) = std::mem::replace(&mut self.state, State::LookedUp) else { return };
        let Ok(handshake) = AgentHandshake::of_login_proxy(attempt.into(), &self.secret) else {
            // Without random bytes there is no proof; the files are polled.
            self.state = State::Failed(io::ErrorKind::Other);
            return;
        };
        self.state = State::Greeting(Box::new(handshake));
        self.was_accepted = true;
        self.has_news = true; // what was reported before
    }
}

fn attempt(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL).with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    // Nothing is probed while a byte is on its way that nobody acknowledges; retransmissions take a quarter of an hour.
    socket.set_tcp_user_timeout(Some(KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_PROBES))?;
    match socket.connect(&SockAddr::from(address)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_agent_whose_host_refuses_a_connection_at_once_has_ended() {
        let mut monitor = AgentMonitor::looked_up("node:1".to_owned(), vec![]);
        monitor.state = State::Failed(io::ErrorKind::ConnectionRefused);
        assert_eq!(monitor.check(Instant::now()), Health::Unknown, "it has never accepted");
        monitor.was_accepted = true;
        assert_eq!(monitor.check(Instant::now()), Health::Gone("its agent has ended without a word"));
    }

    const SECRET: &[u8] = b"the secret of this agent";
    const SHORT: Duration = Duration::from_millis(1);

    /// Checks the agent again and again until that is so; returns what the last check said.
    fn check_until(monitor: &mut AgentMonitor, is_it: impl Fn(&AgentMonitor, &Health) -> bool) -> Health {
        loop {
            let health = monitor.check(Instant::now());
            if is_it(monitor, &health) {
                return health;
            }
            std::thread::sleep(SHORT);
        }
    }

    /// Takes the next connection of the monitor, which has begun to prove itself on it.
    fn accept(listener: &TcpListener, monitor: &mut AgentMonitor) -> TcpStream {
        let (connection, _) = listener.accept().unwrap();
        check_until(monitor, |monitor, _| matches!(monitor.state, State::Greeting(_)));
        connection
    }

    /// Takes the next connection of the monitor as the agent, and proves it.
    fn prove(listener: &TcpListener, monitor: &mut AgentMonitor) -> TcpStream {
        let mut agent = AgentHandshake::of_agent(accept(listener, monitor), SECRET).unwrap();
        loop {
            monitor.check(Instant::now());
            match agent.advance() {
                HandshakeProgress::Waits(waits) => agent = *waits,
                HandshakeProgress::Proven(connection) => return connection,
                _ => panic!("the login proxy does not prove itself"),
            }
        }
    }

    /// An agent that has proved itself and was killed, and the socket of who has its port now.
    fn killed_agent() -> (TcpListener, AgentMonitor) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut monitor = AgentMonitor::at(listener.local_addr().unwrap(), SECRET.to_vec());
        let agent = prove(&listener, &mut monitor);
        assert!(matches!(monitor.state, State::Up(_)));
        drop(agent);
        (listener, monitor)
    }

    #[test]
    fn who_takes_the_port_of_a_killed_agent_and_says_nothing_is_no_agent() {
        let (impostor, mut monitor) = killed_agent();
        let before = Instant::now();
        check_until(&mut monitor, |monitor, _| !matches!(monitor.state, State::Up(_)));
        let _silent = accept(&impostor, &mut monitor);
        assert_eq!(monitor.check(before + PROOF_TIMEOUT - SHORT), Health::Lives);
        assert!(monitor.due_in(Instant::now()) <= PROOF_TIMEOUT, "nothing wakes the login proxy");
        assert_eq!(monitor.check(Instant::now() + PROOF_TIMEOUT), Health::Gone(IMPOSTOR));
    }

    #[test]
    fn who_takes_the_port_of_a_killed_agent_and_says_nonsense_is_no_agent() {
        let (impostor, mut monitor) = killed_agent();
        check_until(&mut monitor, |monitor, _| !matches!(monitor.state, State::Up(_)));
        let mut connection = accept(&impostor, &mut monitor);
        connection.write_all(b"no handshake, but longer than the head of one").unwrap();
        assert_eq!(check_until(&mut monitor, |_, health| *health != Health::Lives), Health::Gone(IMPOSTOR));
    }

    #[test]
    fn who_takes_the_port_of_a_killed_agent_and_hangs_up_is_no_agent() {
        let (impostor, mut monitor) = killed_agent();
        let (mut now, mut health) = (Instant::now(), Health::Lives);
        for _ in 0..MOST_UNPROVEN {
            check_until(&mut monitor, |monitor, _| !matches!(monitor.state, State::Up(_)));
            drop(accept(&impostor, &mut monitor));
            let unproven = monitor.unproven;
            health = check_until(&mut monitor, |monitor, _| monitor.unproven > unproven);
            if matches!(monitor.state, State::Pausing) {
                now = now.max(monitor.until);
                monitor.check(now);
            }
        }
        assert_eq!(health, Health::Gone(IMPOSTOR));
    }

    #[test]
    fn an_agent_that_has_lost_its_connection_and_proves_itself_again_lives() {
        let (listener, mut monitor) = killed_agent();
        check_until(&mut monitor, |monitor, _| !matches!(monitor.state, State::Up(_)));
        let _agent = prove(&listener, &mut monitor);
        assert_eq!(monitor.check(Instant::now() + 2 * PROOF_TIMEOUT), Health::Lives);
    }

    #[test]
    fn who_accepts_in_the_place_of_an_agent_that_never_proved_itself_says_nothing_of_it() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut monitor = AgentMonitor::at(listener.local_addr().unwrap(), SECRET.to_vec());
        let mut connection = accept(&listener, &mut monitor);
        assert_eq!(monitor.check(Instant::now() + 2 * PROOF_TIMEOUT), Health::Lives, "it may be busy");
        connection.write_all(b"no handshake, but longer than the head of one").unwrap();
        assert_eq!(check_until(&mut monitor, |_, health| *health != Health::Lives), Health::Unknown);
    }
}
