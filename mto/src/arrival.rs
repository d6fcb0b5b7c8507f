//! Somebody who has dialled the relay: proves that it belongs to one of the relay's runs, then asks for one thing. Until then it may
//! send a few hundred bytes within a few seconds, and no more.

use std::io;
use std::time::{Duration, Instant};

use xmml_core::control;
use xmml_core::frame::{Kind, HEAD};
use xmml_core::handshake::{self, Listener, Party, Refusal, Role, Step, TIMEOUT_S, VERSIONS};
use xmml_core::methods::relay::asking::{write_out, Inbox};
use xmml_core::methods::relay::protocol::{ToRelay, RELAY};
use xmml_core::wakeup::Interest;

use crate::wire::Wire;

/// How long it may take until it has asked.
pub const PATIENCE: Duration = Duration::from_secs(TIMEOUT_S);

/// How far it is.
#[derive(Debug)]
pub enum Progress {
    /// Go on when the connection is ready for this.
    Wait(Interest),
    /// It belongs to the run, has this name there, and asks for this.
    Asked {
        /// The run.
        run: String,
        /// Its name.
        name: String,
        /// What it asks for.
        request: ToRelay,
    },
    /// It is a relay, or says so, and belongs to the run: its connection is a stream of a path.
    Path {
        /// The run.
        run: String,
        /// Its site, as it says.
        site: String,
    },
    /// It was turned away, and told so as far as it listens; or it went away by itself.
    Refused(String),
}

enum Stage {
    Hello,
    Challenged { listener: Box<Listener>, run: String },
    Proven { run: String, name: String },
}

/// See the module.
pub struct Arrival {
    /// The connection.
    pub wire: Wire,
    /// When it must have asked.
    pub deadline: Instant,
    inbox: Inbox,
    out: Vec<u8>,
    stage: Stage,
}

impl Arrival {
    /// Nothing has come yet.
    pub fn new(wire: Wire, now: Instant) -> Arrival {
        Arrival { wire, deadline: now + PATIENCE, inbox: Inbox::default(), out: Vec::new(), stage: Stage::Hello }
    }

    /// Goes on as far as the connection allows. `key_of` knows the keys of runs ([`handshake::relay_key`]).
    pub fn advance(&mut self, key_of: impl Fn(&str) -> Option<Vec<u8>>) -> Progress {
        match self.go_on(key_of) {
            Ok(progress) => progress,
            Err(error) if error.kind() == io::ErrorKind::Other => Progress::Refused(error.to_string()),
            Err(_) => Progress::Refused(match self.stage {
                Stage::Hello => "it went away without saying who it is".to_owned(),
                Stage::Challenged { .. } => {
                    "it went away when it was to prove who it is: does it have another secret?".to_owned()
                }
                Stage::Proven { .. } => "it went away before it asked for anything".to_owned(),
            }),
        }
    }

    fn go_on(&mut self, key_of: impl Fn(&str) -> Option<Vec<u8>>) -> io::Result<Progress> {
        loop {
            if !write_out(&mut self.out, &self.wire)? {
                return Ok(Progress::Wait(Interest { read: false, write: true, close: false }));
            }
            let Some((kind, frame)) = self.inbox.next(&self.wire)? else { return Ok(Progress::Wait(Interest::READ)) };
            match &mut self.stage {
                Stage::Hello => {
                    let run = match handshake::run_of_hello(&frame) {
                        Ok(run) => run.unwrap_or_default(),
                        Err(refusal) => return Ok(self.turn_away(&refusal)),
                    };
                    let Some(secret) = key_of(&run) else {
                        return Ok(self.turn_away(&Refusal::Role {
                            problem: format!("this relay does not know the run \"{run}\""),
                        }));
                    };
                    let nonce = handshake::fresh_nonce().map_err(io::Error::other)?;
                    let me = Party { secret, run: run.clone(), name: RELAY.to_owned(), versions: VERSIONS, nonce };
                    let listener = Box::new(Listener::new(me, &[Role::Relay, Role::Path]).map_err(io::Error::other)?);
                    self.stage = Stage::Challenged { listener, run };
                    if let Some(progress) = self.feed(&frame) {
                        return Ok(progress);
                    }
                }
                Stage::Challenged { .. } => {
                    if let Some(progress) = self.feed(&frame) {
                        return Ok(progress);
                    }
                }
                Stage::Proven { run, name } => {
                    let (run, name) = (std::mem::take(run), std::mem::take(name));
                    if kind != Kind::Control {
                        return Ok(Progress::Refused(format!(
                            "{name} of run {run} sent a {kind:?} frame before it asked for anything"
                        )));
                    }
                    let request = control::decode(&frame[HEAD..], &name).map_err(io::Error::other)?;
                    return Ok(Progress::Asked { run, name, request });
                }
            }
        }
    }

    /// Gives a frame to the handshake; what becomes of it if that was the last step.
    fn feed(&mut self, frame: &[u8]) -> Option<Progress> {
        let Stage::Challenged { listener, run } = &mut self.stage else { return None };
        match listener.feed(frame) {
            Step::More => None,
            Step::Send(bytes) => {
                self.out.extend_from_slice(&bytes);
                None
            }
            Step::Done { established, .. } => {
                let run = std::mem::take(run);
                if established.role == Role::Path {
                    return Some(Progress::Path { run, site: established.peer });
                }
                self.stage = Stage::Proven { run, name: established.peer };
                None
            }
            Step::Refused { send, reason } => {
                self.out.extend_from_slice(&send);
                let _ = write_out(&mut self.out, &self.wire); // courtesy
                self.wire.finish();
                Some(Progress::Refused(reason.to_string()))
            }
        }
    }

    fn turn_away(&mut self, refusal: &Refusal) -> Progress {
        self.out.extend_from_slice(&handshake::turn_away(refusal));
        let _ = write_out(&mut self.out, &self.wire); // courtesy
        self.wire.finish();
        Progress::Refused(refusal.to_string())
    }
}
