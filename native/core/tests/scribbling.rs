//! Random nonsense all over the memory that two instances share, while messages flow. (A test program of its own, since it writes to all
//! shared memory of its process.)

mod support;

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::{await_that, not_run, Model, Run};
use xmml_core::instance::{Instance, Received, Stamps};
use xmml_core::runtime::COORDINATOR_GRACE;
use xmml_wire::buffer::Buffer;
use xmml_wire::data::Data;
use xmml_wire::error::Error;
use xmml_wire::shared_memory::SharedMemory;

/// The memory behind the messages of this process, in mappings of our own: those of the instances go when they have refused it. None
/// where the system does not let us at it.
fn shared_memory() -> Vec<SharedMemory> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ours = maps.lines().filter(|line| line.contains("/memfd:xmml-")).filter_map(|line| line.split(' ').next());
    ours.filter_map(|range| {
        let file = File::options().read(true).write(true).open(format!("/proc/self/map_files/{range}")).ok()?;
        let length = file.metadata().ok()?.len() as usize;
        SharedMemory::open(file.into(), length).ok()
    })
    .collect()
}

/// Whether the system does not let us map the memory a second time (that takes privileges).
fn shared_memory_is_closed() -> bool {
    let _memory = SharedMemory::new(c"xmml-test", 4096).unwrap();
    shared_memory().is_empty()
}

/// A generator of numbers without pattern (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Values that tend to hurt.
    fn value(&mut self) -> u64 {
        match self.next() % 6 {
            0 => 0,
            1 => u64::MAX,
            2 => self.next() % 200_000,
            3 => 1 << (self.next() % 64),
            _ => self.next(),
        }
    }
}

/// Writes `count` numbers somewhere; of the memory of connections as often into the page of positions as into the rings. Of payloads
/// only the front is in use.
fn scribble(memory: &[SharedMemory], random: &mut Random, count: u64) {
    for _ in 0..count {
        let memory = &memory[random.next() as usize % memory.len()];
        let length = if random.next() % 2 == 0 { 3200 } else { memory.length().min(1 << 18) };
        let at = random.next() as usize % (length / 8) * 8;
        // SAFETY: within the mapping and aligned; that others look at it is what is tested.
        unsafe {
            memory.start().add(at).cast::<AtomicU64>().as_ref().unwrap().store(random.value(), Ordering::Relaxed)
        };
    }
}

/// Memory of this process in use, at most so far [KiB].
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

const A_MOMENT: Duration = Duration::from_millis(20);

fn send_until(me: &Instance, is_over: &AtomicBool) -> Option<Error> {
    for number in 1_u64.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let bytes = vec![number as u8; (number * 7_919 % 50_000) as usize];
        if let Err(error) = me.send("out", None, Data::Bytes(Buffer::from(bytes)), Stamps::default()) {
            return Some(error);
        }
    }
    None
}

fn receive_until(me: &Instance, has_come: &AtomicBool, is_over: &AtomicBool) -> Option<Error> {
    while !is_over.load(Ordering::Relaxed) {
        match me.receive("in", None, Some(A_MOMENT)) {
            Ok(Received::Message(_)) => has_come.store(true, Ordering::Relaxed),
            Ok(_) => {}
            Err(error) => return Some(error),
        }
    }
    None
}

#[test]
fn nonsense_anywhere_is_an_error_that_names_the_peer_and_never_worse() {
    if shared_memory_is_closed() {
        return not_run("needs root, to map shared memory a second time: sudo make test-rust");
    }
    let rounds = if std::env::var_os("XMML_SOAK").is_some() { 5_000 } else { 60 };
    let before_kib = peak_kib();
    let mut refused = 0;
    for round in 0..rounds {
        let model = Model::by("shm").submodel("a", "out:Oi", 0).submodel("b", "in:S", 0);
        let run = Run::of(model.couple("a.out", "b.in"));
        let (a, b) = (run.join("a"), run.join("b"));
        a.reuse().unwrap();
        b.reuse().unwrap();
        let (has_come, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut random = Random(round);
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| send_until(&a, &is_over));
            let receiving = scope.spawn(|| receive_until(&b, &has_come, &is_over));
            await_that("messages flow", || has_come.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_micros(random.next() % 4_000));
            let memory = shared_memory();
            for _ in 0..20 {
                let count = 1 + random.next() % 20;
                scribble(&memory, &mut random, count);
                std::thread::sleep(Duration::from_micros(random.next() % 500));
            }
            is_over.store(true, Ordering::Relaxed);
            // Who waits because the other end was made to look silent waits as for anybody who is: until the run is over.
            let begin = Instant::now();
            run.coordinator.abort("the test is over");
            for (thread, peer) in [(sending, "b: "), (receiving, "a: ")] {
                match thread.join().expect("no panic") {
                    None | Some(Error::Aborted { .. }) => {}
                    Some(error) => {
                        assert!(error.to_string().starts_with(peer), "round {round}: {error}");
                        refused += 1;
                    }
                }
            }
            // As if they had not heard of it.
            assert!(begin.elapsed() < COORDINATOR_GRACE, "round {round}: {:?}", begin.elapsed());
        });
    }
    assert!(refused > 0, "in {rounds} rounds the nonsense was noticed");
    let more_kib = peak_kib() - before_kib;
    assert!(more_kib < 600 << 10, "{more_kib} KiB more than before");
}
