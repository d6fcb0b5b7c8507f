//! Connections of an instance that is none: what it says is up to the test.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use xmml_wire::buffer::BufferPool;
use xmml_wire::frame::{Decoder, Frame, Limits};
use xmml_wire::handshake::{fresh_nonce, Dialler, Listener, Party, Role, Step, VERSIONS};

use super::waiting::LIMIT;

fn party(run: &str, secret: &[u8], name: &str) -> Party {
    Party {
        secret: secret.to_vec(),
        run: run.into(),
        name: name.into(),
        versions: VERSIONS,
        nonce: fresh_nonce().unwrap(),
        private_key: fresh_nonce().unwrap(),
    }
}

/// Connects to an abstract unix address, `@name`.
pub fn connect(address: &str) -> UnixStream {
    let name = address.trim_start_matches('@');
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// A connection on which reads wait until something is over at the latest.
pub struct Until<F>(pub TcpStream, pub F);

impl<F: Fn() -> bool> Until<F> {
    /// Connects to this address.
    pub fn over(address: &str, is_over: F) -> Until<F> {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        Until(stream, is_over)
    }
}

impl<F: Fn() -> bool> Read for Until<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !(self.1)() => {}
                result => return result,
            }
        }
    }
}

impl<F> Write for Until<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection whose handshake is done, and the frames that have come on it.
pub struct Client<S = UnixStream> {
    pub stream: S,
    pub frames: Vec<Frame>,
    decoder: Decoder,
}

impl<S: Read + Write> Client<S> {
    /// Opens a connection to `peer` as the instance `name`.
    pub fn dial(
        mut stream: S,
        run: &str,
        secret: &[u8],
        name: &str,
        role: Role,
        peer: &str,
    ) -> Result<Client<S>, String> {
        let (mut dialler, hello) = Dialler::new(party(run, secret, name), role, peer, false).unwrap();
        stream.write_all(&hello).unwrap();
        Client::shake(stream, |bytes| dialler.feed(bytes))
    }

    /// Answers a connection as the instance `name`, to which somebody sends.
    pub fn answer(stream: S, run: &str, secret: &[u8], name: &str) -> Result<Client<S>, String> {
        let mut listener = Listener::new(party(run, secret, name), &[Role::Data]).unwrap();
        Client::shake(stream, |bytes| listener.feed(bytes))
    }

    fn shake(mut stream: S, mut feed: impl FnMut(&[u8]) -> Step) -> Result<Client<S>, String> {
        let mut bytes = [0; 1024];
        loop {
            let count = stream.read(&mut bytes).map_err(|error| error.to_string())?;
            if count == 0 {
                return Err("closed".into());
            }
            match feed(&bytes[..count]) {
                Step::More => {}
                Step::Send(send) => stream.write_all(&send).map_err(|error| error.to_string())?,
                Step::Done { send, rest, .. } => {
                    stream.write_all(&send).map_err(|error| error.to_string())?;
                    let mut decoder = Decoder::new(BufferPool::new(), Limits::default());
                    let frames = decoder.push(&rest).unwrap();
                    return Ok(Client { stream, decoder, frames });
                }
                Step::Refused { reason, .. } => return Err(reason.to_string()),
            }
        }
    }

    /// The next frame.
    pub fn frame(&mut self) -> Frame {
        self.next_frame().expect("the other side answers")
    }

    /// The next frame, or why there is none.
    pub fn next_frame(&mut self) -> io::Result<Frame> {
        while self.frames.is_empty() {
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.frames = self.decoder.push(&bytes[..count]).unwrap();
        }
        Ok(self.frames.remove(0))
    }
}
