//! What the owner of a relay says to it, and hears: a JSON object per line each way, over an abstract Unix socket on which the kernel
//! vouches for the user, or over the standard input and output of the relay.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xmml_wire::handshake::Party;
use xmml_wire::methods::unix::Unix;
use xmml_wire::methods::{Listener, Method, TrafficKind};
use xmml_wire::relay_key::RelayKey;
use xmml_wire::wakeup::{poll_readable, poll_writable, Polled};

use crate::status::Status;

/// Longest line, in bytes.
pub const LINE_MAX: usize = 64 << 10;

/// How long a relay may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// To the relay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Carry streams of this run from now on.
    AddRun {
        /// Its name.
        run: String,
        /// Made from its secret.
        relay_key: RelayKey,
        /// Forget it when nobody of it has been connected for so long [s].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease_s: Option<f64>,
    },
    /// End everything of this run.
    RemoveRun {
        /// Its name.
        run: String,
    },
    /// Believe only relays that show one of these certificates, which are named by their SHA-256, as hexadecimal digits.
    Trust {
        /// Of relays of any site.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fingerprints: Vec<String>,
        /// Of the relay of each site: nobody else may say anything of it, or take its place.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        relays: BTreeMap<String, String>,
    },
    /// Take links in clear from the relays of these sites, and from no others.
    TakeClearFrom {
        /// The sites, as their relays name themselves.
        sites: BTreeSet<String>,
    },
    /// Say how things are.
    Status,
    /// Read the configuration again.
    Reload,
    /// End.
    Stop,
}

/// From the relay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Whether it made a difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// How things are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

impl Answer {
    /// It was done; whether it made a difference.
    pub fn done(changed: bool) -> Answer {
        Answer { ok: true, changed: Some(changed), ..Answer::default() }
    }

    /// It was not done.
    pub fn problem(problem: impl Into<String>) -> Answer {
        Answer { problem: Some(problem.into()), ..Answer::default() }
    }

    /// The line.
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// The socket that the owner dials.
///
/// # Errors
/// There is one with this name already.
pub fn listen(address: &str) -> io::Result<Box<dyn Listener>> {
    Unix.listen(Some(address), &nobody())
}

/// Who keeps this control socket from its owner, if nobody of this user listens at it: any user may take any name.
pub fn held_by_others(address: &str) -> Option<String> {
    match Unix.connect(address, &nobody(), TrafficKind::default()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some(error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Some("nobody listens at it".to_owned()),
        _ => None,
    }
}

/// Asks the relay at this socket for something, and waits for the answer.
///
/// # Errors
/// There is no relay of this user there, or it does not answer.
pub fn ask(address: &str, request: &Request) -> io::Result<Answer> {
    let until = Instant::now() + ANSWER_WITHIN;
    let stream = Unix.connect(address, &nobody(), TrafficKind::default())?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    let mut rest = &line[..];
    while !rest.is_empty() {
        match stream.write(&[IoSlice::new(rest)]) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                in_time(poll_writable(stream.fd(), Some(until))?)?
            }
            Err(error) => return Err(error),
        }
    }
    let mut answer = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the relay ended before it answered")),
            Ok(count) => answer.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                in_time(poll_readable(&[stream.fd()], Some(until))?)?
            }
            Err(error) => return Err(error),
        }
        if answer.ends_with(b"\n") {
            return Ok(serde_json::from_slice(&answer)?);
        }
    }
}

fn in_time(polled: Polled) -> io::Result<()> {
    match polled {
        Polled::TimedOut => Err(io::Error::new(io::ErrorKind::TimedOut, "the relay does not answer")),
        _ => Ok(()),
    }
}

/// Local sockets ask nobody who they are: the kernel knows.
fn nobody() -> Party {
    Party {
        secret: Vec::new(),
        run: String::new(),
        name: String::new(),
        versions: (1, 1),
        nonce: [0; 32],
        private_key: [0; 32],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_object() {
        let relay_key = RelayKey::of(b"the secret");
        let text = format!(r#"{{"command":"add-run","run":"canal","relay_key":"{}"}}"#, relay_key.to_text());
        let request = Request::AddRun { run: "canal".into(), relay_key, lease_s: None };
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        assert!(serde_json::from_str::<Request>(r#"{"command":"explode"}"#).is_err());
    }
}
