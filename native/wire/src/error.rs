//! Errors by cause. The text is written once, here, and ends with what to do.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// The name of an environment variable.
pub type Variable = &'static str;

/// Everything that can go wrong for an instance, by cause.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Error {
    /// The program was not started by `xmml-run`.
    NotInARun {
        #[serde(deserialize_with = "variable")]
        missing: Variable,
    },
    /// The port is not declared in the model.
    PortUnknown { instance: String, port: String, known: Vec<String> },
    /// Send on an in port or receive on an out port.
    PortDirection { instance: String, port: String, sends: bool },
    /// A receive on a port that is declared but not coupled, or for which an instance that is alone was given nothing, without a default.
    NotConnected { instance: String, port: String, is_alone: bool },
    /// A receive of the state of the previous pass, in the first one, without a default.
    NoStateYet { instance: String, port: String },
    /// A call out of the order of the submodel execution loop.
    OperatorOrder { instance: String, call: String, expected: String },
    /// A receive that insists, on a conduit that has ended.
    Ended { instance: String, port: String, peer: String, received: u64 },
    /// The time-out of a receive passed.
    TimedOut { instance: String, port: String, seconds: f64 },
    /// The payload has another type than the receiver asked for.
    Type { instance: String, port: String, expected: String, found: String },
    /// A parameter is missing or cannot be converted.
    Parameter { instance: String, name: String, problem: String },
    /// What a program has set to be called with the messages of a port says that something went wrong.
    Callback { instance: String, port: String, problem: String },
    /// A filter cannot take this message.
    Filter { conduit: String, filter: String, problem: String },
    /// The run was stopped: another instance failed, or the user interrupted.
    Aborted { reason: String },
    /// The interrupt check of a binding ended a wait (see `Instance::set_interrupt`).
    Interrupted,
    /// The other side breaks the protocol or is not who it should be.
    Protocol { peer: String, problem: String },
    /// The other end of a path has not done something in time.
    Late { peer: String, problem: String },
    /// A relay between two paths has ended because one of them has failed, and with it what it had taken: from the first path on its way to
    /// the second, and back.
    Relay { cause: Box<Error>, there: NotPassedOn, back: NotPassedOn },
    /// The operating system refused.
    Io { action: String, cause: String },
    /// Anything a caller did wrong that has no variant of its own.
    Usage { problem: String },
}

/// Messages that a relay between two paths had taken, and is not known to have passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotPassedOn {
    /// How many.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl NotPassedOn {
    /// One message of so many bytes more.
    pub fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

impl std::ops::AddAssign for NotPassedOn {
    fn add_assign(&mut self, more: NotPassedOn) {
        self.messages += more.messages;
        self.bytes += more.bytes;
    }
}

impl fmt::Display for NotPassedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.messages == 1 { "" } else { "s" };
        write!(f, "{} message{plural} ({} bytes)", self.messages, self.bytes)
    }
}

/// Result of every fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The operating system refused `action` ("open the file", ...).
    pub fn io(action: &str, cause: &std::io::Error) -> Error {
        Error::Io { action: action.to_owned(), cause: explained(cause) }
    }
}

/// What the system said, and what to do where a limit was reached.
pub fn explained(cause: &std::io::Error) -> String {
    let advice = match cause.raw_os_error() {
        Some(libc::EMFILE) => {
            "; this process may open no more: raise its limit with ulimit -n, or have fewer conduits by tcp"
        }
        Some(libc::ETOOMANYREFS) => {
            "; the processes of this user have as many files on their way to each other as one may open: ulimit -n"
        }
        Some(libc::ENFILE) => "; all processes together may open no more: raise fs.file-max",
        Some(libc::ENOMEM) => "; raise the limit of memory: ulimit -v, or that of the job or container",
        Some(libc::EAGAIN) => "; raise the limit of processes and threads (ulimit -u, or pids.max of the container) or of memory (ulimit -v)",
        _ => "",
    };
    format!("{cause}{advice}")
}

/// The name of a variable that another rank did not find.
fn variable<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Variable, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = ["XMML_INSTANCE", "XMML_COORDINATOR", "XMML_SECRET_FILE"];
    Ok(known.into_iter().find(|known| *known == name).unwrap_or("a variable of the run"))
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotInARun { missing } => write!(
                f,
                "this program is not part of a run: {missing} is not set; start it with xmml-run, or test it by itself with Instance.alone (C: xmml_alone_new, C++: xmml::Alone, Fortran: xmml_alone)"
            ),
            Error::PortUnknown { instance, port, known } => write!(
                f,
                "{instance} has no port \"{port}\" in the model; its ports are {}",
                if known.is_empty() { "none".into() } else { known.join(", ") }
            ),
            Error::PortDirection { instance, port, sends: true } => {
                write!(f, "{instance}.{port} is an out port: it sends, it cannot receive")
            }
            Error::PortDirection { instance, port, sends: false } => {
                write!(f, "{instance}.{port} is an in port: it receives, it cannot send")
            }
            Error::NotConnected { instance, port, is_alone: true } => write!(
                f,
                "{instance}.{port} has no inputs: give this instance, which is alone, some for the port, or give receive a default"
            ),
            Error::NotConnected { instance, port, is_alone: false } => write!(
                f,
                "{instance}.{port} is not coupled to anything in this model; give receive a default, or ask connected(\"{port}\") first"
            ),
            Error::NoStateYet { instance, port } => write!(
                f,
                "{instance}.{port} brings the state of the previous pass, and this is the first; give receive a default, or ask connected(\"{port}\") first"
            ),
            Error::OperatorOrder { instance, call, expected } => {
                write!(f, "{instance}: {call} is out of order; expected {expected}")
            }
            Error::Callback { instance, port, problem } => {
                write!(f, "{instance}.{port}: the callback for its messages failed: {problem}")
            }
            Error::Ended { instance, port, peer, received } => {
                let sent = match received {
                    0 => "without sending a message".into(),
                    1 => "and its only message has been received".into(),
                    _ => format!("and all its {received} messages have been received"),
                };
                write!(
                    f,
                    "{instance}.{port}: {peer} has ended {sent}; do both make the same steps? Use receive_or_end if the sender may stop first"
                )
            }
            Error::TimedOut { instance, port, seconds } => {
                write!(f, "{instance}.{port}: nothing came within {seconds} s")
            }
            Error::Type { instance, port, expected, found } => {
                write!(f, "{instance}.{port}: expected {expected}, but the message holds {found}")
            }
            Error::Parameter { instance, name, problem } => {
                write!(f, "{instance}: parameter \"{name}\": {problem}")
            }
            Error::Filter { conduit, filter, problem } => {
                write!(f, "conduit {conduit}: filter {filter}: {problem}")
            }
            Error::Aborted { reason } => write!(f, "the run was stopped: {reason}"),
            Error::Interrupted => f.write_str("interrupted while waiting"),
            Error::Protocol { peer, problem } | Error::Late { peer, problem } => write!(f, "{peer}: {problem}"),
            Error::Relay { cause, there, back } => write!(
                f,
                "{cause}; the relay had taken, and is not known to have passed on, {there} from the first path to the second and {back} back"
            ),
            Error::Io { action, cause } => write!(f, "cannot {action}: {cause}"),
            Error::Usage { problem } => f.write_str(problem),
        }
    }
}
