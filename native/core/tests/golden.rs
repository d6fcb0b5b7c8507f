//! The golden vectors: bytes and their meaning, for implementers of the protocol in every language.
//!
//! The vectors in `tests/data/golden/` are what this crate writes, and what `docs/protocol.md` shows. After a deliberate change of the
//! protocol, `XMML_WRITE_GOLDEN=1 cargo test --test golden` writes them anew.

use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use xmml_core::control::{ToCoordinator, ToInstance};
use xmml_path::frame::{ChunkHead, Lane, PathFrame, Purpose, Receipt, STREAM};
use xmml_wire::buffer::{Buffer, BufferPool};
use xmml_wire::data::{Array, Data, Dtype, Order};
use xmml_wire::frame::descriptor::{from_bytes, to_bytes};
use xmml_wire::frame::*;
use xmml_wire::handshake::{Dialler, Listener, Party, Role, Step, NONCE};
use xmml_wire::message::Message;
use xmml_wire::methods::Stream;
use xmml_wire::protection::ProtectedStream;

/// One vector: its name, the bytes, and what they mean.
struct Vector {
    name: &'static str,
    bytes: Vec<u8>,
    meaning: Value,
}

fn vector(name: &'static str, bytes: impl Into<Vec<u8>>, meaning: Value) -> Vector {
    Vector { name, bytes: bytes.into(), meaning }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).unwrap_or_else(|| panic!("{c:?} in hex")) as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect()
}

fn numbers<T: xmml_wire::data::Element + Into<f64>>(array: &Array) -> Vec<f64> {
    array.elements::<T>().unwrap_or_default().iter().map(|&x| x.into()).collect()
}

/// Data as JSON: an object whose one key is the kind.
fn data_meaning(data: &Data) -> Value {
    match data {
        Data::Nothing => json!({"nothing": null}),
        Data::Bool(value) => json!({"bool": value}),
        Data::Int(value) => json!({"int": value}),
        Data::Float(value) => json!({"float": value}),
        Data::Complex(real, imaginary) => json!({"complex": [real, imaginary]}),
        Data::Text(text) => json!({"text": text}),
        Data::Bytes(bytes) => json!({"bytes": hex(bytes)}),
        Data::List(items) => json!({"list": items.iter().map(data_meaning).collect::<Vec<_>>()}),
        Data::Map(entries) => {
            json!({"map": entries.iter().map(|(key, value)| json!([key, data_meaning(value)])).collect::<Vec<_>>()})
        }
        Data::Array(array) => json!({"array": array_meaning(array)}),
    }
}

fn array_meaning(array: &Array) -> Value {
    let elements = match array.dtype {
        Dtype::Bool => array.data.iter().map(|&byte| f64::from(byte)).collect(),
        Dtype::I16 => numbers::<i16>(array),
        Dtype::I32 => numbers::<i32>(array),
        Dtype::F32 => numbers::<f32>(array),
        Dtype::F64 => numbers::<f64>(array),
        other => panic!("no vector has elements of {other:?}"),
    };
    json!({
        "dtype": array.dtype.name(),
        "order": if array.order == Order::RowMajor { "row" } else { "column" },
        "shape": array.shape.to_vec(),
        "elements": elements,
    })
}

fn message(name: &'static str, copy: Option<u32>, message: Message) -> Vector {
    let encoded = encode_message(7, 3, copy, &message).unwrap();
    let meaning = json!({
        "frame": "message", "conduit": 7, "sequence": 3, "sender_copy": copy,
        "timestamp": message.timestamp, "next_timestamp": message.next_timestamp, "data": data_meaning(&message.data),
    });
    vector(name, encoded.slices().collect::<Vec<_>>().concat(), meaning)
}

fn checked() -> Vector {
    let message = Message { timestamp: 0.5, next_timestamp: Some(1.0), data: 3.25.into() };
    let encoded = encode_message(7, 3, None, &message).unwrap().checked(check::Algorithm::Crc32c);
    let meaning = json!({
        "frame": "message", "conduit": 7, "sequence": 3, "sender_copy": null,
        "timestamp": 0.5, "next_timestamp": 1.0, "data": data_meaning(&message.data),
    });
    vector("message-checked", encoded.slices().collect::<Vec<_>>().concat(), meaning)
}

fn at(timestamp: f64, data: impl Into<Data>) -> Message {
    Message { timestamp, next_timestamp: None, data: data.into() }
}

fn rank_3() -> Array {
    let elements: Vec<i16> = (0..12).collect();
    Array::from_slice(&[2, 3, 2], &elements).unwrap()
}

fn column_major() -> Array {
    let rows = Array::from_slice(&[2, 3], &[1.0_f32, 4.0, 2.0, 5.0, 3.0, 6.0]).unwrap();
    Array { order: Order::ColumnMajor, ..rows }
}

fn truths() -> Array {
    Array::new(Dtype::Bool, Order::RowMajor, vec![3], Buffer::copy_of(&[1, 0, 1])).unwrap()
}

fn nested() -> Data {
    Data::Map(vec![
        ("name".into(), "gate".into()),
        ("levels".into(), Array::from_slice(&[2], &[1.5_f64, 2.5]).unwrap().into()),
        ("open".into(), Data::List(vec![true.into(), 5_i64.into(), Data::Nothing])),
        ("raw".into(), Buffer::copy_of(&[0xca, 0xfe, 0x42]).into()),
    ])
}

fn frames() -> Vec<Vector> {
    let bare = |frame: &str, sequence: u64| json!({"frame": frame, "conduit": 7, "sequence": sequence});
    vec![
        message("message", None, Message { timestamp: 0.5, next_timestamp: Some(1.0), data: 3.25.into() }),
        message("message-last", None, at(10.0, Data::Nothing)),
        message("message-from-copy-3", Some(3), at(0.0, -2_i64)),
        message("text", None, at(0.0, "Grüße")),
        message("bytes", None, at(0.0, Buffer::copy_of(&[1, 2, 3, 4, 5]))),
        message("complex", None, at(0.0, Data::Complex(1.0, -1.0))),
        message("truth", None, at(0.0, true)),
        message("array-rank-3", None, at(0.0, rank_3())),
        message("array-column-major", None, at(0.0, column_major())),
        message("array-rank-0", None, at(0.0, Array::from_slice(&[], &[7_i32]).unwrap())),
        message("array-empty", None, at(0.0, Array::from_slice::<f64>(&[0, 3], &[]).unwrap())),
        message("array-of-truths", None, at(0.0, truths())),
        message("nested", None, at(0.0, nested())),
        message("list-empty", None, at(0.0, Data::List(vec![]))),
        checked(),
        vector("alive", encode_alive(), json!({"frame": "alive"})),
        vector("end", encode_end(7, 4), bare("end", 4)),
        vector("gone", encode_gone(7, 2), bare("gone", 2)),
        vector("receipt", encode_receipt(7, 2), bare("receipt", 2)),
        vector("resume", encode_resume(7, 2), bare("resume", 2)),
        vector("leaves", encode_leaves(7), bare("leaves", 0)),
        vector("continues", encode_continues(7, 5), bare("continues", 5)),
        vector("closes", encode_closes(), json!({"frame": "closes", "conduit": 0, "sequence": 0})),
        vector(
            "control-to-coordinator",
            encode_control(&ToCoordinator::Confirmed { epoch: 3, still: true }.encode()),
            json!({"frame": "control", "value": {"Confirmed": {"epoch": 3, "still": true}}}),
        ),
        vector(
            "control-to-instance",
            encode_control(&ToInstance::Abort { reason: "b failed".into() }.encode()),
            json!({"frame": "control", "value": {"Abort": {"reason": "b failed"}}}),
        ),
        vector(
            "control-rejoin",
            encode_control(&ToCoordinator::Rejoin { token: vec![1, 2, 200], heard: 5 }.encode()),
            json!({"frame": "control", "value": {"Rejoin": {"token": [1, 2, 200], "heard": 5}}}),
        ),
        vector(
            "control-welcome-back",
            encode_control(&ToInstance::WelcomeBack { heard: 7 }.encode()),
            json!({"frame": "control", "value": {"WelcomeBack": {"heard": 7}}}),
        ),
        block(),
        lent(),
        returned(),
    ]
}

fn block() -> Vector {
    let block = Block {
        conduit: 7,
        sequence: 3,
        timestamp: 0.5,
        next_timestamp: Some(1.0),
        sender_rank: 1,
        receiver_rank: 0,
        blocks: 2,
        whole: vec![4, 6],
        start: vec![2, 0],
        elements: Array::from_slice(&[1, 3], &[12.0_f64, 13.0, 14.0]).unwrap(),
    };
    let meaning = json!({
        "frame": "block", "conduit": 7, "sequence": 3, "timestamp": 0.5, "next_timestamp": 1.0,
        "sender_rank": 1, "receiver_rank": 0, "blocks": 2, "whole": [4, 6], "start": [2, 0],
        "elements": array_meaning(&block.elements),
    });
    vector("block", block.encode().unwrap().slices().collect::<Vec<_>>().concat(), meaning)
}

fn lent() -> Vector {
    let array = Array::from_slice(&[2], &[1.5_f64, 2.5]).unwrap();
    let message = at(0.5, array);
    let layout = Lent::layout(&message).unwrap();
    let lent = Lent {
        conduit: 7,
        sequence: 3,
        sender_copy: None,
        timestamp: 0.5,
        next_timestamp: None,
        descriptor: layout.descriptor.into_vec(),
        region: 5,
        offset: 4096,
        length: layout.payload_len,
        generation: 9,
    };
    assert_eq!(lent.message_frame(&layout.payload[0]).unwrap().message, message);
    let meaning = json!({
        "frame": "lent", "conduit": 7, "sequence": 3, "sender_copy": null, "timestamp": 0.5, "next_timestamp": null,
        "region": 5, "offset": 4096, "length": 16, "generation": 9, "data_when_in_place": data_meaning(&message.data),
    });
    vector("lent", lent.encode().slices().collect::<Vec<_>>().concat(), meaning)
}

fn returned() -> Vector {
    let returned = Returned { conduit: 7, sequence: 3, region: 5, offset: 4096, generation: 9 };
    let meaning = json!({
        "frame": "returned", "conduit": 7, "sequence": 3, "region": 5, "offset": 4096, "generation": 9,
    });
    vector("returned", returned.encode(), meaning)
}

fn pieces() -> Vec<Vector> {
    let serialised = to_bytes(&nested(), &BufferPool::new()).unwrap();
    vec![vector("serialised", serialised.to_vec(), json!({"data": data_meaning(&nested())}))]
}

const SECRET: [u8; 32] = [0x5e; 32];

fn party(name: &str, versions: (u16, u16), nonce: u8) -> Party {
    Party {
        secret: SECRET.to_vec(),
        run: "canal-1".into(),
        name: name.into(),
        versions,
        nonce: [nonce; NONCE],
        private_key: [nonce; NONCE],
    }
}

fn handshake() -> Vec<Vector> {
    let (mut dialler, hello) = Dialler::new(party("b", (1, 1), 0xdd), Role::Data, "c[3]", false).unwrap();
    let mut listener = Listener::new(party("c[3]", (1, 2), 0x11), &[Role::Data]).unwrap();
    let Step::Send(challenge) = listener.feed(&hello) else { panic!() };
    let Step::Done { send: proof, .. } = dialler.feed(&challenge) else { panic!() };
    assert!(matches!(listener.feed(&proof), Step::Done { .. }));
    let mut newer = Listener::new(party("c[3]", (2, 3), 0x11), &[Role::Data]).unwrap();
    let Step::Refused { send: refused, .. } = newer.feed(&hello) else { panic!() };
    let secret = hex(&SECRET);
    let mut vectors = protected_handshake();
    vectors.extend(vec![
        vector(
            "hello",
            hello,
            json!({
                "frame": "hello", "versions": [1, 1], "role": "data", "nonce": hex(&[0xdd; NONCE]),
                "run": "canal-1", "from": "b", "to": "c[3]",
            }),
        ),
        vector(
            "challenge",
            challenge,
            json!({
                "frame": "challenge", "answers": "hello", "secret": secret, "versions": [1, 2], "version": 1,
                "nonce": hex(&[0x11; NONCE]), "name": "c[3]",
                "proof": "HMAC-SHA256(secret, 'xmml handshake: listener\\0' + hello + challenge without its last 32 bytes)",
            }),
        ),
        vector(
            "proof",
            proof,
            json!({
                "frame": "proof", "answers": "challenge", "secret": secret,
                "proof": "HMAC-SHA256(secret, 'xmml handshake: dialler\\0' + hello + challenge without its last 32 bytes)",
            }),
        ),
        vector(
            "refused",
            refused,
            json!({
                "frame": "refused", "answers": "hello", "versions": [2, 3], "code": 1,
                "reason": "versions 2 to 3 of the protocol are spoken here, you offer 1 to 1; \
                           use the same release of xmml on both sides",
            }),
        ),
    ]);
    vectors
}

/// A stream that is never read, and keeps what is written.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Stream for Kept {
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
        let bytes = parts.iter().flat_map(|part| part.iter().copied()).collect::<Vec<u8>>();
        self.0.lock().unwrap().extend_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn shut(&self) {}
}

/// The opening of a connection that is protected, and the first records of the dialler.
fn protected_handshake() -> Vec<Vector> {
    let (mut dialler, hello) = Dialler::new(party("b", (1, 1), 0xdd), Role::Data, "c[3]", true).unwrap();
    let mut listener = Listener::new(party("c[3]", (1, 1), 0x11), &[Role::Data]).unwrap();
    let Step::Send(challenge) = listener.feed(&hello) else { panic!() };
    let Step::Done { send: proof, keys: Some(keys), .. } = dialler.feed(&challenge) else { panic!() };
    assert!(matches!(listener.feed(&proof), Step::Done { .. }));
    let kept = Kept::default();
    let (stream, _) = ProtectedStream::new(Box::new(kept.clone()), &keys, Vec::new()).unwrap();
    let record = |content: &[u8]| {
        stream.write(&[IoSlice::new(content)]).unwrap();
        std::mem::take(&mut *kept.0.lock().unwrap())
    };
    let (first, second) = (record(b"abc"), record(b"abc"));
    let secret = hex(&SECRET);
    vec![
        vector(
            "protected-hello",
            hello,
            json!({
                "frame": "hello", "versions": [1, 1], "role": "data", "nonce": hex(&[0xdd; NONCE]),
                "private_key": hex(&[0xdd; NONCE]), "run": "canal-1", "from": "b", "to": "c[3]",
            }),
        ),
        vector(
            "protected-challenge",
            challenge,
            json!({
                "frame": "challenge", "answers": "protected-hello", "secret": secret, "versions": [1, 1], "version": 1,
                "nonce": hex(&[0x11; NONCE]), "private_key": hex(&[0x11; NONCE]), "name": "c[3]",
                "dialler_sends_by": hex(&keys.sending), "listener_sends_by": hex(&keys.receiving),
            }),
        ),
        vector("first-record", first, json!({ "content": "abc", "key": hex(&keys.sending), "number": 0 })),
        vector("second-record", second, json!({ "content": "abc", "key": hex(&keys.sending), "number": 1 })),
    ]
}

/// Frames that must be refused, each made from a good one by a small change.
fn invalid() -> Vec<Vector> {
    let good = frames();
    let bytes_of = |name: &str| good.iter().find(|vector| vector.name == name).unwrap().bytes.clone();
    let changed = |name: &'static str, from: &str, at: usize, with: &[u8]| {
        let mut bytes = bytes_of(from);
        bytes[at..at + with.len()].copy_from_slice(with);
        let mut decoder = Decoder::new(BufferPool::new(), Limits::default());
        let why = decoder.push(&bytes).unwrap_err().to_string();
        vector(name, bytes, json!({"refused": why}))
    };
    vec![
        changed("unknown-version", "message", 9, &[2]),
        changed("unknown-kind", "message", 8, &[99]),
        changed("unknown-flag", "message", 10, &[5]),
        changed("unknown-tag", "message", 48, &[42]),
        changed("unknown-dtype", "array-rank-3", 49, &[13]),
        changed("unknown-order", "array-rank-3", 50, &[2]),
        changed("rank-too-high", "array-rank-3", 51, &[65]),
        changed("array-longer-than-its-payload", "array-rank-3", 56, &[3]),
        changed("extents-overflow", "array-rank-3", 56, &[0xff; 24]),
        changed("reserved-bytes-set", "message", 50, &[1]),
        changed("descriptor-not-a-multiple-of-8", "message", 40, &[15]),
        changed("descriptor-longer-than-the-body", "message", 40, &[88]),
        changed("more-items-than-can-stand", "list-empty", 56, &[1]),
        changed("truth-value-2", "truth", 49, &[2]),
        changed("truth-value-2-in-an-array", "array-of-truths", 74, &[2]),
        changed("text-not-utf-8", "text", 72, &[0xff]),
        changed("receipt-with-a-body", "receipt", 0, &[8]),
        changed("head-changed", "message-checked", 16, &[4]),
        changed("value-changed", "message-checked", 72, &[1]),
        changed("checksum-of-unknown-kind", "message-checked", 52, &[9]),
    ]
}

/// What the two ends of a path say on a stream.
fn path_frames() -> Vec<(&'static str, PathFrame, Value)> {
    let have = || {
        let control =
            Receipt { lane: Lane::Control, all_before: 72, delivered: None, credit: 8_388_680, besides: vec![] };
        let bulk = Receipt {
            lane: Lane::Bulk,
            all_before: 4160,
            delivered: None,
            credit: 1_052_736,
            besides: vec![8256..12_352, 16_448..20_000],
        };
        [control, bulk]
    };
    let receipt = |receipt: &Receipt| {
        let besides: Vec<[u64; 2]> = receipt.besides.iter().map(|range| [range.start, range.end]).collect();
        let mut means = json!({"all_before": receipt.all_before, "credit": receipt.credit, "besides": besides});
        if let Some(before) = receipt.delivered {
            means["delivered"] = json!(before);
        }
        means
    };
    let passes_on =
        Receipt { lane: Lane::Bulk, all_before: 4160, delivered: Some(64), credit: 1_052_736, besides: vec![] };
    let both = json!({"control": receipt(&have()[0]), "bulk": receipt(&have()[1])});
    let piece = |purpose, length, total, offset, is_open| {
        PathFrame::Chunk(ChunkHead { lane: Lane::Bulk, purpose, length, start: 4160, total, offset, is_open })
    };
    let chunk = |purpose, length, total, offset| piece(purpose, length, total, offset, false);
    let means = |purpose: &str, length: u32, total: u64, offset: u64| json!({"frame": "chunk", "lane": "bulk", "purpose": purpose, "length": length, "start": 4160, "total": total, "offset": offset});
    let mut means_open = means("data", 4096, 10_000, 0);
    means_open["is_open"] = json!(true);
    let attach = |resumes| PathFrame::Attach { id: *b"sixteen bytes id", stream: 3, resumes, have: have() };
    let attaches = |resumes: bool| json!({"frame": "attach", "id": hex(b"sixteen bytes id"), "stream": 3, "resumes": resumes, "have": both});
    let refused = PathFrame::Refused { code: STREAM, reason: "there are too many paths".to_owned() };
    let streams = |count, is_fixed| PathFrame::Streams { count, is_fixed };
    vec![
        ("path-attach", attach(false), attaches(false)),
        ("path-attach-again", attach(true), attaches(true)),
        ("path-attached", PathFrame::Attached { have: have() }, json!({"frame": "attached", "have": both})),
        ("path-chunk", chunk(Purpose::Data, 4096, 10_000, 4096), means("data", 4096, 10_000, 4096)),
        ("path-chunk-last", chunk(Purpose::Data, 1808, 10_000, 8192), means("data", 1808, 10_000, 8192)),
        ("path-chunk-open", piece(Purpose::Data, 4096, 10_000, 0, true), means_open),
        ("path-chunk-empty", chunk(Purpose::Data, 0, 0, 0), means("data", 0, 0, 0)),
        ("path-barrier", chunk(Purpose::Barrier, 0, 0, 0), means("barrier", 0, 0, 0)),
        ("path-end", chunk(Purpose::End, 0, 0, 0), means("end", 0, 0, 0)),
        (
            "path-receipt",
            PathFrame::Receipt(have()[1].clone()),
            json!({"frame": "receipt", "lane": "bulk", "have": receipt(&have()[1])}),
        ),
        (
            "path-receipt-of-a-relay",
            PathFrame::Receipt(passes_on.clone()),
            json!({"frame": "receipt", "lane": "bulk", "have": receipt(&passes_on)}),
        ),
        ("path-alive", PathFrame::Alive, json!({"frame": "alive"})),
        ("path-retire", PathFrame::Retire, json!({"frame": "retire"})),
        ("path-streams", streams(8, false), json!({"frame": "streams", "count": 8, "is_fixed": false})),
        ("path-streams-fixed", streams(3, true), json!({"frame": "streams", "count": 3, "is_fixed": true})),
        (
            "path-carries",
            PathFrame::Carries { bandwidth: 125_000_000 },
            json!({"frame": "carries", "bandwidth": 125_000_000}),
        ),
        ("path-bye", PathFrame::Bye, json!({"frame": "bye"})),
        ("path-refused", refused, json!({"frame": "refused", "code": 3, "reason": "there are too many paths"})),
    ]
}

fn path() -> Vec<Vector> {
    path_frames().into_iter().map(|(name, frame, meaning)| vector(name, frame.encode(), meaning)).collect()
}

/// Frames of a path that must be refused, with the reason that this crate gives.
fn invalid_path() -> Vec<Vector> {
    let sound = path();
    let changed = |name, from: &str, at: usize, bytes: &[u8]| {
        let mut frame = sound.iter().find(|vector| vector.name == from).unwrap().bytes.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        let reason = PathFrame::decode(&frame).unwrap_err().to_string();
        vector(name, frame, json!({"refused": reason}))
    };
    vec![
        changed("path-unknown-kind", "path-alive", 0, &[99]),
        changed("path-unknown-lane", "path-chunk", 1, &[2]),
        changed("path-unknown-purpose", "path-chunk", 2, &[3]),
        changed("path-flags-where-none-belong", "path-alive", 2, &[1]),
        changed("path-attach-neither-first-nor-again", "path-attach", 28, &[2]),
        changed("path-chunk-beyond-its-message", "path-chunk", 16, &10u64.to_le_bytes()),
        changed("path-chunk-cut-elsewhere", "path-chunk", 24, &4095u64.to_le_bytes()),
        changed("path-chunk-too-long", "path-chunk", 4, &u32::MAX.to_le_bytes()),
        changed("path-chunk-open-in-vain", "path-chunk-empty", 3, &[1]),
        changed("path-barrier-with-data", "path-barrier", 16, &[1]),
        changed("path-ranges-out-of-order", "path-receipt", 32, &20_000u64.to_le_bytes()),
        changed("path-neither-delivered-nor-come", "path-receipt-of-a-relay", 28, &[2]),
        changed("path-more-delivered-than-came", "path-receipt-of-a-relay", 32, &4161u64.to_le_bytes()),
        changed("path-more-ranges-than-can-stand", "path-receipt", 24, &513u32.to_le_bytes()),
    ]
}

fn all() -> [(&'static str, Vec<Vector>); 6] {
    [
        ("path", path()),
        ("path-invalid", invalid_path()),
        ("frames", frames()),
        ("pieces", pieces()),
        ("handshake", handshake()),
        ("invalid", invalid()),
    ]
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn file_of(group: &str) -> PathBuf {
    root().join("tests/data/golden").join(format!("{group}.json"))
}

fn as_json(vectors: &[Vector]) -> Value {
    let entries = vectors.iter().map(|v| json!({"name": v.name, "hex": hex(&v.bytes), "meaning": v.meaning}));
    Value::Array(entries.collect())
}

#[test]
fn the_golden_vectors_are_what_this_crate_writes() {
    for (group, vectors) in all() {
        let (file, now) = (file_of(group), as_json(&vectors));
        if std::env::var_os("XMML_WRITE_GOLDEN").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, format!("{}\n", serde_json::to_string_pretty(&now).unwrap())).unwrap();
        }
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let kept: Value = serde_json::from_str(&text).unwrap();
        for (now, kept) in now.as_array().unwrap().iter().zip(kept.as_array().unwrap()) {
            assert_eq!(now, kept);
        }
        assert_eq!(now, kept, "{group}");
    }
}

#[test]
fn the_golden_messages_are_read_as_what_they_mean() {
    for vector in frames() {
        let mut read = Decoder::new(BufferPool::new(), Limits::default()).push(&vector.bytes).unwrap();
        assert_eq!(read.len(), 1, "{}", vector.name);
        let meaning = &vector.meaning;
        match read.remove(0) {
            Frame::Message(frame) => {
                assert_eq!(data_meaning(&frame.message.data), meaning["data"], "{}", vector.name);
                assert_eq!(json!(frame.message.timestamp), meaning["timestamp"]);
                assert_eq!(json!(frame.message.next_timestamp), meaning["next_timestamp"]);
                assert_eq!(json!(frame.sender_copy), meaning["sender_copy"]);
            }
            Frame::Block(block) => assert_eq!(array_meaning(&block.elements), meaning["elements"]),
            Frame::Lent(lent) => assert_eq!(json!(lent.offset), meaning["offset"]),
            Frame::Returned(returned) => assert_eq!(returned.encode(), vector.bytes),
            Frame::Control(body) => {
                let value: Value = rmp_serde::from_slice(&body).unwrap();
                assert_eq!(value, meaning["value"]);
            }
            Frame::End { sequence, .. }
            | Frame::Gone { sequence, .. }
            | Frame::Receipt { sequence, .. }
            | Frame::Resume { sequence, .. }
            | Frame::Continues { sequence, .. } => assert_eq!(json!(sequence), meaning["sequence"]),
            Frame::Leaves { conduit } => assert_eq!(json!(conduit), meaning["conduit"]),
            Frame::Alive => assert_eq!(json!("alive"), meaning["frame"]),
            Frame::Closes => assert_eq!(json!("closes"), meaning["frame"]),
        }
    }
}

#[test]
fn the_golden_frames_of_paths_are_read_as_what_they_mean() {
    for (name, frame, _) in path_frames() {
        let bytes = frame.encode();
        let length = bytes.len();
        assert_eq!(PathFrame::decode(&bytes).unwrap(), Some((frame, length)), "{name}");
        for short in 0..length {
            assert_eq!(PathFrame::decode(&bytes[..short]).unwrap(), None, "{short} bytes of {name}");
        }
    }
}

#[test]
fn the_golden_pieces_are_read_as_what_they_mean() {
    let pieces = pieces();
    assert_eq!(from_bytes(&Buffer::copy_of(&pieces[0].bytes)).unwrap(), nested());
}

fn protocol() -> String {
    std::fs::read_to_string(root().join("docs/protocol.md")).unwrap()
}

/// The hex blocks of the page: name and bytes.
fn shown() -> BTreeMap<String, Vec<u8>> {
    let page = protocol();
    let mut blocks = BTreeMap::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("```hex ") else { continue };
        let hex: String = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .map(|line| line.split('|').next().unwrap_or_default())
            .collect();
        assert!(blocks.insert(name.to_owned(), unhex(&hex)).is_none(), "{name} is shown twice");
    }
    blocks
}

#[test]
fn the_protocol_page_shows_the_golden_vectors() {
    let mut golden = BTreeMap::new();
    for (_, vectors) in all() {
        golden.extend(vectors.into_iter().map(|vector| (vector.name.to_owned(), vector.bytes)));
    }
    let shown = shown();
    for (name, bytes) in &shown {
        let Some(expected) = golden.get(name) else { panic!("no golden vector is called {name}") };
        assert_eq!(hex(bytes), hex(expected), "{name} in docs/protocol.md");
    }
    for name in [
        "hello",
        "challenge",
        "proof",
        "refused",
        "protected-hello",
        "protected-challenge",
        "first-record",
        "second-record",
        "message",
        "message-checked",
        "alive",
        "array-rank-3",
        "nested",
        "end",
        "gone",
        "receipt",
        "resume",
        "leaves",
        "continues",
        "closes",
        "block",
        "lent",
        "returned",
        "path-attach",
        "path-chunk",
        "path-receipt",
    ] {
        assert!(shown.contains_key(name), "docs/protocol.md does not show {name}");
    }
}

#[test]
fn the_protocol_page_names_every_control_message() {
    let page = protocol();
    let names = include_str!("../src/control.rs")
        .lines()
        .take_while(|line| !line.contains("cfg(test)"))
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(char::is_uppercase))
        .filter_map(|line| line.split([' ', ',']).next());
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "docs/protocol.md does not name {name}");
    }
}
