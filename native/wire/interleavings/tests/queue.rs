//! The queue between instances of one process.

use std::io::{ErrorKind, IoSlice};

use loom::sync::Arc;
use loom::thread;

use xmml_interleavings::in_every_interleaving;
use xmml_interleavings::pipe::Pipe;
use xmml_interleavings::wakeup::EventFd;

fn established() -> Arc<Pipe<u32>> {
    let pipe = Pipe::new(EventFd::new());
    pipe.establish();
    Arc::new(pipe)
}

/// Reads a byte, sleeping while there is none; nothing at the end.
fn read(pipe: &Pipe<u32>) -> Option<u8> {
    loop {
        let mut byte = [0];
        match pipe.read(&mut byte) {
            Ok(count) => return (count == 1).then_some(byte[0]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                if pipe.announce_sleep() {
                    pipe.bell().wait();
                    pipe.drain_wakeups();
                }
            }
        }
    }
}

fn write(pipe: &Pipe<u32>, byte: u8) {
    assert_eq!(pipe.write(&[IoSlice::new(&[byte])]).unwrap(), 1);
}

#[test]
fn who_sleeps_is_woken_for_a_message_and_for_its_answer() {
    in_every_interleaving(3, || {
        let (there, back) = (established(), established());
        let (theirs, their_back) = (there.clone(), back.clone());
        let answering = thread::spawn(move || {
            while let Some(byte) = read(&theirs) {
                write(&their_back, byte + 1);
            }
        });
        for byte in [1, 2] {
            write(&there, byte);
            assert_eq!(read(&back), Some(byte + 1));
        }
        there.close();
        answering.join().unwrap();
    });
}

#[test]
fn what_was_written_comes_before_the_end() {
    in_every_interleaving(3, || {
        let pipe = established();
        let theirs = pipe.clone();
        let writing = thread::spawn(move || {
            write(&theirs, 1);
            theirs.close();
        });
        assert_eq!((read(&pipe), read(&pipe)), (Some(1), None));
        writing.join().unwrap();
    });
}

#[test]
fn the_end_rings_also_for_who_has_not_said_that_it_sleeps() {
    in_every_interleaving(3, || {
        let pipe = established();
        let theirs = pipe.clone();
        let closing = thread::spawn(move || theirs.close());
        pipe.bell().wait();
        assert_eq!(read(&pipe), None);
        closing.join().unwrap();
    });
}

#[test]
fn during_the_handshake_the_bell_rings_without_being_asked() {
    in_every_interleaving(3, || {
        let pipe = Arc::new(Pipe::<u32>::new(EventFd::new()));
        let theirs = pipe.clone();
        let writing = thread::spawn(move || {
            theirs.write(&[IoSlice::new(&[1])]).unwrap();
            theirs.write(&[IoSlice::new(&[2])]).unwrap();
        });
        let mut got: Vec<u8> = Vec::new();
        while got.len() < 2 {
            pipe.bell().wait();
            let mut bytes = [0; 2];
            while let Ok(count) = pipe.read(&mut bytes) {
                got.extend(&bytes[..count]);
            }
        }
        assert_eq!(got, [1, 2]);
        writing.join().unwrap();
    });
}

#[test]
fn a_glance_tells_of_news_and_what_was_handed_over_is_there_with_its_announcement() {
    in_every_interleaving(3, || {
        let pipe = established();
        let theirs = pipe.clone();
        let writing = thread::spawn(move || {
            let number = theirs.hand_over(42);
            theirs.write(&[IoSlice::new(&[number as u8])]).unwrap();
        });
        while !pipe.has_news() {
            thread::yield_now();
        }
        let mut number = [0];
        assert_eq!(pipe.read(&mut number).unwrap(), 1);
        assert_eq!(pipe.take_over(u64::from(number[0])), Some(42));
        assert_eq!(pipe.take_over(u64::from(number[0])), None, "once");
        writing.join().unwrap();
        assert!(!pipe.has_news());
    });
}
