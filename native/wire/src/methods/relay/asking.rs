//! Asking a relay for something on a connection of its own: connect, prove, ask, hear the answer. Never waits. Not a byte behind the
//! answer is read: it belongs to whoever asked.

use std::io::{self, IoSlice};

use super::protocol::{FromRelay, ToRelay, LIMIT, RELAY};
use crate::frame::{encode_control, refusal, Head, Kind, HEAD};
use crate::handshake::{self, Dialler, Party, Role, Step};
use crate::message_pack;
use crate::methods::Stream;
use crate::relay_key::RelayKey;
use crate::wakeup::Interest;

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// Go on when the connection is ready for this.
    Wait(Interest),
    /// The relay has answered; it did not refuse.
    Answered(FromRelay),
}

const WRITE: Interest = Interest { read: false, write: true, close: false };

/// See the module.
pub struct Asking {
    dialler: Option<Dialler>,
    request: Option<ToRelay>,
    out: Vec<u8>,
    inbox: Inbox,
}

impl Asking {
    /// Will ask for this on behalf of `me`.
    pub fn new(me: &Party, request: ToRelay) -> io::Result<Asking> {
        let nonce = handshake::fresh_nonce().map_err(io::Error::other)?;
        let me = Party { secret: RelayKey::of(&me.secret).as_bytes().to_vec(), nonce, ..me.clone() };
        let (dialler, hello) = Dialler::new(me, Role::Relay, RELAY, false).map_err(io::Error::other)?;
        Ok(Asking { dialler: Some(dialler), request: Some(request), out: hello, inbox: Inbox::default() })
    }

    /// Goes on as far as the connection allows.
    ///
    /// # Errors
    /// The relay refused or cannot be reached, and why.
    pub fn advance(&mut self, stream: &dyn Stream) -> io::Result<Progress> {
        loop {
            if !write_out(&mut self.out, stream)? {
                return Ok(Progress::Wait(WRITE));
            }
            let Some((kind, frame)) = self.inbox.next(stream)? else { return Ok(Progress::Wait(Interest::READ)) };
            if let Some(dialler) = &mut self.dialler {
                match dialler.feed(&frame) {
                    Step::More => {}
                    Step::Send(bytes) => self.out.extend_from_slice(&bytes),
                    Step::Done { send, .. } => {
                        self.out.extend_from_slice(&send);
                        self.dialler = None;
                        let request =
                            self.request.take().map(|request| encode_control(&message_pack::encode(&request)));
                        self.out.extend_from_slice(&request.unwrap_or_default());
                    }
                    Step::Refused { reason, .. } => return Err(io::Error::other(reason.to_string())),
                }
                continue;
            }
            match answer(kind, &frame[HEAD..])? {
                Some(FromRelay::Refused { reason }) => return Err(io::Error::other(reason)),
                Some(answer) => return Ok(Progress::Answered(answer)),
                None => {}
            }
        }
    }
}

/// What a frame of the relay says; `None`: only that it is alive.
pub fn answer(kind: Kind, body: &[u8]) -> io::Result<Option<FromRelay>> {
    match kind {
        Kind::Control => message_pack::decode_from(body, "the relay").map(Some).map_err(io::Error::other),
        Kind::Alive => Ok(None),
        Kind::Refused => {
            let reason = refusal::reason(body).map_err(|error| io::Error::other(error.to_string()))?;
            Err(io::Error::other(format!("it refused: {reason}")))
        }
        kind => Err(io::Error::other(format!("it sent a {kind:?} frame where none belongs"))),
    }
}

/// Whether everything is out.
pub fn write_out(out: &mut Vec<u8>, stream: &dyn Stream) -> io::Result<bool> {
    while !out.is_empty() {
        match stream.write(&[IoSlice::new(out)]) {
            Ok(count) => drop(out.drain(..count)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected => return Ok(false),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
    Ok(true)
}

/// Collects one frame at a time, without reading beyond its end.
#[derive(Default)]
pub struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    /// One that begins with bytes that have been read already: less than a head.
    pub fn beginning_with(bytes: Vec<u8>) -> Inbox {
        Inbox { bytes }
    }

    /// The next whole frame, head included, and its kind; `None`: it has not come yet.
    pub fn next(&mut self, stream: &dyn Stream) -> io::Result<Option<(Kind, Vec<u8>)>> {
        loop {
            let mut kind = None;
            let mut wanted = HEAD;
            if let Some(head) = self.bytes.first_chunk::<HEAD>() {
                let head = Head::decode(head).map_err(|error| io::Error::other(error.to_string()))?;
                if head.length > LIMIT {
                    return Err(io::Error::other(format!(
                        "it sent a frame of {} bytes; at most {LIMIT} belong here",
                        head.length
                    )));
                }
                wanted += head.length as usize;
                kind = Some(head.kind);
            }
            if let Some(kind) = kind.filter(|_| self.bytes.len() == wanted) {
                return Ok(Some((kind, std::mem::take(&mut self.bytes))));
            }
            let have = self.bytes.len();
            self.bytes.resize(wanted, 0);
            let read = stream.read(&mut self.bytes[have..]);
            self.bytes.truncate(have + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected => return Ok(None),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
    }
}
