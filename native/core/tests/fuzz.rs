//! Everything that reads what another process wrote, fed with damaged and random bytes: by mutations of golden vectors and of what the
//! filters make.
//!
//! `XMML_SOAK=1` tries twenty times as many inputs. An input that is found to fail goes into `fuzz/found/TARGET/`, and is tried first from
//! then on.

#[path = "../fuzz/targets.rs"]
mod targets;

use std::path::PathBuf;

use targets::TARGETS;
use xmml_core::buffer::BufferPool;
use xmml_core::data::{Array, Data};
use xmml_core::filters::Chain;
use xmml_core::frame::descriptor::to_bytes;
use xmml_core::message::Message;
use xmml_core::path::frame::{ChunkHead, Lane, PathFrame, Purpose, Receipt};
use xmml_core::spec::FilterSpec;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// The golden vectors, and data through each filter of the wire.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![b"tcp:127.0.0.1:4711?run=canal-1".to_vec()];
    for group in ["frames", "pieces", "handshake", "invalid"] {
        let file = root().join(format!("../../tests/data/golden/{group}.json"));
        let vectors: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        for vector in vectors.as_array().unwrap() {
            let bytes = unhex(vector["hex"].as_str().unwrap());
            seeds.push([&[77], &bytes[..]].concat());
            seeds.push(bytes[bytes.len().min(24)..].to_vec()); // without the head: a body
            seeds.push(bytes);
        }
    }
    seeds.extend(path_seeds());
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
    let receipt = |lane| Receipt { lane, all_before: 0, credit: 1 << 16, besides: vec![4096..8192, 9000..9001] };
    let have = [receipt(Lane::Control), receipt(Lane::Bulk)];
    let chunk = |start, total, offset, length| {
        let head = ChunkHead { lane: Lane::Bulk, purpose: Purpose::Data, length, start, total, offset };
        [&head.encode()[..], &vec![5; length as usize]].concat()
    };
    vec![
        PathFrame::Attach { id: [1; 16], stream: 3, resumes: true, have: have.clone() }.encode(),
        PathFrame::Attached { have }.encode(),
        [PathFrame::Receipt(receipt(Lane::Bulk)).encode(), PathFrame::Alive.encode(), PathFrame::Bye.encode()].concat(),
        [PathFrame::Streams(9).encode(), PathFrame::Refused { code: 1, reason: "no".into() }.encode()].concat(),
        [chunk(0, 5000, 4096, 904), chunk(0, 5000, 0, 4096), chunk(5064, 10, 0, 10), chunk(5064, 10, 0, 10)].concat(),
    ]
}

fn mutate(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    const TELLING: [u64; 8] = [0, 1, 7, 0x7f, 0xff, u32::MAX as u64, 1 << 40, u64::MAX];
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random.below(256) as u8),
            4 if at < bytes.len() => drop(bytes.drain(at..(at + 1 + random.below(16)).min(bytes.len()))),
            5 => {
                let value = TELLING[random.below(TELLING.len())].to_le_bytes();
                let width = [1, 2, 4, 8][random.below(4)];
                for (place, byte) in bytes.iter_mut().skip(at).zip(&value[..width]) {
                    *place = *byte;
                }
            }
            _ => {
                let other = &seeds[random.below(seeds.len())];
                bytes.truncate(at);
                bytes.extend_from_slice(&other[random.below(other.len() + 1)..]);
            }
        }
    }
}

/// Bytes of this process that are in memory.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn no_input_makes_a_reader_panic_or_take_memory_that_the_bytes_do_not_pay_for() {
    let inputs = if std::env::var_os("XMML_SOAK").is_some() { 2_000_000 } else { 20_000 };
    let seeds = seeds();
    for (name, target) in TARGETS {
        seeds.iter().for_each(|seed| target(seed));
        let found = root().join("fuzz/found").join(name);
        for entry in std::fs::read_dir(&found).into_iter().flatten().flatten() {
            target(&std::fs::read(entry.path()).unwrap());
        }
    }
    let before = resident_bytes();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for number in 0..inputs {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        mutate(&mut bytes, &seeds, &mut random);
        for (name, target) in TARGETS {
            if std::panic::catch_unwind(|| target(&bytes)).is_err() {
                let file = root().join("fuzz/found").join(name).join(format!("{number}"));
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(&file, &bytes).unwrap();
                panic!("{name} fails; the input is in {}", file.display());
            }
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "it takes {grown} bytes more than before");
}
