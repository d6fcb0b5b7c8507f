//! How the login proxy and the agent of a job find out that each is who it should be: by the handshake of all connections of a run, keyed by
//! a secret that the agent has made and that lies in its folder. The secret passes no network outside of the file system.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};

use xmml_wire::error::Result;
use xmml_wire::handshake::{Dialler, Listener, Party, Role, Step, MAX_BYTES};

/// The file in the agent's folder with the secret.
pub const SECRET: &str = "secret";
/// What either of them sends after the handshake to say that there is something new in a file.
pub const NEWS: &[u8] = b"n";

/// What stands for the run: each agent has a secret of its own.
const RUN: &str = "job";
const AGENT: &str = "agent";
const LOGIN_PROXY: &str = "login proxy";

enum Side {
    LoginProxy(Dialler),
    Agent(Listener),
}

/// A connection between the two, on which the other end has proved nothing yet.
pub struct AgentHandshake {
    connection: TcpStream,
    side: Side,
}

/// How far a handshake is.
pub enum HandshakeProgress {
    /// More must come from the other end.
    Waits(Box<AgentHandshake>),
    /// The other end knows the secret.
    Proven(TcpStream),
    /// The other end does not know the secret, or does not speak as it should.
    Stranger,
    /// The connection has ended.
    Ended,
}

impl AgentHandshake {
    /// Begins on a connection that the login proxy has opened.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn of_login_proxy(connection: TcpStream, secret: &[u8]) -> Result<AgentHandshake> {
        let me = Party::new(secret, RUN, LOGIN_PROXY)?;
        let (dialler, hello) = Dialler::new(me, Role::Agent, AGENT, false)?;
        let mut begun = AgentHandshake { connection, side: Side::LoginProxy(dialler) };
        begun.send(&hello); // a connection that is broken shows when it is read
        Ok(begun)
    }

    /// Begins on a connection that an agent has accepted.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn of_agent(connection: TcpStream, secret: &[u8]) -> Result<AgentHandshake> {
        let listener = Listener::new(Party::new(secret, RUN, AGENT)?, &[Role::Agent])?;
        Ok(AgentHandshake { connection, side: Side::Agent(listener) })
    }

    /// Goes on with what has come.
    pub fn advance(mut self) -> HandshakeProgress {
        let mut bytes = [0; MAX_BYTES];
        let come = match self.connection.read(&mut bytes) {
            Ok(count @ 1..) => &bytes[..count],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return HandshakeProgress::Waits(Box::new(self)),
            _ => return HandshakeProgress::Ended,
        };
        let step = match &mut self.side {
            Side::LoginProxy(dialler) => dialler.feed(come),
            Side::Agent(listener) => listener.feed(come),
        };
        match step {
            Step::More => HandshakeProgress::Waits(Box::new(self)),
            Step::Send(bytes) if self.send(&bytes) => HandshakeProgress::Waits(Box::new(self)),
            Step::Done { send, .. } if self.send(&send) => HandshakeProgress::Proven(self.connection),
            Step::Send(_) | Step::Done { .. } => HandshakeProgress::Ended,
            Step::Refused { send, .. } => {
                self.send(&send);
                HandshakeProgress::Stranger
            }
        }
    }

    /// Sends something; a connection that does not take the few bytes of a handshake is broken.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.connection.write(bytes).is_ok_and(|count| count == bytes.len())
    }
}

impl AsRawFd for AgentHandshake {
    fn as_raw_fd(&self) -> RawFd {
        self.connection.as_raw_fd()
    }
}
