//! Two ends of a path that count what passes, for tests that cut, stall and thin out the network between them (`tests/testbed/wan`).
//!
//! ```text
//! counted_path serve STREAMS SILENCE_S BYTES                    prints the port at which it listens; takes one path
//! counted_path dial HOST:PORT STREAMS SILENCE_S BYTES           the other end; finishes when its standard input ends
//! counted_path ... --tls CREDENTIALS TRUSTED                    encrypts: its certificate and key are in this file, the certificate at
//!                                                               the other end must have this fingerprint
//! ```
//!
//! Both ends send numbered messages on both lanes at once, those of the bulk lane of up to so many bytes, and check the length and every
//! byte of what comes: both follow from the number. Each prints one line of figures at the end, `NAME=VALUE ...`; whatever was lost,
//! doubled, reordered or altered ends the program with an error.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xmml_path::{Credentials, Identity, Lane, Listener, Path, Received, Settings, Streams, Tls};

const SECRET: &[u8] = b"both ends of a test know it";
/// Bytes of the longest messages on the control lane, and the pause between messages.
const SMALL: usize = 64;
const PAUSE: Duration = Duration::from_millis(2);
/// Longest that an end waits for the other to finish.
const LIMIT: Duration = Duration::from_secs(120);
/// Small, so that an end that does not read is felt soon.
const WINDOW: u64 = 8 << 20;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (words, tls) = match words.as_slice() {
        [words @ .., "--tls", credentials, trusted] => (words, Some(tls(credentials, trusted))),
        words => (words, None),
    };
    let identity = |name: &str| {
        let identity = Identity::new(SECRET, "faults", name);
        match &tls {
            Some(tls) => identity.encrypted(tls.clone()),
            None => identity,
        }
    };
    let (path, decides, bytes) = match words {
        ["serve", streams, silence, bytes] => (accepted(&identity("server"), settings(streams, silence)), false, bytes),
        ["dial", address, streams, silence, bytes] => {
            let me = identity("client");
            let path = Path::dial(address, &me, "server", settings(streams, silence)).expect("an address");
            path.attend().expect("a thread");
            (path, true, bytes)
        }
        _ => {
            eprintln!("counted_path serve STREAMS SILENCE_S BYTES; dial HOST:PORT STREAMS SILENCE_S BYTES; --tls CREDENTIALS TRUSTED");
            std::process::exit(2);
        }
    };
    count(Arc::new(path), decides, bytes.parse().expect("bytes"));
}

fn tls(credentials: &str, trusted: &str) -> Tls {
    let mine = Credentials::from_pem(&std::fs::read_to_string(credentials).expect("a file")).expect("credentials");
    Tls::new(&mine, &[trusted.parse().expect("a fingerprint")]).expect("they can be used")
}

fn settings(streams: &str, silence: &str) -> Settings {
    Settings {
        streams: streams.parse().map_or(Streams::Auto, Streams::Fixed),
        silence: Duration::from_secs_f64(silence.parse().expect("seconds")),
        window: WINDOW,
        queue: WINDOW,
        ..Settings::default()
    }
}

fn accepted(me: &Identity, settings: Settings) -> Path {
    let listener = Listener::bind("0.0.0.0:0", me, settings).expect("a port is free");
    println!("{}", listener.address().rsplit(':').next().expect("host:port"));
    let path = listener.accept(Some(LIMIT)).expect("it can wait").expect("somebody dials");
    path.attend().expect("a thread");
    path
}

/// What one lane has brought.
struct Came {
    messages: u64,
    longest_gap: Duration,
}

/// Sends and takes on both lanes, then says what has passed. One end decides when to finish; the other does so after it.
fn count(path: Arc<Path>, decides: bool, bytes: usize) {
    let over = Arc::new(AtomicBool::new(false));
    let lanes = [(Lane::Control, SMALL, PAUSE), (Lane::Bulk, bytes, Duration::ZERO)];
    let senders = lanes.map(|(lane, most, pause)| {
        let (path, over) = (path.clone(), over.clone());
        thread::spawn(move || send(&path, lane, most, pause, &over))
    });
    let receivers = lanes.map(|(lane, most, _)| {
        let path = path.clone();
        thread::spawn(move || take(&path, lane, most))
    });
    let stop = || {
        over.store(true, Ordering::Relaxed);
        senders.map(|sender| sender.join().expect("sending does not fail"))
    };
    let all = || receivers.map(|receiver| receiver.join().expect("receiving does not fail"));
    if decides {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let sent = stop();
        path.finish();
        end(&path, &sent, &all());
    } else {
        let came = all();
        end(&path, &stop(), &came);
    }
}

fn end(path: &Path, sent: &[u64; 2], came: &[Came; 2]) {
    let stats = path.stats();
    assert!(path.close(Some(LIMIT)).expect("the path stands"), "the other end does not finish");
    println!(
        "sent_control={} sent_bulk={} came_control={} came_bulk={} gap_control_s={:.3} gap_bulk_s={:.3} streams={} lost={} resumed={} peak_kib={}",
        sent[0], sent[1], came[0].messages, came[1].messages, came[0].longest_gap.as_secs_f64(), came[1].longest_gap.as_secs_f64(),
        stats.streams, stats.streams_lost, stats.resumed, peak_kib(),
    );
}

fn send(path: &Path, lane: Lane, most: usize, pause: Duration, over: &AtomicBool) -> u64 {
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        if path.send(lane, content(number, most), Some(Duration::from_millis(100))).expect("the path stands") {
            number += 1;
        }
        thread::sleep(pause);
    }
    number
}

fn take(path: &Path, lane: Lane, most: usize) -> Came {
    let mut came = Came { messages: 0, longest_gap: Duration::ZERO };
    let mut last = Instant::now();
    while let Some(Received::Message(message)) = path.receive(lane, Some(LIMIT)).expect("the path stands") {
        came.longest_gap = came.longest_gap.max(last.elapsed());
        last = Instant::now();
        let (number, expected) = (came.messages, content(came.messages, most));
        let (bytes, wanted) = (message.len(), expected.len());
        assert!(
            message[..] == expected[..],
            "MESSAGES WRONG: message {number} of the {lane:?} lane is not what was sent ({bytes} bytes, {wanted} wanted)"
        );
        came.messages += 1;
    }
    came
}

/// The message of this number: its length and every word of it depend on the number, so that one that is cut short is seen.
fn content(number: u64, most: usize) -> Vec<u8> {
    let bytes = match number % 8 {
        3 => most / 2 + 1,
        5 => 1,
        7 => 0,
        _ => most,
    };
    let words = (0..bytes.div_ceil(8) as u64).map(|at| (number << 24 ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut content: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    content.truncate(bytes);
    content
}

/// The most memory that this process has had.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
