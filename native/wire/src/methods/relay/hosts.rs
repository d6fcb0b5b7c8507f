//! Where the hosts of relays are. A name server may take long, and who dials has other things to do: it is asked in a thread, once, and
//! what it said holds until a relay was not found there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::internet_address::resolve;
use crate::lock::lock;

/// So long somebody who dials waits for the name server, if nothing is known. Most answer sooner.
const PATIENCE: Duration = Duration::from_millis(200);

static HOSTS: Hosts = Hosts::new(|at| resolve(at).map_err(|error| error.to_string()));

type LookUp = fn(&str) -> Result<Vec<SocketAddr>, String>;

struct Hosts {
    look_up: LookUp,
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Default)]
struct Known {
    addresses: BTreeMap<String, Vec<SocketAddr>>,
    /// Why there are none, until that is told.
    problems: BTreeMap<String, String>,
    under_way: BTreeSet<String>,
}

/// The addresses of a relay at `HOST:PORT`.
///
/// # Errors
/// It has none, or the name server has not said them yet.
pub fn addresses(at: &str) -> io::Result<Vec<SocketAddr>> {
    HOSTS.addresses(at, PATIENCE)
}

/// Begins to ask where this relay is, unless that is known: it will be dialled soon.
pub fn prepare(at: &str) {
    HOSTS.prepare(at);
}

/// The relay was not found where it should be: asks anew, and goes by what is known meanwhile.
pub fn doubt(at: &str) {
    HOSTS.ask(at, &mut HOSTS.known());
}

/// The relay was found by this connection: its address is tried first from now on.
pub fn found(at: &str, connection: RawFd) {
    // SAFETY: the descriptor is open: whoever tells of the connection holds it.
    let socket = unsafe { BorrowedFd::borrow_raw(connection) };
    if let Some(there) = SockRef::from(&socket).peer_addr().ok().and_then(|there| there.as_socket()) {
        HOSTS.prefer(at, SocketAddr::new(there.ip().to_canonical(), there.port()));
    }
}

impl Hosts {
    const fn new(look_up: LookUp) -> Hosts {
        let known = Known { addresses: BTreeMap::new(), problems: BTreeMap::new(), under_way: BTreeSet::new() };
        Hosts { look_up, known: Mutex::new(known), changed: Condvar::new() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    fn addresses(&'static self, at: &str, patience: Duration) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = at.parse() {
            return Ok(vec![address]);
        }
        let until = Instant::now() + patience;
        let mut known = self.known();
        loop {
            if let Some(addresses) = known.addresses.get(at) {
                return Ok(addresses.clone());
            }
            if let Some(problem) = known.problems.remove(at) {
                return Err(io::Error::new(io::ErrorKind::NotFound, problem));
            }
            self.ask(at, &mut known);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let problem = format!("the name server has not said yet where {at} is");
                return Err(io::Error::new(io::ErrorKind::NotFound, problem));
            }
            known = self.changed.wait_timeout(known, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn prepare(&'static self, at: &str) {
        let mut known = self.known();
        if !known.addresses.contains_key(at) {
            self.ask(at, &mut known);
        }
    }

    fn ask(&'static self, at: &str, known: &mut Known) {
        if at.parse::<SocketAddr>().is_ok() || !known.under_way.insert(at.to_owned()) {
            return;
        }
        let asked = at.to_owned();
        // It ends by itself: nobody can hurry it.
        let begun = std::thread::Builder::new().name("xmml-names".into()).spawn(move || {
            let found = (self.look_up)(&asked);
            let mut known = self.known();
            known.under_way.remove(&asked);
            match found {
                Ok(addresses) => {
                    known.problems.remove(&asked);
                    let first = known.addresses.get(&asked).and_then(|before| before.first().copied());
                    known.addresses.insert(asked.clone(), addresses);
                    // A relay that was away is there again, as a rule, where it was.
                    first.into_iter().for_each(|first| known.prefer(&asked, first));
                }
                Err(problem) => drop(known.problems.insert(asked, problem)),
            }
            self.changed.notify_all();
        });
        if let Err(error) = begun {
            known.under_way.remove(at);
            known.problems.insert(at.to_owned(), format!("cannot look for {at}: {error}"));
        }
    }

    fn prefer(&self, at: &str, found: SocketAddr) {
        self.known().prefer(at, found);
    }
}

impl Known {
    /// This address of a relay, if it is one, is tried first from now on.
    fn prefer(&mut self, at: &str, first: SocketAddr) {
        let Some(addresses) = self.addresses.get_mut(at) else { return };
        if let Some(place) = addresses.iter().position(|address| *address == first) {
            addresses[..=place].rotate_right(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{channel, Receiver, Sender};
    use std::sync::OnceLock;

    use super::*;
    use crate::methods::relay::Relay;
    use crate::methods::{nobody, Method};
    use crate::waiting::{await_that, LIMIT};

    type Said = Result<Vec<SocketAddr>, String>;

    type Words = (Mutex<Sender<Said>>, Mutex<Receiver<Said>>);

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 9))
    }

    fn await_addresses(hosts: &'static Hosts, at: &str, wanted: &[SocketAddr]) {
        await_that("the addresses are known", || hosts.addresses(at, LIMIT).unwrap() == wanted);
    }

    #[test]
    fn a_name_server_that_takes_its_time_holds_nobody_up() {
        static SAYS: OnceLock<Words> = OnceLock::new();
        static SLOW: Hosts = Hosts::new(|_| SAYS.get().unwrap().1.lock().unwrap().recv().unwrap());
        let (say, said) = channel();
        let (say, _) = SAYS.get_or_init(|| (Mutex::new(say), Mutex::new(said)));
        let say = |said: Said| say.lock().unwrap().send(said).unwrap();
        let at = "login:9";
        let why = SLOW.addresses(at, Duration::from_millis(1)).unwrap_err().to_string();
        assert!(why.contains("has not said yet where login:9 is"), "{why}");
        say(Err("nobody knows it".to_owned()));
        assert_eq!(SLOW.addresses(at, LIMIT).unwrap_err().to_string(), "nobody knows it");
        SLOW.prepare(at);
        say(Ok(vec![address(1), address(2)]));
        assert_eq!(SLOW.addresses(at, LIMIT).unwrap(), [address(1), address(2)]);
        // Nobody is asked again before there is a reason, and what is known holds until there is an answer.
        SLOW.prepare(at);
        assert!(SLOW.known().under_way.is_empty());
        SLOW.prefer(at, address(2));
        for said in [Err("it is ill".to_owned()), Ok(vec![address(3)])] {
            SLOW.ask(at, &mut SLOW.known());
            assert_eq!(SLOW.addresses(at, Duration::ZERO).unwrap(), [address(2), address(1)]);
            say(said);
            await_that("it has answered", || !SLOW.known().under_way.contains(at));
        }
        await_addresses(&SLOW, at, &[address(3)]);
        assert_eq!(SLOW.addresses("192.0.2.7:9", Duration::ZERO).unwrap(), [address(7)]);
    }

    /// One that answers nothing may stand before it: each attempt would wait for that.
    #[test]
    fn the_address_that_led_to_a_relay_stays_the_first_when_the_name_server_is_asked_again() {
        static TWO: Hosts = Hosts::new(|_| Ok(vec![address(1), address(2)]));
        let at = "login:9";
        assert_eq!(TWO.addresses(at, LIMIT).unwrap(), [address(1), address(2)]);
        TWO.prefer(at, address(2));
        TWO.ask(at, &mut TWO.known());
        await_that("it has answered", || !TWO.known().under_way.contains(at));
        assert_eq!(TWO.addresses(at, LIMIT).unwrap(), [address(2), address(1)]);
    }

    #[test]
    fn a_relay_that_is_not_found_any_more_is_looked_for_anew() {
        let door = TcpListener::bind("localhost:0").unwrap();
        let there = door.local_addr().unwrap();
        let at = format!("localhost:{}", there.port());
        let moved = SocketAddr::from(([127, 0, 0, 9], there.port()));
        HOSTS.known().addresses.insert(at.clone(), vec![moved]);
        let stream =
            Relay.connect(&format!("{at}/alpha/there"), &nobody(), crate::methods::TrafficKind::default()).unwrap();
        drop(stream);
        await_that("it is found", || addresses(&at).unwrap().contains(&there));
    }
}
