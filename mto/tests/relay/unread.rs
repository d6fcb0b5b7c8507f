//! What a relay writes and nobody reads: answers, and its log. Nothing waits for that.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use crate::support::flow::Flow;
use crate::support::held::{mto, unique, worked, Folder, Held, KEY};
use crate::support::{await_that, LIMIT, RUN};
use serde_json::{json, Value};
use xmml_wire::relay_key::RelayKey;

#[test]
fn a_relay_whose_log_nobody_reads_goes_on_and_tells_later_how_many_lines_were_lost() {
    let log_two_lines = |relay: &mut Held| {
        let long = "r".repeat(200);
        relay.ask(&json!({"command": "add-run", "run": long, "relay_key": KEY}));
        relay.ask(&json!({"command": "remove-run", "run": long}));
    };
    let mut relay = Held::start_with(mto().args(["--site", &unique("unread"), "--stdin"]), Stdio::piped());
    let stderr = BufReader::new(relay.child.stderr.take().unwrap());
    let (done, is_done) = std::sync::mpsc::channel();
    // A relay that has stopped would never answer.
    std::thread::spawn(move || {
        (0..1000).for_each(|_| log_two_lines(&mut relay));
        let status = relay.ask(&json!({"command": "status"}));
        let _ = done.send((relay, status));
    });
    let (mut relay, status) = is_done.recv_timeout(LIMIT).expect("the relay has stopped");
    let lost = status["status"]["log_lines_lost"].as_u64().unwrap();
    assert!(lost > 1000, "{status}");
    let (read, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(read.send(line))));
    // What is logged next is the occasion to say it.
    let mut told = 0;
    await_that(&format!("the loss of {lost} lines is told"), || {
        log_two_lines(&mut relay);
        let said = lines
            .try_iter()
            .filter_map(|line| line.split_once("lines of the log were lost lines=")?.1.parse::<u64>().ok());
        told += said.sum::<u64>();
        told >= lost
    });
}

/// Requests of an owner who reads no answer: so many for its status, each with one behind it that shows its number.
const REQUESTS: u32 = 4000;

/// A relay with runs of which there is much to say.
fn relay(name: &str, folder: &Folder) -> Held {
    let log = folder.0.join("log");
    let mut relay =
        Held::start(mto().args(["--site", &unique(name), "--listen", "127.0.0.1:0", "--stdin", "--log"]).arg(&log));
    let key = RelayKey::of(crate::support::SECRET);
    relay.ask(&json!({"command": "add-run", "run": RUN, "relay_key": key}));
    for run in 0..16 {
        relay.ask(&json!({"command": "add-run", "run": format!("{run:0250}"), "relay_key": KEY}));
    }
    relay
}

/// The most memory that a process has had [bytes].
fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Sends all requests; `sent` counts them.
fn send_requests(mut input: impl Write, sent: &AtomicU32) {
    for number in 0..REQUESTS {
        let lines = format!("{{\"command\":\"status\"}}\n{{\"command\":\"{number}\"}}\n");
        input.write_all(lines.as_bytes()).unwrap();
        sent.fetch_add(1, Ordering::Relaxed);
    }
}

/// Every answer is there, whole and in order; returns how long they were.
fn check_answers(output: impl BufRead) -> u64 {
    let mut bytes = 0;
    let mut lines = output.lines().map(|line| {
        let line = line.unwrap();
        bytes += line.len() as u64;
        serde_json::from_str::<Value>(&line).unwrap_or_else(|_| panic!("not a line of JSON: {line:?}"))
    });
    for number in 0..REQUESTS {
        let status = lines.next().expect("a status");
        assert_eq!(status["status"]["runs"].as_object().unwrap().len(), 17, "{number}: {status}");
        let problem = lines.next().expect("a problem");
        assert!(problem["problem"].as_str().unwrap().contains(&format!("`{number}`")), "{number}: {problem}");
    }
    drop(lines);
    bytes
}

/// Waits until no more requests are taken, while messages pass.
fn await_stall(sent: &AtomicU32, flow: &Flow) {
    loop {
        let before = sent.load(Ordering::Relaxed);
        (0..10).for_each(|_| flow.goes_on());
        if sent.load(Ordering::Relaxed) == before {
            return;
        }
    }
}

#[test]
fn an_owner_who_reads_no_answers_holds_up_nobody_but_himself_and_finds_them_all_later() {
    for is_holder in [true, false] {
        let name = if is_holder { "holder" } else { "socket" };
        let folder = Folder::new(name);
        let mut relay = relay(name, &folder);
        let process = relay.child.id();
        let flow = Flow::at(&relay.site(&folder.0.join("log")));
        let before = peak_memory(process);
        let stdin = relay.stdin.take().unwrap();
        let address = SocketAddr::from_abstract_name(&relay.control()[1..]).unwrap();
        let socket = UnixStream::connect_addr(&address).unwrap();
        let sent = Arc::new(AtomicU32::new(0));
        let (to, count) = (socket.try_clone().unwrap(), sent.clone());
        let sending = std::thread::spawn(move || {
            match is_holder {
                true => send_requests(&stdin, &count),
                false => {
                    send_requests(&to, &count);
                    to.shutdown(Shutdown::Write).unwrap();
                }
            }
            stdin
        });
        await_stall(&sent, &flow);
        assert!(sent.load(Ordering::Relaxed) < REQUESTS, "{name}: all requests were taken");
        flow.counted();
        let bytes = match is_holder {
            true => check_answers(&mut relay.stdout),
            false => check_answers(BufReader::new(socket)),
        };
        let more = peak_memory(process) - before;
        assert!(bytes > 16 << 20 && more < 4 << 20, "{name}: {more} bytes of memory more for {bytes} of answers");
        drop(sending.join().unwrap()); // and with its input the relay ends
        assert!(relay.child.wait().unwrap().success());
    }
}

#[test]
fn a_holder_who_has_gone_and_left_answers_unread_does_not_keep_a_relay() {
    let folder = Folder::new("gone");
    let mut relay = relay("gone", &folder);
    let process = relay.child.id();
    let mut stdin = relay.stdin.take().unwrap();
    // It stops in the midst of them: their answers are longer than what waits for it.
    stdin.write_all("{\"command\":\"status\"}\n".repeat(2000).as_bytes()).unwrap();
    drop(stdin);
    let has_ended = || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap().contains(") Z ");
    await_that("the relay ends", has_ended);
    let ticks = worked(process);
    assert!(ticks < 100, "it worked for {ticks} ticks while it could do nothing");
    assert!(relay.child.wait().unwrap().success());
    let mut answers = String::new();
    relay.stdout.read_to_string(&mut answers).unwrap();
    let count = answers.lines().count();
    assert!(answers.starts_with("{\"ok\":true") && count < 100, "{count} answers");
}
