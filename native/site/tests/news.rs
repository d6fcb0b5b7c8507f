//! Agents and the login proxy tell each other at once what is new, while their connection stands.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
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

/// A login proxy that polls files only when it is told that there is something new, and what was said to it and by it.
struct Talk {
    run: PathBuf,
    words: UnixStream,
    answers: BufReader<UnixStream>,
    proxy: thread::JoinHandle<Result<(), String>>,
}

impl Talk {
    fn with_jobs(name: &str, jobs: &[&str]) -> Talk {
        let run = std::env::temp_dir().join(format!("xmml-{name}-{}", std::process::id()));
        for job in jobs {
            fs::create_dir_all(run.join("jobs").join(job)).unwrap();
        }
        let (words, input) = UnixStream::pair().unwrap();
        let (answers, output) = UnixStream::pair().unwrap();
        let stream = |end: UnixStream| File::from(OwnedFd::from(end));
        let nobody_polls = Pauses { first: NEVER, longest: NEVER };
        let proxy = LoginProxy::new(run.clone(), stream(input), stream(output), nobody_polls);
        let proxy = thread::spawn(move || proxy.run());
        let mut talk = Talk { run, words, answers: BufReader::new(answers), proxy };
        assert_eq!(talk.next()["is"], "talking");
        talk
    }

    fn say(&mut self, word: &Value) {
        self.words.write_all(format!("{word}\n").as_bytes()).unwrap();
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Reads on until something is said; returns what was said just before.
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut before = Value::Null;
        loop {
            let said = self.next();
            if is_it(&said) {
                return before;
            }
            before = said;
        }
    }

    /// Has the proxy tell of an agent; returns the agent, as far as the proxy sees it.
    fn watch(&mut self, job: &str) -> (TcpListener, TcpStream) {
        let agent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = agent.local_addr().unwrap().port();
        self.say(&json!({"listen": {job: 0}, "watch": {job: ["127.0.0.1", port]}}));
        let (connection, _) = agent.accept().unwrap();
        (agent, connection)
    }

    /// Adds more to the reports of a job than is told without a pause; the last one says that it is over.
    fn report_much(&self, job: &str) {
        let mut reports = format!("{}\n", json!({"is": "output", "text": "x".repeat(1000)})).repeat(4000);
        reports += "{\"is\":\"over\"}\n";
        append(&self.run.join("jobs").join(job).join("reports"), reports.as_bytes()).unwrap();
    }

    fn end(self) {
        drop(self.words);
        assert_eq!(self.proxy.join().unwrap(), Ok(()));
        fs::remove_dir_all(&self.run).unwrap();
    }
}

#[test]
fn that_an_agent_is_gone_is_told_after_all_that_it_has_reported() {
    let mut talk = Talk::with_jobs("last-news", &["m.1/0"]);
    let agent = talk.watch("m.1/0");
    talk.report_much("m.1/0");
    drop(agent);
    let before = talk.until(|said| said["gone"] == "m.1/0");
    assert_eq!(before["report"], json!({"is": "over"}));
    talk.end();
}

#[test]
fn that_an_agent_is_gone_is_told_while_another_one_has_much_to_report() {
    let mut talk = Talk::with_jobs("news-of-others", &["m.1/0", "m.2/0"]);
    let agent = talk.watch("m.1/0");
    talk.report_much("m.2/0");
    talk.say(&json!({"listen": {"m.2/0": 0}}));
    talk.until(|said| said["from"] == "m.2/0");
    drop(agent);
    let before = talk.until(|said| said["gone"] == "m.1/0");
    assert_ne!(before["report"], json!({"is": "over"}), "the other one was waited for");
    talk.end();
}

#[test]
fn the_lease_is_renewed_while_an_agent_that_is_gone_has_left_much_to_tell() {
    let mut talk = Talk::with_jobs("lease-between", &["m.1/0"]);
    let agent = talk.watch("m.1/0");
    talk.report_much("m.1/0");
    drop(agent);
    talk.until(|said| said["from"] == "m.1/0");
    talk.say(&json!({"lease": "1", "s": 60}));
    let before = talk.until(|said| said["alive"] == "1");
    assert_eq!(before["from"], "m.1/0", "all was told first");
    talk.until(|said| said["gone"] == "m.1/0");
    talk.end();
}
