//! Instances in processes of their own that die in the middle of something.

mod support;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{await_that, not_run, receive, receive_any, send, Model, Run, LIMIT};
use xmml_core::coordinator::Event;
use xmml_core::instance::{Instance, JoinOptions, Received, Stamps};
use xmml_core::runtime::link::VERDICT_LIMIT;
use xmml_core::spec::InstanceSpec;
use xmml_wire::buffer::Buffer;
use xmml_wire::data::Data;
use xmml_wire::error::Error;

/// The process that dies: this program once more, with the role in the environment.
#[test]
#[ignore = "a role that other tests start"]
fn role() {
    let Ok(role) = std::env::var("XMML_TEST_ROLE") else { return };
    let me =
        Instance::join(JoinOptions { coordinator: None, instance: None, secret_file: None, language: "rust" }).unwrap();
    me.reuse().unwrap();
    match role.as_str() {
        "dies amid a message" => {
            send(&me, "out", 1);
            me.send("out", None, Data::Bytes(Buffer::from(vec![7; 64 << 20])), Stamps::default()).unwrap();
        }
        "exits without leaving" => {
            send(&me, "out", 1);
            // What waits in this process dies with it; only what the kernel has survives it. The first message has come when the other
            // end says so, so nothing waits any more, and the second goes straight to the kernel.
            std::io::stdin().read_line(&mut String::new()).unwrap();
            send(&me, "out", 2);
        }
        "sends until it is killed" => {
            for number in 1_u64.. {
                let mut bytes = vec![number as u8; length_of(number)];
                bytes[..8].copy_from_slice(&number.to_le_bytes());
                me.send("out", None, Data::Bytes(Buffer::from(bytes)), Stamps::default()).unwrap();
            }
        }
        "receives until it is killed" => while receive(&me, "in").is_some() {},
        "keeps what it is lent until it is killed" => {
            let mut kept = Vec::new();
            while let Some(message) = receive_any(&me, "in") {
                kept.push(message);
            }
        }
        "lends to each port it is told" => {
            for port in std::io::stdin().lines().map(Result::unwrap) {
                wait_until_connected(&me, &port);
                lend_all(&me, &port);
                println!("\nmemory {}", memory_for_payloads());
            }
            return; // the other end of the lines is gone, and with it the run
        }
        other => panic!("no such role: {other}"),
    }
    std::process::abort();
}

fn start(run: &Run, instance: &str, role: &str) -> Child {
    process_of(run, instance, role, &[]).stdout(Stdio::null()).spawn().unwrap()
}

/// A process in a role, started by a command that carries out what follows it, or directly.
fn process_of(run: &Run, instance: &str, role: &str, wrapper: &[&str]) -> Command {
    let options = run.options(instance);
    let program = std::env::current_exe().unwrap().into_os_string();
    let mut words = wrapper.iter().map(OsString::from).chain([program]);
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .args(["--ignored", "--exact", "role", "--nocapture"])
        .env("XMML_TEST_ROLE", role)
        .env("XMML_INSTANCE", instance)
        .env("XMML_COORDINATOR", options.coordinator.unwrap())
        .env("XMML_SECRET_FILE", options.secret_file.unwrap())
        .stdin(Stdio::piped());
    command
}

fn pair(method: &str) -> Run {
    let model = Model::by(method).submodel("a", "out:Oi", 9).submodel("b", "in:S", 9).couple("a.out", "b.in");
    Run::of(model)
}

#[test]
fn a_crash_amid_a_message_is_neither_a_message_nor_an_end() {
    for method in ["unix", "tcp"] {
        let run = pair(method);
        let b = run.join("b");
        b.reuse().unwrap();
        let mut child = start(&run, "a", "dies amid a message");
        assert_eq!(receive(&b, "in"), Some(1));
        assert!(!b.has_message("in", None).unwrap(), "it only tells a that there is room");
        // Nobody reads before the end: what the kernel does not take dies with the sender.
        run.event("a is lost", |event| matches!(event, Event::Lost { instance } if instance == "a"));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| b.receive("in", None, None));
            run.coordinator.abort("a failed");
            let begin = Instant::now();
            assert!(matches!(waiting.join().unwrap(), Err(Error::Aborted { .. })), "{method}");
            assert!(begin.elapsed() < VERDICT_LIMIT, "it waited for the verdict, which was there");
        });
        child.wait().unwrap();
    }
}

#[test]
fn without_a_word_from_the_coordinator_a_broken_connection_is_an_error_in_the_end() {
    let check = |method: &str| {
        let run = pair(method);
        let b = run.join("b");
        b.reuse().unwrap();
        let mut child = start(&run, "a", "exits without leaving");
        assert_eq!(receive(&b, "in"), Some(1));
        drop(child.stdin.take());
        assert_eq!(receive(&b, "in"), Some(2), "it was handed over, so it survives its sender");
        let error = b.receive("in", None, None).unwrap_err().to_string();
        assert!(error.starts_with("a: the connection broke before the conduit ended"), "{error}");
        child.wait().unwrap();
    };
    std::thread::scope(|scope| {
        for method in ["shm", "unix"] {
            scope.spawn(move || check(method));
        }
    });
}

#[test]
fn whatever_a_sender_that_is_killed_had_sent_arrives_whole_and_nothing_else() {
    let rounds = if std::env::var_os("XMML_SOAK").is_some() { 400 } else { 20 };
    for round in 0..rounds {
        let model = Model::by("shm").submodel("a", "out:Oi", 0).submodel("b", "in:S", 0);
        let run = Run::of(model.couple("a.out", "b.in"));
        let b = run.join("b");
        b.reuse().unwrap();
        let mut child = start(&run, "a", "sends until it is killed");
        let mut last = 0;
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| loop {
                let Ok(Received::Message(message)) = b.receive("in", None, Some(LIMIT)) else { return };
                let Data::Bytes(bytes) = message.data else { panic!("not bytes") };
                let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert_eq!(number, last + 1, "MESSAGES WRONG: some are lost or doubled");
                assert_eq!(bytes.len(), length_of(number), "MESSAGES WRONG: {number}");
                assert!(bytes[8..].iter().all(|byte| *byte == number as u8), "MESSAGES WRONG: {number} is torn");
                last = number;
            });
            run.event("a joins", |event| matches!(event, Event::Joined { instance, .. } if instance == "a"));
            // Killed at another moment each time, from before its first message on.
            std::thread::sleep(Duration::from_micros(round * 1_371 % 20_000));
            child.kill().unwrap();
            child.wait().unwrap();
            run.event("a is lost", |event| matches!(event, Event::Lost { instance } if instance == "a"));
            run.coordinator.abort("a was killed");
            receiving.join().unwrap();
        });
    }
}

/// Small and large ones, so that some go through the ring and some are lent.
fn length_of(number: u64) -> usize {
    8 + (number * 7_919 % 60_000) as usize
}

#[test]
fn a_sender_whose_receiver_is_killed_hears_of_the_abort_and_does_not_hang() {
    for method in ["shm", "unix", "tcp"] {
        let run = pair(method);
        let mut child = start(&run, "b", "receives until it is killed");
        let a = run.join("a");
        a.reuse().unwrap();
        send(&a, "out", 0);
        run.event("b waits for the second", |event| match event {
            Event::Waiting { instance, received, .. } => instance == "b" && *received == [(1, 1)],
            _ => false,
        });
        child.kill().unwrap();
        child.wait().unwrap();
        run.event("b is lost", |event| matches!(event, Event::Lost { instance } if instance == "b"));
        for value in 1..9 {
            send(&a, "out", value); // within the capacity a send does not wait, whatever became of the receiver
        }
        std::thread::scope(|scope| {
            let leaving = scope.spawn(|| a.leave());
            std::thread::sleep(Duration::from_millis(50)); // as a rule it waits then; if not, it hears the same
            run.coordinator.abort("b was killed");
            assert!(matches!(leaving.join().unwrap(), Err(Error::Aborted { .. })), "{method}");
        });
    }
}

/// Memory that this process has made to lend payloads in [bytes].
fn memory_for_payloads() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lines = maps.lines().filter(|line| line.contains("memfd:xmml-payloads"));
    let ranges = lines.map(|line| line.split(' ').next().unwrap().split_once('-').unwrap());
    let address = |hex| u64::from_str_radix(hex, 16).unwrap();
    ranges.map(|(start, end)| address(end) - address(start)).sum()
}

const PAYLOADS: u8 = 24;
const PAYLOAD: usize = 1 << 20;

/// `a`, which sends to as many receivers by a port for each: `a.out0` to `b0`, and so on.
fn one_after_the_other(receivers: u64) -> Run {
    let ports: String = (0..receivers).map(|number| format!("out{number}:Oi ")).collect();
    let free = |spec: &mut InstanceSpec| spec.check_order = false;
    let mut model = Model::by("shm").submodel("a", &ports, 1).with("a", free);
    for number in 0..receivers {
        let name = format!("b{number}");
        model = model.submodel(&name, "in:S", 1).with(&name, free);
        model = model.couple_with(&format!("a.out{number}"), &format!("{name}.in"), |conduit| {
            (conduit.capacity, conduit.byte_budget) = (2 * u32::from(PAYLOADS), 1 << 30);
        });
    }
    Run::of(model)
}

fn wait_until_connected(a: &Instance, port: &str) {
    await_that("there is a connection", || a.methods(port).unwrap()[0].chosen.is_some());
}

fn lend_all(a: &Instance, port: &str) {
    for number in 0..PAYLOADS {
        let data = Data::Bytes(Buffer::from(vec![number; PAYLOAD]));
        a.send(port, None, data, Stamps::default()).unwrap();
    }
}

/// What receivers held that are dead now must have come home.
fn check_memory(bytes: u64, receivers: u64) {
    let limit = 3 * u64::from(PAYLOADS) * PAYLOAD as u64;
    assert!(bytes <= limit, "{bytes} bytes after {receivers} receivers, each of which could hold {}", limit / 3);
}

#[test]
fn what_a_receiver_holds_that_is_killed_comes_home_and_the_sender_goes_on() {
    let rounds: u64 = if std::env::var_os("XMML_SOAK").is_some() { 200 } else { 10 };
    let run = one_after_the_other(rounds);
    let a = run.join("a");
    a.reuse().unwrap();
    for round in 0..rounds {
        let (port, name) = (format!("out{round}"), format!("b{round}"));
        let mut child = start(&run, &name, "keeps what it is lent until it is killed");
        wait_until_connected(&a, &port);
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| lend_all(&a, &port));
            // With all that it can hold, or at another moment each time, from before the first is lent.
            match round % 2 {
                0 => sending.join().unwrap(),
                _ => std::thread::sleep(Duration::from_micros(round * 3_371 % 30_000)),
            }
            child.kill().unwrap();
            child.wait().unwrap();
        });
        run.event("b is lost", |event| matches!(event, Event::Lost { instance } if *instance == name));
        check_memory(memory_for_payloads(), round + 1);
    }
}

/// A command that carries out what follows it where processes have numbers of their own, as in a container; `None` if that is not permitted.
fn container() -> Option<Vec<&'static str>> {
    let own_numbers = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    let ways = [vec!["unshare"], vec!["unshare", "--map-current-user"]];
    ways.into_iter().map(|way| [way, own_numbers.to_vec()].concat()).find(|way| {
        let tried = Command::new(way[0]).args(&way[1..]).arg("true").stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    })
}

#[test]
fn what_a_receiver_holds_that_is_killed_comes_home_to_a_sender_that_cannot_see_its_process() {
    const ROUNDS: u64 = 6;
    let Some(container) = container() else {
        return not_run("needs root, to make a process namespace: sudo make test-rust");
    };
    let run = one_after_the_other(ROUNDS);
    let role = "lends to each port it is told";
    let mut sender = process_of(&run, "a", role, &container).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(sender.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut told = sender.stdin.take().unwrap();
    for round in 0..ROUNDS {
        let name = format!("b{round}");
        let mut receiver = start(&run, &name, "keeps what it is lent until it is killed");
        writeln!(told, "out{round}").unwrap();
        let memory = lines.find_map(|line| line.strip_prefix("memory ").map(str::to_owned)).unwrap();
        receiver.kill().unwrap();
        receiver.wait().unwrap();
        run.event("b is lost", |event| matches!(event, Event::Lost { instance } if *instance == name));
        check_memory(memory.parse().unwrap(), round);
    }
    drop(told);
    sender.wait().unwrap();
}
