//! Instances in processes of their own that die in the middle of something.

mod support;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{receive, send, Model, Run};
use xmml_core::buffer::Buffer;
use xmml_core::coordinator::Event;
use xmml_core::data::Data;
use xmml_core::error::Error;
use xmml_core::instance::{Instance, JoinOptions};

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
            me.send("out", None, Data::Bytes(Buffer::from(vec![7; 64 << 20])), None, None).unwrap();
        }
        "exits without leaving" => {
            send(&me, "out", 1);
            // What waits for a connection dies with the process; only what the kernel has survives it.
            while me.methods("out").unwrap()[0].chosen.is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            send(&me, "out", 2);
        }
        "receives until it is killed" => while receive(&me, "in").is_some() {},
        other => panic!("no such role: {other}"),
    }
    std::process::abort();
}

fn start(run: &Run, instance: &str, role: &str) -> std::process::Child {
    let options = run.options(instance);
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "role", "--nocapture"])
        .env("XMML_TEST_ROLE", role)
        .env("XMML_INSTANCE", instance)
        .env("XMML_COORDINATOR", options.coordinator.unwrap())
        .env("XMML_SECRET_FILE", options.secret_file.unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
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
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| b.receive("in", None, None));
            run.event("a is lost", |event| matches!(event, Event::Lost { instance } if instance == "a"));
            run.coordinator.abort("a failed");
            let begin = Instant::now();
            assert!(matches!(waiting.join().unwrap(), Err(Error::Aborted { .. })), "{method}");
            assert!(begin.elapsed() < Duration::from_secs(2));
        });
        child.wait().unwrap();
    }
}

#[test]
fn without_a_word_from_the_coordinator_a_broken_connection_is_an_error_in_the_end() {
    let run = pair("unix");
    let b = run.join("b");
    b.reuse().unwrap();
    let mut child = start(&run, "a", "exits without leaving");
    assert_eq!(receive(&b, "in"), Some(1));
    assert_eq!(receive(&b, "in"), Some(2), "the kernel has it, so it survives its sender");
    let error = b.receive("in", None, None).unwrap_err().to_string();
    assert!(error.starts_with("a: the connection broke before the conduit ended"), "{error}");
    child.wait().unwrap();
}

#[test]
fn a_sender_whose_receiver_is_killed_hears_of_the_abort_and_does_not_hang() {
    for method in ["unix", "tcp"] {
        let run = pair(method);
        let mut child = start(&run, "b", "receives until it is killed");
        let a = run.join("a");
        a.reuse().unwrap();
        send(&a, "out", 0);
        run.event("b waits", |event| matches!(event, Event::Waiting { instance, .. } if instance == "b"));
        child.kill().unwrap();
        child.wait().unwrap();
        run.event("b is lost", |event| matches!(event, Event::Lost { instance } if instance == "b"));
        for value in 1..9 {
            send(&a, "out", value); // within the capacity a send does not wait, whatever became of the receiver
        }
        std::thread::scope(|scope| {
            let leaving = scope.spawn(|| a.leave());
            std::thread::sleep(Duration::from_millis(100));
            run.coordinator.abort("b was killed");
            assert!(matches!(leaving.join().unwrap(), Err(Error::Aborted { .. })), "{method}");
        });
    }
}
