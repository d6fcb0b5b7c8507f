//! Agents and the login proxy tell each other at once what is new, while their connection stands.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use xmml_site::agent::{Agent, Place, Status};
use xmml_site::lines::append;
use xmml_site::login_proxy::LoginProxy;
use xmml_site::polling::Pauses;
use xmml_wire::handshake::{Dialler, Listener, Party, Role, Step};
use xmml_wire::resolver::Resolver;

/// Without an answer for so long something has gone wrong, on the busiest machine too.
const LIMIT: Duration = Duration::from_secs(120);

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
    let resolver = Resolver::new().unwrap();
    let proxy = LoginProxy::new(run.clone(), stream(input), stream(output), nobody_polls, resolver);
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
    assert_eq!(next(), json!({"is": "taken", "agent": "m.1/0", "order": 1}));
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
        Talk::with_resolver(name, jobs, Resolver::new().unwrap())
    }

    fn with_resolver(name: &str, jobs: &[&str], resolver: Resolver) -> Talk {
        let run = std::env::temp_dir().join(format!("xmml-{name}-{}", std::process::id()));
        for job in jobs {
            fs::create_dir_all(run.join("jobs").join(job)).unwrap();
        }
        let (words, input) = UnixStream::pair().unwrap();
        let (answers, output) = UnixStream::pair().unwrap();
        let stream = |end: UnixStream| File::from(OwnedFd::from(end));
        let nobody_polls = Pauses { first: NEVER, longest: NEVER };
        let proxy = LoginProxy::new(run.clone(), stream(input), stream(output), nobody_polls, resolver);
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

    /// Makes the secret of an agent, unless it has one.
    fn make_secret(&self, job: &str) {
        let secret = self.run.join("jobs").join(job).join("secret");
        if !secret.exists() {
            fs::write(secret, "a secret").unwrap();
        }
    }

    /// Has the proxy tell of an agent; returns the agent, as far as the proxy sees it.
    fn watch(&mut self, job: &str) -> (TcpListener, TcpStream) {
        self.make_secret(job);
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
    let before = talk.until(|said| (&said["is"], &said["agent"]) == (&json!("gone"), &json!("m.1/0")));
    assert_eq!(before["report"], json!({"is": "over"}));
    talk.end();
}

#[test]
fn that_an_agent_is_gone_is_told_while_another_one_has_much_to_report() {
    let mut talk = Talk::with_jobs("news-of-others", &["m.1/0", "m.2/0"]);
    let agent = talk.watch("m.1/0");
    talk.report_much("m.2/0");
    talk.say(&json!({"listen": {"m.2/0": 0}}));
    talk.until(|said| (&said["is"], &said["agent"]) == (&json!("told"), &json!("m.2/0")));
    drop(agent);
    let before = talk.until(|said| (&said["is"], &said["agent"]) == (&json!("gone"), &json!("m.1/0")));
    assert_ne!(before["report"], json!({"is": "over"}), "the other one was waited for");
    talk.end();
}

#[test]
fn the_lease_is_renewed_while_an_agent_that_is_gone_has_left_much_to_tell() {
    let mut talk = Talk::with_jobs("lease-between", &["m.1/0"]);
    let agent = talk.watch("m.1/0");
    talk.report_much("m.1/0");
    drop(agent);
    talk.until(|said| (&said["is"], &said["agent"]) == (&json!("told"), &json!("m.1/0")));
    talk.say(&json!({"lease": "1", "s": 60}));
    let before = talk.until(|said| (&said["is"], &said["lease"]) == (&json!("alive"), &json!("1")));
    assert_eq!((&before["is"], &before["agent"]), (&json!("told"), &json!("m.1/0")), "all was told first");
    talk.until(|said| (&said["is"], &said["agent"]) == (&json!("gone"), &json!("m.1/0")));
    talk.end();
}

#[test]
fn an_order_whose_file_cannot_be_written_holds_up_no_other_job_and_comes_later() {
    let mut talk = Talk::with_jobs("unwritten", &["m.1/0", "m.2/0"]);
    let orders = |job: &str| talk.run.join("jobs").join(job).join("orders");
    let (of_first, of_second) = (orders("m.1/0"), orders("m.2/0"));
    fs::create_dir(&of_first).unwrap();
    talk.say(&json!({"to": "m.1/0", "order": {"n": 1, "do": "go"}}));
    talk.say(&json!({"to": "m.1/0", "order": {"n": 2, "do": "abort"}}));
    talk.say(&json!({"to": "m.2/0", "order": {"n": 1, "do": "go"}}));
    assert_eq!(talk.next(), json!({"is": "taken", "agent": "m.2/0", "order": 1}));
    assert_eq!(fs::read_to_string(of_second).unwrap(), "{\"do\":\"go\",\"n\":1}\n");
    fs::remove_dir(&of_first).unwrap();
    talk.say(&json!({"listen": {"m.2/0": 0}})); // so that it polls
    assert_eq!(talk.next(), json!({"is": "taken", "agent": "m.1/0", "order": 1}));
    assert_eq!(talk.next(), json!({"is": "taken", "agent": "m.1/0", "order": 2}));
    assert_eq!(fs::read_to_string(of_first).unwrap().lines().count(), 2);
    talk.end();
}

#[test]
fn a_lease_that_cannot_be_written_keeps_no_other_run_from_its_own() {
    let mut talk = Talk::with_jobs("unwritten-lease", &["../a", "../b"]);
    let (a, b) = (talk.run.join("a"), talk.run.join("b"));
    fs::create_dir(a.join("lease")).unwrap();
    talk.say(&json!({"lease": 7, "s": 90, "runs": [a, b]}));
    let why = format!("cannot write {}/lease: Is a directory", a.display());
    assert_eq!(talk.next(), json!({"is": "alive", "lease": 7, "unwritten": {(a.to_str().unwrap()): why}}));
    assert_eq!(fs::read_to_string(b.join("lease")).unwrap(), "7 90\n");
    assert_eq!(fs::read_dir(&a).unwrap().count(), 1, "something lies beside the lease");
    talk.end();
}

#[test]
fn the_lease_is_renewed_while_no_name_server_answers() {
    let agent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = agent.local_addr().unwrap();
    let (answers, answer) = mpsc::channel();
    let answer = Mutex::new(answer);
    let resolver = Resolver::with(Arc::new(move |_: &str| answer.lock().unwrap().recv().unwrap())).unwrap();
    let mut talk = Talk::with_resolver("silent-names", &["m.1/0"], resolver);
    talk.make_secret("m.1/0");
    talk.say(&json!({"listen": {"m.1/0": 0}, "watch": {"m.1/0": ["node", address.port()]}}));
    talk.say(&json!({"lease": 1, "s": 90}));
    assert_eq!(talk.next(), json!({"is": "alive", "lease": 1}));
    answers.send(Ok(vec![address])).unwrap();
    drop(agent.accept().unwrap());
    drop(agent);
    assert_eq!(talk.next(), json!({"is": "gone", "agent": "m.1/0", "why": "its agent has ended without a word"}));
    talk.end();
}

#[test]
fn strangers_who_connect_to_an_agent_do_not_take_the_place_of_the_login_proxy() {
    let mut talk = Talk::with_jobs("strangers", &["m.1/0"]);
    let place = Place { run: talk.run.clone(), job: "m.1/0".into(), patience: NEVER, python: "python3".into() };
    let agent = thread::spawn(move || Agent::new(place, Pauses { first: NEVER, longest: NEVER }).unwrap().run());
    let reports = talk.run.join("jobs/m.1/0/reports");
    while !fs::read_to_string(&reports).is_ok_and(|text| text.ends_with('\n')) {
        thread::yield_now();
    }
    talk.say(&json!({"listen": {"m.1/0": 0}}));
    let port = talk.next()["report"]["port"].as_u64().unwrap();
    talk.say(&json!({"watch": {"m.1/0": ["127.0.0.1", port]}}));
    let mut strangers: Vec<TcpStream> = Vec::new();
    for _ in 0..20 {
        let mut stranger = TcpStream::connect(("127.0.0.1", port as u16)).unwrap();
        stranger.set_read_timeout(Some(LIMIT)).unwrap();
        stranger.write_all(b"no handshake, but longer than the head of one").unwrap();
        // Why it is turned away, then the end.
        let ended = stranger.read_to_end(&mut Vec::new());
        assert!(!ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it was admitted");
        strangers.push(stranger);
    }
    strangers.extend((0..20).map(|_| TcpStream::connect(("127.0.0.1", port as u16)).unwrap()));
    assert_eq!(strangers[20].read(&mut [0]).unwrap_or(0), 0, "nobody makes room for those who came later");
    // The agent polls its orders only when the login proxy says that there is one.
    talk.say(&json!({"to": "m.1/0", "order": {"n": 1, "do": "abort"}}));
    assert_eq!(talk.next(), json!({"is": "taken", "agent": "m.1/0", "order": 1}));
    assert_eq!(talk.next()["report"], json!({"is": "over"}));
    assert_eq!(agent.join().unwrap(), Ok(Some(Status::Aborted)));
    talk.end();
}

/// One side of the handshake between the login proxy and an agent.
fn party(secret: &[u8], name: &str) -> Party {
    Party::new(secret, "job", name).unwrap()
}

#[test]
fn the_login_proxy_gives_away_neither_the_secret_nor_a_proof_to_one_who_takes_the_place_of_an_agent() {
    let mut talk = Talk::with_jobs("impostor", &["m.1/0"]);
    let secret = b"the secret of this agent";
    fs::write(talk.run.join("jobs/m.1/0/secret"), secret).unwrap();
    let (_agent, mut connection) = talk.watch("m.1/0");
    connection.set_read_timeout(Some(LIMIT)).unwrap();
    let mut impostor = Listener::new(party(b"another secret", "agent"), &[Role::Agent]).unwrap();
    let mut hello = vec![0; 1024];
    let challenge = loop {
        let count = connection.read(&mut hello).unwrap();
        assert!(!hello[..count].windows(secret.len()).any(|window| window == secret), "the secret was sent");
        match impostor.feed(&hello[..count]) {
            Step::More => {}
            Step::Send(challenge) => break challenge,
            other => panic!("{other:?}"),
        }
    };
    connection.write_all(&challenge).unwrap();
    assert_eq!(connection.read(&mut [0]).unwrap(), 0, "it is answered");
    talk.end();
}

#[test]
fn nobody_is_dialled_whose_secret_cannot_be_read() {
    let mut talk = Talk::with_jobs("no-secret", &["m.1/0"]);
    let impostor = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    impostor.set_nonblocking(true).unwrap();
    talk.say(&json!({"watch": {"m.1/0": ["127.0.0.1", impostor.local_addr().unwrap().port()]}}));
    talk.say(&json!({"lease": 1, "s": 90})); // answered after that
    assert_eq!(talk.next()["is"], "alive");
    assert_eq!(impostor.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    talk.end();
}

#[test]
fn who_takes_the_port_of_an_agent_and_hangs_up_again_and_again_is_not_dialled_without_a_pause() {
    let mut talk = Talk::with_jobs("hangs-up", &["m.1/0"]);
    let (impostor, connection) = talk.watch("m.1/0");
    drop(connection);
    drop(impostor.accept().unwrap());
    impostor.set_nonblocking(true).unwrap();
    let (began, mut count) = (Instant::now(), 1);
    while began.elapsed() < Duration::from_secs(1) {
        match impostor.accept() {
            Ok(_) => count += 1,
            Err(_) => thread::sleep(Duration::from_micros(100)),
        }
    }
    assert!(count <= 6, "{count} connections in a second");
    // The agent may have been too busy for us: who is there then is asked for a proof.
    impostor.set_nonblocking(false).unwrap();
    let (mut again, _) = impostor.accept().unwrap();
    assert!(again.read(&mut [0; 64]).unwrap() > 0);
    talk.end();
}

#[test]
fn an_agent_admits_who_proves_that_it_knows_the_secret_and_nobody_who_repeats_what_was_said() {
    let talk = Talk::with_jobs("repeated", &["m.1/0"]);
    let place = Place { run: talk.run.clone(), job: "m.1/0".into(), patience: NEVER, python: "python3".into() };
    let agent = thread::spawn(move || Agent::new(place, Pauses { first: NEVER, longest: NEVER }).unwrap().run());
    let folder = talk.run.join("jobs/m.1/0");
    let ready: Value = loop {
        match fs::read_to_string(folder.join("reports")) {
            Ok(text) if text.ends_with('\n') => break serde_json::from_str(&text).unwrap(),
            _ => thread::yield_now(),
        }
    };
    let port = ready["port"].as_u64().unwrap() as u16;
    let secret = fs::read(folder.join("secret")).unwrap();
    let (mut dialler, hello) = Dialler::new(party(&secret, "login proxy"), Role::Agent, "agent", false).unwrap();
    let challenged = || {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        connection.set_read_timeout(Some(LIMIT)).unwrap();
        connection.write_all(&hello).unwrap();
        let mut bytes = [0; 1024];
        let count = connection.read(&mut bytes).unwrap();
        (connection, bytes[..count].to_vec())
    };
    let is_admitted = |connection: &mut TcpStream| {
        let mut answer = [0];
        connection.read(&mut answer).unwrap() == 1 && answer == *b"n"
    };
    let (mut watcher, challenge) = challenged();
    let Step::Done { send: proof, .. } = dialler.feed(&challenge) else { panic!("it is not the agent") };
    watcher.write_all(&proof).unwrap();
    assert!(is_admitted(&mut watcher));
    let (mut stranger, _) = challenged();
    stranger.write_all(&proof).unwrap();
    assert!(!is_admitted(&mut stranger));
    // The agent polls its orders only when it is told to.
    append(&folder.join("orders"), b"{\"n\": 1, \"do\": \"abort\"}\n").unwrap();
    watcher.write_all(b"n").unwrap();
    assert_eq!(agent.join().unwrap(), Ok(Some(Status::Aborted)));
    talk.end();
}
