//! Inputs to begin with.

use std::collections::BTreeMap;
use std::path::Path;

use mto::link_frame::{self, LinkMessage};
use mto::routes::Announcement;
use xmml_core::filters::Chain;
use xmml_core::spec::FilterSpec;
use xmml_path::frame::{ChunkHead, Lane, PathFrame, Purpose, Receipt};
use xmml_transfer::listing::{Entry, Kind, LeftOut};
use xmml_transfer::message::{self, Piece, ToSource};
use xmml_transfer::ranges::Range;
use xmml_wire::buffer::BufferPool;
use xmml_wire::data::{Array, Data};
use xmml_wire::frame::descriptor::to_bytes;
use xmml_wire::message::Message;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// The golden vectors, and data through each filter of the wire.
///
/// # Panics
/// The files of the golden vectors are not there.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![b"tcp:127.0.0.1:4711?run=canal-1".to_vec()];
    for group in ["frames", "pieces", "handshake", "invalid"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../../tests/data/golden/{group}.json"));
        let vectors: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        for vector in vectors.as_array().unwrap() {
            let bytes = unhex(vector["hex"].as_str().unwrap());
            seeds.push([&[77], &bytes[..]].concat());
            seeds.push(bytes[bytes.len().min(24)..].to_vec()); // without the head: a body
            seeds.push(bytes);
        }
    }
    seeds.extend(path_seeds());
    seeds.push(link_seed());
    seeds.push(
        b"step:int[0..]=12 number:int[1..50] level:real[0..1e3]=0.5 kind:enum(sfc,pl)='pl' date:time name:str='a b' l:int[]\n\
          not (step % 6 = $index or level >= 1.5 and has(l)) and kind in ('pl', 'sfc') or step in 0..24 step 6 and name like '*?'"
            .to_vec(),
    );
    seeds.push(b"step:int! l:int[] name:str\nstep=3 l=[1,2] name='a b'".to_vec());
    seeds.push(b"step:int! level:enum(low,high)\n\x07\0\0\0\0\0\0\0\x02n1\x03\x03\0\0\0\0\0\0\0\x01\0".to_vec());
    seeds.extend(copy_seeds());
    let numbers: Vec<f64> = (0..500).map(|at| f64::from(at % 40) / 3.0).collect();
    let array = Array::from_slice(&[20, 25], &numbers).unwrap();
    let data: Data = vec![Data::from(array), "text".into()].into();
    seeds.push(to_bytes(&data, &BufferPool::new()).unwrap().to_vec());
    for (name, factor) in [("zstd", Some(3.0)), ("lz4", None), ("precision", Some(1e-3))] {
        let spec = FilterSpec { name: name.into(), factor, params: Default::default() };
        let mut chain = Chain::build(&[spec], "fuzz").unwrap();
        let made = chain.apply(Message { data: data.clone(), ..Message::default() }).unwrap().remove(0).data;
        seeds.push(match made {
            Data::Bytes(bytes) => bytes.to_vec(),
            other => to_bytes(&other, &BufferPool::new()).unwrap().to_vec(),
        });
    }
    seeds
}

/// Frames of a path, one after the other.
fn path_seeds() -> Vec<Vec<u8>> {
    let receipt =
        |lane| Receipt { lane, all_before: 0, delivered: None, credit: 1 << 16, besides: vec![4096..8192, 9000..9001] };
    let have = [receipt(Lane::Control), receipt(Lane::Bulk)];
    let chunk = |start, total, offset, length| {
        let head = ChunkHead { lane: Lane::Bulk, purpose: Purpose::Data, length, start, total, offset, is_open: false };
        [&head.encode()[..], &vec![5; length as usize]].concat()
    };
    vec![
        PathFrame::Attach { id: [1; 16], stream: 3, resumes: true, have: have.clone() }.encode(),
        PathFrame::Attached { have }.encode(),
        [PathFrame::Receipt(receipt(Lane::Bulk)).encode(), PathFrame::Alive.encode(), PathFrame::Bye.encode()].concat(),
        [
            PathFrame::Streams { count: 9, is_fixed: true }.encode(),
            PathFrame::Carries { bandwidth: 125_000_000 }.encode(),
            PathFrame::Refused { code: 1, reason: "no".into() }.encode(),
        ]
        .concat(),
        [chunk(0, 5000, 4096, 904), chunk(0, 5000, 0, 4096), chunk(5064, 10, 0, 10), chunk(5064, 10, 0, 10)].concat(),
    ]
}

/// What relays say to each other, one after the other.
fn link_seed() -> Vec<u8> {
    let neighbours = BTreeMap::from([("b".to_owned(), 700), ("here".to_owned(), 20_000)]);
    let frames = [
        link_frame::message(&LinkMessage::Hello { site: "a".into(), life: 7 }),
        link_frame::message(&LinkMessage::Neighbours(Announcement::new("a", 3, neighbours))),
        link_frame::message(&LinkMessage::Open {
            stream: 1,
            route: vec!["b".into(), "c".into()],
            name: "n".into(),
            from_site: "a".into(),
            from: "m".into(),
            traffic: xmml_wire::methods::TrafficKind::default(),
        }),
        link_frame::message(&LinkMessage::Credit { stream: 1, bytes: 1 << 20 }),
        link_frame::data(1, b"hello"),
        link_frame::finish(1),
    ];
    frames.iter().flat_map(|frame| [&(frame.len() as u16).to_le_bytes(), &frame[..]].concat()).collect()
}

/// What the ends of a copy say to each other.
fn copy_seeds() -> Vec<Vec<u8>> {
    let entry = Entry {
        path: "a/b".into(),
        kind: Kind::File,
        size: 3,
        mode: 0o644,
        modified_ns: 1_600_000_000_123_456_789,
        link: "".into(),
    };
    let range = Range { offset: 0, length: 3 };
    let (before, behind) = message::around_chunk(&[Piece { file: 0, range, digest: [7; 32] }], 3, &[0]);
    vec![
        message::entries(0, [entry].iter()),
        message::listed(1, 3, &[LeftOut { path: "a/c".into(), reason: "no".into() }]),
        [&before, &b"abc"[..], &behind].concat(),
        message::spoilt(0, "no"),
        ToSource::Have(0, vec![7; 64]).to_bytes(),
        ToSource::Again(0, vec![range]).to_bytes(),
        ToSource::Failed(0, "no".into()).to_bytes(),
    ]
}
