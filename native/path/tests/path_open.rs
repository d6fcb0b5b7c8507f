//! Messages that their program has protected, on encrypted paths: they pass beside the encryption, with somebody in the middle.

#[path = "support/path.rs"]
mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{identity, payload, streams, LIMIT};
use xmml_path::{Credentials, Lane, Listener, Path, Received, Settings, Tls, CLOSED};

const SIZE: usize = 8 << 20;

/// What the one in the middle makes of what the dialler has written on its connection, as far as it has come: bytes, and where they stand.
type Attack = dyn Fn(&mut Vec<u8>, usize) + Send + Sync;

/// Two ends of an encrypted path of so many streams, and all that the dialling end writes on its first connection.
fn ends(count: u32, attack: impl Fn(&mut Vec<u8>, usize) + Send + Sync + 'static) -> (Path, Path, Arc<Mutex<Vec<u8>>>) {
    let make = |name| Credentials::make(name, Duration::from_secs(3600)).unwrap();
    let (mine, theirs) = (make("here"), make("there"));
    let here = identity("here").encrypted(Tls::new(&mine, &[theirs.fingerprint()]).unwrap());
    let there = identity("there").encrypted(Tls::new(&theirs, &[mine.fingerprint()]).unwrap());
    let listener = Listener::bind("127.0.0.1:0", &there, Settings::default()).unwrap();
    let (between, seen) = in_the_middle(listener.address(), Arc::new(attack));
    let here = Path::dial(&between, &here, "there", streams(count)).unwrap();
    here.attend().unwrap();
    let there = listener.accept(LIMIT).unwrap().expect("a path comes in");
    there.attend().unwrap();
    (here, there, seen)
}

fn in_the_middle(target: String, attack: Arc<Attack>) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    std::thread::spawn(move || {
        for (number, dialler) in listener.incoming().flatten().enumerate() {
            let Ok(listener) = TcpStream::connect(&target) else { continue };
            let [there, back] = [&dialler, &listener].map(|end| end.try_clone().unwrap());
            let (attack, kept) = (attack.clone(), kept.clone());
            std::thread::spawn(move || {
                carry(dialler, listener, |bytes, at| {
                    if number == 0 {
                        kept.lock().unwrap().extend_from_slice(bytes);
                        attack(bytes, at);
                    }
                })
            });
            std::thread::spawn(move || carry(back, there, |_, _| ()));
        }
    });
    (address, seen)
}

fn carry(mut from: TcpStream, mut to: TcpStream, attack: impl Fn(&mut Vec<u8>, usize)) {
    let mut at = 0;
    let mut room = vec![0; 65536];
    while let Ok(count @ 1..) = from.read(&mut room) {
        let mut bytes = room[..count].to_vec();
        attack(&mut bytes, at);
        at += count;
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn received(path: &Path) -> Vec<u8> {
    match path.receive(Lane::Bulk, LIMIT).unwrap() {
        Some(Received::Message(message)) => message.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Whether some of these bytes can be read in what was written.
fn is_readable(bytes: &[u8], written: &[u8]) -> bool {
    written.windows(bytes.len()).any(|window| window == bytes)
}

#[test]
fn what_is_protected_already_passes_as_it_is_but_for_its_first_bytes_and_all_else_is_encrypted() {
    let (here, there, seen) = ends(1, |_, _| ());
    let (open, closed) = (payload(1, 300_000), payload(2, 300_000));
    here.post_protected(Lane::Bulk, open.clone()).unwrap();
    here.post(Lane::Bulk, closed.clone()).unwrap();
    assert!(received(&there) == open[..] && received(&there) == closed[..]);
    let seen = seen.lock().unwrap();
    let first = CLOSED as usize;
    assert!(is_readable(&open[first..first + 1000], &seen));
    assert!(!is_readable(&open[..first], &seen) && !is_readable(&closed[..first], &seen));
    assert!(!is_readable(&closed[1000..1016], &seen));
}

#[test]
fn messages_of_both_kinds_pass_in_order_over_any_number_of_streams_both_ways() {
    for count in [1, 4] {
        let (here, there, _) = ends(count, |_, _| ());
        for (from, to) in [(&here, &there), (&there, &here)] {
            let sizes = [0, 1, 15, 16, 17, 4096, 5000, 70_000, 400_000, SIZE];
            for (number, size) in sizes.into_iter().enumerate() {
                from.post_protected(Lane::Bulk, payload(number as u64, size)).unwrap();
                from.post(Lane::Bulk, payload(number as u64, size / 2)).unwrap();
            }
            for (number, size) in sizes.into_iter().enumerate() {
                assert!(received(to) == payload(number as u64, size)[..], "{size} bytes over {count} streams");
                assert!(received(to) == payload(number as u64, size / 2)[..]);
            }
        }
    }
}

#[test]
fn who_changes_an_open_byte_changes_that_byte_and_nothing_else() {
    let (here, there, _) = ends(1, |bytes, at| {
        if let Some(byte) = (SIZE / 2).checked_sub(at).and_then(|at| bytes.get_mut(at)) {
            *byte ^= 1;
        }
    });
    let sent = payload(1, SIZE);
    here.post_protected(Lane::Bulk, sent.clone()).unwrap();
    let came = received(&there);
    assert_eq!(came.iter().zip(&sent[..]).filter(|(came, sent)| came != sent).count(), 1);
    here.post(Lane::Bulk, sent.clone()).unwrap();
    assert!(received(&there) == sent[..], "the stream goes on");
}

#[test]
fn who_adds_or_removes_open_bytes_ends_the_stream_and_what_was_lost_goes_by_the_next_one() {
    for adds in [true, false] {
        let (here, there, _) = ends(1, move |bytes, at| {
            let place = (SIZE / 2).checked_sub(at).filter(|place| *place < bytes.len());
            match place {
                Some(place) if adds => bytes.insert(place, 7),
                Some(place) => drop(bytes.remove(place)),
                None => {}
            }
        });
        // What comes open on the stream that ends is not to be trusted; what is closed is.
        here.post_protected(Lane::Bulk, payload(1, SIZE)).unwrap();
        here.post(Lane::Bulk, payload(2, SIZE)).unwrap();
        assert_eq!(received(&there).len(), SIZE);
        assert!(received(&there) == payload(2, SIZE)[..]);
    }
}
