//! Memory shared by two processes of one user on one host.
//!
//! Small messages go through a ring of bytes ([`ring`]); the payloads of large ones are written once, into memory that is lent to the
//! receiver ([`loans`]). The memory has no name: it is passed over a Unix socket, which is the real probe (whoever receives it can map
//! it), wakes whoever sleeps, and tells when the other process is gone.
//!
//! Addresses are abstract names of Unix sockets, as for [`super::unix`].

pub mod bytes;
pub mod loans;
pub mod passing;
mod process;
pub mod returns;
pub mod ring;
pub mod segment;
pub mod stream;

use std::io;
use std::os::fd::RawFd;

use super::unix::{self, Door};
use super::{Descriptor, Listener, Method, Place, Stream};
use crate::handshake::Party;
use crate::methods::TrafficKind;

use self::segment::Segment;
use self::stream::ShmStream;

/// The method `shm`.
pub struct Shm;

impl Method for Shm {
    fn name(&self) -> &'static str {
        "shm"
    }

    fn can_break(&self) -> bool {
        false
    }

    fn listen(&self, address: Option<&str>, _me: &Party) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(ShmListener(Door::open(address, "shm")?)))
    }

    fn probe(&self, _descriptor: &Descriptor, there: &Place, here: &Place) -> Result<(), String> {
        unix::probe(there, here)
    }

    fn connect(&self, address: &str, _me: &Party, _traffic: TrafficKind) -> io::Result<Box<dyn Stream>> {
        let segment = Segment::new()?;
        let socket = unix::connect(address)?;
        Ok(Box::new(ShmStream::dialler(socket, format!("shm:{address}"), segment)?))
    }
}

struct ShmListener(Door);

impl Listener for ShmListener {
    fn fd(&self) -> RawFd {
        self.0.fd()
    }

    fn addresses(&self) -> Vec<String> {
        vec![self.0.name().to_owned()]
    }

    fn accept(&self) -> io::Result<Option<Box<dyn Stream>>> {
        let Some((socket, process)) = self.0.accept()? else { return Ok(None) };
        Ok(Some(Box::new(ShmStream::listener(socket, format!("shm: process {process}"))?)))
    }
}
