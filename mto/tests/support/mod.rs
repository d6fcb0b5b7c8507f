//! Relays in threads of the test, and processes of their sites played by hand: streams that wait.

#![allow(dead_code)] // every test program uses another part

pub mod flow;
pub mod held;
#[path = "../../../native/wire/tests/support/waiting.rs"]
#[allow(clippy::duplicate_mod)] // a test that needs what those of the core share has it twice
mod waiting;

use std::io::{self, IoSlice};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mto::control_protocol::{ask, Request};
use mto::log::{Format, Level, Log};
use mto::relay::{LinkTarget, Relay};
use mto::status::Status;
use xmml_wire::handshake::{fresh_nonce, Party, VERSIONS};
use xmml_wire::methods::relay::Relay as Method;
use xmml_wire::methods::{Listener, Method as _, Stream};
use xmml_wire::methods::{TrafficClass, TrafficKind};
use xmml_wire::relay_key::RelayKey;
use xmml_wire::wakeup::{poll_readable, poll_writable, EventFd, Polled};

#[allow(unused_imports)] // as above
pub use waiting::{await_some, await_that, await_while_moving, LIMIT};

pub const RUN: &str = "canal";
pub const SECRET: &[u8] = b"the secret of canal";

/// A relay that serves, in a thread as a rule.
pub struct Site {
    pub name: String,
    pub address: String,
    pub control: String,
    pub log: PathBuf,
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Site {
    /// A relay of the run `canal`, linked to these others.
    pub fn start(name: &str, links: &[&Site]) -> Site {
        let targets: Vec<String> = links.iter().map(|site| site.address.clone()).collect();
        Site::start_at(name, "127.0.0.1:0", &targets, &[(RUN, SECRET)])
    }

    /// The same at a place, with these runs, each with its secret.
    pub fn start_at(name: &str, listen: &str, links: &[String], runs: &[(&str, &[u8])]) -> Site {
        Site::start_with(name, listen, links, runs, |_| {})
    }

    /// The same after something was done to the relay before it links itself to others.
    pub fn start_with(
        name: &str,
        listen: &str,
        links: &[String],
        runs: &[(&str, &[u8])],
        prepare: impl FnOnce(&mut Relay),
    ) -> Site {
        let unique = format!("{}-{:016x}", std::process::id(), random());
        let log = std::env::temp_dir().join(format!("mto-test-{unique}.log"));
        let mut relay = Relay::new(name, Log::to_file(&log, Format::Text, Level::Debug).unwrap()).unwrap();
        let address = relay.listen(listen).unwrap().to_string();
        let control = format!("@mto-test-{unique}");
        relay.listen_for_owner(&control).unwrap();
        prepare(&mut relay);
        relay.link_to_all(links.iter().map(|to| LinkTarget { streams: Some(2), ..LinkTarget::at(to) }).collect());
        for (run, secret) in runs {
            relay.add_run(run, &RelayKey::of(secret), None).unwrap();
        }
        let stop = relay.stop_flag();
        let thread = std::thread::spawn(move || relay.serve().unwrap());
        Site { name: name.to_owned(), address, control, log, stop, thread: Some(thread) }
    }

    /// A relay that is a process of its own.
    pub fn of_program(name: String, address: String, control: String, log: PathBuf) -> Site {
        Site { name, address, control, log, stop: Arc::new(EventFd::new().unwrap()), thread: None }
    }

    pub fn status(&self) -> Status {
        ask(&self.control, &Request::Status).unwrap().status.unwrap()
    }

    pub fn logged(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until streams can be opened from here to a site.
    pub fn await_way_to(&self, site: &str) {
        await_that(&format!("a way from {} to {site}", self.name), || {
            self.status().runs.get(RUN).is_some_and(|run| run.sites.iter().any(|other| other == site))
        });
    }

    /// Ends it, as abruptly as a killed process.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// Somebody of the run who can be reached here under this name.
    pub fn listener(&self, name: &str) -> Box<dyn Listener> {
        self.listener_of((RUN, SECRET), name)
    }

    /// The same of another run.
    pub fn listener_of(&self, (run, secret): (&str, &[u8]), name: &str) -> Box<dyn Listener> {
        let address = format!("{}/{}", self.address, self.name);
        let listener = Method.listen(Some(&address), &party_of(run, secret, name)).unwrap();
        // It registers when it is first looked at.
        await_that(&format!("{name} is registered"), || {
            assert!(listener.accept().unwrap().is_none());
            self.status().runs[run].names.iter().any(|other| other == name)
        });
        listener
    }

    /// A stream that somebody here opens to a name at a site. (It is open when it carries something.)
    pub fn dial(&self, from: &str, site: &str, name: &str, class: Option<TrafficClass>) -> Pipe {
        let address = format!("{}/{site}/{name}", self.address);
        Pipe(Method.connect(&address, &party(from), TrafficKind { class, is_protected: false }).unwrap())
    }

    /// A stream from somebody here to a name at a site, with its two ends.
    pub fn pipe_to(&self, site: &str, name: &str, listener: &dyn Listener) -> (Pipe, Pipe) {
        self.pipe_of((RUN, SECRET), site, name, listener)
    }

    /// The same of another run.
    pub fn pipe_of(
        &self,
        (run, secret): (&str, &[u8]),
        site: &str,
        name: &str,
        listener: &dyn Listener,
    ) -> (Pipe, Pipe) {
        let address = format!("{}/{site}/{name}", self.address);
        let here = Pipe(Method.connect(&address, &party_of(run, secret, "dialler"), TrafficKind::default()).unwrap());
        let there = accept(listener, &here);
        open_both(&here, &there);
        (here, there)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            eprintln!("the relay of {} wrote:\n{}", self.name, self.logged());
        }
        let _ = std::fs::remove_file(&self.log);
    }
}

fn random() -> u64 {
    let nonce = fresh_nonce().unwrap();
    u64::from_le_bytes(*nonce.first_chunk().unwrap())
}

/// Somebody of the run.
pub fn party(name: &str) -> Party {
    party_of(RUN, SECRET, name)
}

pub fn party_of(run: &str, secret: &[u8], name: &str) -> Party {
    Party {
        secret: secret.to_vec(),
        run: run.into(),
        name: name.into(),
        versions: VERSIONS,
        nonce: fresh_nonce().unwrap(),
        private_key: fresh_nonce().unwrap(),
    }
}

/// Passes connections on to an address, each by a thread; ends with its process.
pub fn in_the_middle(to: &str, pass: impl Fn(TcpStream, TcpStream) + Send + Sync + 'static) -> String {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = door.local_addr().unwrap().to_string();
    let (to, pass) = (to.to_owned(), Arc::new(pass));
    std::thread::spawn(move || {
        for near in door.incoming().flatten() {
            // The relay behind may be gone already when the test ends.
            let Ok(far) = TcpStream::connect(&to) else { continue };
            let pass = pass.clone();
            std::thread::spawn(move || pass(near, far));
        }
    });
    address
}

/// The next stream at a listener; `other` is the end that opens it, which must be looked at meanwhile.
pub fn accept(listener: &dyn Listener, other: &Pipe) -> Pipe {
    await_some("somebody comes", || {
        other.step();
        listener.accept().unwrap().map(Pipe)
    })
}

/// Waits until both ends of a stream know that it is open.
pub fn open_both(here: &Pipe, there: &Pipe) {
    await_that("the stream is open", || {
        here.step();
        there.step();
        here.0.opening().is_none() && there.0.opening().is_none()
    });
}

/// A stream, with calls that wait.
pub struct Pipe(pub Box<dyn Stream>);

impl Pipe {
    /// Takes the opening further.
    pub fn step(&self) {
        if self.0.opening().is_some() {
            match self.0.write(&[]) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
            }
        }
    }

    /// Waits until it is open, or cannot be.
    pub fn opened(&self) -> io::Result<()> {
        let until = Instant::now() + LIMIT;
        while let Some(interest) = self.0.opening() {
            match self.0.write(&[]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let polled = match self.0.opening() {
                None => return Ok(()),
                Some(_) if interest.write => {
                    poll_writable(self.0.fd(), Some(Instant::now() + Duration::from_millis(1)))?
                }
                Some(_) => poll_readable(&[self.0.fd()], Some(until))?,
            };
            if polled == Polled::TimedOut && Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    pub fn send(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let until = Some(Instant::now() + LIMIT);
            match self.0.write(&[IoSlice::new(bytes)]) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert_eq!(poll_writable(self.0.fd(), until).unwrap(), Polled::Ready, "nobody takes bytes");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Sends what there is room for now; returns how much that was.
    pub fn send_some(&self, bytes: &[u8]) -> usize {
        match self.0.write(&[IoSlice::new(bytes)]) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads so many bytes, or less if the stream ends before.
    pub fn receive(&self, count: usize) -> Vec<u8> {
        self.receive_or_not(count).unwrap_or_else(|| panic!("nothing comes"))
    }

    /// The same; `None`: nothing has come for the limit.
    pub fn receive_or_not(&self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        let mut have = 0;
        while have < count {
            let until = Some(Instant::now() + LIMIT);
            match self.0.read(&mut bytes[have..]) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if poll_readable(&[self.0.fd()], until).unwrap() != Polled::Ready {
                        return None;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
        bytes.truncate(have);
        Some(bytes)
    }

    /// Waits for the end, however it shows; true if it came as a broken connection.
    pub fn ends(&self) -> bool {
        let until = Some(Instant::now() + LIMIT);
        let mut bytes = [0; 4096];
        loop {
            match self.0.read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert_eq!(poll_readable(&[self.0.fd()], until).unwrap(), Polled::Ready, "it does not end");
                }
                Err(_) => return true,
            }
        }
    }

    /// Ends only the direction away from here.
    pub fn finish(&self) {
        // SAFETY: shutdown takes no pointers; the descriptor is open.
        assert_eq!(unsafe { libc::shutdown(self.0.fd(), libc::SHUT_WR) }, 0);
    }
}
