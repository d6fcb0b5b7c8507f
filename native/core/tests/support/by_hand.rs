//! Connections of an instance that is none: what it says is up to the test.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use xmml_core::buffer::BufferPool;
use xmml_core::control::{ToCoordinator, ToInstance};
use xmml_core::coordinator::{Coordinator, CoordinatorAddress};
use xmml_core::frame::{encode_control, Decoder, Frame, Limits};
use xmml_core::handshake::{fresh_nonce, Dialler, Party, Role, Step, VERSIONS};
use xmml_core::methods::Table;

use super::waiting::LIMIT;

/// Connects to an abstract unix address, `@name`.
pub fn connect(address: &str) -> UnixStream {
    let name = address.trim_start_matches('@');
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Where a coordinator listens.
pub fn control_address(coordinator: &Coordinator) -> CoordinatorAddress {
    coordinator.addresses()[0].parse().unwrap()
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
        let me = Party {
            secret: secret.to_vec(),
            run: run.into(),
            name: name.into(),
            versions: VERSIONS,
            nonce: fresh_nonce().unwrap(),
        };
        let (mut dialler, hello) = Dialler::new(me, role, peer).unwrap();
        stream.write_all(&hello).unwrap();
        let mut bytes = [0; 1024];
        loop {
            let count = stream.read(&mut bytes).map_err(|error| error.to_string())?;
            if count == 0 {
                return Err("closed".into());
            }
            match dialler.feed(&bytes[..count]) {
                Step::More => {}
                Step::Send(send) => stream.write_all(&send).unwrap(),
                Step::Done { send, rest, .. } => {
                    stream.write_all(&send).unwrap();
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

    /// Asks to be let into the run.
    pub fn ask_to_join(&mut self, pid: u32) {
        self.say(&ToCoordinator::Join { pid, host: "here".into(), language: "test".into(), version: "1".into() });
    }

    /// Tells the coordinator something.
    pub fn say(&mut self, message: &ToCoordinator) {
        self.stream.write_all(&encode_control(&message.encode())).unwrap();
    }

    /// What the coordinator says next.
    pub fn hear(&mut self) -> ToInstance {
        match self.frame() {
            Frame::Control(body) => ToInstance::decode(&body, "coordinator").unwrap(),
            other => panic!("not a control frame: {other:?}"),
        }
    }

    /// Where an instance that has joined listens, once the coordinator says so.
    pub fn table_of(&mut self, name: &str) -> Table {
        loop {
            if let ToInstance::Peer { instance, table } = self.hear() {
                if instance == name {
                    return table;
                }
            }
        }
    }
}

impl Client {
    /// The control connection of the instance `name`.
    pub fn to_coordinator(coordinator: &Coordinator, secret: &[u8], name: &str) -> Result<Client, String> {
        let address = control_address(coordinator);
        Client::dial(connect(&address.address), &address.run, secret, name, Role::Control, "coordinator")
    }
}
