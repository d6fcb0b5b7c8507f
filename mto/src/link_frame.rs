//! What two relays say to each other over the link of a run: one message of the path per frame. No socket here.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 1 | kind: 0 message, 1 data, 2 finish |
//! | 1 | 7 | zeros |
//! | 8 | 8 | data and finish: the stream |
//! | 8 or 16 | | message: a [`LinkMessage`] in MessagePack; data: bytes of the stream, one at least |
//!
//! A stream keeps its number on its whole way, so that data passes relays in between untouched.

use serde::{Deserialize, Serialize};
use xmml_wire::buffer::Buffer;
use xmml_wire::message_pack;
use xmml_wire::methods::TrafficKind;

use crate::routes::Announcement;

/// Bytes in front of the data of a stream.
pub const DATA_HEAD: usize = 16;

/// Bytes in front of a message.
const MESSAGE_HEAD: usize = 8;

/// Longest frame, in bytes.
pub const LONGEST: usize = 1 << 20;

const MESSAGE: u8 = 0;
const DATA: u8 = 1;
const FINISH: u8 = 2;

/// A stream, on its whole way.
pub type StreamId = u64;

/// What one relay says to another beside the bytes of streams; all of it travels on the control lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum LinkMessage {
    /// First of all, from both sides: whose relay this is, and a number that this process of it has drawn.
    Hello {
        site: String,
        #[serde(default)]
        life: u64,
    },
    /// What a relay says of itself, passed on by others.
    Neighbours(Announcement),
    /// Opens a stream to `name` at the last site of `route`, which begins with the site that hears this. Answered by `Opened` or `Refused`.
    Open { stream: StreamId, route: Vec<String>, name: String, from_site: String, from: String, traffic: TrafficKind },
    /// The stream is open.
    Opened { stream: StreamId },
    /// It is not, and why, for people.
    Refused { stream: StreamId, reason: String },
    /// So many bytes more of the stream may come.
    Credit { stream: StreamId, bytes: u64 },
    /// The stream is broken.
    Reset { stream: StreamId },
    /// Answered by `Pong` with the same number.
    Ping { number: u64 },
    /// Answers `Ping`.
    Pong { number: u64 },
}

/// A frame that came.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkFrame {
    /// A message.
    Message(LinkMessage),
    /// Bytes of a stream: the whole frame, to be passed on as it is, with the data behind [`DATA_HEAD`].
    Data(StreamId, Buffer),
    /// The stream has ended in this direction.
    Finish(StreamId),
}

/// The bytes of a message.
pub fn message(message: &LinkMessage) -> Vec<u8> {
    let mut bytes = vec![0; MESSAGE_HEAD];
    bytes[0] = MESSAGE;
    bytes.extend_from_slice(&message_pack::encode(message));
    bytes
}

/// The bytes of data.
pub fn data(stream: StreamId, bytes: &[u8]) -> Vec<u8> {
    [&data_head(stream)[..], bytes].concat()
}

/// What stands in front of data.
pub fn data_head(stream: StreamId) -> [u8; DATA_HEAD] {
    let mut head = [0; DATA_HEAD];
    head[0] = DATA;
    head[8..].copy_from_slice(&stream.to_le_bytes());
    head
}

/// Two frames of the data of one, the first with so many bytes of it.
pub fn split(frame: &Buffer, stream: StreamId, bytes: usize) -> (Buffer, Buffer) {
    let (first, rest) = frame[DATA_HEAD..].split_at(bytes);
    (data(stream, first).into(), data(stream, rest).into())
}

/// The bytes of an end.
pub fn finish(stream: StreamId) -> Vec<u8> {
    let mut frame = data(stream, &[]);
    frame[0] = FINISH;
    frame
}

/// Reads a frame.
///
/// # Errors
/// It is none, and why.
pub fn read(frame: Buffer) -> Result<LinkFrame, String> {
    let wrong = || "a frame that is too short".to_owned();
    let head: [u8; MESSAGE_HEAD] = *frame.first_chunk().ok_or_else(wrong)?;
    if head[1..] != [0; 7] {
        return Err("a frame whose reserved bytes are not zero".to_owned());
    }
    let stream = || -> Result<u64, String> {
        let bytes = frame.get(8..16).and_then(|bytes| bytes.first_chunk()).ok_or_else(wrong)?;
        Ok(u64::from_le_bytes(*bytes))
    };
    match head[0] {
        MESSAGE => message_pack::decode_from(&frame[MESSAGE_HEAD..], "it")
            .map(LinkFrame::Message)
            .map_err(|error| error.to_string()),
        // It would cost no credit, and memory all the same.
        DATA if frame.len() == DATA_HEAD => Err("data of no byte".to_owned()),
        DATA => Ok(LinkFrame::Data(stream()?, frame)),
        FINISH if frame.len() == DATA_HEAD => Ok(LinkFrame::Finish(stream()?)),
        FINISH => Err("an end with something behind it".to_owned()),
        kind => Err(format!("a frame of unknown kind {kind}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn frames_come_back() {
        let neighbours = BTreeMap::from([("b".to_owned(), 7)]);
        for said in [
            LinkMessage::Hello { site: "a".into(), life: 7 },
            LinkMessage::Neighbours(Announcement::new("a", 3, neighbours)),
            LinkMessage::Refused { stream: 9, reason: "no".into() },
            LinkMessage::Credit { stream: 9, bytes: 1 << 40 },
        ] {
            assert_eq!(read(message(&said).into()), Ok(LinkFrame::Message(said)));
        }
        let bytes: Buffer = data(77, b"hello").into();
        assert_eq!(read(bytes.clone()), Ok(LinkFrame::Data(77, bytes.clone())));
        assert_eq!(&bytes[DATA_HEAD..], b"hello");
        assert_eq!(split(&bytes, 77, 2), (data(77, b"he").into(), data(77, b"llo").into()));
        assert_eq!(read(finish(77).into()), Ok(LinkFrame::Finish(77)));
    }

    #[test]
    fn whatever_comes_is_a_frame_or_refused() {
        let mut seed = 1u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize
        };
        let good = [
            message(&LinkMessage::Open {
                stream: 1,
                route: vec!["b".into()],
                name: "n".into(),
                from_site: "a".into(),
                from: "m".into(),
                traffic: TrafficKind::default(),
            }),
            finish(3),
            data(3, b"x"),
        ];
        for round in 0..20_000 {
            let mut bytes = good[round % 3].clone();
            for _ in 0..random() % 4 {
                let at = random() % bytes.len();
                bytes[at] = random() as u8;
            }
            bytes.truncate(random() % (bytes.len() + 1));
            let _ = read(bytes.into());
        }
        assert!(read(Vec::new().into()).is_err());
        assert!(read(data(3, b"").into()).unwrap_err().contains("no byte"));
    }
}
