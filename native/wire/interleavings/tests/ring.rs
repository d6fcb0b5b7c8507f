//! The ring of shared memory.

use std::io::IoSlice;

use loom::sync::Arc;
use loom::thread;

use xmml_interleavings::in_every_interleaving;
use xmml_interleavings::shm::bytes::Bytes;
use xmml_interleavings::shm::ring::{Positions, Reader, Writer, FRAME_HEAD, LINE};
use xmml_interleavings::wakeup::EventFd;

/// What both ends see: the positions, and the bells that travel over the socket.
struct Shared {
    positions: Positions,
    bytes: Bytes,
    reader_bell: EventFd,
    writer_bell: EventFd,
}

/// A ring of so many lines, of which all but one may hold records.
fn shared(lines: usize) -> Arc<Shared> {
    let (positions, bytes) = (Positions::new(), Bytes::of(lines * LINE));
    Arc::new(Shared { positions, bytes, reader_bell: EventFd::new(), writer_bell: EventFd::new() })
}

/// Writes each byte as a record of its own, as `ShmStream` and its callers do: what finds no room waits for the bell.
fn write_all(shared: &Shared, writer: &mut Writer, bytes: &[u8]) {
    for byte in bytes {
        while writer.write(&shared.positions, &[IoSlice::new(&[*byte])]).unwrap() == 0 {
            if writer.announce_sleep(&shared.positions) {
                shared.writer_bell.wait();
                shared.writer_bell.lower();
            }
        }
        if Writer::take_reader_sleep(&shared.positions) {
            shared.reader_bell.raise();
        }
    }
}

/// Reads until `count` bytes have come.
fn read(shared: &Shared, reader: &mut Reader, count: usize) -> Vec<u8> {
    let mut got = Vec::new();
    while got.len() < count {
        let mut bytes = [0; 4];
        let space = (count - got.len()).min(bytes.len());
        let read = reader.read(&shared.positions, &mut bytes[..space]).unwrap();
        got.extend(&bytes[..read]);
        if read > 0 && reader.take_writer_sleep(&shared.positions) {
            shared.writer_bell.raise();
        }
        if read == 0 && reader.glance().announce_sleep(&shared.positions) {
            shared.reader_bell.wait();
            shared.reader_bell.lower();
        }
    }
    got
}

#[test]
fn bytes_arrive_whole_and_in_order_and_nobody_sleeps_for_ever() {
    in_every_interleaving(3, || {
        let shared = shared(2);
        let theirs = shared.clone();
        let writing = thread::spawn(move || {
            let mut writer = Writer::new(theirs.bytes.clone());
            write_all(&theirs, &mut writer, &[1, 2]);
        });
        let mut reader = Reader::new(shared.bytes.clone());
        assert_eq!(read(&shared, &mut reader, 2), [1, 2]);
        writing.join().unwrap();
    });
}

#[test]
fn a_writer_that_sleeps_on_a_full_ring_is_woken_when_half_of_it_was_read() {
    in_every_interleaving(2, || {
        let shared = shared(4);
        let theirs = shared.clone();
        let writing = thread::spawn(move || {
            let mut writer = Writer::new(theirs.bytes.clone());
            write_all(&theirs, &mut writer, &[1, 2, 3, 4, 5]);
        });
        let mut reader = Reader::new(shared.bytes.clone());
        let mut got = Vec::new();
        while got.len() < 5 {
            got.extend(read(&shared, &mut reader, 1)); // record by record: the flag is looked at after every second one
        }
        assert_eq!(got, [1, 2, 3, 4, 5]);
        writing.join().unwrap();
    });
}

#[test]
fn a_message_and_its_answer_pass_through_two_rings() {
    in_every_interleaving(3, || {
        let (there, back) = (shared(2), shared(2));
        let (my_there, my_back) = (there.clone(), back.clone());
        let answering = thread::spawn(move || {
            let question = read(&my_there, &mut Reader::new(my_there.bytes.clone()), 1);
            write_all(&my_back, &mut Writer::new(my_back.bytes.clone()), &[question[0] + 1]);
        });
        write_all(&there, &mut Writer::new(there.bytes.clone()), &[7]);
        assert_eq!(read(&back, &mut Reader::new(back.bytes.clone()), 1), [8]);
        answering.join().unwrap();
    });
}

#[test]
fn what_was_published_before_the_end_is_read_before_it() {
    use loom::sync::atomic::{AtomicBool, Ordering};
    in_every_interleaving(3, || {
        let shared = shared(4);
        let ended = Arc::new(AtomicBool::new(false));
        let (theirs, end) = (shared.clone(), ended.clone());
        let dying = thread::spawn(move || {
            write_all(&theirs, &mut Writer::new(theirs.bytes.clone()), &[1, 2]);
            end.store(true, Ordering::Release); // the socket has ended
            theirs.reader_bell.raise();
        });
        let mut reader = Reader::new(shared.bytes.clone());
        let mut got = Vec::new();
        loop {
            // As `ShmStream::read`: first the end, then the ring.
            let has_ended = ended.load(Ordering::Acquire);
            let mut byte = [0];
            if reader.read(&shared.positions, &mut byte).unwrap() == 1 {
                got.push(byte[0]);
            } else if has_ended {
                break;
            } else if !ended.load(Ordering::Acquire) && reader.glance().announce_sleep(&shared.positions) {
                shared.reader_bell.wait();
                shared.reader_bell.lower();
            }
        }
        assert_eq!(got, [1, 2]);
        dying.join().unwrap();
    });
}

#[test]
fn a_glance_without_a_lock_finds_in_the_end_what_was_published() {
    in_every_interleaving(3, || {
        let shared = shared(2);
        let theirs = shared.clone();
        let writing = thread::spawn(move || write_all(&theirs, &mut Writer::new(theirs.bytes.clone()), &[5]));
        let mut reader = Reader::new(shared.bytes.clone());
        while !reader.glance().has_news() {
            thread::yield_now();
        }
        let mut byte = [0];
        assert_eq!(reader.read(&shared.positions, &mut byte), Ok(1));
        assert_eq!(byte, [5]);
        writing.join().unwrap();
    });
}

#[test]
fn frames_are_there_as_a_whole_or_not_at_all() {
    in_every_interleaving(3, || {
        let shared = shared(4);
        let theirs = shared.clone();
        let frame = |body: u8| {
            let mut frame = vec![body; FRAME_HEAD + usize::from(body)];
            frame[..8].copy_from_slice(&u64::from(body).to_le_bytes());
            frame
        };
        let writing = thread::spawn(move || {
            let mut writer = Writer::new(theirs.bytes.clone());
            for body in [3, 50, 4] {
                let frame = frame(body);
                while !writer.write_frame(&theirs.positions, &frame[..FRAME_HEAD], &frame[FRAME_HEAD..]).unwrap() {
                    if writer.announce_sleep(&theirs.positions) {
                        theirs.writer_bell.wait();
                        theirs.writer_bell.lower();
                    } else {
                        thread::yield_now();
                    }
                }
            }
        });
        let mut reader = Reader::new(shared.bytes.clone());
        for body in [3, 50, 4] {
            let length = loop {
                match reader.frame().unwrap() {
                    Some(length) => break length,
                    None => thread::yield_now(),
                }
            };
            let mut got = vec![0; length];
            reader.copy_of_frame(0, &mut got);
            assert_eq!(got, frame(body));
            reader.skip_frame(&shared.positions);
            if reader.take_writer_sleep(&shared.positions) {
                shared.writer_bell.raise();
            }
        }
        writing.join().unwrap();
    });
}
