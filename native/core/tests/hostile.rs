//! A member that breaks the protocol: it knows the run's secret, joins, and then does something wrong at some point. Whatever that is,
//! it fails by name within two seconds from when that can be seen, every wait of its partner ends, nothing panics, and nothing grows.
//!
//! Two honest conversations, one of a sender and one of a receiver, are played by hand against a real partner, by `unix` and by `tcp`.
//! Each case changes one thing: a word or frame is left out, said twice, said too early, cut, or one of its fields is another; one of all
//! the words that there are is said in between; a connection is closed before or amid a frame. `XMML_SOAK=1` plays every case, and holds
//! the two seconds; else every fourth is played, and what is slow on a busy machine is no failure.

mod support;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use support::by_hand::Client;
use support::{Model, Run, SECRET};
use xmml_core::control::{ConduitTotals, ToCoordinator, ToInstance, Wait, WaitKind};
use xmml_core::coordinator::{CoordinatorAddress, Event};
use xmml_core::instance::{Instance, Received, Stamps};
use xmml_wire::data::Data;
use xmml_wire::frame::{self, encode_control, Frame, HEAD};
use xmml_wire::handshake::Role;
use xmml_wire::liveness::heartbeat::SILENCE_LIMIT;
use xmml_wire::message::Message;
use xmml_wire::methods::{Descriptor, Place, Table};

/// From a breach that can be seen to the name of who did it.
const NAMED_WITHIN: Duration = Duration::from_secs(2);

/// The same on a machine that has much else to do: before it is named for its silence.
const NAMED_AT_LAST: Duration = SILENCE_LIMIT;

/// How long a tcp connection may be away (`XMML_CONNECT_LIMIT_S`, `XMML_AWAY_LIMIT_S`): it may have broken, so a breach by closing it can
/// be seen only then.
const AWAY_S: u64 = 1;

/// How long the hostile member waits for what its partner says next; a partner that has seen a breach says nothing.
const ANSWERED_WITHIN: Duration = Duration::from_millis(300);

/// Cases at a time: they wait most of the time.
const AT_ONCE: usize = 12;

/// How much more memory the second half of the cases may leave; in the first, pools and the allocator take what they keep.
const GROWTH_MAX: u64 = 64 << 20;

/// The conduit in both models.
const CONDUIT: u32 = 1;

fn is_soak() -> bool {
    std::env::var("XMML_SOAK").is_ok_and(|soak| soak != "0")
}

// ---- connections by hand ----

/// A connection whose ends of both kinds are used alike.
enum Wire {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Wire {
    fn to(method: &str, address: &str) -> io::Result<Wire> {
        let wire = match method {
            "unix" => {
                let name = SocketAddr::from_abstract_name(address.trim_start_matches('@'))?;
                Wire::Unix(UnixStream::connect_addr(&name)?)
            }
            _ => Wire::Tcp(TcpStream::connect(address)?),
        };
        wire.wait_for(ANSWERED_WITHIN)?;
        Ok(wire)
    }

    fn wait_for(&self, time: Duration) -> io::Result<()> {
        match self {
            Wire::Unix(stream) => stream.set_read_timeout(Some(time)),
            Wire::Tcp(stream) => stream.set_read_timeout(Some(time)),
        }
    }

    fn close(&self) {
        let _ = match self {
            Wire::Unix(stream) => stream.shutdown(Shutdown::Both),
            Wire::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Unix(stream) => stream.read(into),
            Wire::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Unix(stream) => stream.write(bytes),
            Wire::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where the hostile member waits for its sender.
enum Door {
    Unix(UnixListener, String),
    Tcp(TcpListener),
}

impl Door {
    fn open(method: &str) -> Door {
        static DOORS: AtomicUsize = AtomicUsize::new(0);
        if method == "tcp" {
            return Door::Tcp(TcpListener::bind("127.0.0.1:0").unwrap());
        }
        let name = format!("xmml-hostile-{}-{}", std::process::id(), DOORS.fetch_add(1, Ordering::Relaxed));
        Door::Unix(
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
            format!("@{name}"),
        )
    }

    fn address(&self) -> String {
        match self {
            Door::Unix(_, name) => name.clone(),
            Door::Tcp(listener) => listener.local_addr().unwrap().to_string(),
        }
    }

    fn accept(&self) -> io::Result<Wire> {
        let until = Instant::now() + ANSWERED_WITHIN;
        loop {
            let accepted = match self {
                Door::Unix(listener, _) => {
                    listener.set_nonblocking(true)?;
                    listener.accept().map(|(stream, _)| stream.set_nonblocking(false).map(|()| Wire::Unix(stream)))
                }
                Door::Tcp(listener) => {
                    listener.set_nonblocking(true)?;
                    listener.accept().map(|(stream, _)| stream.set_nonblocking(false).map(|()| Wire::Tcp(stream)))
                }
            };
            match accepted {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                accepted => {
                    let wire = accepted??;
                    wire.wait_for(ANSWERED_WITHIN)?;
                    return Ok(wire);
                }
            }
        }
    }
}

// ---- scripts ----

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Control,
    Data,
}

/// What the hostile member does next.
#[derive(Clone, Debug)]
enum Act {
    Say(Line, Vec<u8>),
    /// Waits for a word of the coordinator that begins so, or for the time to be over.
    Hear(&'static str),
    /// Opens the connection for data, or takes it.
    Connect,
    /// Waits for a frame of the partner.
    Await,
    Close(Line),
}

/// Who is played, and against whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// `a`, which sends to `b`.
    Sender,
    /// `b`, which receives from `a`.
    Receiver,
}

impl Part {
    fn name(self) -> &'static str {
        if self == Part::Sender {
            "a"
        } else {
            "b"
        }
    }
}

struct Case {
    what: String,
    /// Nobody can see that anything is wrong as long as the connections stand: it might go on at any time.
    is_silent: bool,
    script: Vec<Act>,
}

fn word(message: &ToCoordinator) -> Vec<u8> {
    encode_control(&message.encode())
}

fn join() -> ToCoordinator {
    ToCoordinator::Join { pid: 1, host: "here".into(), language: "test".into(), version: "1".into() }
}

fn message(sequence: u64) -> Vec<u8> {
    let message = Message { data: Data::Int(sequence as i64), ..Message::default() };
    let encoded = frame::encode_message(CONDUIT, sequence, None, &message).unwrap();
    let mut bytes = encoded.head.to_vec();
    encoded.payload.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

fn leaving(part: Part) -> ToCoordinator {
    let (sent, received) = if part == Part::Sender { (3, 0) } else { (0, 3) };
    let totals = ConduitTotals { conduit: CONDUIT, sent, received, bytes: 24, dropped: 0, replaced: 0 };
    ToCoordinator::Leaving { runs: 1, conduits: vec![totals], waited_s: 0.5 }
}

/// Everything that an honest member says, in order.
fn honest(part: Part, method: &str, door: &Door) -> Vec<Act> {
    use Act::{Await, Connect, Hear, Say};
    let say = |message: &ToCoordinator| Say(Line::Control, word(message));
    let table = Table {
        place: Place::here(),
        entries: vec![Descriptor { method: method.to_owned(), addresses: vec![door.address()] }],
    };
    let mut script = vec![say(&join()), Hear("Welcome")];
    match part {
        Part::Sender => {
            script.extend([Hear("Peer"), Connect, Await]);
            let (method, refused) = (method.to_owned(), vec![]);
            script.push(say(&ToCoordinator::Conduits { conduits: vec![CONDUIT], method, protected: false, refused }));
            script.extend((1..=3).map(|number| Say(Line::Data, message(number))));
            script.push(Say(Line::Data, frame::encode_end(CONDUIT, 4).to_vec()));
        }
        Part::Receiver => {
            script.extend([say(&ToCoordinator::Reachable { table }), Connect]);
            script.push(Say(Line::Data, frame::encode_resume(CONDUIT, 0).to_vec()));
            script.push(Await);
            script.push(Say(Line::Data, frame::encode_receipt(CONDUIT, 1).to_vec()));
            script.extend([Await, Await]);
            script.push(Say(Line::Data, frame::encode_receipt(CONDUIT, 3).to_vec()));
            script.push(Await);
            script.push(Say(Line::Data, frame::encode_resume(CONDUIT, 4).to_vec()));
        }
    }
    script.push(say(&ToCoordinator::Waiting {
        epoch: 1,
        waits: vec![Wait {
            conduit: CONDUIT,
            kind: if part == Part::Sender { WaitKind::Send } else { WaitKind::Receive },
        }],
        is_any: false,
        is_timed: false,
        sent: if part == Part::Sender { vec![(CONDUIT, 3)] } else { vec![] },
        received: if part == Part::Sender { vec![] } else { vec![(CONDUIT, 3)] },
    }));
    script.extend([say(&ToCoordinator::Resumed { epoch: 1 }), say(&leaving(part)), Hear("Goodbye")]);
    script
}

/// Every word of the control protocol, as an honest member could not say it in the middle of a run, or may, which harms nobody.
fn words(part: Part) -> Vec<ToCoordinator> {
    use ToCoordinator as Word;
    let wait = |kind| Wait { conduit: 99, kind };
    let waiting =
        |waits| Word::Waiting { epoch: 9, waits, is_any: false, is_timed: false, sent: vec![], received: vec![] };
    let totals = |conduit, sent, received| ConduitTotals { conduit, sent, received, bytes: 0, dropped: 0, replaced: 0 };
    let leaving = |conduits, waited_s| Word::Leaving { runs: 1, conduits, waited_s };
    let table = Table { place: Place::here(), entries: vec![] };
    let text = |length: usize| "x".repeat(length);
    let (own, foreign) = if part == Part::Sender { ((3, 0), (0, 3)) } else { ((0, 3), (3, 0)) };
    vec![
        join(),
        Word::Rejoin { token: vec![], heard: 0 },
        Word::Rejoin { token: vec![7; 32], heard: u64::MAX },
        Word::Heard { count: u64::MAX },
        Word::Quits,
        Word::Reachable { table },
        Word::Progress {
            run: u64::MAX,
            iteration: u64::MAX,
            time: f64::NAN,
            messages_sent: u64::MAX,
            bytes_sent: 0,
            messages_received: u64::MAX,
            bytes_received: 0,
        },
        waiting(vec![wait(WaitKind::Receive)]),
        waiting(vec![wait(WaitKind::Send)]),
        waiting(vec![wait(WaitKind::Holders)]),
        Word::Waiting { epoch: 9, waits: vec![], is_any: true, is_timed: false, sent: vec![(99, 1)], received: vec![] },
        Word::Waiting { epoch: 9, waits: vec![], is_any: true, is_timed: false, sent: vec![], received: vec![(99, 1)] },
        Word::Resumed { epoch: 77 },
        Word::Confirmed { epoch: 77, still: true },
        Word::Warning { text: text(1 << 20) },
        Word::Failed { text: text(1 << 20) },
        leaving(vec![], 0.0),
        leaving(vec![totals(99, 1, 0)], 0.0),
        leaving(vec![totals(CONDUIT, own.0, own.1), totals(CONDUIT, own.0, own.1)], 0.0),
        leaving(vec![totals(CONDUIT, foreign.0, foreign.1)], 0.0),
        leaving(vec![totals(CONDUIT, own.0 * 1000, own.1 * 1000)], 0.0),
        leaving(vec![totals(CONDUIT, own.0 / 3, own.1 / 3)], 0.0),
        leaving(vec![totals(CONDUIT, 0, 0)], 0.0),
        leaving(vec![totals(CONDUIT, own.0, own.1)], f64::NAN),
        leaving(vec![totals(CONDUIT, own.0, own.1)], -1.0),
        Word::Conduits { conduits: vec![99], method: "unix".into(), protected: false, refused: vec![] },
        Word::Change { request: 1, conduit: 99, methods: vec![] },
        Word::Change { request: 1, conduit: CONDUIT, methods: vec!["nonsense".into()] },
        Word::Prepared { change: 77, conduit: CONDUIT, methods: vec![] },
        Word::Changed { change: 77, conduit: CONDUIT, method: None, problem: None },
        Word::Figures { number: 77, sending: vec![], receiving: vec![] },
        Word::PeerEnded { peer: "nobody".into(), reason: String::new() },
        Word::Refused { peer: text(1 << 16), reason: text(1 << 16) },
        Word::HandsOut,
        Word::Open { request: 1, port: "out".into(), handle: vec![1; 100] },
        Word::Admitted { conduit: 99, problem: None },
        Word::Admitted { conduit: u32::MAX, problem: Some(String::new()) },
    ]
}

/// Every frame of a data connection, as it should not come.
fn frames(part: Part) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = vec![
        message(7),
        message(u64::MAX),
        message(0),
        frame::encode_end(CONDUIT, 1).to_vec(),
        frame::encode_end(CONDUIT, 0).to_vec(),
        frame::encode_end(CONDUIT, u64::MAX).to_vec(),
        frame::encode_gone(CONDUIT, 0).to_vec(),
        frame::encode_gone(CONDUIT, u64::MAX).to_vec(),
        frame::encode_receipt(CONDUIT, 77).to_vec(),
        frame::encode_resume(CONDUIT, 77).to_vec(),
        frame::encode_leaves(CONDUIT).to_vec(),
        frame::encode_continues(CONDUIT, 77).to_vec(),
        frame::encode_closes().to_vec(),
        frame::encode_alive().to_vec(),
        word(&join()),
    ];
    for other in [0, 99, 1 << 30, u32::MAX] {
        let all = [frame::encode_end(other, 1), frame::encode_gone(other, 0), frame::encode_receipt(other, 0)];
        frames.extend(all.iter().map(|frame| frame.to_vec()));
        let all = [frame::encode_resume(other, 0), frame::encode_leaves(other), frame::encode_continues(other, 1)];
        frames.extend(all.iter().map(|frame| frame.to_vec()));
    }
    if part == Part::Sender {
        frames.push((1..=3).flat_map(message).chain((1..=3).flat_map(message)).collect());
        frames.push((1..200).flat_map(message).collect());
        frames.push((0..3000).flat_map(|number| frame::encode_continues(CONDUIT, 1000 + number)).collect());
    }
    frames
}

/// A field of a MessagePack value, and what stands there instead.
fn other_values(value: &Value) -> Vec<(String, Value)> {
    let replacements = [
        json!(null),
        json!(-1),
        json!(u64::MAX),
        json!("x"),
        json!([]),
        json!({}),
        json!(true),
        json!("y".repeat(70_000)),
    ];
    let mut all = Vec::new();
    let mut fields: Vec<String> = Vec::new();
    find_fields(value, "", &mut fields);
    for field in fields {
        for (number, replacement) in replacements.iter().enumerate() {
            let mut other = value.clone();
            *other.pointer_mut(&field).unwrap() = replacement.clone();
            all.push((
                format!("{field} is {}", ["nil", "-1", "2^64-1", "x", "[]", "{}", "true", "long"][number]),
                other,
            ));
        }
        let (parent, key) = field.rsplit_once('/').unwrap();
        let mut other = value.clone();
        let parent = if parent.is_empty() { Some(&mut other) } else { other.pointer_mut(parent) };
        if parent.and_then(Value::as_object_mut).and_then(|map| map.remove(key)).is_some() {
            all.push((format!("{field} is missing"), other));
        }
    }
    all
}

fn find_fields(value: &Value, at: &str, fields: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => return,
    };
    for (key, value) in inner {
        let field = format!("{at}/{key}");
        find_fields(value, &field, fields);
        fields.push(field);
    }
}

/// A frame with other fields, each with what was changed.
fn other_frames(line: Line, frame: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut change = |what: String, at: usize, bytes: &[u8]| {
        let mut other = frame.to_vec();
        if let Some(place) = other.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
            all.push((what, other));
        }
    };
    let length = frame.len() as u64 - HEAD as u64;
    for other in [0, length.wrapping_sub(1), length + 1, length + 1000, 1 << 25, 1 << 41, u64::MAX] {
        change(format!("its length is {other}"), 0, &other.to_le_bytes());
    }
    for other in (0..=36).chain([99, 255]) {
        change(format!("its kind is {other}"), 8, &[other]);
    }
    for other in [0, 2, 255] {
        change(format!("its version is {other}"), 9, &[other]);
    }
    for other in [1u16, 2, 3, 4, 0x8000, 0xffff] {
        change(format!("its flags are {other:#x}"), 10, &other.to_le_bytes());
    }
    for other in [0u32, 2, 1 << 30, u32::MAX] {
        change(format!("its conduit is {other}"), 12, &other.to_le_bytes());
    }
    for other in [0u64, 1, 2, 5, 1 << 40, u64::MAX] {
        change(format!("its number is {other}"), 16, &other.to_le_bytes());
    }
    if line == Line::Data {
        // Time stamps, descriptor and payload: every word of them.
        for at in (HEAD..frame.len()).step_by(4) {
            change(format!("at byte {at} are ones"), at, &[0xff; 4]);
            change(format!("at byte {at} is a 9"), at, &9u32.to_le_bytes());
        }
        return all;
    }
    let value: Value = xmml_wire::message_pack::decode_from(&frame[HEAD..], "test").unwrap();
    let fields = other_values(&value);
    all.extend(
        fields.into_iter().map(|(what, other)| (what, encode_control(&xmml_wire::message_pack::encode(&other)))),
    );
    let body = &frame[HEAD..];
    all.push(("its name is another".into(), encode_control(&[&[0x81, 0xa3], &b"Foo"[..], &[0xc0]].concat())));
    all.push(("it is no MessagePack".into(), encode_control(&[0xc1; 20])));
    all.push(("it is empty".into(), encode_control(&[])));
    all.push(("its body is cut".into(), encode_control(&body[..body.len() / 2])));
    all.push(("its body goes on".into(), encode_control(&[body, &[0; 7]].concat())));
    all.push(("it is nested".into(), encode_control(&[0x91; 100_000])));
    all
}

/// Every case of one conversation.
fn cases(part: Part, method: &str, door: &Door) -> Vec<Case> {
    let script = honest(part, method, door);
    let mut cases = Vec::new();
    let mut add = |what: String, is_silent: bool, script: Vec<Act>| {
        cases.push(Case { what: format!("{} by {method}: {what}", part.name()), is_silent, script });
    };
    add("all is honest".into(), false, script.clone());
    let said = |at: usize| match &script[at] {
        Act::Say(line, frame) => Some((*line, frame.clone())),
        _ => None,
    };
    for at in 0..script.len() {
        let with = |acts: &[Act]| [&script[..at], acts, &script[at + 1..]].concat();
        let until = |acts: &[Act]| [&script[..at], acts].concat();
        let Some((line, frame)) = said(at) else { continue };
        let name = format!("act {at}");
        add(format!("{name} is left out"), true, with(&[]));
        add(format!("{name} is said twice"), false, with(&[script[at].clone(), script[at].clone()]));
        if let Some(next) = (at + 1..script.len()).find(|next| said(*next).is_some()) {
            let mut other = script.clone();
            other.swap(at, next);
            add(format!("{name} is said after the next one"), false, other);
        }
        // A receiver that does not take what is sent, and a sender that has ended its conduit, may close; they just do not leave.
        let has_conduit = script[..at].iter().any(|act| matches!(act, Act::Connect));
        let will_send = script[at..].iter().any(|act| matches!(act, Act::Say(Line::Data, _)));
        let is_missed = has_conduit && will_send && part == Part::Sender;
        for (closed, is_silent) in [(Line::Control, false), (Line::Data, !is_missed)] {
            let closing = Act::Close(closed);
            add(
                format!("{closed:?} is closed before {name}"),
                is_silent,
                until(&[closing.clone(), Act::Hear("Abort")]),
            );
            add(format!("{closed:?} is closed, and {name} follows"), is_silent, with(&[closing, script[at].clone()]));
        }
        for cut in [1, 8, HEAD - 1, HEAD, frame.len() - 1] {
            if cut < frame.len() {
                let begun = Act::Say(line, frame[..cut].to_vec());
                let is_silent = line == Line::Data && !is_missed;
                let closing = [begun.clone(), Act::Close(line)];
                add(format!("{line:?} is closed after {cut} bytes of {name}"), is_silent, until(&closing));
                add(format!("{name} ends after {cut} bytes"), true, until(std::slice::from_ref(&begun)));
                add(format!("the rest of {name} is missing after {cut} bytes"), true, with(&[begun]));
            }
        }
        for (what, other) in other_frames(line, &frame) {
            let is_silent = what.starts_with("its length");
            add(format!("{name}: {what}"), is_silent, with(&[Act::Say(line, other)]));
        }
    }
    // In the middle, when both connections stand, and at the end.
    let middle = script.iter().rposition(|act| matches!(act, Act::Connect)).unwrap() + 2;
    for at in [middle, script.len() - 3, script.len()] {
        let inserted = |act: Act| [&script[..at], &[act], &script[at..]].concat();
        for message in words(part) {
            let name = format!("{message:?}");
            let name = name.chars().take(60).collect::<String>();
            add(format!("{name} before act {at}"), false, inserted(Act::Say(Line::Control, word(&message))));
        }
        for (number, frame) in frames(part).into_iter().enumerate() {
            add(format!("wrong frame {number} before act {at}"), false, inserted(Act::Say(Line::Data, frame)));
        }
    }
    cases
}

// ---- a case ----

/// How a case ended.
enum Ended {
    /// Nobody was harmed: all instances left.
    Well,
    /// Somebody said so much of the hostile member, so long after its last act.
    Named(Duration, String),
}

/// Plays the script against the run; then keeps its connections open as long as `stays`. Returns when the last act was over.
fn play(
    script: &[Act],
    part: Part,
    method: &str,
    (control, address): (Wire, &CoordinatorAddress),
    door: Door,
    stays: impl FnOnce(),
) -> Instant {
    let Ok(mut control) = Client::dial(control, &address.run, &SECRET, part.name(), Role::Control, "coordinator")
    else {
        panic!("the coordinator lets it in");
    };
    let mut data: Option<Client<Wire>> = None;
    let mut table: Option<Table> = None;
    let next =
        |client: &mut Client<Wire>| catch_unwind(AssertUnwindSafe(|| client.next_frame())).ok().and_then(Result::ok);
    for act in script {
        match act {
            Act::Say(Line::Control, bytes) => drop(control.stream.write_all(bytes)),
            Act::Say(Line::Data, bytes) => {
                if let Some(data) = &mut data {
                    drop(data.stream.write_all(bytes));
                }
            }
            Act::Hear(word) => {
                while let Some(Frame::Control(body)) = next(&mut control) {
                    let message = ToInstance::decode(&body, "coordinator").unwrap();
                    if let ToInstance::Peer { table: of_peer, .. } = &message {
                        table = Some(of_peer.clone());
                    }
                    let name = format!("{message:?}");
                    if name.starts_with(word) || name.starts_with("Abort") {
                        break;
                    }
                }
            }
            Act::Connect if part == Part::Sender => {
                let found = table.iter().flat_map(|table| &table.entries).find(|entry| entry.method == method);
                let wire = found.and_then(|entry| Wire::to(method, &entry.addresses[0]).ok());
                data = wire.and_then(|wire| Client::dial(wire, "test run", &SECRET, "a", Role::Data, "b").ok());
            }
            Act::Connect => {
                data = door.accept().ok().and_then(|wire| Client::answer(wire, "test run", &SECRET, "b").ok());
            }
            Act::Await => drop(data.as_mut().and_then(next)),
            Act::Close(Line::Control) => control.stream.close(),
            Act::Close(Line::Data) => data.iter().for_each(|data| data.stream.close()),
        }
    }
    let over = Instant::now();
    drop(door);
    stays();
    control.stream.close();
    data.iter().for_each(|data| data.stream.close());
    over
}

/// What the honest partner does; `None`: it has done all of it, else why not.
fn be_honest(me: &Instance, part: Part) -> Option<String> {
    let done = || -> xmml_wire::error::Result<()> {
        me.reuse()?;
        match part {
            Part::Sender => loop {
                if let Received::Ended = me.receive("in", None, None)? {
                    break;
                }
            },
            Part::Receiver => {
                for value in 1..=3 {
                    me.send("out", None, Data::Int(value), Stamps::default())?;
                }
            }
        }
        me.leave()
    };
    done().err().map(|error| error.to_string())
}

fn run_case(case: &Case, part: Part, method: &str, door: Door) -> Result<Ended, String> {
    let model = Model::by(method)
        .submodel("a", "out:Oi", 9)
        .submodel("b", "in:S", 9)
        .with("a", |spec| spec.check_order = false)
        .with("b", |spec| spec.check_order = false)
        .couple("a.out", "b.in");
    let run = Run::listening(model, Some("127.0.0.1:0"));
    let addresses: Vec<CoordinatorAddress> =
        run.coordinator.addresses().iter().filter_map(|address| address.parse().ok()).collect();
    let address = addresses.iter().find(|address| address.method == method).unwrap();
    let partner = if part == Part::Sender { "b" } else { "a" };
    let name = part.name();
    let watch = Watch { run: &run, name, told: Mutex::default(), partner: Mutex::default() };
    std::thread::scope(|scope| {
        let me = run.join(partner);
        let honest = scope.spawn(|| {
            let problem = be_honest(&me, part);
            *watch.partner.lock().unwrap() = Some((Instant::now(), problem));
            drop(me);
        });
        let control = (Wire::to(method, &address.address).unwrap(), address);
        let stays = || {
            if !case.is_silent {
                watch.await_end(Instant::now() + NAMED_AT_LAST);
            }
        };
        let over = play(&case.script, part, method, control, door, stays);
        // A tcp connection may have broken: its instance has a while to make another one.
        let is_seen_late = method == "tcp" && (case.is_silent || case.what.contains("closed"));
        let visible = over + Duration::from_secs(if is_seen_late { AWAY_S } else { 0 });
        watch.await_end(visible + NAMED_AT_LAST);
        let ended = watch.ended();
        run.coordinator.abort("the case is over");
        let begin = Instant::now();
        while !honest.is_finished() && begin.elapsed() < NAMED_AT_LAST {
            std::thread::sleep(Duration::from_millis(2));
        }
        if !honest.is_finished() {
            return Err("its partner waits on although the run was aborted".to_owned());
        }
        honest.join().map_err(|_| "its partner panicked".to_owned())?;
        match ended {
            Some((_, None)) => Ok(Ended::Well),
            Some((when, Some(text))) => Ok(Ended::Named(when.saturating_duration_since(visible), text)),
            None => Err(format!("nobody named it; its partner: {:?}", watch.partner.lock().unwrap())),
        }
    })
}

/// What the coordinator has said.
#[derive(Default)]
struct Told {
    /// Who has left.
    left: Vec<String>,
    /// When the hostile member was named first, and how.
    named: Option<(Instant, String)>,
}

/// What is heard of a case.
struct Watch<'a> {
    run: &'a Run,
    /// The hostile member.
    name: &'a str,
    told: Mutex<Told>,
    /// When the partner was done, and why not with everything.
    partner: Mutex<Option<(Instant, Option<String>)>>,
}

impl Watch<'_> {
    /// When and how it ended, as far as it has: the words that name the hostile member; `None` where all is well.
    fn ended(&self) -> Option<(Instant, Option<String>)> {
        let told = self.told.lock().unwrap();
        if let Some((when, text)) = &told.named {
            return Some((*when, Some(text.clone())));
        }
        let partner = self.partner.lock().unwrap();
        let (when, problem) = partner.as_ref()?;
        match problem {
            Some(problem) => problem.starts_with(&format!("{}: ", self.name)).then(|| (*when, Some(problem.clone()))),
            None => (told.left.len() == 2).then_some((*when, None)),
        }
    }

    fn await_end(&self, until: Instant) {
        while self.ended().is_none() && Instant::now() < until {
            for event in self.run.coordinator.wait_events(Duration::from_millis(20)) {
                self.hear(event);
            }
        }
    }

    fn hear(&self, event: Event) {
        let mut told = self.told.lock().unwrap();
        let name = self.name;
        let text = match event {
            Event::Left { instance, .. } => {
                told.left.push(instance);
                None
            }
            Event::Failed { instance, text } if instance == name || text.starts_with(&format!("{name}: ")) => {
                Some(text)
            }
            Event::Lost { instance } if instance == name => Some("it is lost".to_owned()),
            Event::Warning { instance, text } if instance == name && text.contains("to join") => Some(text),
            _ => None,
        };
        if let (Some(text), None) = (text, &told.named) {
            told.named = Some((Instant::now(), text.chars().take(400).collect()));
        }
    }
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_member_that_breaks_the_protocol_in_any_way_fails_by_name_within_two_seconds_and_nobody_waits_on() {
    // This is the only test of its program.
    for limit in ["XMML_CONNECT_LIMIT_S", "XMML_AWAY_LIMIT_S"] {
        std::env::set_var(limit, AWAY_S.to_string());
    }
    support::descriptors::allow_descriptors(4096);
    let only = std::env::var("XMML_HOSTILE_CASE").unwrap_or_default();
    let every = if is_soak() || !only.is_empty() { 1 } else { 4 };
    let mut all = Vec::new();
    for part in [Part::Sender, Part::Receiver] {
        for method in ["unix", "tcp"] {
            let count = cases(part, method, &Door::open(method)).len();
            all.extend((0..count).step_by(every).map(|number| (part, method, number)));
        }
    }
    let panics = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = panics.clone();
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // The client by hand panics on what it cannot read.
        if !info.location().is_some_and(|location| location.file().contains("tests/")) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        usual(info);
    }));
    let open_before = descriptors();
    let halfway = Mutex::new(resident_bytes());
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<BTreeMap<String, Result<Ended, String>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((part, method, number)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let door = Door::open(method);
                    let case = cases(*part, method, &door).swap_remove(*number);
                    if !only.is_empty() && !case.what.contains(&only) {
                        continue;
                    }
                    let outcome = catch_unwind(AssertUnwindSafe(|| run_case(&case, *part, method, door)));
                    let outcome = outcome.unwrap_or_else(|_| Err("the test itself failed".to_owned()));
                    let mut outcomes = outcomes.lock().unwrap();
                    outcomes.insert(case.what, outcome);
                    if outcomes.len() == all.len() / 2 {
                        *halfway.lock().unwrap() = resident_bytes();
                    }
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    let limit = if is_soak() { NAMED_WITHIN } else { NAMED_AT_LAST };
    let mut wrong = Vec::new();
    let (mut named, mut longest) = (0, Duration::ZERO);
    for (what, outcome) in &outcomes {
        match outcome {
            Ok(Ended::Well) if !only.is_empty() => println!("{what}: well"),
            Ok(Ended::Well) => {}
            Ok(Ended::Named(after, text)) => {
                (named, longest) = (named + 1, longest.max(*after));
                if !only.is_empty() {
                    println!("{what}: {after:?}: {text}");
                }
                if *after > limit {
                    wrong.push(format!("{what}: named after {after:?}: {text}"));
                }
            }
            Err(problem) => wrong.push(format!("{what}: {problem}")),
        }
    }
    let grown = resident_bytes().saturating_sub(halfway.into_inner().unwrap());
    let open = descriptors();
    println!(
        "{} cases, {named} named, at most {longest:?} after it could be seen; {grown} bytes more in the second half",
        outcomes.len()
    );
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), outcomes.len(), wrong.join("\n"));
    assert_eq!(panics.load(Ordering::Relaxed), 0, "something panicked");
    assert!(outcomes.len() >= 200 || !only.is_empty(), "{} cases", outcomes.len());
    assert!(grown < GROWTH_MAX, "{grown} bytes more in the second half");
    assert!(open < open_before + 16, "{} descriptors are left open", open - open_before);
}
