//! What is fed with arbitrary bytes: everything that reads what another process wrote. A target must neither panic nor loop nor take
//! memory that the bytes do not pay for; what it reads well it must write back as it was.
//!
//! `tests/fuzz.rs` drives these functions by mutations of the seeds, on a stable compiler; cargo-fuzz drives each by a program of its own
//! in `fuzz_targets/`, and learns from the branches that an input takes.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::sync::OnceLock;

use mto::link_frame::{self, LinkFrame, LinkMessage};
use mto::routes::Topology;
use serde::de::DeserializeOwned;
use serde::Serialize;
use xmml_core::control::{ToCoordinator, ToInstance};
use xmml_core::coordinator::CoordinatorAddress;
use xmml_core::filters::compression::Unpack;
use xmml_core::filters::precision::Restore;
use xmml_core::filters::Chain;
use xmml_core::spec::FilterSpec;
use xmml_path::frame::{Lane, PathFrame};
use xmml_path::inbox::Place;
use xmml_path::session::{Bounds, Session};
use xmml_pool::object::{Described, System};
use xmml_pool::packing::Packed;
use xmml_pool::schema::Schema;
use xmml_pool::selector::Selector;
use xmml_pool::value::Value;
use xmml_transfer::message::{self, ToSource, ToTarget};
use xmml_wire::buffer::{Buffer, BufferPool};
use xmml_wire::data::Data;
use xmml_wire::frame::descriptor::{from_bytes, to_bytes};
use xmml_wire::frame::{Decoder, Frame, Limits};
use xmml_wire::handshake::{wish_of_hello, Dialler, Listener, Party, Role, SessionKeys, Step, NONCE, VERSIONS};
use xmml_wire::message::Message;
use xmml_wire::message_pack;
use xmml_wire::methods::relay::address::NameAddress;
use xmml_wire::methods::relay::protocol::{FromRelay, ToRelay};
use xmml_wire::methods::Stream;
use xmml_wire::protection::ProtectedStream;

/// A target and its name.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("frames", frames),
    ("serialised", serialised),
    ("control", control),
    ("link_frames", link_frames),
    ("path_frames", path_frames),
    ("path_end", path_end),
    ("listener", listener),
    ("dialler", dialler),
    ("records", records),
    ("addresses", addresses),
    ("copies", copies),
    ("zstd", zstd),
    ("lz4", lz4),
    ("zlib", zlib),
    ("precision", precision),
    ("selectors", selectors),
    ("objects", objects),
];

/// Frames in two pieces: the first byte says where they are cut. What they are does not depend on that.
pub fn frames(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let cut = usize::from(*cut) * bytes.len() / 256;
    let mut whole = Decoder::new(BufferPool::new(), Limits::default());
    let mut pieces = Decoder::new(BufferPool::new(), Limits::default());
    let at_once = whole.push(bytes);
    let first = pieces.push(&bytes[..cut]);
    let Ok(first) = first else {
        assert!(at_once.is_err(), "an error that is none when everything comes at once");
        return;
    };
    let second = pieces.push(&bytes[cut..]);
    match (at_once, second) {
        (Ok(all), Ok(second)) => {
            let kinds = |frames: &[Frame]| frames.iter().map(std::mem::discriminant).collect::<Vec<_>>();
            assert_eq!(kinds(&all), [kinds(&first), kinds(&second)].concat());
            assert_eq!(whole.finish().is_ok(), pieces.finish().is_ok());
        }
        (one, other) => assert_eq!(one.is_err(), other.is_err()),
    }
}

/// A value as it lies in a message.
pub fn serialised(bytes: &[u8]) {
    if let Ok(data) = from_bytes(&Buffer::copy_of(bytes)) {
        let again = to_bytes(&data, &BufferPool::new()).expect("what was read can be written");
        let read = from_bytes(&again).expect("what was written can be read");
        assert_eq!(to_bytes(&read, &BufferPool::new()).expect("again")[..], again[..]);
    }
}

/// What is said to and by the coordinator and the relay.
pub fn control(bytes: &[u8]) {
    read_again::<ToCoordinator>(bytes);
    read_again::<ToInstance>(bytes);
    read_again::<ToRelay>(bytes);
    read_again::<FromRelay>(bytes);
}

fn read_again<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    if let Ok(message) = message_pack::decode_from::<T>(bytes, "fuzz") {
        message_pack::decode_from::<T>(&message_pack::encode(&message), "fuzz").expect("what was written can be read");
    }
}

/// A side of the handshake of the golden vectors.
fn party(name: &str) -> Party {
    let byte = if name == "b" { 0xdd } else { 0x11 };
    Party {
        secret: vec![0x5e; 32],
        run: "canal-1".into(),
        name: name.into(),
        versions: VERSIONS,
        nonce: [byte; NONCE],
        private_key: [byte; NONCE],
    }
}

/// The side of the handshake that is called, and how a relay finds out for which run.
pub fn listener(bytes: &[u8]) {
    let _ = wish_of_hello(bytes);
    let mut side = Listener::new(party("c[3]"), &[Role::Data]).expect("a party that is well formed");
    for piece in bytes.chunks(1 + bytes.len() / 3) {
        let _ = side.feed(piece);
    }
}

/// The side of the handshake that calls.
pub fn dialler(bytes: &[u8]) {
    for is_protected in [false, true] {
        let dialler = Dialler::new(party("b"), Role::Data, "c[3]", is_protected);
        let (mut side, _) = dialler.expect("a party that is well formed");
        for piece in bytes.chunks(1 + bytes.len() / 3) {
            let _ = side.feed(piece);
        }
    }
}

/// A stream on which nothing comes.
struct Silent;

impl Stream for Silent {
    fn fd(&self) -> RawFd {
        -1
    }

    fn peer(&self) -> &str {
        "nobody"
    }

    fn read(&self, _into: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(parts.iter().map(|part| part.len()).sum())
    }

    fn shut(&self) {}
}

/// Records of a protected connection, as the dialler of the golden vectors sends them.
pub fn records(bytes: &[u8]) {
    static KEYS: OnceLock<SessionKeys> = OnceLock::new();
    let keys = KEYS.get_or_init(|| {
        let dialler = Dialler::new(party("b"), Role::Data, "c[3]", true);
        let (mut dialler, hello) = dialler.expect("a party that is well formed");
        let mut listener = Listener::new(party("c[3]"), &[Role::Data]).expect("a party that is well formed");
        let Step::Send(challenge) = listener.feed(&hello) else { panic!("the hello is a good one") };
        let Step::Done { send: proof, .. } = dialler.feed(&challenge) else { panic!("so is the challenge") };
        let Step::Done { keys: Some(keys), .. } = listener.feed(&proof) else { panic!("and the proof") };
        keys
    });
    if let Ok((stream, content)) = ProtectedStream::new(Box::new(Silent), keys, bytes.to_vec()) {
        assert!(content.len() < bytes.len() || bytes.is_empty(), "more came out than went in");
        assert!(stream.read(&mut [0; 16]).is_err(), "content was left");
    }
}

/// Addresses of instances and of the coordinator.
pub fn addresses(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(address) = NameAddress::parse(&text) {
        assert_eq!(NameAddress::parse(&address.to_string()).expect("it was one"), address);
    }
    if let Ok(address) = text.parse::<CoordinatorAddress>() {
        assert_eq!(address.to_string().parse::<CoordinatorAddress>().expect("it was one"), address);
    }
}

/// Messages between the ends of a copy.
pub fn copies(bytes: &[u8]) {
    if let Ok(message) = ToSource::read(bytes) {
        assert_eq!(ToSource::read(&message.to_bytes()).expect("it was one"), message);
    }
    let again = match ToTarget::read(bytes) {
        Ok(ToTarget::Entries { first, entries }) => {
            entries.iter().for_each(|entry| drop(entry.check()));
            message::entries(first, entries.iter())
        }
        Ok(ToTarget::Listed { files, size, left_out }) => message::listed(files, size, &left_out),
        Ok(ToTarget::Chunk { pieces, data, ends }) => {
            let (before, behind) = message::around_chunk(&pieces, data.len(), &ends);
            [&before, data, &behind].concat()
        }
        _ => return,
    };
    assert_eq!(ToTarget::read(&again).expect("it was one"), ToTarget::read(bytes).expect("it was one"));
}

/// What is called zstd.
pub fn zstd(bytes: &[u8]) {
    let _ = Unpack::zstd().expect("zstd is there").unpack(bytes);
}

/// What is called lz4.
pub fn lz4(bytes: &[u8]) {
    let _ = Unpack::lz4().unpack(bytes);
}

/// What is called zlib, as the chain of filters undoes it.
pub fn zlib(bytes: &[u8]) {
    let spec = FilterSpec { name: "decompress".into(), factor: None, params: Default::default() };
    let mut chain = Chain::build(&[spec], "fuzz").expect("it is built in");
    let _ = chain.apply(Message { data: Data::Bytes(Buffer::copy_of(bytes)), ..Message::default() });
}

/// Numbers of reduced precision.
pub fn precision(bytes: &[u8]) {
    if let Ok(data) = from_bytes(&Buffer::copy_of(bytes)) {
        let _ = Restore::default().restore(data);
    }
}

/// A line of attributes, and a selector of objects that have them.
pub fn selectors(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (attributes, selector) = text.split_once('\n').unwrap_or((&text, "true"));
    let Ok(schema) = Schema::parse(attributes) else { return };
    let shown: Vec<String> = schema.attributes().iter().map(ToString::to_string).collect();
    assert_eq!(Schema::parse(&shown.join(" ")).expect("it was one"), schema);
    let variable = |name: &str| (name == "index").then_some(Value::Int(2));
    match Selector::compile(selector, &schema, variable) {
        Ok(selector) => {
            let own: Vec<Option<Value>> = schema.attributes().iter().map(|each| each.default.clone()).collect();
            let chosen = selector.matches(&Described { own: &own, system: &System::default() });
            assert!(chosen != Ok(true) || selector.can_match(&schema));
        }
        Err(mistake) => assert!(selector.get(mistake.at).is_some(), "a mistake lies within the text"),
    }
}

/// A line of attributes, and the packed ones of an object, or a text that gives them.
pub fn objects(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let Ok(schema) = Schema::parse(&String::from_utf8_lossy(&bytes[..end])) else { return };
    let rest = bytes.get(end + 1..).unwrap_or_default();
    if let Ok(packed) = Packed::read(rest, &schema) {
        assert_eq!(packed.write(&schema).as_deref(), Ok(rest), "it is packed in one way only");
    }
    if let Ok(own) = schema.read(&String::from_utf8_lossy(rest)) {
        let packed = Packed { seq: 1, node: "".into(), own };
        if let Ok(bytes) = packed.write(&schema) {
            assert_eq!(Packed::read(&bytes, &schema), Ok(packed));
        }
    }
}

/// Frames between relays, each behind two bytes that say how long it is; a relay works out its ways after each announcement.
pub fn link_frames(bytes: &[u8]) {
    let mut topology = Topology::new("here");
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (frame, behind) = behind.split_at(behind.len().min(u16::from_le_bytes(*length).into()));
        rest = behind;
        match link_frame::read(Buffer::copy_of(frame)) {
            Ok(LinkFrame::Message(message)) => {
                let again =
                    link_frame::read(link_frame::message(&message).into()).expect("what was written can be read");
                assert_eq!(again, LinkFrame::Message(message.clone()));
                let LinkMessage::Neighbours(announcement) = message else { continue };
                let site = announcement.site.clone();
                if topology.on_announcement(announcement).is_ok() {
                    let _ = topology.route(&site);
                    let _ = topology.set_neighbours(BTreeMap::from([(site, frame.len() as u32 * 1000)]));
                }
            }
            Ok(LinkFrame::Data(stream, bytes)) => {
                assert_eq!(link_frame::data(stream, &bytes[link_frame::DATA_HEAD..])[..], bytes[..]);
            }
            Ok(LinkFrame::Finish(stream)) => assert_eq!(link_frame::finish(stream)[..], frame[..]),
            Err(_) => {}
        }
    }
}

/// The first frame of a path.
pub fn path_frames(bytes: &[u8]) {
    if let Ok(Some((frame, length))) = PathFrame::decode(bytes) {
        let again = frame.encode();
        // A reason is made fit for a log.
        if !matches!(frame, PathFrame::Refused { .. }) {
            assert_eq!(again, bytes[..length]);
        }
        assert!(PathFrame::decode(&again).is_ok());
    }
}

/// One end of a path that is sent frames, and takes and sends messages meanwhile.
pub fn path_end(bytes: &[u8]) {
    let bounds = Bounds { control_window: 1 << 16, bulk_window: 1 << 16, max_message: 1 << 20, relays: false };
    let mut end = Session::new(bounds, &BufferPool::new());
    let have = end.have();
    end.attach(0, &have).expect("nothing has come");
    end.send(Lane::Bulk, vec![7; 10_000].into());
    let mut rest = bytes;
    while let Ok(Some((frame, length))) = PathFrame::decode(rest) {
        rest = &rest[length..];
        let status = match frame {
            PathFrame::Receipt(receipt) => end.receipted(&receipt),
            PathFrame::Chunk(chunk) => end.begin(&chunk).map(|()| {
                let (data, behind) = rest.split_at(rest.len().min(chunk.length as usize));
                rest = behind;
                let mut at = 0;
                while at < data.len() {
                    match end.place(&chunk, at as u64) {
                        Place::Known(count) => at += count as usize,
                        Place::Busy => unreachable!("nobody else fills"),
                        Place::Into(mut part) => {
                            let count = part.bytes().len().min(data.len() - at);
                            part.bytes()[..count].copy_from_slice(&data[at..at + count]);
                            end.filled(chunk.lane, part, count);
                            at += count;
                        }
                    }
                }
            }),
            _ => Ok(()),
        };
        if status.is_err() {
            return; // the stream would be closed
        }
        while end.take(Lane::Bulk).is_some() || end.take(Lane::Control).is_some() {}
        while end.next(0, 4096).is_some() {}
    }
}
