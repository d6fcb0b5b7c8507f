//! Everything that reads what another process wrote, fed with damaged and random bytes: by mutations of golden vectors and of what the
//! filters make.
//!
//! `XMML_SOAK=1` tries twenty times as many inputs. An input that is found to fail goes into `found/TARGET/`, and is tried first from
//! then on.

use std::path::PathBuf;

use xmml_fuzz::seeds::seeds;
use xmml_fuzz::targets::TARGETS;

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
        let found = root().join("found").join(name);
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
                let file = root().join("found").join(name).join(format!("{number}"));
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(&file, &bytes).unwrap();
                panic!("{name} fails; the input is in {}", file.display());
            }
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "it takes {grown} bytes more than before");
}
