//! The ways by which a conduit can travel.
//!
//! A method listens, tells where it can be reached (a [`Descriptor`]), and connects. Each receiver publishes a [`Table`] of descriptors,
//! fastest first; a sender takes the first one that is allowed, passes its probe, and connects. Everything above this folder is the same
//! for every method; one conformance suite runs over all of them.

pub mod choice;
mod dialled;
pub mod inproc;
pub mod place;
pub mod relay;
pub mod shm;
pub mod socket;
pub mod tcp;
pub mod unix;

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, RawFd};

use serde::{Deserialize, Serialize};

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::handshake::Party;
use crate::shared_memory::arena::Arena;
use crate::spelling;
use crate::wakeup::Interest;

pub use choice::{name_of, Choice};
pub use place::Place;
pub use shm::ring::Glance;
pub use shm::stream::NextFrame;

/// What a conduit is for, where the model says so (`run:class`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrafficClass {
    /// Small messages that others wait for.
    Control,
    /// Large ones.
    Bulk,
}

/// What travels on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficKind {
    /// Of conduits of this class; `None`: of none.
    #[serde(default)]
    pub class: Option<TrafficClass>,
    /// It is [protected](crate::protection) from one end to the other, so that who carries it need not protect it again.
    #[serde(default)]
    pub is_protected: bool,
}

impl TrafficKind {
    /// Of a connection to the coordinator.
    pub const CONTROL: TrafficKind = TrafficKind { class: Some(TrafficClass::Control), is_protected: true };
}

/// One way of reaching a receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Name of the method, e.g. `unix`.
    pub method: String,
    /// Where it listens, in the method's own notation; tried in order.
    pub addresses: Vec<String>,
}

/// All ways of reaching a receiver, fastest first, and what a sender needs to know to judge them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Where the receiver runs.
    pub place: Place,
    /// How it can be reached there.
    pub entries: Vec<Descriptor>,
}

/// What has passed a conduit at one of its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Messages sent, or taken by the receiving program.
    pub messages: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Messages per second since somebody asked before; 0 the first time.
    pub messages_per_s: f64,
    /// Bytes per second since somebody asked before; 0 the first time.
    pub bytes_per_s: f64,
    /// How long a message took lately from its sending until the sender heard that the receiving program had taken it; only at the
    /// sender, once it has heard that of a message.
    pub latency_s: Option<f64>,
    /// Messages replaced at this end by newer ones, of a conduit that shows the newest only.
    #[serde(default)]
    pub replaced: u64,
    /// Messages dropped at this end because the receiver had left, or was too slow and may lose some.
    #[serde(default)]
    pub dropped: u64,
    /// Objects of a pool that wait at this end until a reader has room. Of those that the readers of a queue share, the first one's conduit
    /// tells.
    #[serde(default)]
    pub waiting: u64,
    /// Bytes of what was sent here, or waits here, and is not known to have been taken.
    #[serde(default)]
    pub held_bytes: u64,
}

/// How a conduit travels, or why it does not (yet).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodReport {
    /// The conduit.
    pub conduit: u32,
    /// The conduit for people: `a.o -> b.i`.
    pub name: String,
    /// The method in use; `None` while the other end is not known yet, and at a receiver before the sender has connected.
    pub chosen: Option<String>,
    /// What travels is encrypted and authenticated from one end to the other.
    #[serde(default)]
    pub protected: bool,
    /// The methods that were considered first and refused, each with the reason.
    pub refused: Vec<Refusal>,
    /// Methods that could have been taken, had there not been a faster one; only at the sender.
    pub slower: Vec<String>,
    /// What has passed.
    pub traffic: Traffic,
}

impl fmt::Display for MethodReport {
    /// `a.o -> b.i: tcp, protected (unix refused: another host); 7 messages, 56 bytes, 0 bytes/s, 12.0 us to be taken`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.chosen.as_deref().unwrap_or("not chosen yet"))?;
        if self.protected {
            f.write_str(", protected")?;
        }
        if !self.refused.is_empty() {
            let why = |refusal: &Refusal| format!("{} refused: {}", refusal.method, refusal.reason);
            write!(f, " ({})", self.refused.iter().map(why).collect::<Vec<_>>().join("; "))?;
        }
        let Traffic { messages, bytes, bytes_per_s, latency_s, replaced, dropped, waiting, held_bytes, .. } =
            self.traffic;
        write!(f, "; {messages} messages, {bytes} bytes, {bytes_per_s:.0} bytes/s")?;
        if replaced > 0 {
            write!(f, ", {replaced} replaced by newer ones")?;
        }
        if dropped > 0 {
            write!(f, ", {dropped} dropped")?;
        }
        if waiting > 0 {
            write!(f, ", {waiting} waiting")?;
        }
        if held_bytes > 0 {
            write!(f, ", {held_bytes} bytes held")?;
        }
        latency_s.map_or(Ok(()), |latency| write!(f, ", {:.1} us to be taken", latency * 1e6))
    }
}

/// A method that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Its name, e.g. `unix`.
    pub method: String,
    /// Why not.
    pub reason: String,
}

/// A way of travelling.
pub trait Method: Send + Sync {
    /// Its name in tables, models and reports.
    fn name(&self) -> &'static str;

    /// Whether a connection can break while both ends live. Then messages are kept until the receiver has them, and the connection is
    /// made again; otherwise a broken connection means that the peer has ended.
    fn can_break(&self) -> bool;

    /// Whether this process can listen by it at all, as far as its surroundings say; else why not.
    fn available(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Starts listening at `address`, or anywhere suitable, on behalf of `me`. Never waits.
    fn listen(&self, address: Option<&str>, me: &Party) -> io::Result<Box<dyn Listener>>;

    /// Whether a process at `here` can reach one at `there` by this descriptor, as far as can be known without trying; else why not.
    fn probe(&self, descriptor: &Descriptor, there: &Place, here: &Place) -> std::result::Result<(), String>;

    /// Begins to connect on behalf of `me`; never waits. Failure may only show when the stream is used.
    fn connect(&self, address: &str, me: &Party, traffic: TrafficKind) -> io::Result<Box<dyn Stream>>;
}

/// Accepts connections. Its descriptor is readable while some wait.
pub trait Listener: Send {
    /// For poll and epoll.
    fn fd(&self) -> RawFd;
    /// Where peers can reach it.
    fn addresses(&self) -> Vec<String>;
    /// Takes the next waiting connection; `None` if there is none.
    fn accept(&self) -> io::Result<Option<Box<dyn Stream>>>;
    /// Whether anybody on a network may come. Else the kernel, or the relay, vouches for those who do.
    fn is_open_to_strangers(&self) -> bool {
        false
    }
}

/// A connection: bytes both ways, never waiting. `WouldBlock` means: poll the descriptor.
///
/// One thread at a time may read, and one write; a [`crate::connection::Connection`] has a lock for each.
pub trait Stream: Send + Sync {
    /// For poll and epoll.
    fn fd(&self) -> RawFd;
    /// The other end, for people.
    fn peer(&self) -> &str;
    /// Reads what is there; 0 at the end of the stream.
    fn read(&self, into: &mut [u8]) -> io::Result<usize>;
    /// Writes what there is room for.
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Passes on what a write has taken but kept; `WouldBlock`: not all of it, poll for room.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    /// Whether there may be more to read after a read that got less than it asked for, without the descriptor saying so.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// The TCP socket to which every byte goes as it is, if there is one: then the bytes may be sent without copying them into the kernel.
    fn bare_socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Ends both directions; readers at both ends see the end of the stream after the bytes already under way.
    fn shut(&self);

    /// While the stream is still being opened by somebody in between: what its descriptor must be ready for until reading or writing
    /// takes that further. `None`: it is open.
    fn opening(&self) -> Option<Interest> {
        None
    }

    /// What the two ends of an encrypted stream, and nobody else, can know of it: it covers both certificates. Proofs that are given on
    /// the stream cover it, so that nobody in the middle can pass them on. `None`: the stream is not encrypted.
    ///
    /// # Errors
    /// It is encrypted, but its ends have not come to terms yet.
    fn channel(&self) -> io::Result<Option<[u8; 32]>> {
        Ok(None)
    }

    /// The SHA-256 of the certificate that the other end of an encrypted stream has shown.
    fn shown_certificate(&self) -> Option<[u8; 32]> {
        None
    }

    /// Whether its bytes may pass a network, where others could read or change them.
    fn leaves_host(&self) -> bool {
        false
    }

    /// Whether its bytes are encrypted and authenticated from one end to the other ([`crate::protection`]).
    fn is_protected(&self) -> bool {
        false
    }

    /// Whether the peer can be gone without anybody here being told: then heartbeats find out ([`crate::liveness::heartbeat`]).
    fn can_fall_silent(&self) -> bool {
        false
    }

    /// The handshake is done: from now on frames travel. A stream that can changes over to memory; `arena` is where it may keep payloads
    /// that it lends.
    fn established(&self, _arena: &Arena) -> io::Result<()> {
        Ok(())
    }

    /// The memory through which frames travel once the stream has changed over to it. `None`: they travel as bytes.
    fn memory(&self) -> Option<&dyn Memory> {
        None
    }

    /// How bytes pass an encrypted stream without being encrypted by it. `None`: it does not encrypt.
    fn clear(&self) -> Option<&dyn Clear> {
        None
    }
}

/// What a stream that encrypts offers for bytes that need it not, since who sends them has protected them already. Where they stand among
/// the others, and how many they are, nobody on the way can change; the bytes themselves they can.
pub trait Clear: Send + Sync {
    /// Encrypts `closed` and writes it with `open`, which goes behind it as it is; returns how many bytes were taken of both together. Nothing
    /// else may be written until all of `open` is taken.
    ///
    /// # Errors
    /// As of a write.
    fn write(&self, closed: &[IoSlice<'_>], open: &[u8]) -> io::Result<usize>;

    /// Reads bytes that the other end has written as they are. They follow upon the last that was read of what was encrypted.
    ///
    /// # Errors
    /// As of a read.
    fn read(&self, into: &mut [u8]) -> io::Result<usize>;
}

/// What memory adds to a stream: looking costs no system call, a payload may be lent instead of written, and the descriptor becomes
/// readable only for who has said that it sleeps, and when the peer is gone.
pub trait Memory: Send + Sync {
    /// Whether a read may find something, as far as a glance can tell.
    fn has_news(&self) -> bool;

    /// Announces that the caller is about to sleep until the descriptor is readable; false: something is there, look first.
    fn announce_sleep(&self) -> bool;

    /// Announces that the caller is about to sleep until the descriptor is readable because there is room again; false: there is.
    fn announce_sleep_for_room(&self) -> bool;

    /// The descriptor was readable: takes the wake-ups off it. Whoever calls this must then read, and write what waits.
    fn drain_wakeups(&self);

    /// Writes a whole frame at once, whose head stands in `front`, and wakes a reader that has announced its sleep; false: there is not
    /// enough room, and nothing was written.
    fn write_frame(&self, front: &[u8], payload: &[u8]) -> io::Result<bool>;

    /// For who looks again and again at whether the next frame is there, if that is one look at memory.
    fn glance(&self) -> Option<&Glance> {
        None
    }

    /// The frame that comes next, if all of it is there and can be taken without a decoder.
    fn next_frame(&self) -> Option<NextFrame<'_>> {
        None
    }

    /// From which size on payloads are lent instead of written.
    fn lends_from(&self) -> usize;

    /// Lends a payload to the other end, where it is seen without being copied, until it is returned; `None`: it must be written.
    fn lend(&self, payload: &[Buffer]) -> Option<LentPlace>;

    /// What the other end has lent.
    ///
    /// # Errors
    /// There is no such loan; the text says why.
    fn borrow(&self, place: &LentPlace) -> std::result::Result<Buffer, String>;
}

/// Where a payload lies that was lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentPlace {
    /// Which memory; the two ends agree on its number.
    pub region: u64,
    /// Where in it.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Tells this loan from others.
    pub generation: u64,
}

/// Every method there is, fastest first.
pub fn all() -> Vec<Box<dyn Method>> {
    vec![Box::new(inproc::Inproc), Box::new(shm::Shm), Box::new(unix::Unix), Box::new(tcp::Tcp), Box::new(relay::Relay)]
}

/// The methods of a text like `tcp,unix`; an empty one allows all.
///
/// # Errors
/// [`Error::Usage`] as of [`check_names`].
pub fn names_in(text: &str) -> Result<Vec<String>> {
    let names: Vec<String> =
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    check_names(&names)?;
    Ok(names)
}

/// Refuses methods that do not exist, and says what may have been meant, and parameters that they do not have.
pub fn check_names(names: &[String]) -> Result<()> {
    let all = all();
    let known: Vec<&str> = all.iter().map(|method| method.name()).collect();
    let mut choices = names.iter().map(|choice| name_of(choice));
    let Some(unknown) = choices.find(|name| !known.contains(name)) else {
        let wrong = names.iter().find_map(|choice| Choice::read(choice).err());
        return wrong.map_or(Ok(()), |problem| Err(Error::Usage { problem }));
    };
    let meant = spelling::closest(unknown, known.iter().copied()).map(|name| format!("did you mean {name}? "));
    let problem =
        format!("there is no method \"{unknown}\": {}the methods are {}", meant.unwrap_or_default(), known.join(", "));
    Err(Error::Usage { problem })
}

/// The method of this name.
pub fn by_name(name: &str) -> Option<Box<dyn Method>> {
    all().into_iter().find(|method| method.name() == name)
}

/// For tests of methods that ask nobody who they are.
#[cfg(test)]
pub(crate) fn nobody() -> Party {
    Party {
        secret: vec![1],
        run: String::new(),
        name: String::new(),
        versions: (1, 1),
        nonce: [0; 32],
        private_key: [0; 32],
    }
}
