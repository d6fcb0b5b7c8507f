//! How an instance joins a run: connect, prove, register, listen.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_wire::connection::authentication::{Authentication, Progress, Protection};
use xmml_wire::connection::{Connection, Looked};
use xmml_wire::error::{explained, Error, Result};
use xmml_wire::frame::{encode_alive, Frame};
use xmml_wire::handshake::{Party, Role};
use xmml_wire::liveness::backoff::{limit_from_environment, Backoff};
use xmml_wire::methods;
use xmml_wire::methods::TrafficKind;
use xmml_wire::private_file;
use xmml_wire::wakeup::{poll_readable, poll_writable, Polled};

use crate::control::{Again, ToCoordinator, ToInstance};
use crate::coordinator::CoordinatorAddress;
use crate::runtime::control_channel::control_frame;
use crate::runtime::control_channel::ControlChannel;
use crate::runtime::identity::Identity;
use crate::runtime::io_thread::doors;
use crate::runtime::io_thread::rejoining::{control_connection, Rejoining};
use crate::runtime::io_thread::{self, Commands, Door};
use crate::runtime::state::State;
use crate::runtime::{Runtime, FAULTS_IN_A_ROW};
use crate::spec::{Direction, InstanceSpec};

use super::ports::Ports;
use super::JoinOptions;

/// How long the coordinator is looked for. (It is there before its instances; a way to it may open a little later.)
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long the coordinator may take to let an instance in.
const JOIN_LIMIT: Duration = Duration::from_secs(30);

/// How long an instance tries to be heard by a coordinator that can be reached but does not answer, unless `XMML_ANSWER_LIMIT_S` says
/// otherwise: of a thousand instances that come at once, all have their turn.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A connection that is closed sooner was not held up by how much there is to do.
const CLOSED_AT_ONCE: Duration = Duration::from_secs(1);

/// An instance that has joined.
pub struct Joined {
    pub spec: InstanceSpec,
    pub ports: Ports,
    pub runtime: Arc<Runtime>,
}

/// Joins as `options` and the environment say.
pub fn join(options: &JoinOptions) -> Result<Joined> {
    let name = given(options.instance.clone(), "XMML_INSTANCE")?;
    let addresses = given(options.coordinator.clone(), "XMML_COORDINATOR")?;
    let secret_file = match &options.secret_file {
        Some(path) => path.clone(),
        None => PathBuf::from(given(None, "XMML_SECRET_FILE")?),
    };
    let secret = read_secret(&secret_file)?;

    let addresses: Vec<CoordinatorAddress> =
        addresses.split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::parse).collect::<Result<_>>()?;
    let mut doubts = Doubts::default();
    let (entered, control, run) = enter(&name, &addresses, &secret, options.language, &mut doubts)?;
    let Entered { spec, again, early } = entered;
    let until = Instant::now() + JOIN_LIMIT;
    let is_kept = again.is_some();
    let rejoining = again.map(|again| Rejoining::new(addresses, again));
    let control = ControlChannel::new(control, is_kept);

    let allowed = methods_from_environment()?;
    let state = State::new(&spec, &allowed)?;
    let ports = Ports::new(&spec, &state);
    let (commands, watch) = Commands::new()?;
    let runtime = Arc::new(Runtime::new(Identity { name, run, secret }, control, commands, state));
    let doors = open_doors(&spec, &allowed, &runtime.identity.party()?)?;
    if doors.is_empty() && is_kept {
        // The coordinator knows by this that the welcome has come, and takes nobody else for this process any more.
        let connection = runtime.control.connection();
        connection.writer().push(encode_alive().to_vec().into());
        let _ = flush_now(&connection, until); // a broken connection is found by whoever reads it
    } else if !doors.is_empty() {
        let table = doors::table(&runtime.here, doors.iter());
        runtime.state().open.reached_by(&table);
        if let Some(connection) = runtime.control.say(&ToCoordinator::Reachable { table }) {
            match flush_now(&connection, until) {
                Err(error) if !is_kept => return Err(error),
                _ => {} // it is said again
            }
        }
    }
    io_thread::start(&runtime, watch, doors, early, rejoining)?;
    for doubt in doubts.0 {
        runtime
            .tell(&ToCoordinator::Warning { text: format!("the coordinator: {doubt}; joined over a new connection") });
    }
    Ok(Joined { spec, ports, runtime })
}

fn given(option: Option<String>, variable: &'static str) -> Result<String> {
    option
        .or_else(|| std::env::var(variable).ok())
        .filter(|value| !value.is_empty())
        .ok_or(Error::NotInARun { missing: variable })
}

/// `XMML_METHODS=tcp,unix` overrides what the model allows, at this instance.
fn methods_from_environment() -> Result<Vec<String>> {
    methods::names_in(&std::env::var("XMML_METHODS").unwrap_or_default())
        .map_err(|error| Error::Usage { problem: format!("XMML_METHODS: {error}") })
}

/// The secret in a file of hexadecimal digits that others cannot read.
fn read_secret(path: &Path) -> Result<Vec<u8>> {
    let action = || format!("read the run's secret from {}", path.display());
    private_file::read_secret(path).map_err(|cause| Error::Io { action: action(), cause })
}

/// Why there is no connection to the coordinator.
enum NoConnection {
    /// It was reached, and does not want this instance; or nothing will ever lead there.
    Refused(String),
    /// What came does not prove that the coordinator of this run has sent it. Another run has another secret; or somebody on the way has
    /// changed what the two ends said, and another connection may be better. Nothing tells one from the other.
    Unproven(String),
    /// It may be reached a moment later.
    NotNow(String),
    /// It was reached and does not answer in time: it is there, and has much to do.
    NoAnswer,
}

/// Why answers were not taken for the coordinator's, each reason once. People are told of them if the instance joins nevertheless.
#[derive(Default)]
struct Doubts(Vec<String>);

impl Doubts {
    fn add(&mut self, doubt: String) {
        if !self.0.contains(&doubt) {
            self.0.push(doubt);
        }
    }
}

/// What an instance is told when it is let in.
struct Entered {
    spec: InstanceSpec,
    again: Option<Again>,
    /// Messages that came after that.
    early: Vec<Frame>,
}

/// Why an instance was not let in.
enum NotEntered {
    /// The coordinator does not want it, or is none.
    Refused(Error),
    /// The connection broke.
    Broken(Error),
    /// What came was changed on its way, as this says.
    Changed(String),
}

impl From<Error> for NotEntered {
    fn from(error: Error) -> NotEntered {
        NotEntered::Refused(error)
    }
}

/// Connects, registers, and waits to be let in. A connection that breaks meanwhile is made again, for a while.
fn enter(
    name: &str,
    addresses: &[CoordinatorAddress],
    secret: &[u8],
    language: &str,
    doubts: &mut Doubts,
) -> Result<(Entered, Arc<Connection>, String)> {
    let mut attempts = Backoff::new(CONNECT_LIMIT);
    loop {
        let (control, run) = connect(name, addresses, secret, doubts)?;
        let until = Instant::now() + JOIN_LIMIT;
        let host = methods::Place::here().host;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let pid = std::process::id();
        let register = ToCoordinator::Join { pid, host, language: language.to_owned(), version };
        control.writer().push(control_frame(&register));
        let registered = flush_now(&control, until).map_err(NotEntered::Broken);
        let broken = match registered.and_then(|()| await_welcome(&control, until)) {
            Ok(entered) => return Ok((entered, control, run)),
            Err(NotEntered::Refused(error)) => return Err(error),
            Err(NotEntered::Broken(error)) => error,
            Err(NotEntered::Changed(problem)) => {
                doubts.add(problem.clone());
                Error::Protocol { peer: "the coordinator".into(), problem }
            }
        };
        control.close();
        let again = attempts.failed(Instant::now()).filter(|again| *again < until);
        let Some(again) = again else { return Err(broken) };
        std::thread::sleep(again.saturating_duration_since(Instant::now()));
    }
}

/// Tries the addresses of the coordinator in order, again and again for a while; where all that comes is unproven, for about a second. So
/// who has the secret of another run need not wait.
fn connect(
    name: &str,
    addresses: &[CoordinatorAddress],
    secret: &[u8],
    doubts: &mut Doubts,
) -> Result<(Arc<Connection>, String)> {
    let mut attempts = Backoff::new(CONNECT_LIMIT);
    attempts.begin(Instant::now());
    let mut unproven = 0;
    loop {
        let mut problems = Vec::new();
        let mut is_hopeless = true;
        let mut is_there = false;
        let mut is_unproven = false;
        for address in addresses {
            match connect_to(name, address, secret) {
                Ok(connection) => return Ok((connection, address.run.clone())),
                Err(NoConnection::Refused(problem)) => problems.push(format!("{address}: {problem}")),
                Err(NoConnection::Unproven(problem)) => {
                    is_unproven = true;
                    let problem = format!("{address}: {problem}");
                    doubts.add(problem.clone());
                    problems.push(problem);
                }
                Err(NoConnection::NotNow(problem)) => {
                    is_hopeless = false;
                    problems.push(format!("{address}: {problem}"));
                }
                Err(NoConnection::NoAnswer) => {
                    (is_hopeless, is_there) = (false, true);
                    problems.push(format!("{address}: it does not answer"));
                }
            }
        }
        unproven += u32::from(is_unproven);
        is_hopeless &= !is_unproven || unproven >= FAULTS_IN_A_ROW;
        if is_there {
            attempts.extend(limit_from_environment("XMML_ANSWER_LIMIT_S", ANSWER_LIMIT));
        }
        let again = attempts.failed(Instant::now()).filter(|_| !is_hopeless);
        let Some(again) = again else {
            let tried = attempts.tried(Instant::now());
            return Err(Error::Protocol {
                peer: "the coordinator".into(),
                problem: format!("{name} cannot join the run ({tried}): {}", problems.join("; ")),
            });
        };
        std::thread::sleep(again.saturating_duration_since(Instant::now()));
    }
}

fn connect_to(
    name: &str,
    address: &CoordinatorAddress,
    secret: &[u8],
) -> std::result::Result<Arc<Connection>, NoConnection> {
    let refused = |error: Error| NoConnection::Refused(error.to_string());
    let broken = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => NoConnection::Refused(explained(&error)),
        _ if error.kind() == std::io::ErrorKind::TimedOut => NoConnection::NoAnswer,
        _ => NoConnection::NotNow(explained(&error)),
    };
    let unknown = || NoConnection::Refused("this release of xmml does not know this method".to_owned());
    let method = methods::by_name(&address.method).ok_or_else(unknown)?;
    let me = Party::new(secret, &address.run, name).map_err(refused)?;
    let stream = method.connect(&address.address, &me, TrafficKind::CONTROL).map_err(broken)?;
    let began = Instant::now();
    let mut authentication =
        Authentication::dial(stream, me, Role::Control, "coordinator", Protection::BeyondHost).map_err(refused)?;
    loop {
        let fd = authentication.fd();
        let deadline = authentication.deadline;
        match authentication.advance() {
            (Some(again), Progress::Wait(interest)) => {
                authentication = again;
                let wait = if interest.write { poll_writable } else { |fd, until| poll_readable(&[fd], until) };
                if wait(fd, Some(deadline)).map_err(broken)? == Polled::TimedOut {
                    // Where nothing could be written there is perhaps no connection at all.
                    let unheard = || NoConnection::NotNow("it does not answer".to_owned());
                    return Err(if interest.write { unheard() } else { NoConnection::NoAnswer });
                }
            }
            (_, Progress::Done { stream, rest, .. }) => {
                return control_connection(method.name(), stream, &rest).map_err(NoConnection::Refused);
            }
            // Nobody is on the way of what cannot break.
            (_, Progress::Refused { reason, by_us: true }) => match method.can_break() {
                true => return Err(NoConnection::Unproven(reason)),
                false => return Err(NoConnection::Refused(reason)),
            },
            // It gave this connection up among many; one that is closed at once leads nowhere.
            (_, Progress::Refused { by_us: false, .. }) if began.elapsed() > CLOSED_AT_ONCE => {
                return Err(NoConnection::NoAnswer);
            }
            (_, Progress::Refused { reason, by_us: false }) => return Err(NoConnection::NotNow(reason)),
            (None, Progress::Wait(_)) => return Err(NoConnection::Refused("the handshake stopped".to_owned())),
        }
    }
}

/// Before the I/O thread runs.
fn flush_now(connection: &Connection, until: Instant) -> Result<()> {
    let problem = |error: std::io::Error| Error::io("write to the coordinator", &error);
    while !connection.flush_watched().map_err(problem)? {
        if poll_writable(connection.fd().as_raw_fd(), Some(until)).map_err(problem)? == Polled::TimedOut {
            return Err(no_answer());
        }
    }
    Ok(())
}

/// Waits to be let in.
fn await_welcome(control: &Connection, until: Instant) -> std::result::Result<Entered, NotEntered> {
    loop {
        let mut frames = Vec::new();
        let looked = control.read_frames(&mut control.reader(), &mut frames);
        let mut frames = frames.into_iter();
        match frames.next() {
            Some(Frame::Control(body)) => match ToInstance::decode(&body, "the coordinator")? {
                ToInstance::Welcome { spec, again } => return Ok(Entered { spec, again, early: frames.collect() }),
                ToInstance::Abort { reason } => return Err(Error::Aborted { reason }.into()),
                _ => return Err(not_a_coordinator().into()),
            },
            Some(_) => return Err(not_a_coordinator().into()),
            None => {}
        }
        match looked {
            Looked::Closed(problem) => {
                return Err(NotEntered::Broken(Error::Protocol { peer: "the coordinator".into(), problem }));
            }
            Looked::Fault(fault) => return Err(NotEntered::Changed(fault.to_string())),
            _ => {}
        }
        let polled = poll_readable(&[control.fd()], Some(until))
            .map_err(|error| Error::io("wait for the coordinator", &error))?;
        if polled == Polled::TimedOut {
            return Err(no_answer().into());
        }
    }
}

fn not_a_coordinator() -> Error {
    Error::Protocol { peer: "the coordinator".into(), problem: "it answered something else than a welcome".into() }
}

fn no_answer() -> Error {
    Error::Protocol {
        peer: "the coordinator".into(),
        problem: format!(
            "it did not let this instance in within {} s; is the instance part of the model?",
            JOIN_LIMIT.as_secs()
        ),
    }
}

/// Listens by every method by which a sender may want to come; nothing if nobody will.
fn open_doors(spec: &InstanceSpec, allowed: &[String], me: &Party) -> Result<Vec<Door>> {
    let mut inbound: Vec<&Vec<String>> =
        spec.conduits.iter().filter(|conduit| conduit.receiver == spec.name).map(|conduit| &conduit.methods).collect();
    // Whoever has a handle may come by any method.
    let any = Vec::new();
    inbound.extend(spec.ports.iter().any(|port| port.open && port.direction == Direction::In).then_some(&any));
    let wanted = |name: &str| match allowed.is_empty() {
        true => inbound
            .iter()
            .any(|methods| methods.is_empty() || methods.iter().any(|choice| methods::name_of(choice) == name)),
        false => !inbound.is_empty() && allowed.iter().any(|choice| methods::name_of(choice) == name),
    };
    let mut doors = Vec::new();
    for method in methods::all().into_iter().filter(|method| wanted(method.name()) && method.available().is_ok()) {
        let door = doors::open(&*method, me)
            .map_err(|error| Error::io(&format!("listen for other instances by {}", method.name()), &error))?;
        doors.push(door);
    }
    Ok(doors)
}
