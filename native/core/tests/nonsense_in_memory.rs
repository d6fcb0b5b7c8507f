//! A partner of the same user that writes nonsense into the memory it shares: it is refused by name, and nothing else happens.

mod support;

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use support::by_hand::{connect, Client};
use support::{await_that, Model, Run, LIMIT, SECRET};
use xmml_core::coordinator::Event;
use xmml_core::instance::{Instance, Received};
use xmml_core::runtime::link::VERDICT_LIMIT;
use xmml_wire::buffer::Buffer;
use xmml_wire::connection::authentication::{Authentication, Progress, Protection};
use xmml_wire::data::Data;
use xmml_wire::frame::{encode_message, Lent};
use xmml_wire::handshake::{fresh_nonce, Party, Role, VERSIONS};
use xmml_wire::message::Message;
use xmml_wire::methods::shm::passing;
use xmml_wire::methods::shm::segment::Segment;
use xmml_wire::methods::shm::stream::ShmStream;
use xmml_wire::methods::Stream;
use xmml_wire::shared_memory::arena::Arena;
use xmml_wire::shared_memory::SharedMemory;
use xmml_wire::wakeup::poll_readable;

/// Where things lie in the memory of a connection (the table in `methods/shm/segment.rs`).
const MY_TAIL: usize = 128;
const THEIR_TAIL: usize = 640;
const RETURNS_TO_ME: usize = 1152;
const MY_RING: usize = 4096;
const LENGTH: usize = 4096 + 2 * 65536;

/// The instance `a`, spoken by hand, with a second mapping of the memory that it shares with `b`.
struct Peer {
    _control: Client,
    stream: Box<dyn Stream>,
    /// The other end of the socket beside the memory.
    socket: UnixStream,
    memory: SharedMemory,
}

impl Peer {
    fn write_number(&self, at: usize, number: u64) {
        assert!(at + 8 <= LENGTH && at % 8 == 0);
        // SAFETY: within the mapping and aligned; that others look at it is what is tested.
        unsafe { self.memory.start().add(at).cast::<u64>().write_volatile(number) };
    }

    fn send(&self, frame: &[u8]) {
        assert_eq!(self.stream.write(&[IoSlice::new(frame)]).unwrap(), frame.len());
    }

    fn send_message(&self, sequence: u64, data: Data) {
        let message = Message { timestamp: 0.0, next_timestamp: None, data };
        let encoded = encode_message(1, sequence, None, &message).unwrap();
        self.send(&encoded.slices().collect::<Vec<_>>().concat());
    }

    /// Wakes `b`, whatever it has said.
    fn ring(&self) {
        // After a refusal nobody listens any more.
        let _ = passing::send(&self.socket, &[IoSlice::new(&[0])], None);
    }

    fn say_beside(&self, bytes: &[u8], pass: Option<BorrowedFd<'_>>) {
        passing::send(&self.socket, &[IoSlice::new(bytes)], pass).unwrap();
    }

    fn pass_region(&self, id: u64, length: u64, file: Option<BorrowedFd<'_>>) {
        self.say_beside(&[&[1][..], &id.to_le_bytes(), &length.to_le_bytes()].concat(), file);
    }
}

/// A region of 64 KiB as number 1, and what a message says that lends all of it.
fn region(peer: &Peer) -> (SharedMemory, Lent) {
    let memory = SharedMemory::new(c"xmml-test", 65536).unwrap();
    peer.pass_region(1, 65536, memory.file());
    let data = Data::Bytes(Buffer::from(vec![0; 65536]));
    let layout = Lent::layout(&Message { timestamp: 0.0, next_timestamp: None, data }).unwrap();
    let lent = Lent {
        conduit: 1,
        sequence: 1,
        sender_copy: None,
        timestamp: 0.0,
        next_timestamp: None,
        descriptor: layout.descriptor.into_vec(),
        region: 1,
        offset: 0,
        length: 65536,
        generation: 1,
    };
    (memory, lent)
}

fn send_lent(peer: &Peer, lent: &Lent) {
    peer.send(&lent.encode().slices().collect::<Vec<_>>().concat());
}

fn pair() -> (Run, Peer, Instance) {
    let run = Run::of(Model::by("shm").submodel("a", "out:Oi", 99).submodel("b", "in:S", 99).couple("a.out", "b.in"));
    let mut control = Client::to_coordinator(&run.coordinator, &SECRET, "a").unwrap();
    control.ask_to_join(std::process::id());
    let b = run.join("b");
    let table = control.table_of("b");
    let address = &table.entries.iter().find(|entry| entry.method == "shm").unwrap().addresses[0];
    let segment = Segment::new().unwrap();
    let file = segment.file().unwrap().try_clone_to_owned().unwrap();
    let memory = SharedMemory::open(file, LENGTH).unwrap();
    let socket = connect(address);
    let stream = established(socket.try_clone().unwrap(), segment);
    b.reuse().unwrap();
    (run, Peer { _control: control, stream, socket, memory }, b)
}

/// Carries out the handshake of a dialler that passes `segment`.
fn established(socket: UnixStream, segment: Segment) -> Box<dyn Stream> {
    let me = Party {
        secret: SECRET.to_vec(),
        run: "test run".into(),
        name: "a".into(),
        versions: VERSIONS,
        nonce: fresh_nonce().unwrap(),
        private_key: fresh_nonce().unwrap(),
    };
    let stream = ShmStream::dialler(socket.into(), "b".into(), segment).unwrap();
    let mut authentication = Authentication::dial(Box::new(stream), me, Role::Data, "b", Protection::Never).unwrap();
    loop {
        match authentication.advance() {
            (Some(going_on), Progress::Wait(interest)) => {
                if interest.read {
                    poll_readable(&[going_on.fd()], Some(Instant::now() + LIMIT)).unwrap();
                }
                authentication = going_on;
            }
            (_, Progress::Done { stream, .. }) => {
                stream.established(&Arena::new()).unwrap();
                // `b` says where to begin; before that, nothing but its handshake may come beside the memory.
                await_that("b says where to begin", || stream.read(&mut [0; 256]).is_ok());
                return stream;
            }
            (_, Progress::Refused { reason, .. }) => panic!("{reason}"),
            (None, Progress::Wait(_)) => unreachable!(),
        }
    }
}

/// What `b` says when `a` does `nonsense` while `b` waits: an error that names `a`, before the run says what became of `a`; the run is told.
fn refusal(nonsense: impl FnOnce(&Peer)) -> String {
    let (run, peer, b) = pair();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.receive("in", None, Some(LIMIT)));
        run.event("b waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "b"));
        let begin = Instant::now();
        nonsense(&peer);
        peer.ring();
        let error = waiting.join().unwrap().expect_err("b refuses it").to_string();
        // As for one that has ended without a word.
        assert!(begin.elapsed() < VERDICT_LIMIT, "{error}: {:?}", begin.elapsed());
        assert!(error.starts_with("a: what it sent cannot be taken in: "), "{error}");
        run.event("the run is told", |event| matches!(event, Event::Failed { instance, .. } if instance == "b"));
        error
    })
}

#[test]
fn impossible_records_are_refused_by_name() {
    for word in [u64::MAX, 65537, 1 << 63, 1 << 33, 1 << 32, 1 << 32 | 23] {
        let error = refusal(|peer| peer.write_number(MY_RING, word));
        assert!(error.contains("the shared memory says that a record"), "{error}");
    }
}

#[test]
fn a_reader_that_is_said_to_have_gone_back_is_refused_by_name() {
    let (_run, peer, b) = pair();
    peer.send_message(1, Data::Int(1));
    assert!(matches!(b.receive("in", None, Some(LIMIT)), Ok(Received::Message(_))));
    // `a` believes what is said of the reader no more than `b` does: here it is `a` that looks.
    peer.write_number(MY_TAIL, 8);
    let error = (0..2_000).find_map(|_| peer.stream.write(&[IoSlice::new(&[0; 4096])]).err()).expect("a look at last");
    assert!(error.to_string().contains("bytes were read of"), "{error}");
}

#[test]
fn garbage_in_the_ring_is_refused_by_name() {
    let error = refusal(|peer| peer.send(&[0xA5; 4096]));
    assert!(error.contains("frame") || error.contains("head") || error.contains("kind"), "{error}");
    // Published without ever having been written: zeros.
    refusal(|peer| peer.write_number(MY_RING, 4096));
    refusal(|peer| peer.write_number(MY_RING, 1 << 32 | 4096));
}

#[test]
fn frames_that_change_after_they_were_published_are_refused_or_taken_as_they_are_read() {
    let (_run, peer, b) = pair();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| loop {
            match b.receive("in", None, Some(Duration::from_millis(500))) {
                Ok(Received::Message(_)) => {}
                Ok(_) => return None,
                Err(error) => return Some(error.to_string()),
            }
        });
        for sequence in 1..200 {
            if waiting.is_finished() {
                break;
            }
            let message = Message { timestamp: 0.0, next_timestamp: None, data: Data::Text("x".repeat(400)) };
            let encoded = encode_message(1, sequence, None, &message).unwrap();
            let _ = peer.stream.write(&[IoSlice::new(&encoded.slices().collect::<Vec<_>>().concat())]);
            for at in 0..64 {
                peer.write_number(
                    MY_RING + (at * 1_016) % 65_528 / 8 * 8,
                    sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15),
                );
            }
        }
        if let Some(error) = waiting.join().unwrap() {
            assert!(error.starts_with("a: "), "{error}");
        }
    });
}

#[test]
fn what_lies_elsewhere_than_in_memory_that_was_passed_is_refused_by_name() {
    type Change = fn(&mut Lent);
    let wrong: [(Change, &str); 7] = [
        (|lent| lent.region = 2, "did not pass"),
        (|lent| lent.offset = 64, "65536 bytes at 64 of a memory of 65536"),
        (|lent| lent.offset = u64::MAX - 63, "of a memory of 65536"),
        (|lent| lent.length = u64::MAX, "of a memory of 65536"),
        (|lent| (lent.offset, lent.length) = (8, 16), "of a memory of 65536"),
        (|lent| lent.length = 16, "payload of 16"),
        (|lent| lent.generation = 0, "a number that cannot be"),
    ];
    for (change, reason) in wrong {
        let mut memory = None;
        let error = refusal(|peer| {
            let (region, mut lent) = region(peer);
            memory = Some(region);
            change(&mut lent);
            send_lent(peer, &lent);
        });
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn what_is_no_shared_memory_is_refused_by_name() {
    let error = refusal(|peer| peer.pass_region(1, 4096, None));
    assert!(error.contains("did not pass"), "{error}");
    let error = refusal(|peer| peer.pass_region(1, 4096, Some(std::io::stderr().as_fd())));
    assert!(error.contains("taken away"), "{error}");
    let error = refusal(|peer| {
        let memory = SharedMemory::new(c"xmml-test", 4096).unwrap();
        peer.pass_region(1, 1 << 40, memory.file());
    });
    assert!(error.contains("smaller than"), "{error}");
    let error = refusal(|peer| {
        // SAFETY: a new descriptor, without seals: it could be cut off under the reader.
        let open = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"open".as_ptr(), libc::MFD_ALLOW_SEALING)) };
        peer.pass_region(1, 0, Some(open.as_fd()));
    });
    assert!(error.contains("taken away"), "{error}");
    let error = refusal(|peer| peer.say_beside(&[77], None));
    assert!(error.contains("unknown kind 77"), "{error}");
}

#[test]
fn so_much_memory_is_taken_from_a_peer_and_no_more() {
    let error = refusal(|peer| {
        let memory = SharedMemory::new(c"xmml-test", 4096).unwrap();
        for id in 0..5000 {
            let message = [&[1][..], &u64::to_le_bytes(id), &4096_u64.to_le_bytes()].concat();
            let until = Instant::now() + LIMIT;
            // Its socket runs full until it has looked; after the refusal it is closed.
            while let Err(error) = passing::send(&peer.socket, &[IoSlice::new(&message)], memory.file()) {
                if error.kind() != std::io::ErrorKind::WouldBlock || Instant::now() > until {
                    return;
                }
                peer.write_number(RETURNS_TO_ME, 0);
                std::thread::yield_now();
            }
        }
    });
    assert!(error.contains("more than 4096 pieces"), "{error}");
}

#[test]
fn lent_memory_whose_pages_are_taken_out_reads_as_zeros() {
    let (_run, peer, b) = pair();
    let (memory, lent) = region(&peer);
    send_lent(&peer, &lent);
    peer.ring();
    let Received::Message(message) = b.receive("in", None, Some(LIMIT)).unwrap() else { panic!("no message") };
    let Data::Bytes(bytes) = &message.data else { panic!("not bytes") };
    // SAFETY: within the mapping, which the receiver only reads.
    unsafe { memory.start().write_bytes(7, 65536) };
    assert_eq!((bytes[0], bytes[65535]), (7, 7), "one memory");
    memory.give_back(0, 65536);
    let fd = memory.file().unwrap().as_raw_fd();
    // SAFETY: the descriptor is open. It is sealed, or a signal would end the receiver.
    assert_eq!(unsafe { libc::ftruncate(fd, 0) }, -1);
    drop(memory);
    assert!(bytes.iter().all(|byte| *byte == 0));
}

#[test]
fn what_a_peer_writes_about_itself_harms_nobody_else() {
    let (_run, peer, b) = pair();
    // Flags, returns of what was never lent, and positions that are b's to write: b does not read its own there.
    for at in (256..640).chain(768..1152).chain(1152..3200).step_by(8) {
        peer.write_number(at, u64::MAX);
    }
    peer.write_number(MY_TAIL, 0);
    peer.write_number(THEIR_TAIL, 0);
    for sequence in 1..=20 {
        peer.send_message(sequence, Data::Int(sequence as i64));
        peer.ring();
        match b.receive("in", None, Some(LIMIT)).unwrap() {
            Received::Message(message) => assert!(matches!(message.data, Data::Int(value) if value == sequence as i64)),
            other => panic!("{other:?}"),
        }
    }
}
