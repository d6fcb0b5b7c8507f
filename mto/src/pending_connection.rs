//! Somebody who has dialled the relay: proves that it belongs to one of the relay's runs, then asks for one thing. Until then it may
//! send a few hundred bytes (in TLS, some thousand) within a few seconds, and no more.

use std::io;
use std::time::{Duration, Instant};

use xmml_path::TlsWire;
use xmml_wire::frame::{Kind, HEAD};
use xmml_wire::handshake::{self, Listener, Party, Refusal, Role, Step, Wish, TIMEOUT_S};
use xmml_wire::message_pack;
use xmml_wire::methods::relay::asking::{write_out, Inbox};
use xmml_wire::methods::relay::protocol::{ToRelay, RELAY};
use xmml_wire::methods::Stream;
use xmml_wire::relay_key::RelayKey;
use xmml_wire::wakeup::Interest;

use crate::encryption::Encryption;
use crate::nonblocking_tcp::NonblockingTcp;

/// How long it may take until it has asked.
pub const TIME_OUT: Duration = Duration::from_secs(TIMEOUT_S);

/// Bytes that may come in TLS until it has asked.
const TLS_MAX: u64 = 16 << 10;

/// Bytes that tell TLS from a handshake in clear.
const FIRST: usize = 3;

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
    /// It is a relay, or says so, and belongs to the run: its connection ([`PendingConnection::into_stream`]) is a stream of a path.
    Path {
        /// The run.
        run: String,
        /// Its site, as it says.
        site: String,
    },
    /// It was turned away, and told so as far as it listens; or it went away by itself.
    Refused(String),
}

/// What it speaks on.
enum Carrier {
    /// It is not known yet whether it will be encrypted; what has come so far.
    Unknown(NonblockingTcp, Vec<u8>),
    Clear(NonblockingTcp),
    Encrypted(Box<TlsWire>),
    /// For a moment, while it becomes another.
    Changing,
}

enum Stage {
    Hello,
    Challenged { listener: Box<Listener>, run: String },
    Proven { run: String, name: String },
}

/// See the module.
pub struct PendingConnection {
    carrier: Carrier,
    encryption: Encryption,
    source: String,
    /// When it must have asked.
    pub deadline: Instant,
    inbox: Inbox,
    out: Vec<u8>,
    stage: Stage,
}

impl PendingConnection {
    /// Nothing has come yet.
    pub fn new(wire: NonblockingTcp, encryption: Encryption, now: Instant) -> PendingConnection {
        PendingConnection {
            source: wire.source().to_owned(),
            carrier: Carrier::Unknown(wire, Vec::new()),
            encryption,
            deadline: now + TIME_OUT,
            inbox: Inbox::default(),
            out: Vec::new(),
            stage: Stage::Hello,
        }
    }

    /// The host at the other end: what counts as one source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The connection, for poll and epoll.
    pub fn stream(&self) -> Option<&dyn Stream> {
        match &self.carrier {
            Carrier::Unknown(wire, _) | Carrier::Clear(wire) => Some(wire),
            Carrier::Encrypted(wire) => Some(&**wire),
            Carrier::Changing => None,
        }
    }

    /// The connection of one that has [asked](Progress::Asked): those are in clear.
    pub fn into_wire(self) -> Option<NonblockingTcp> {
        match self.carrier {
            Carrier::Unknown(wire, _) | Carrier::Clear(wire) => Some(wire),
            Carrier::Encrypted(_) | Carrier::Changing => None,
        }
    }

    /// The connection.
    pub fn into_stream(self) -> Option<Box<dyn Stream>> {
        match self.carrier {
            Carrier::Unknown(wire, _) | Carrier::Clear(wire) => Some(Box::new(wire)),
            Carrier::Encrypted(wire) => Some(wire),
            Carrier::Changing => None,
        }
    }

    /// Goes on as far as the connection allows. `key_of` knows the keys of runs.
    pub fn advance(&mut self, key_of: impl Fn(&str) -> Option<RelayKey>) -> Progress {
        match self.go_on(key_of) {
            Ok(progress) => progress,
            // What the bytes are, and what TLS has against them, is told; a connection that breaks is not worth its own words.
            Err(error) if matches!(error.kind(), io::ErrorKind::Other | io::ErrorKind::InvalidData) => {
                Progress::Refused(error.to_string())
            }
            Err(_) => Progress::Refused(match self.stage {
                Stage::Hello => "it went away without saying who it is".to_owned(),
                Stage::Challenged { .. } => {
                    "it went away when it was to prove who it is: does it have another secret?".to_owned()
                }
                Stage::Proven { .. } => "it went away before it asked for anything".to_owned(),
            }),
        }
    }

    fn go_on(&mut self, key_of: impl Fn(&str) -> Option<RelayKey>) -> io::Result<Progress> {
        if !self.find_carrier()? {
            return Ok(Progress::Wait(Interest::READ));
        }
        loop {
            if !self.write()? {
                return Ok(Progress::Wait(Interest { read: false, write: true, close: false }));
            }
            let next = match &self.carrier {
                Carrier::Encrypted(wire) => {
                    let next = self.inbox.next(&**wire);
                    if wire.received() > TLS_MAX {
                        let problem = format!("it sent {} bytes without proving who it is", wire.received());
                        return Ok(Progress::Refused(problem));
                    }
                    next?
                }
                Carrier::Clear(wire) => self.inbox.next(wire)?,
                Carrier::Unknown(..) | Carrier::Changing => None,
            };
            let Some((kind, frame)) = next else { return Ok(Progress::Wait(Interest::READ)) };
            let channel = self.stream().map_or(Ok(None), Stream::channel)?;
            match &mut self.stage {
                Stage::Hello => {
                    let Wish { run, role, from } = match handshake::wish_of_hello(&frame) {
                        Ok(Some(wish)) => wish,
                        Ok(None) => return Err(io::Error::other("its first frame is no whole hello")),
                        Err(refusal) => return Ok(self.refuse(&refusal)),
                    };
                    let Some(key) = key_of(&run) else {
                        return Ok(self.refuse(&Refusal::Role {
                            problem: format!("this relay does not know the run \"{run}\""),
                        }));
                    };
                    // Nobody passes under the name of another relay who lacks the key of the run: the proof covers the name.
                    let is_clear = matches!(self.carrier, Carrier::Clear(_));
                    if is_clear && role == Role::Path && !self.encryption.takes_clear_from(&from) {
                        return Ok(self.refuse(&Refusal::Role {
                            problem: format!(
                                "no link in clear is taken from the relay of {from}: leave out `encrypt = false` there, \
                                 or name it in `clear_from` of the relay that it dials"
                            ),
                        }));
                    }
                    let me = Party::new(key.as_bytes(), &run, RELAY).map_err(io::Error::other)?;
                    // Processes of the site come in clear.
                    let roles: &[Role] = if is_clear { &[Role::Relay, Role::Path] } else { &[Role::Path] };
                    let mut listener = Box::new(Listener::new(me, roles).map_err(io::Error::other)?);
                    listener.bind(channel);
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
                    let request = message_pack::decode_from(&frame[HEAD..], &name).map_err(io::Error::other)?;
                    return Ok(Progress::Asked { run, name, request });
                }
            }
        }
    }

    /// Finds out whether it is encrypted. False: too little has come.
    fn find_carrier(&mut self) -> io::Result<bool> {
        let Carrier::Unknown(wire, first) = &mut self.carrier else { return Ok(true) };
        while first.len() < FIRST {
            let mut bytes = [0; FIRST];
            match wire.read(&mut bytes[first.len()..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let have = first.len();
                    first.extend_from_slice(&bytes[have..have + count]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // The record of a TLS handshake; a frame in clear has a zero there, for it is short.
        let is_tls = first[0] == 0x16 && first[1] == 3 && first[2] != 0;
        let Carrier::Unknown(wire, first) = std::mem::replace(&mut self.carrier, Carrier::Changing) else {
            unreachable!("it was unknown a moment ago")
        };
        self.carrier = match is_tls {
            true => Carrier::Encrypted(Box::new(TlsWire::server(Box::new(wire), &self.encryption.tls, &first)?)),
            false => {
                self.inbox = Inbox::beginning_with(first);
                Carrier::Clear(wire)
            }
        };
        Ok(true)
    }

    /// Whether everything is out.
    fn write(&mut self) -> io::Result<bool> {
        let stream: &dyn Stream = match &self.carrier {
            Carrier::Unknown(wire, _) | Carrier::Clear(wire) => wire,
            Carrier::Encrypted(wire) => &**wire,
            Carrier::Changing => return Ok(true),
        };
        if !write_out(&mut self.out, stream)? {
            return Ok(false);
        }
        match stream.flush() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Tells the other end what is left to tell; it learns it if it still listens.
    fn bid_farewell(&mut self) {
        let _ = self.write();
        match &self.carrier {
            Carrier::Unknown(wire, _) | Carrier::Clear(wire) => wire.finish(),
            Carrier::Encrypted(_) | Carrier::Changing => {}
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
                self.bid_farewell();
                Some(Progress::Refused(reason.to_string()))
            }
        }
    }

    fn refuse(&mut self, refusal: &Refusal) -> Progress {
        self.out.extend_from_slice(&handshake::turn_away(refusal));
        self.bid_farewell();
        Progress::Refused(refusal.to_string())
    }
}
