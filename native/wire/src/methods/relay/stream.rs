//! A connection through a relay, from the moment it is dialled: until the relay has opened the pipe, reading and writing take only that
//! further.

use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use super::asking::{Asking, Progress};
use super::hosts;
use super::protocol::{FromRelay, ToRelay};
use crate::handshake::Party;
use crate::lock::lock;
use crate::methods::{tcp, Stream};
use crate::wakeup::Interest;

/// See the module.
pub struct RelayStream {
    connection: Box<dyn Stream>,
    /// Where the relay is, for people.
    relay: String,
    peer: String,
    is_open: AtomicBool,
    opening: Mutex<(Asking, Interest)>,
}

impl RelayStream {
    /// Dials the relay at `relay` (`HOST:PORT`) and asks for a pipe.
    pub fn ask(relay: &str, me: &Party, request: ToRelay, peer: String) -> io::Result<RelayStream> {
        let dialled = hosts::addresses(relay).and_then(|addresses| tcp::dial(&addresses, relay));
        let connection =
            dialled.inspect_err(|_| hosts::doubt(relay)).map_err(|error| unreachable_relay(relay, &error))?;
        let asking = Asking::new(me, request)?;
        let first = Interest { read: false, write: true, close: false };
        Ok(RelayStream {
            connection,
            relay: relay.to_owned(),
            peer,
            is_open: AtomicBool::new(false),
            opening: Mutex::new((asking, first)),
        })
    }

    /// Takes the opening further; whether the pipe is open.
    fn is_open(&self) -> io::Result<bool> {
        if self.is_open.load(Ordering::Acquire) {
            return Ok(true);
        }
        let mut opening = lock(&self.opening);
        if self.is_open.load(Ordering::Acquire) {
            return Ok(true);
        }
        match opening.0.advance(&*self.connection).map_err(|error| unreachable_relay(&self.relay, &error))? {
            Progress::Wait(interest) => {
                opening.1 = interest;
                Ok(false)
            }
            Progress::Answered(FromRelay::Opened {}) => {
                hosts::found(&self.relay, self.fd());
                self.is_open.store(true, Ordering::Release);
                Ok(true)
            }
            Progress::Answered(_) => {
                Err(io::Error::other(format!("the relay at {} answered something else than was asked", self.relay)))
            }
        }
    }
}

impl Drop for RelayStream {
    /// It has not come about: perhaps the relay is somewhere else now.
    fn drop(&mut self) {
        if !self.is_open.load(Ordering::Acquire) {
            hosts::doubt(&self.relay);
        }
    }
}

/// An error of the way through the relay, told from those of the pipe.
pub fn unreachable_relay(relay: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("the relay at {relay}: {error}"))
}

impl Stream for RelayStream {
    fn fd(&self) -> RawFd {
        self.connection.fd()
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self.is_open()? {
            true => self.connection.read(into),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.is_open()? {
            true => self.connection.write(parts),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn shut(&self) {
        self.connection.shut();
    }

    fn opening(&self) -> Option<Interest> {
        if self.is_open.load(Ordering::Acquire) {
            return None;
        }
        Some(lock(&self.opening).1)
    }

    fn leaves_host(&self) -> bool {
        true // who relays it must not read it either
    }

    fn can_fall_silent(&self) -> bool {
        true // a relay in between, or a host behind it, may vanish without a word
    }
}
