//! Between instances of one process: bytes through a queue in memory, large payloads handed over as they are.
//!
//! Addresses are `identity/number`: the identity is drawn at random in each process (also in a child after fork) and in each copy of this
//! library, so that the probe cannot mistake one for another. Nothing can be lost here while both ends live, and nothing runs full: what
//! a conduit may hold is bounded above.

mod pipe;

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::buffer::Buffer;
use crate::lock::lock;
use crate::per_process::PerProcess;
use crate::shared_memory::arena::Arena;
use crate::wakeup::EventFd;

use self::pipe::Pipe;
use super::{Descriptor, LentPlace, Listener, Memory, Method, Place, Stream};
use crate::handshake::Party;
use crate::methods::TrafficKind;

/// Payloads of this size and more are handed over instead of copied through the queue.
const LENT_FROM: usize = 4 * 1024;

/// The method `inproc`.
pub struct Inproc;

/// The listeners of this process.
struct Registry {
    identity: String,
    doors: Mutex<HashMap<u64, Arc<Door>>>,
    next: AtomicU64,
}

impl Registry {
    fn here() -> io::Result<&'static Registry> {
        static HERE: PerProcess<Registry> = PerProcess::new();
        let registry = HERE.get(|| Registry {
            identity: super::unix::random_name().unwrap_or_default(),
            doors: Mutex::default(),
            next: AtomicU64::new(1),
        });
        match registry.identity.is_empty() {
            true => Err(io::Error::other("the system gave no random bytes to name this process by")),
            false => Ok(registry),
        }
    }

    /// The number of a listener here, from its address.
    fn number(&self, address: &str) -> Option<u64> {
        address.strip_prefix(&self.identity)?.strip_prefix('/')?.parse().ok()
    }
}

impl Method for Inproc {
    fn name(&self) -> &'static str {
        "inproc"
    }

    fn can_break(&self) -> bool {
        false
    }

    fn listen(&self, _address: Option<&str>, _me: &Party) -> io::Result<Box<dyn Listener>> {
        let registry = Registry::here()?;
        let number = registry.next.fetch_add(1, Ordering::Relaxed);
        let door = Arc::new(Door { waiting: Mutex::default(), bell: EventFd::new()? });
        lock(&registry.doors).insert(number, door.clone());
        Ok(Box::new(InprocListener { registry, number, door }))
    }

    fn probe(&self, descriptor: &Descriptor, _there: &Place, _here: &Place) -> Result<(), String> {
        let registry = Registry::here().map_err(|error| error.to_string())?;
        match descriptor.addresses.iter().any(|address| registry.number(address).is_some()) {
            true => Ok(()),
            false => Err("the two instances are in different processes".to_owned()),
        }
    }

    fn connect(&self, address: &str, _me: &Party, _traffic: TrafficKind) -> io::Result<Box<dyn Stream>> {
        let registry = Registry::here()?;
        let door = registry.number(address).and_then(|number| lock(&registry.doors).get(&number).cloned());
        let door = door.ok_or_else(|| {
            io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens there in this process any more")
        })?;
        let (mine, theirs) = pair()?;
        lock(&door.waiting).push_back(theirs);
        door.bell.raise();
        Ok(Box::new(mine))
    }
}

struct Door {
    waiting: Mutex<VecDeque<InprocStream>>,
    /// Up while somebody waits.
    bell: EventFd,
}

struct InprocListener {
    registry: &'static Registry,
    number: u64,
    door: Arc<Door>,
}

impl Listener for InprocListener {
    fn fd(&self) -> RawFd {
        self.door.bell.as_raw_fd()
    }

    fn addresses(&self) -> Vec<String> {
        vec![format!("{}/{}", self.registry.identity, self.number)]
    }

    fn accept(&self) -> io::Result<Option<Box<dyn Stream>>> {
        let mut waiting = lock(&self.door.waiting);
        let first = waiting.pop_front();
        if waiting.is_empty() {
            self.door.bell.lower();
        }
        Ok(first.map(|stream| Box::new(stream) as Box<dyn Stream>))
    }
}

impl Drop for InprocListener {
    fn drop(&mut self) {
        lock(&self.registry.doors).remove(&self.number);
        lock(&self.door.waiting).clear();
    }
}

/// One end of a connection.
struct InprocStream {
    incoming: Arc<Pipe<Buffer>>,
    outgoing: Arc<Pipe<Buffer>>,
    arena: OnceLock<Arena>,
}

fn pair() -> io::Result<(InprocStream, InprocStream)> {
    let (one, other) = (Arc::new(Pipe::new(EventFd::new()?)), Arc::new(Pipe::new(EventFd::new()?)));
    let mine = InprocStream { incoming: one.clone(), outgoing: other.clone(), arena: OnceLock::new() };
    Ok((mine, InprocStream { incoming: other, outgoing: one, arena: OnceLock::new() }))
}

impl Stream for InprocStream {
    fn fd(&self) -> RawFd {
        self.incoming.bell().as_raw_fd()
    }

    fn peer(&self) -> &str {
        "inproc: this process"
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.incoming.read(into)
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.outgoing.write(parts)
    }

    fn shut(&self) {
        self.incoming.close();
        self.outgoing.close();
    }

    fn established(&self, arena: &Arena) -> io::Result<()> {
        self.incoming.establish();
        self.arena.set(arena.clone()).map_err(|_| io::Error::other("the handshake was done before"))
    }

    fn memory(&self) -> Option<&dyn Memory> {
        self.arena.get().map(|_| self as &dyn Memory)
    }
}

impl Memory for InprocStream {
    fn has_news(&self) -> bool {
        self.incoming.has_news()
    }

    fn announce_sleep(&self) -> bool {
        self.incoming.announce_sleep()
    }

    fn announce_sleep_for_room(&self) -> bool {
        false
    }

    fn drain_wakeups(&self) {
        self.incoming.drain_wakeups();
    }

    fn write_frame(&self, front: &[u8], payload: &[u8]) -> io::Result<bool> {
        self.outgoing.write(&[IoSlice::new(front), IoSlice::new(payload)]).map(|_| true)
    }

    fn lends_from(&self) -> usize {
        LENT_FROM
    }

    fn lend(&self, payload: &[Buffer]) -> Option<LentPlace> {
        let buffer = match payload {
            [only] if !only.is_foreign() => only.clone(),
            pieces => self.arena.get()?.copy_of(pieces).ok()?,
        };
        let length = buffer.len() as u64;
        let number = self.outgoing.hand_over(buffer);
        Some(LentPlace { region: 0, offset: 0, length, generation: number })
    }

    fn borrow(&self, place: &LentPlace) -> Result<Buffer, String> {
        self.incoming.take_over(place.generation).ok_or_else(|| "it handed over a payload that is not there".to_owned())
    }
}

impl Drop for InprocStream {
    fn drop(&mut self) {
        self.shut();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::nobody;
    use crate::wakeup::{poll_readable, Polled};
    use std::time::Instant;

    fn is_ringing(stream: &InprocStream) -> bool {
        poll_readable(&[stream.fd()], Some(Instant::now())).unwrap() == Polled::Ready
    }

    fn established() -> (InprocStream, InprocStream) {
        let (a, b) = pair().unwrap();
        a.established(&Arena::new()).unwrap();
        b.established(&Arena::new()).unwrap();
        (a, b)
    }

    fn write(stream: &InprocStream, bytes: &[u8]) {
        assert_eq!(stream.write(&[IoSlice::new(bytes)]).unwrap(), bytes.len());
    }

    #[test]
    fn a_listener_is_reached_by_its_address_only() {
        let listener = Inproc.listen(None, &nobody()).unwrap();
        let address = listener.addresses().remove(0);
        let descriptor = |address: &str| Descriptor { method: "inproc".into(), addresses: vec![address.into()] };
        let here = Place::here();
        assert!(Inproc.probe(&descriptor(&address), &here, &here).is_ok());
        let other = if address.starts_with("00") { "01" } else { "00" };
        let elsewhere = format!("{other}{}", &address[2..]);
        let reason = Inproc.probe(&descriptor(&elsewhere), &here, &here).unwrap_err();
        assert!(reason.contains("different processes"), "{reason}");
        assert!(Inproc.connect(&elsewhere, &nobody(), TrafficKind::default()).is_err());
        assert!(Inproc.connect(&address, &nobody(), TrafficKind::default()).is_ok());
        assert!(listener.accept().unwrap().is_some());
        drop(listener);
        assert!(Inproc.connect(&address, &nobody(), TrafficKind::default()).is_err());
    }

    #[test]
    fn a_payload_is_handed_over_and_not_copied() {
        let (a, b) = established();
        let payload = Buffer::copy_of(&[9; 100_000]);
        let start = payload.as_ptr();
        let place = a.memory().unwrap().lend(&[payload]).unwrap();
        let mut taken = b.memory().unwrap().borrow(&place).unwrap();
        assert_eq!(taken.as_ptr(), start);
        assert!(taken.get_mut().is_some(), "the only reference may be written to");
        assert!(b.memory().unwrap().borrow(&place).is_err(), "once");
    }

    #[test]
    fn a_payload_that_is_held_elsewhere_too_is_read_only() {
        let (a, b) = established();
        let payload = Buffer::copy_of(&[9; 100_000]);
        let place = a.memory().unwrap().lend(std::slice::from_ref(&payload)).unwrap();
        assert!(b.memory().unwrap().borrow(&place).unwrap().get_mut().is_none());
    }

    #[test]
    fn the_bell_rings_only_for_who_sleeps() {
        let (a, b) = established();
        write(&a, &[1]);
        assert!(b.memory().unwrap().has_news() && !is_ringing(&b));
        assert!(!b.memory().unwrap().announce_sleep(), "something is there");
        let mut byte = [0];
        assert_eq!(b.read(&mut byte).unwrap(), 1);
        assert!(!b.memory().unwrap().has_news());
        assert!(b.memory().unwrap().announce_sleep() && !is_ringing(&b));
        write(&a, &[2]);
        assert!(is_ringing(&b));
        b.memory().unwrap().drain_wakeups();
        assert!(!is_ringing(&b) && b.memory().unwrap().has_news());
    }

    #[test]
    fn the_end_comes_after_what_was_written_and_rings() {
        let (a, b) = established();
        write(&a, &[1]);
        drop(a);
        assert!(is_ringing(&b));
        let mut bytes = [0; 4];
        assert_eq!(b.read(&mut bytes).unwrap(), 1);
        assert_eq!(b.read(&mut bytes).unwrap(), 0);
        assert!(b.write(&[IoSlice::new(&[1])]).is_err());
        b.memory().unwrap().drain_wakeups();
        assert!(is_ringing(&b), "an end stays visible");
    }
}
