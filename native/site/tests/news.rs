//! Agents and the login proxy tell each other at once what is new, while their connection stands.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::{json, Value};
use xmml_site::agent::{Agent, Place, Status};
use xmml_site::lines::append;
use xmml_site::login_proxy::LoginProxy;
use xmml_site::polling::Pauses;

const NEVER: Duration = Duration::from_secs(1_000_000);

#[test]
fn orders_and_reports_come_at_once_while_the_connection_stands() {
    let run = std::env::temp_dir().join(format!("xmml-news-{}", std::process::id()));
    let job = PathBuf::from("m.1/0");
    fs::create_dir_all(run.join("jobs").join(&job)).unwrap();
    let nobody_polls = Pauses { first: NEVER, longest: NEVER };
    let place = Place { run: run.clone(), job, patience: NEVER, python: "python3".into() };
    let agent = thread::spawn(move || Agent::new(place, nobody_polls).unwrap().run());

    let (mut words, input) = UnixStream::pair().unwrap();
    let (answers, output) = UnixStream::pair().unwrap();
    let stream = |end: UnixStream| File::from(OwnedFd::from(end));
    let proxy = LoginProxy::new(run.clone(), stream(input), stream(output), nobody_polls);
    let proxy = thread::spawn(move || proxy.run());
    let mut answers = BufReader::new(answers);
    let mut next = || -> Value {
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let mut say = |word: Value| words.write_all(format!("{word}\n").as_bytes()).unwrap();

    assert_eq!(next()["is"], "talking");
    let reports = run.join("jobs/m.1/0/reports");
    while !fs::read_to_string(&reports).is_ok_and(|text| text.ends_with('\n')) {
        thread::yield_now();
    }
    say(json!({"listen": {"m.1/0": 0}}));
    let ready = next();
    assert_eq!(ready["report"]["is"], "ready");
    say(json!({"watch": {"m.1/0": ["127.0.0.1", ready["report"]["port"]]}}));
    say(json!({"to": "m.1/0", "order": {"n": 1, "do": "abort"}}));
    assert_eq!(next(), json!({"taken": 1, "by": "m.1/0"}));
    assert_eq!(next()["report"], json!({"is": "over"}));
    assert_eq!(agent.join().unwrap(), Ok(Some(Status::Aborted)));
    drop(words);
    assert_eq!(proxy.join().unwrap(), Ok(()));
    fs::remove_dir_all(&run).unwrap();
}

#[test]
fn that_an_agent_is_gone_is_told_after_all_that_it_has_reported() {
    let run = std::env::temp_dir().join(format!("xmml-last-news-{}", std::process::id()));
    fs::create_dir_all(run.join("jobs/m.1/0")).unwrap();
    let (mut words, input) = UnixStream::pair().unwrap();
    let (answers, output) = UnixStream::pair().unwrap();
    let stream = |end: UnixStream| File::from(OwnedFd::from(end));
    let nobody_polls = Pauses { first: NEVER, longest: NEVER };
    let proxy = LoginProxy::new(run.clone(), stream(input), stream(output), nobody_polls);
    let proxy = thread::spawn(move || proxy.run());

    let agent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = agent.local_addr().unwrap().port();
    let word = json!({"listen": {"m.1/0": 0}, "watch": {"m.1/0": ["127.0.0.1", port]}});
    words.write_all(format!("{word}\n").as_bytes()).unwrap();
    let (connection, _) = agent.accept().unwrap();
    let mut reports = format!("{}\n", json!({"is": "output", "text": "x".repeat(1000)})).repeat(4000);
    reports += "{\"is\":\"over\"}\n";
    append(&run.join("jobs/m.1/0/reports"), reports.as_bytes()).unwrap();
    drop((agent, connection));

    let mut before = Value::Null;
    for line in BufReader::new(answers).lines() {
        let said: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if said["gone"] == "m.1/0" {
            break;
        }
        before = said;
    }
    assert_eq!(before["report"], json!({"is": "over"}));
    drop(words);
    assert_eq!(proxy.join().unwrap(), Ok(()));
    fs::remove_dir_all(&run).unwrap();
}
