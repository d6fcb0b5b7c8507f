//! The frames of a handshake: encoding and decoding.

use super::{Party, Refusal, Role, MAX_BYTES, MAX_NAME, NONCE, PUBLIC_KEY};
use crate::frame::refusal::shortened;
use crate::frame::{descriptor_error, framed, push_text, FrameError, Head, Kind, Reader, HEAD};

/// Collects the bytes of one handshake frame, within [`MAX_BYTES`] in all.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) bytes: Vec<u8>,
    pub(super) seen: usize,
}

impl Inbox {
    /// The next whole frame, head included, if it is there.
    pub(super) fn frame(&mut self) -> std::result::Result<Option<(Head, Vec<u8>)>, Refusal> {
        let Some(head) = self.bytes.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let head = Head::decode(head).map_err(malformed)?;
        let handshake = matches!(head.kind, Kind::Hello | Kind::Challenge | Kind::Proof | Kind::Refused);
        if !handshake || head.conduit != 0 || head.sequence != 0 {
            return Err(malformed(FrameError::Unexpected { kind: head.kind }));
        }
        let length = usize::try_from(head.length).unwrap_or(usize::MAX);
        if length > MAX_BYTES - HEAD || self.seen + length > MAX_BYTES - HEAD {
            let limit = (MAX_BYTES - HEAD) as u64;
            return Err(malformed(FrameError::TooLong { kind: head.kind, length: head.length, limit }));
        }
        if self.bytes.len() < HEAD + length {
            return Ok(None);
        }
        self.seen += HEAD + length;
        let rest = self.bytes.split_off(HEAD + length);
        Ok(Some((head, std::mem::replace(&mut self.bytes, rest))))
    }
}

pub(super) fn malformed(error: FrameError) -> Refusal {
    Refusal::Malformed { problem: error.to_string() }
}

/// Body: u16 lowest version, u16 highest version, u16 code, u16 length of the reason, reason in UTF-8.
pub(super) fn encode_refused(versions: (u16, u16), reason: &Refusal) -> Vec<u8> {
    let text = match reason {
        // A stranger does not hear which run this is. (Who knows the run hears what the instance is called.)
        Refusal::Run { .. } => "this is another run".to_owned(),
        Refusal::Version { mine, theirs } => format!(
            "versions {} to {} of the protocol are spoken here, you offer {} to {}; use the same release of xmml on both sides",
            mine.0, mine.1, theirs.0, theirs.1
        ),
        Refusal::Proof => "the proof is wrong: the two sides have different secrets".to_owned(),
        other => other.to_string(),
    };
    let mut body = Vec::new();
    for number in [versions.0, versions.1, reason.code()] {
        body.extend_from_slice(&number.to_le_bytes());
    }
    push_text(&mut body, &shortened(&text));
    framed(Kind::Refused, 0, 0, 0, &body)
}

pub(super) fn decode_refused(mine: &Party, body: &[u8]) -> std::result::Result<Refusal, FrameError> {
    let mut reader = Reader::new(body);
    let theirs = (reader.u16()?, reader.u16()?);
    let code = reader.u16()?;
    let reason = reader.text()?;
    reader.end()?;
    Ok(match code {
        1 => Refusal::Version { mine: mine.versions, theirs },
        _ => Refusal::Peer { reason: shortened(&reason) },
    })
}

/// What a hello says. Body: u16 lowest version, u16 highest version, u8 role, u8 protection (0: none, 1: records), u16 0, nonce, public key
/// (with protection 1 only), then run, name of the dialler, name of the listener as texts with u16 lengths.
pub(super) struct Hello {
    pub(super) versions: (u16, u16),
    pub(super) role: Role,
    pub(super) nonce: [u8; NONCE],
    pub(super) public_key: Option<[u8; PUBLIC_KEY]>,
    pub(super) run: String,
    pub(super) from: String,
    pub(super) to: String,
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.versions.0.to_le_bytes());
        body.extend_from_slice(&self.versions.1.to_le_bytes());
        body.extend_from_slice(&[self.role as u8, u8::from(self.public_key.is_some()), 0, 0]);
        body.extend_from_slice(&self.nonce);
        body.extend_from_slice(self.public_key.as_ref().map_or(&[], |key| &key[..]));
        push_text(&mut body, &self.run);
        push_text(&mut body, &self.from);
        push_text(&mut body, &self.to);
        framed(Kind::Hello, 0, 0, 0, &body)
    }

    /// The range of versions stands first and for ever, so that even a far newer side can be told apart.
    pub(super) fn versions(body: &[u8]) -> std::result::Result<(u16, u16), FrameError> {
        let mut reader = Reader::new(body);
        Ok((reader.u16()?, reader.u16()?))
    }

    pub(super) fn decode(body: &[u8]) -> std::result::Result<Hello, FrameError> {
        let mut reader = Reader::new(body);
        let versions = (reader.u16()?, reader.u16()?);
        let role = reader.u8()?;
        let role = Role::from_code(role).ok_or_else(|| descriptor_error(format!("unknown role {role}")))?;
        let protection = reader.u8()?;
        reader.zeros(2)?;
        let nonce = reader.array()?;
        let public_key = match protection {
            0 => None,
            1 => Some(reader.array()?),
            other => return Err(descriptor_error(format!("unknown protection {other}"))),
        };
        let (run, from, to) = (name(&mut reader)?, name(&mut reader)?, name(&mut reader)?);
        reader.end()?;
        Ok(Hello { versions, role, nonce, public_key, run, from, to })
    }
}

/// What a challenge says. Body: u16 lowest version, u16 highest version, u16 chosen version, u16 0, nonce, public key (if the hello has one),
/// name of the listener as text with u16 length, proof of the listener.
pub(super) struct Challenge {
    pub(super) versions: (u16, u16),
    pub(super) version: u16,
    pub(super) public_key: Option<[u8; PUBLIC_KEY]>,
    pub(super) name: String,
}

impl Challenge {
    /// The body without the proof.
    pub(super) fn decode(body: &[u8], is_protected: bool) -> std::result::Result<Challenge, FrameError> {
        let mut reader = Reader::new(body);
        let versions = (reader.u16()?, reader.u16()?);
        let version = reader.u16()?;
        reader.zeros(2)?;
        reader.bytes(NONCE)?;
        let public_key = is_protected.then(|| reader.array()).transpose()?;
        let name = name(&mut reader)?;
        reader.end()?;
        Ok(Challenge { versions, version, public_key, name })
    }
}

fn name(reader: &mut Reader<'_>) -> std::result::Result<String, FrameError> {
    let text = reader.text()?;
    match text.len() <= MAX_NAME {
        true => Ok(text),
        false => Err(descriptor_error(format!("a name of {} bytes", text.len()))),
    }
}
