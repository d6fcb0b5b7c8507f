//! The site gateway: the process of a launcher on a login node, with the login proxy and the relays of the site.
//!
//! Each of them has a thread, and this one passes lines between them and the launcher. It waits for none of them: where a
//! file system does not answer, the login proxy, which works on files, waits for that alone.
//!
//! An empty line is a sign of life, and is answered by one. What begins with [`FOR_RELAY`] is a [`RelayRequest`], what begins
//! with [`FOR_PROXY`] begins a login proxy in the place of one that has failed, and everything else is for the login proxy.
//! What the threads say goes to the launcher; [`Answer`] is what else it is told.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use mto::nonblocking_output::NonblockingOutput;
use xmml_site::lines::{complete_lines, shortened};
use xmml_site::login_proxy::LoginProxy;
use xmml_site::polling::Pauses;
use xmml_site::system::{poll, For};
use xmml_wire::error::explained;
use xmml_wire::resolver::Resolver;

const FOR_RELAY: &[u8] = b"{\"relay\":";
const FOR_PROXY: &[u8] = b"{\"proxy\":";
/// How long a login proxy that takes the place of one that has failed waits before it begins.
const PROXY_AGAIN: Duration = Duration::from_secs(1);
/// While more bytes than this wait for the launcher, nothing is taken from the threads.
const OUTGOING_MAX: usize = 1 << 20;
const READ: usize = 64 * 1024;
const FOREVER: Duration = Duration::from_secs(3600);

/// Serves as a relay: the words of its command line, and where its requests come from and its answers go.
pub type ServeRelay = fn(&[String], UnixStream) -> Result<(), String>;

/// From the launcher, for a relay.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RelayRequest<'a> {
    /// Its number, which no other relay of this process has had.
    relay: u64,
    /// Start it, with these words on its command line.
    start: Option<Vec<String>>,
    /// Pass this request on. Without this and `start`: end it.
    #[serde(borrow)]
    request: Option<&'a RawValue>,
}

/// To the launcher, which has the same words (`gateway_protocol.py`).
#[derive(Serialize)]
#[serde(tag = "is")]
enum Answer<'a> {
    #[serde(rename = "answer")]
    Relay { relay: u64, answer: &'a RawValue },
    /// The relay has ended; without a reason after a requested end.
    #[serde(rename = "relay ended")]
    RelayEnded { relay: u64, why: String },
    #[serde(rename = "proxy failed")]
    ProxyFailed { why: String },
}

/// A thread, and the bytes on their way to it and from it.
struct Worker {
    stream: UnixStream,
    to: Vec<u8>,
    from: Vec<u8>,
    is_to_end: bool,
    thread: JoinHandle<Result<(), String>>,
}

impl Worker {
    fn begin(name: &str, work: impl FnOnce(UnixStream) -> Result<(), String> + Send + 'static) -> io::Result<Worker> {
        let (stream, other) = UnixStream::pair()?;
        stream.set_nonblocking(true)?;
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(other))?;
        Ok(Worker { stream, to: Vec::new(), from: Vec::new(), is_to_end: false, thread })
    }

    fn put(&mut self, line: &[u8]) {
        self.to.extend_from_slice(line);
        self.to.push(b'\n');
    }

    /// Has it end when it has read what was put.
    fn end(&mut self) {
        self.is_to_end = true;
        self.write();
    }

    /// Writes what there is room for.
    fn write(&mut self) {
        while !self.to.is_empty() {
            match self.stream.write(&self.to) {
                Ok(count) => drop(self.to.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.to.clear(), // it has ended
            }
        }
        if self.is_to_end {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Reads; returns the complete lines, `None` when it has ended.
    fn read(&mut self) -> Option<Vec<Vec<u8>>> {
        let mut chunk = [0; READ];
        match self.stream.read(&mut chunk) {
            Ok(0) => return None,
            Ok(count) => self.from.extend_from_slice(&chunk[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return None,
        }
        Some(complete_lines(&mut self.from))
    }

    /// Joins the finished thread. Returns its error text, empty if it ended as requested.
    fn why_ended(self) -> String {
        match self.thread.join() {
            Ok(ended) => ended.err().unwrap_or_default(),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                format!("it ended by a fault of the program: {}", text.unwrap_or("it does not say which"))
            }
        }
    }
}

/// The site gateway: the login proxy and the relays of a launcher, and the streams that lead to it.
pub struct Multiplexer {
    run: PathBuf,
    serve_relay: ServeRelay,
    /// `None` when it has ended.
    input: Option<File>,
    incoming: Vec<u8>,
    output: NonblockingOutput,
    outgoing: Vec<u8>,
    proxy: Option<Worker>,
    relays: BTreeMap<u64, Worker>,
}

impl Multiplexer {
    /// One for the standard streams, and for the jobs of a run.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn new(run: PathBuf, serve_relay: ServeRelay) -> io::Result<Multiplexer> {
        Ok(Multiplexer {
            run,
            serve_relay,
            input: Some(File::from(io::stdin().as_fd().try_clone_to_owned()?)),
            incoming: Vec::new(),
            output: NonblockingOutput::stdout(),
            outgoing: Vec::new(),
            proxy: None,
            relays: BTreeMap::new(),
        })
    }

    /// Serves until the input has ended, and all threads have because of that, or nobody reads the output.
    ///
    /// # Errors
    /// The system refuses what it needs, or it was sent something that it does not know; the text says what.
    pub fn serve(mut self) -> Result<(), String> {
        let of_system = |error: io::Error| explained(&error);
        self.begin_proxy(Duration::ZERO).map_err(of_system)?;
        while self.input.is_some() || self.workers().next().is_some() || !self.outgoing.is_empty() {
            if self.wait().map_err(of_system)? {
                self.read().map_err(of_system)?;
            }
            for line in complete_lines(&mut self.incoming) {
                self.handle(&line)?;
            }
            if self.has_room() {
                self.read_proxy();
                self.read_relays();
            }
            self.workers().for_each(Worker::write);
            match self.write() {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                done => done.map_err(of_system)?,
            }
        }
        Ok(())
    }

    fn workers(&mut self) -> impl Iterator<Item = &mut Worker> {
        self.proxy.iter_mut().chain(self.relays.values_mut())
    }

    fn has_room(&self) -> bool {
        self.outgoing.len() <= OUTGOING_MAX
    }

    fn begin_proxy(&mut self, pause: Duration) -> io::Result<()> {
        let run = self.run.clone();
        self.proxy = Some(Worker::begin("proxy", move |stream| {
            thread::sleep(pause);
            let output = stream.try_clone().map_err(|error| explained(&error))?;
            let [input, output] = [stream, output].map(|end| File::from(OwnedFd::from(end)));
            let resolver = Resolver::new().map_err(|error| explained(&error))?;
            LoginProxy::new(run, input, output, Pauses::default(), resolver).run()
        })?);
        Ok(())
    }

    /// Waits until something can be passed on; returns whether there is input.
    fn wait(&mut self) -> io::Result<bool> {
        let has_room = self.has_room();
        let mut watched: Vec<For> = self.input.iter().map(|input| For::Reading(input.as_raw_fd())).collect();
        let has_input = !watched.is_empty();
        if !self.outgoing.is_empty() {
            watched.push(For::Writing(self.output.as_raw_fd()));
        }
        for worker in self.workers() {
            if has_room {
                watched.push(For::Reading(worker.stream.as_raw_fd()));
            }
            if !worker.to.is_empty() {
                watched.push(For::Writing(worker.stream.as_raw_fd()));
            }
        }
        Ok(poll(&watched, FOREVER)?[0] && has_input)
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let mut chunk = [0; READ];
        let count = input.read(&mut chunk)?;
        self.incoming.extend_from_slice(&chunk[..count]);
        if count == 0 {
            self.input = None;
            self.workers().for_each(Worker::end);
        }
        Ok(())
    }

    fn handle(&mut self, line: &[u8]) -> Result<(), String> {
        if line.is_empty() {
            self.outgoing.push(b'\n');
        } else if line.starts_with(FOR_RELAY) {
            let request = serde_json::from_slice(line)
                .map_err(|error| format!("what the launcher says is not understood: {error}: {}", shortened(line)))?;
            self.handle_for_relay(request);
        } else if line.starts_with(FOR_PROXY) {
            self.begin_proxy(PROXY_AGAIN).map_err(|error| explained(&error))?;
        } else if let Some(proxy) = &mut self.proxy {
            proxy.put(line);
        }
        Ok(())
    }

    fn handle_for_relay(&mut self, request: RelayRequest) {
        let relay = request.relay;
        if let Some(words) = request.start {
            let serve = self.serve_relay;
            match Worker::begin("relay", move |stream| serve(&words, stream)) {
                Ok(worker) => drop(self.relays.insert(relay, worker)),
                Err(error) => self.say(&Answer::RelayEnded { relay, why: explained(&error) }),
            }
        } else if let Some(worker) = self.relays.get_mut(&relay) {
            match request.request {
                Some(request) => worker.put(request.get().as_bytes()),
                None => worker.end(),
            }
        } // else it has ended, and the launcher is told so
    }

    fn read_proxy(&mut self) {
        let Some(proxy) = &mut self.proxy else { return };
        if let Some(lines) = proxy.read() {
            for line in lines {
                self.outgoing.extend_from_slice(&line);
                self.outgoing.push(b'\n');
            }
        } else if let Some(proxy) = self.proxy.take() {
            let why = proxy.why_ended();
            if !why.is_empty() {
                self.say(&Answer::ProxyFailed { why });
            } // else the launcher has ended it
        }
    }

    fn read_relays(&mut self) {
        let read: Vec<_> = self.relays.iter_mut().map(|(relay, worker)| (*relay, worker.read())).collect();
        for (relay, lines) in read {
            let Some(lines) = lines else {
                if let Some(worker) = self.relays.remove(&relay) {
                    self.say(&Answer::RelayEnded { relay, why: worker.why_ended() });
                }
                continue;
            };
            for line in lines {
                let Ok(answer) = serde_json::from_slice(&line) else {
                    // Whoever waits for the answer would wait for ever. It ends with its stream.
                    self.relays.remove(&relay);
                    let why = format!("it has answered something that is no JSON: {}", shortened(&line));
                    self.say(&Answer::RelayEnded { relay, why });
                    break;
                };
                self.say(&Answer::Relay { relay, answer });
            }
        }
    }

    fn say(&mut self, what: &Answer) {
        self.outgoing.extend(serde_json::to_vec(what).unwrap_or_default());
        self.outgoing.push(b'\n');
    }

    /// Writes what the launcher has room for.
    fn write(&mut self) -> io::Result<()> {
        let mut written = 0;
        while written < self.outgoing.len() {
            match self.output.write(&self.outgoing[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.outgoing.drain(..written);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_nonsense(_: &[String], mut stream: UnixStream) -> Result<(), String> {
        stream.write_all(b"{\"listen\":\"127.0.0.1:1\"}\nlisten\n").unwrap();
        let _ = stream.read(&mut [0]); // until nobody is at the other end
        Ok(())
    }

    #[test]
    fn a_relay_that_answers_what_is_no_json_has_ended_for_the_launcher() {
        let mut multiplexer = Multiplexer::new(PathBuf::new(), answer_nonsense).unwrap();
        multiplexer.handle(br#"{"relay": 1, "start": []}"#).unwrap();
        while complete_lines(&mut multiplexer.outgoing.clone()).len() < 2 {
            multiplexer.read_relays();
        }
        let lines = complete_lines(&mut multiplexer.outgoing);
        assert_eq!(lines[0], br#"{"is":"answer","relay":1,"answer":{"listen":"127.0.0.1:1"}}"#);
        assert_eq!(
            lines[1],
            br#"{"is":"relay ended","relay":1,"why":"it has answered something that is no JSON: listen"}"#
        );
        assert!(multiplexer.relays.is_empty());
    }

    #[test]
    fn a_login_proxy_that_was_told_to_end_has_not_failed() {
        let run = std::env::temp_dir().join(format!("xmml-proxy-{}", std::process::id()));
        std::fs::create_dir_all(&run).unwrap();
        let mut multiplexer = Multiplexer::new(run.clone(), answer_nonsense).unwrap();
        multiplexer.begin_proxy(Duration::ZERO).unwrap();
        multiplexer.proxy.as_mut().unwrap().end();
        while multiplexer.proxy.is_some() {
            multiplexer.read_proxy();
        }
        let told = String::from_utf8_lossy(&multiplexer.outgoing);
        assert!(!told.contains("failed"), "{told}");
        std::fs::remove_dir_all(&run).unwrap();
    }
}
