//! The opening of every connection: both sides prove that they know the run's secret, and agree on a version. No socket here: bytes
//! go in, bytes and an outcome come out.
//!
//! ```text
//! dialler                                             listener
//!   Hello     versions, role, run, names, nonce   ->
//!             (and a public key)
//!                                                 <-  Challenge   versions, chosen version, name, nonce, proof
//!                                                                 (and a public key)
//!   Proof     proof                               ->
//! ```
//!
//! or, instead of the challenge or after the proof, `Refused` from the listener. A proof is HMAC-SHA256, keyed by the secret, over
//! the side's label, the whole hello frame, and the challenge frame up to its proof: it binds both nonces, both ranges of versions,
//! the role, the run and the names, and cannot be reflected. On an encrypted stream it covers the channel as well (32 bytes that only the two
//! ends of this one stream know, and that both their certificates went into): nobody in the middle can pass proofs on.
//!
//! A dialler that sends a public key has what follows [protected](crate::protection). Both ends make a key pair of X25519 for this connection
//! alone. The keys of the two directions are derived from what the pairs have in common and from the run's secret: who learns the secret later
//! cannot read what was recorded before. The proofs cover the public keys, and that there are any.

mod wire;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};

use crate::error::{Error, Result};
use crate::frame::refusal::shortened;
use crate::frame::{framed, push_text, FrameError, Head, Kind, HEAD};
use wire::{decode_refused, encode_refused, malformed, Challenge, Hello, Inbox};

/// The versions of the protocol that this crate speaks: lowest, highest.
pub const VERSIONS: (u16, u16) = (1, 1);

/// How long a peer may take until it is authenticated, in seconds.
pub const TIMEOUT_S: u64 = 5;

/// How many bytes a peer may send until it is authenticated.
pub const MAX_BYTES: usize = 1024;

/// Bytes of a nonce.
pub const NONCE: usize = 32;

/// Bytes of a proof.
pub const PROOF: usize = 32;

/// Longest name of a run or an instance, in bytes.
pub const MAX_NAME: usize = 255;

const LISTENER: &[u8] = b"xmml handshake: listener\0";
const DIALLER: &[u8] = b"xmml handshake: dialler\0";
const KEYS: &[u8] = b"xmml keys of a connection\0";
const DIALLER_SENDS: &[u8] = b"xmml key: dialler\0";
const LISTENER_SENDS: &[u8] = b"xmml key: listener\0";

/// Bytes of a public key.
pub const PUBLIC_KEY: usize = 32;

/// What only the two ends of an encrypted stream know of it ([`crate::methods::Stream::channel`]).
pub type Channel = [u8; 32];

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// An instance speaks with the coordinator.
    Control = 1,
    /// An instance sends messages to another; receipts come back.
    Data = 2,
    /// Two relays, or an instance and its relay.
    Relay = 3,
    /// One of the streams of a path.
    Path = 4,
    /// The login node watches the agent of a job.
    Agent = 5,
}

impl Role {
    const fn from_code(code: u8) -> Option<Role> {
        Some(match code {
            1 => Role::Control,
            2 => Role::Data,
            3 => Role::Relay,
            4 => Role::Path,
            5 => Role::Agent,
            _ => return None,
        })
    }

    /// The word for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Control => "control",
            Role::Data => "data",
            Role::Relay => "relay",
            Role::Path => "path",
            Role::Agent => "agent",
        }
    }
}

/// What one side brings into a handshake.
#[derive(Clone)]
pub struct Party {
    /// The run's secret, or its [relay key](crate::relay_key::RelayKey) where a relay is at one of the ends; not empty.
    pub secret: Vec<u8>,
    /// The run.
    pub run: String,
    /// Who this side is: an instance, or `coordinator`.
    pub name: String,
    /// Versions it speaks: lowest, highest.
    pub versions: (u16, u16),
    /// Fresh random bytes, never used before ([`fresh_nonce`]).
    pub nonce: [u8; NONCE],
    /// Fresh random bytes of which the private key is made, if this connection is protected.
    pub private_key: Key,
}

impl Party {
    /// A process of a run, with a nonce of its own.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn new(secret: &[u8], run: &str, name: &str) -> Result<Party> {
        Ok(Party {
            secret: secret.to_vec(),
            run: run.to_owned(),
            name: name.to_owned(),
            versions: VERSIONS,
            nonce: fresh_nonce()?,
            private_key: fresh_nonce()?,
        })
    }
}

impl std::fmt::Debug for Party {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Party({} of run {})", self.name, self.run)
    }
}

/// 32 random bytes from the operating system.
pub fn fresh_nonce() -> Result<[u8; NONCE]> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce)
        .map_err(|error| Error::Io { action: "get random bytes".into(), cause: error.to_string() })?;
    Ok(nonce)
}

/// A key of one direction.
pub type Key = [u8; 32];

/// The keys of a connection, as one of its ends has them.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKeys {
    /// What this end sends.
    pub sending: Key,
    /// What it receives.
    pub receiving: Key,
}

impl std::fmt::Debug for SessionKeys {
    /// Without the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKeys")
    }
}

/// What both sides know after a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// The version both speak from here on.
    pub version: u16,
    /// What the connection is for.
    pub role: Role,
    /// Who is at the other end.
    pub peer: String,
}

/// What to do after a side was fed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read more.
    More,
    /// Write these bytes, then read more.
    Send(Vec<u8>),
    /// Write these bytes (maybe none); the connection is open. `rest` are bytes of the peer's first frames that came along.
    Done {
        /// To be written.
        send: Vec<u8>,
        /// The outcome.
        established: Established,
        /// Already read.
        rest: Vec<u8>,
        /// By which what follows, `rest` included, is protected; `None`: it is not.
        keys: Option<SessionKeys>,
    },
    /// Write these bytes (maybe none), then close.
    Refused {
        /// To be written.
        send: Vec<u8>,
        /// Why, for people.
        reason: Refusal,
    },
}

/// Why a handshake did not lead to a connection; the discriminant is the code on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Refusal {
    /// The ranges of versions do not meet.
    Version { mine: (u16, u16), theirs: (u16, u16) },
    /// The other side belongs to another run.
    Run { theirs: String },
    /// Not the one who was dialled, or a role that is not served here.
    Role { problem: String },
    /// The proof is wrong: another secret.
    Proof,
    /// Bytes that are no handshake, or too many of them.
    Malformed { problem: String },
    /// The other side refused, for its own reason.
    Peer { reason: String },
}

impl Refusal {
    fn code(&self) -> u16 {
        match self {
            Refusal::Version { .. } => 1,
            Refusal::Run { .. } => 2,
            Refusal::Role { .. } => 3,
            Refusal::Proof => 4,
            Refusal::Malformed { .. } | Refusal::Peer { .. } => 5,
        }
    }

    /// This as an error of an instance that dialled or listened.
    pub fn from_peer(self, peer: &str) -> Error {
        Error::Protocol { peer: peer.into(), problem: self.to_string() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Version { mine, theirs } => write!(
                f,
                "it speaks versions {} to {} of the protocol, this side {} to {}; use the same release of xmml on both",
                theirs.0, theirs.1, mine.0, mine.1
            ),
            Refusal::Run { theirs } => write!(f, "it belongs to another run, \"{theirs}\""),
            Refusal::Role { problem } => f.write_str(problem),
            Refusal::Proof => f.write_str(
                "its proof is wrong: it does not know the secret of this run, or what the two ends said was changed on its way",
            ),
            Refusal::Malformed { problem } => write!(f, "it does not open with the xmml handshake: {problem}"),
            Refusal::Peer { reason } => write!(f, "it refused: {reason}"),
        }
    }
}

/// The highest version in both ranges.
fn common_version(mine: (u16, u16), theirs: (u16, u16)) -> Option<u16> {
    let highest = mine.1.min(theirs.1);
    (highest >= mine.0.max(theirs.0)).then_some(highest)
}

fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"))
}

/// The proof of one side over what both have said.
fn mac(secret: &[u8], label: &[u8], hello: &[u8], challenge: &[u8], channel: Option<Channel>) -> Hmac<Sha256> {
    let mut mac = keyed(secret);
    mac.update(label);
    mac.update(hello);
    mac.update(challenge);
    mac.update(channel.as_ref().map_or(&[], |channel| &channel[..]));
    mac
}

/// The keys of both directions: what the dialler sends, what the listener sends.
fn session_keys(
    me: &Party,
    theirs: [u8; PUBLIC_KEY],
    hello: &[u8],
    challenge: &[u8],
) -> std::result::Result<[Key; 2], Refusal> {
    let shared = private_key(me).diffie_hellman(&PublicKey::from(theirs));
    if !shared.was_contributory() {
        return Err(Refusal::Malformed { problem: "its public key leads to a key that anybody knows".into() });
    }
    let mut mac = keyed(&me.secret);
    mac.update(KEYS);
    mac.update(shared.as_bytes());
    mac.update(&Sha256::digest(hello));
    mac.update(&Sha256::digest(challenge));
    let both = mac.finalize().into_bytes();
    Ok([DIALLER_SENDS, LISTENER_SENDS].map(|label| {
        let mut mac = keyed(&both);
        mac.update(label);
        mac.finalize().into_bytes().into()
    }))
}

fn private_key(me: &Party) -> StaticSecret {
    StaticSecret::from(me.private_key)
}

fn public_key(me: &Party) -> [u8; PUBLIC_KEY] {
    PublicKey::from(&private_key(me)).to_bytes()
}

fn refused(mine: &Party, reason: Refusal, tell: bool) -> Step {
    let send = if tell { encode_refused(mine.versions, &reason) } else { Vec::new() };
    Step::Refused { send, reason }
}

/// What a dialler says that it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The run.
    pub run: String,
    /// What the connection is to be for.
    pub role: Role,
    /// Who it says that it is. That it belongs to the run under this name holds when its proof is right.
    pub from: String,
}

/// What the first bytes of a dialler ask for, for a listener that serves several runs; `None`: its hello is not complete.
pub fn wish_of_hello(bytes: &[u8]) -> std::result::Result<Option<Wish>, Refusal> {
    let mut inbox = Inbox { bytes: bytes.to_vec(), seen: 0 };
    let Some((head, frame)) = inbox.frame()? else { return Ok(None) };
    match head.kind {
        Kind::Hello => {
            let hello = Hello::decode(&frame[HEAD..]).map_err(malformed)?;
            Ok(Some(Wish { run: hello.run, role: hello.role, from: hello.from }))
        }
        kind => Err(malformed(FrameError::Unexpected { kind })),
    }
}

/// What a listener that serves several runs answers to one that names none of them, or nothing at all: bytes, to be followed by the end.
pub fn turn_away(reason: &Refusal) -> Vec<u8> {
    encode_refused(VERSIONS, reason)
}

fn check_names(names: &[&str]) -> Result<()> {
    match names.iter().find(|name| name.len() > MAX_NAME) {
        None => Ok(()),
        Some(name) => Err(Error::Usage {
            problem: format!("the name \"{name}\" is longer than {MAX_NAME} bytes; use a shorter one"),
        }),
    }
}

/// The side that opens the connection.
#[derive(Debug)]
pub struct Dialler {
    me: Party,
    role: Role,
    peer: String,
    hello: Vec<u8>,
    inbox: Inbox,
    channel: Option<Channel>,
    is_protected: bool,
}

impl Dialler {
    /// Begins a handshake with the instance called `peer` (or `coordinator`); returns what to write first. If `is_protected`, nobody else can
    /// read or change what follows the handshake.
    pub fn new(me: Party, role: Role, peer: &str, is_protected: bool) -> Result<(Dialler, Vec<u8>)> {
        check_names(&[&me.run, &me.name, peer])?;
        let hello = Hello {
            versions: me.versions,
            role,
            nonce: me.nonce,
            public_key: is_protected.then(|| public_key(&me)),
            run: me.run.clone(),
            from: me.name.clone(),
            to: peer.into(),
        }
        .encode();
        let send = hello.clone();
        let dialler =
            Dialler { me, role, peer: peer.into(), hello, inbox: Inbox::default(), channel: None, is_protected };
        Ok((dialler, send))
    }

    /// From now on proofs cover this; to be said before the listener is heard.
    pub fn bind(&mut self, channel: Option<Channel>) {
        self.channel = channel;
    }

    /// Takes bytes from the listener.
    pub fn feed(&mut self, bytes: &[u8]) -> Step {
        self.inbox.bytes.extend_from_slice(bytes);
        match self.inbox.frame() {
            Ok(None) => Step::More,
            Ok(Some((head, frame))) => match self.answer(&head, &frame) {
                Ok((send, version, keys)) => Step::Done {
                    send,
                    established: Established { version, role: self.role, peer: self.peer.clone() },
                    rest: std::mem::take(&mut self.inbox.bytes),
                    keys,
                },
                Err(reason) => refused(&self.me, reason, false),
            },
            Err(reason) => refused(&self.me, reason, false),
        }
    }

    fn answer(&self, head: &Head, frame: &[u8]) -> std::result::Result<(Vec<u8>, u16, Option<SessionKeys>), Refusal> {
        let body = &frame[HEAD..];
        match head.kind {
            Kind::Refused => return Err(decode_refused(&self.me, body).unwrap_or_else(malformed)),
            Kind::Challenge => {}
            kind => return Err(malformed(FrameError::Unexpected { kind })),
        }
        let (said, proof) = frame.split_at(frame.len().saturating_sub(PROOF).max(HEAD));
        let of = |label| mac(&self.me.secret, label, &self.hello, said, self.channel);
        of(LISTENER).verify_slice(proof).map_err(|_| Refusal::Proof)?;
        let challenge = Challenge::decode(&said[HEAD..], self.is_protected).map_err(malformed)?;
        if challenge.name != self.peer {
            let problem = format!("it is {}, not {}", challenge.name, self.peer);
            return Err(Refusal::Role { problem });
        }
        let version = common_version(self.me.versions, challenge.versions)
            .filter(|&version| version == challenge.version)
            .ok_or(Refusal::Version { mine: self.me.versions, theirs: challenge.versions })?;
        let keys = challenge.public_key.map(|theirs| session_keys(&self.me, theirs, &self.hello, said)).transpose()?;
        let keys = keys.map(|[sending, receiving]| SessionKeys { sending, receiving });
        let proof = of(DIALLER).finalize().into_bytes();
        Ok((framed(Kind::Proof, 0, 0, 0, &proof), version, keys))
    }
}

/// What a listener has said, and what holds if the dialler's proof is right.
#[derive(Debug)]
struct Challenged {
    hello: Vec<u8>,
    /// The challenge up to its proof.
    challenge: Vec<u8>,
    established: Established,
    keys: Option<SessionKeys>,
}

/// The side that was dialled.
#[derive(Debug)]
pub struct Listener {
    me: Party,
    roles: Vec<Role>,
    inbox: Inbox,
    challenged: Option<Challenged>,
    channel: Option<Channel>,
    leaves_host: bool,
}

impl Listener {
    /// Waits for a dialler that asks for one of `roles`.
    pub fn new(me: Party, roles: &[Role]) -> Result<Listener> {
        check_names(&[&me.run, &me.name])?;
        let (roles, inbox) = (roles.to_vec(), Inbox::default());
        Ok(Listener { me, roles, inbox, challenged: None, channel: None, leaves_host: false })
    }

    /// The same; if what is said may pass a network, nobody speaks with the coordinator in clear. A dialler that takes the coordinator
    /// for one on its own host was led astray.
    pub fn leaving_host(self, leaves_host: bool) -> Listener {
        Listener { leaves_host, ..self }
    }

    /// From now on proofs cover this; to be said before the dialler is heard.
    pub fn bind(&mut self, channel: Option<Channel>) {
        self.channel = channel;
    }

    /// Takes bytes from the dialler.
    pub fn feed(&mut self, bytes: &[u8]) -> Step {
        self.inbox.bytes.extend_from_slice(bytes);
        let frame = match self.inbox.frame() {
            Ok(frame) => frame,
            Err(reason) => return refused(&self.me, reason, true),
        };
        let Some((head, frame)) = frame else {
            return Step::More;
        };
        let step = match self.challenged.take() {
            None => self.challenge(&head, frame).map(Step::Send),
            Some(said) => self.verify(&head, &frame, said),
        };
        step.unwrap_or_else(|reason| refused(&self.me, reason, true))
    }

    fn challenge(&mut self, head: &Head, hello: Vec<u8>) -> std::result::Result<Vec<u8>, Refusal> {
        if head.kind != Kind::Hello {
            return Err(malformed(FrameError::Unexpected { kind: head.kind }));
        }
        if !self.inbox.bytes.is_empty() {
            return Err(Refusal::Malformed { problem: "it goes on before it is challenged".into() });
        }
        let (mine, body) = (self.me.versions, &hello[HEAD..]);
        let theirs = Hello::versions(body).map_err(malformed)?;
        let version = common_version(mine, theirs).ok_or(Refusal::Version { mine, theirs })?;
        let said = Hello::decode(body).map_err(malformed)?;
        debug_assert_eq!(said.versions, theirs);
        if said.run != self.me.run {
            return Err(Refusal::Run { theirs: shortened(&said.run) });
        }
        if said.to != self.me.name {
            let problem = format!("it looks for \"{}\", this is {}", shortened(&said.to), self.me.name);
            return Err(Refusal::Role { problem });
        }
        if !self.roles.contains(&said.role) {
            let problem = format!("{} takes no {} connections", self.me.name, said.role.name());
            return Err(Refusal::Role { problem });
        }
        if self.leaves_host && said.role == Role::Control && said.public_key.is_none() {
            return Err(Refusal::Malformed { problem: "it wants to speak in clear over a network".into() });
        }
        if said.nonce == self.me.nonce {
            return Err(Refusal::Malformed { problem: "it sends back this side's own nonce".into() });
        }
        let mut body = Vec::new();
        for number in [mine.0, mine.1, version, 0] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.extend_from_slice(&self.me.nonce);
        if said.public_key.is_some() {
            body.extend_from_slice(&public_key(&self.me));
        }
        push_text(&mut body, &self.me.name);
        body.extend_from_slice(&[0; PROOF]);
        let mut frame = framed(Kind::Challenge, 0, 0, 0, &body);
        frame.truncate(frame.len() - PROOF);
        let proof = mac(&self.me.secret, LISTENER, &hello, &frame, self.channel).finalize().into_bytes();
        let keys = said.public_key.map(|theirs| session_keys(&self.me, theirs, &hello, &frame)).transpose()?;
        let keys = keys.map(|[receiving, sending]| SessionKeys { sending, receiving });
        let established = Established { version, role: said.role, peer: said.from };
        self.challenged = Some(Challenged { hello, challenge: frame.clone(), established, keys });
        frame.extend_from_slice(&proof);
        Ok(frame)
    }

    fn verify(
        &mut self,
        head: &Head,
        frame: &[u8],
        Challenged { hello, challenge, established, keys }: Challenged,
    ) -> std::result::Result<Step, Refusal> {
        if head.kind != Kind::Proof {
            return Err(malformed(FrameError::Unexpected { kind: head.kind }));
        }
        let expected = mac(&self.me.secret, DIALLER, &hello, &challenge, self.channel);
        expected.verify_slice(&frame[HEAD..]).map_err(|_| Refusal::Proof)?;
        let rest = std::mem::take(&mut self.inbox.bytes);
        Ok(Step::Done { send: Vec::new(), established, rest, keys })
    }
}
