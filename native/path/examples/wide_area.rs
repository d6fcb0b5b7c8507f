//! The ends of a measurement over a wide area, for `benchmarks/wide-area`: over a path, over bare TCP connections, and the forwarders
//! in between that everything is compared with.
//!
//! ```text
//! wide_area serve path|tcp                          prints the port at which it listens
//! wide_area dial path|tcp HOST:PORT STREAMS PLAN    STREAMS: a number or auto; there may follow +link:SECONDS:BYTES, the link's round
//!                                                   trip and what it carries in a second, +congestion:NAME and +pace:BYTES of
//!                                                   each stream; one line for each message
//! wide_area forward HOST:PORT                       prints the port; hands every connection on, one thread for each direction
//! ```
//!
//! PLAN is a list with commas of what is sent one after the other: `bulk:BYTES*COUNT` (the other end answers a message with one byte
//! when it has come whole), `echo:BYTES*COUNT` (it comes back), `load:SECONDS` (64-byte echoes on the control lane
//! while bulk goes on without end). Every message gives a line: kind, bytes, seconds until the answer.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xmml_path::{Identity, Lane, LinkFigures, Listener, Path, Received, Settings, Streams};
use xmml_wire::buffer::Buffer;

const SECRET: &[u8] = b"both ends of a benchmark know it";
const BULK: u8 = b'b';
const ECHO: u8 = b'e';
const LIMIT: Duration = Duration::from_secs(300);
/// Bytes of the messages that load a path while small ones are timed.
const LOAD: usize = 4 << 20;
const SMALL: usize = 64;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", "path"] => serve_path(),
        ["serve", "tcp"] => serve_tcp(),
        ["dial", "path", address, streams, plan] => dial_path(address, streams, &steps(plan)),
        ["dial", "tcp", address, streams, plan] => {
            dial_tcp(address, streams.parse().expect("a number of connections"), &steps(plan));
        }
        ["forward", address] => forward(address),
        _ => {
            eprintln!("wide_area serve path|tcp; dial path|tcp HOST:PORT STREAMS PLAN; forward HOST:PORT");
            std::process::exit(2);
        }
    }
}

enum Step {
    Messages { kind: u8, bytes: usize, count: usize },
    Load(Duration),
}

fn steps(plan: &str) -> Vec<Step> {
    let step = |text: &str| {
        let (kind, rest) = text.split_once(':').expect("KIND:...");
        if kind == "load" {
            return Step::Load(Duration::from_secs_f64(rest.parse().expect("seconds")));
        }
        let (bytes, count) = rest.split_once('*').expect("BYTES*COUNT");
        let kind = if kind == "bulk" { BULK } else { ECHO };
        Step::Messages { kind, bytes: bytes.parse().expect("bytes"), count: count.parse().expect("a count") }
    };
    plan.split(',').map(step).collect()
}

fn say(kind: &str, bytes: usize, took: Duration) {
    println!("{kind} {bytes} {:.9}", took.as_secs_f64());
}

fn settings(streams: &str) -> Settings {
    let mut words = streams.split('+');
    let streams = words.next().and_then(|count| count.parse().ok()).map_or(Streams::Auto, Streams::Fixed);
    let mut settings = Settings { streams, ..Settings::default() };
    for word in words {
        match word.split_once(':') {
            Some(("congestion", name)) => settings.congestion = Some(name.to_owned()),
            Some(("pace", bytes)) => settings.pace = Some(bytes.parse::<f64>().expect("bytes per second") as u64),
            Some(("link", figures)) => settings.link = link(figures),
            _ => panic!("+congestion:NAME, +pace:BYTES or +link:SECONDS:BYTES"),
        }
    }
    settings
}

fn link(figures: &str) -> Option<LinkFigures> {
    let (round_trip, bandwidth) = figures.split_once(':').expect("SECONDS:BYTES");
    let round_trip = Duration::from_secs_f64(round_trip.parse().expect("seconds"));
    Some(LinkFigures { round_trip, bandwidth: bandwidth.parse().expect("bytes per second") })
}

// ---- over a path ----

/// The first byte of a message says what is to be done with it; the control lane is always sent back.
fn serve_path() {
    let me = Identity::new(SECRET, "benchmark", "server");
    let listener = Listener::bind("0.0.0.0:0", &me, settings("auto")).expect("a port is free");
    println!("{}", listener.address().rsplit(':').next().expect("host:port"));
    while let Ok(path) = listener.accept(None) {
        let Some(path) = path.map(Arc::new) else { continue };
        path.attend().expect("a thread");
        let control = path.clone();
        thread::spawn(move || while answer(&control, Lane::Control) {});
        thread::spawn(move || while answer(&path, Lane::Bulk) {});
    }
}

fn answer(path: &Path, lane: Lane) -> bool {
    let Ok(Some(Received::Message(message))) = path.receive(lane, None) else { return false };
    let back = if lane == Lane::Bulk && message.first() == Some(&BULK) { Buffer::copy_of(b"!") } else { message };
    path.send(lane, back, None).is_ok()
}

fn dial_path(address: &str, streams: &str, steps: &[Step]) {
    let me = Identity::new(SECRET, "benchmark", "client");
    let path = Arc::new(Path::dial(address, &me, "server", settings(streams)).expect("an address"));
    path.attend().expect("a thread");
    assert!(path.wait_open(Some(LIMIT)).expect("the path opens"), "the path does not open");
    for step in steps {
        match step {
            Step::Messages { kind, bytes, count } => {
                let message = content(*kind, *bytes);
                for _ in 0..*count {
                    let took = round_trip(&path, Lane::Bulk, &message);
                    say(if *kind == BULK { "bulk" } else { "echo" }, *bytes, took);
                }
            }
            Step::Load(time) => load_path(&path, *time),
        }
    }
    let stats = path.stats();
    println!("stats {} {} {}", stats.streams, stats.streams_lost, stats.resumed);
}

fn content(kind: u8, bytes: usize) -> Buffer {
    let mut content = vec![7; bytes];
    if let Some(first) = content.first_mut() {
        *first = kind;
    }
    content.into()
}

fn round_trip(path: &Path, lane: Lane, message: &Buffer) -> Duration {
    let begin = Instant::now();
    assert!(path.send(lane, message.clone(), Some(LIMIT)).expect("the path stands"), "no room");
    let answer = path.receive(lane, Some(LIMIT)).expect("the path stands");
    assert!(matches!(answer, Some(Received::Message(_))), "no answer");
    begin.elapsed()
}

/// Small messages on the control lane while the bulk lane is full.
fn load_path(path: &Arc<Path>, time: Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let (loading, stopped) = (path.clone(), stop.clone());
    let load = thread::spawn(move || {
        let message = content(BULK, LOAD);
        let mut sent = 0_usize;
        while !stopped.load(Ordering::Relaxed) {
            assert!(loading.send(Lane::Bulk, message.clone(), Some(LIMIT)).expect("the path stands"));
            sent += 1;
            while loading.take(Lane::Bulk).is_some() {
                sent -= 1;
            }
        }
        for _ in 0..sent {
            loading.receive(Lane::Bulk, Some(LIMIT)).expect("the path stands");
        }
    });
    let small = content(ECHO, SMALL);
    let end = Instant::now() + time;
    thread::sleep(time / 4);
    while Instant::now() < end {
        say("load", SMALL, round_trip(path, Lane::Control, &small));
    }
    stop.store(true, Ordering::Relaxed);
    load.join().expect("the load ends");
}

// ---- over bare connections ----

/// Each part of a message begins with what it is and its length, and is answered on the connection on which it came.
fn serve_tcp() {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port is free");
    println!("{}", listener.local_addr().expect("bound").port());
    for connection in listener.incoming().flatten() {
        thread::spawn(move || {
            connection.set_nodelay(true).expect("a TCP connection");
            let mut buffer = vec![0; 1 << 20];
            while answer_part(&connection, &mut buffer).is_ok() {}
        });
    }
}

fn answer_part(mut connection: &TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    let mut head = [0; 9];
    connection.read_exact(&mut head)?;
    let length = u64::from_le_bytes(head[1..].try_into().expect("8 bytes")) as usize;
    if head[0] == ECHO {
        buffer.resize(length.max(buffer.len()), 0);
        connection.read_exact(&mut buffer[..length])?;
        let whole = [&head[..], &buffer[..length]].concat();
        return connection.write_all(&whole);
    }
    let mut left = length;
    while left > 0 {
        let most = left.min(buffer.len());
        left -= connection.read(&mut buffer[..most]).and_then(|got| match got {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            got => Ok(got),
        })?;
    }
    connection.write_all(b"!")
}

fn dial_tcp(address: &str, count: usize, steps: &[Step]) {
    let connections: Vec<TcpStream> = (0..count).map(|_| dialled(address)).collect();
    let (done, answers) = channel();
    let senders: Vec<Sender<Vec<u8>>> =
        connections.into_iter().map(|connection| send_parts_of(connection, done.clone())).collect();
    for step in steps {
        match step {
            Step::Messages { kind, bytes, count } if *kind == BULK => {
                for _ in 0..*count {
                    say("bulk", *bytes, in_parts(&senders, &answers, *bytes));
                }
            }
            Step::Messages { bytes, count, .. } => {
                let connection = dialled(address);
                for _ in 0..*count {
                    say("echo", *bytes, echoed(&connection, *bytes));
                }
            }
            Step::Load(time) => load_tcp(address, &senders, &answers, *time),
        }
    }
}

fn dialled(address: &str) -> TcpStream {
    let connection = TcpStream::connect(address).expect("somebody listens");
    connection.set_nodelay(true).expect("a TCP connection");
    connection
}

/// A thread that sends what it is given over a connection and says when it has been answered.
fn send_parts_of(mut connection: TcpStream, done: Sender<()>) -> Sender<Vec<u8>> {
    let (sender, parts) = channel::<Vec<u8>>();
    thread::spawn(move || {
        for part in parts {
            let mut head = [BULK; 9];
            head[1..].copy_from_slice(&(part.len() as u64).to_le_bytes());
            connection.write_all(&head).and_then(|()| connection.write_all(&part)).expect("the connection stands");
            connection.read_exact(&mut [0]).expect("the connection stands");
            if done.send(()).is_err() {
                return;
            }
        }
    });
    sender
}

/// The time until every connection has had its equal part answered.
fn in_parts(senders: &[Sender<Vec<u8>>], answers: &Receiver<()>, bytes: usize) -> Duration {
    let parts: Vec<Vec<u8>> = senders.iter().map(|_| vec![7; bytes / senders.len()]).collect();
    let begin = Instant::now();
    for (sender, part) in senders.iter().zip(parts) {
        sender.send(part).expect("the thread runs");
    }
    for _ in senders {
        answers.recv_timeout(LIMIT).expect("an answer");
    }
    begin.elapsed()
}

fn echoed(mut connection: &TcpStream, bytes: usize) -> Duration {
    let mut message = vec![7; 9 + bytes];
    message[0] = ECHO;
    message[1..9].copy_from_slice(&(bytes as u64).to_le_bytes());
    let begin = Instant::now();
    connection.write_all(&message).expect("the connection stands");
    connection.read_exact(&mut message).expect("the connection stands");
    begin.elapsed()
}

/// Small messages on a connection of their own while the others are full.
fn load_tcp(address: &str, senders: &[Sender<Vec<u8>>], answers: &Receiver<()>, time: Duration) {
    let connection = dialled(address);
    let end = Instant::now() + time;
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(time / 4);
            while Instant::now() < end {
                say("load", SMALL, echoed(&connection, SMALL));
            }
        });
        while Instant::now() < end {
            in_parts(senders, answers, LOAD);
        }
    });
}

// ---- in between ----

/// Two blocking threads for each connection: the least that can stand between two ends.
fn forward(address: &str) {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port is free");
    println!("{}", listener.local_addr().expect("bound").port());
    for near in listener.incoming().flatten() {
        let far = dialled(address);
        near.set_nodelay(true).expect("a TCP connection");
        let (near_too, far_too) = (near.try_clone().expect("a descriptor"), far.try_clone().expect("a descriptor"));
        thread::spawn(move || hand_on(near, far));
        thread::spawn(move || hand_on(far_too, near_too));
    }
}

fn hand_on(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(got) = from.read(&mut buffer) {
        if got == 0 || to.write_all(&buffer[..got]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}
