//! What strangers and broken peers send to a path's door: refused, within bounds, and the paths that stand are not harmed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use xmml_path::frame::{ChunkHead, Lane, PathFrame, Purpose, Receipt, CHUNK_HEAD, GIVEN_UP};
use xmml_path::{Listener, Path, Received, Settings};
use xmml_wire::handshake::{Role, TIMEOUT_S};

use crate::by_hand::Client;
use crate::descriptors::allow_descriptors;
use crate::support::{await_that, identity, pair_at, payload, streams, LIMIT, SECRET};

/// So many of one host may stand at a door without having proved anything, half of its places; more come.
const MOST_STRANGERS: usize = 512;
const MANY: usize = 700;
const ATTEMPTS: usize = 6;

fn door() -> Listener {
    Listener::bind("127.0.0.1:0", &identity("there"), Settings { max_message: 1 << 20, ..Settings::default() }).unwrap()
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(LIMIT).unwrap();
    stream
}

/// Everything until the other side closes, which it must.
fn until_closed(mut stream: &TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the connection is not closed: {error}"),
    }
    said
}

/// Whether the other side has not closed it. (It says nothing as long as it is told nothing.)
fn stands(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    stream.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

fn still_passes(here: &Path, there: &Path) {
    here.post(Lane::Bulk, payload(9, 50_000)).unwrap();
    assert_eq!(there.receive(Lane::Bulk, LIMIT).unwrap(), Some(Received::Message(payload(9, 50_000))));
}

fn nothing(lane: Lane) -> Receipt {
    Receipt { lane, all_before: 0, delivered: None, credit: 1 << 20, besides: Vec::new() }
}

fn attach(path: u8, stream: u32, resumes: bool) -> Vec<u8> {
    PathFrame::Attach { id: [path; 16], stream, resumes, have: [nothing(Lane::Control), nothing(Lane::Bulk)] }.encode()
}

/// Somebody who knows the secret and says what the test wants.
fn known(address: &str) -> TcpStream {
    Client::dial(connect(address), "run", &SECRET, "stranger", Role::Path, "there").unwrap().stream
}

/// The same, who has opened a path.
fn attached(address: &str, path: u8) -> TcpStream {
    let mut stream = known(address);
    stream.write_all(&attach(path, 0, false)).unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    let mut body = vec![0; u32::from_le_bytes(answer[4..].try_into().unwrap()) as usize];
    stream.read_exact(&mut body).unwrap();
    assert!(matches!(PathFrame::decode(&[&answer[..], &body].concat()), Ok(Some((PathFrame::Attached { .. }, _)))));
    stream
}

fn chunk(start: u64, total: u64, offset: u64, length: u32) -> Vec<u8> {
    ChunkHead { lane: Lane::Bulk, purpose: Purpose::Data, length, start, total, offset, is_open: false }
        .encode()
        .to_vec()
}

#[test]
fn garbage_at_the_door_is_turned_away_and_counted() {
    let listener = door();
    let (here, there) = pair_at(&listener, &listener.address(), streams(2));
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 2000], &[0; 1500]] {
        let mut stream = connect(&listener.address());
        let _ = stream.write_all(garbage); // it may be closed before all of it is out
        until_closed(&stream);
    }
    let (count, last) = listener.refusals();
    assert_eq!(count, 3, "{last:?}");
    still_passes(&here, &there);
}

#[test]
fn a_handshake_that_was_heard_cannot_be_said_again() {
    let listener = door();
    let (here, there) = pair_at(&listener, &listener.address(), streams(1));
    // What an honest dialler says, as an eavesdropper has it.
    struct Heard(TcpStream, Vec<u8>);
    impl Read for Heard {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(into)
        }
    }
    impl Write for Heard {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1.extend_from_slice(bytes);
            self.0.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let honest = Heard(connect(&listener.address()), Vec::new());
    let heard = Client::dial(honest, "run", &SECRET, "stranger", Role::Path, "there").unwrap().stream.1;
    let hello = 24 + u64::from_le_bytes(heard[..8].try_into().unwrap()) as usize;
    let mut stream = connect(&listener.address());
    stream.write_all(&heard[..hello]).unwrap();
    assert!(stream.read(&mut [0; 1024]).unwrap() > 0, "it is challenged");
    stream.write_all(&heard[hello..]).unwrap();
    until_closed(&stream);
    assert!(listener.refusals().1.unwrap().contains("proof"));
    still_passes(&here, &there);
}

#[test]
fn lengths_and_places_that_cannot_be_cost_the_stream_and_nothing_else() {
    let listener = door();
    let (here, there) = pair_at(&listener, &listener.address(), streams(2));
    let far = 1 << 40;
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("beyond its credit", chunk(far, 4096, 0, 4096)),
        ("beyond its message", chunk(0, 4096, 4096, 4096)),
        ("a frame of 4 GiB", [&[9, 0, 0, 0][..], &[0xff; 4]].concat()),
        ("no kind of frame", vec![77; 64]),
        ("a receipt for what was never sent", {
            PathFrame::Receipt(Receipt { all_before: 5000, ..nothing(Lane::Bulk) }).encode()
        }),
        ("a second attach", attach(7, 1, false)),
        ("one message across another", [chunk(0, 100, 0, 0), chunk(64, 100, 0, 0)].concat()),
    ];
    for (path, (what, bytes)) in (1..).zip(cases) {
        let mut stream = attached(&listener.address(), path);
        let other = listener.accept(LIMIT).unwrap().unwrap();
        other.attend().unwrap();
        stream.write_all(&bytes).unwrap();
        until_closed(&stream);
        assert!(other.take(Lane::Bulk).is_none(), "{what}");
        drop(other);
    }
    let mut stream = known(&listener.address());
    stream.write_all(&chunk(0, 4096, 0, 4096)).unwrap();
    until_closed(&stream);
    still_passes(&here, &there);
}

/// The first of the frames that come which refuses something: its code and its reason.
fn refusal(mut stream: TcpStream) -> (u16, String) {
    let (mut said, mut bytes) = (Vec::new(), [0; 1024]);
    loop {
        while let Some((frame, length)) = PathFrame::decode(&said).unwrap() {
            if let PathFrame::Refused { code, reason } = frame {
                return (code, reason);
            }
            said.drain(..length);
        }
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "it is closed without a word");
        said.extend_from_slice(&bytes[..count]);
    }
}

#[test]
fn a_message_that_cannot_be_taken_costs_its_path_and_who_sends_it_is_told_why() {
    let listener = door();
    let (here, there) = pair_at(&listener, &listener.address(), streams(2));
    let all = Settings { max_message: u64::MAX, ..Settings::default() };
    let without_limit = Listener::bind("127.0.0.1:0", &identity("there"), all).unwrap();
    for (listener, total, reason) in [(&listener, 1 << 40, "max_message"), (&without_limit, 1 << 60, "no memory")] {
        listener.attend().unwrap();
        let mut stream = attached(&listener.address(), 7);
        let other = listener.accept(LIMIT).unwrap().unwrap();
        other.attend().unwrap();
        stream.write_all(&chunk(0, total, 0, 4096)).unwrap();
        let (code, said) = refusal(stream);
        assert!(code == GIVEN_UP && said.contains(reason) && said.contains(&total.to_string()), "{code}: {said}");
        let error = other.receive(Lane::Bulk, LIMIT).unwrap_err().to_string();
        assert!(error.contains(&said), "{error}");
    }
    still_passes(&here, &there);
}

#[test]
fn a_path_that_is_not_there_or_has_too_many_streams_is_refused_with_a_reason() {
    let listener = door();
    let (here, there) = pair_at(&listener, &listener.address(), streams(1));
    for (frame, reason) in [(attach(7, 0, true), "started again"), (attach(7, 128, false), "at most 128 streams")] {
        let mut stream = known(&listener.address());
        stream.write_all(&frame).unwrap();
        let said = until_closed(&stream);
        let Ok(Some((PathFrame::Refused { reason: said, .. }, _))) = PathFrame::decode(&said) else {
            panic!("{said:?}");
        };
        assert!(said.contains(reason), "{said}");
    }
    still_passes(&here, &there);
}

#[test]
fn many_who_say_nothing_do_not_keep_others_from_the_door() {
    allow_descriptors(8 * MANY as u64); // the tests of this program that run at the same time need some, too
    let listener = door();
    let (here, there) = pair_at(&listener, &listener.address(), streams(1));
    // That they give way, and not that their time is over, shows only where this was quicker than that.
    let silent = (0..ATTEMPTS).find_map(|_| {
        let begun = Instant::now();
        let silent: Vec<TcpStream> = (0..MANY).map(|_| connect(&listener.address())).collect();
        let standing = || silent.iter().filter(|stream| stands(stream)).count();
        await_that("the first give way", || standing() <= MOST_STRANGERS);
        (begun.elapsed() < Duration::from_secs(TIMEOUT_S)).then_some(silent)
    });
    assert!(silent.is_some(), "they stood until their time was over, {ATTEMPTS} times");
    let more = Path::dial(&listener.address(), &identity("more"), "there", streams(1)).unwrap();
    more.attend().unwrap();
    assert!(listener.accept(LIMIT).unwrap().is_some());
    still_passes(&here, &there);
    drop(silent);
}

#[test]
fn every_frame_is_read_as_it_was_written_and_none_with_a_byte_less() {
    let besides = vec![100..200, 300..301];
    let receipt = Receipt { lane: Lane::Bulk, all_before: 64, delivered: None, credit: 1 << 30, besides };
    let have = [nothing(Lane::Control), receipt.clone()];
    let frames = [
        PathFrame::Attach { id: [3; 16], stream: 127, resumes: true, have: have.clone() },
        PathFrame::Attached { have },
        PathFrame::Chunk(ChunkHead {
            lane: Lane::Control,
            purpose: Purpose::End,
            length: 0,
            start: 640,
            total: 0,
            offset: 0,
            is_open: false,
        }),
        PathFrame::Receipt(receipt),
        PathFrame::Alive,
        PathFrame::Retire,
        PathFrame::Streams { count: 9, is_fixed: true },
        PathFrame::Bye,
        PathFrame::Refused { code: 2, reason: "enough".to_owned() },
    ];
    for frame in frames {
        let bytes = frame.encode();
        assert_eq!(PathFrame::decode(&bytes).unwrap(), Some((frame.clone(), bytes.len())));
        assert_eq!(PathFrame::decode(&bytes[..bytes.len() - 1]).unwrap(), None, "{frame:?}");
        let longer = [&bytes[..4], &(bytes.len() as u32 - 8 + 1).to_le_bytes(), &bytes[8..], &[0]].concat();
        match frame {
            PathFrame::Chunk(_) => assert_eq!(bytes.len(), CHUNK_HEAD),
            _ => assert!(PathFrame::decode(&longer).is_err(), "{frame:?} with a byte too many"),
        }
    }
}
