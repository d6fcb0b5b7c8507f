//! What it costs to sleep for each message. The only test of this program: it sets the environment.

mod support;

use support::{receive, send, Model, Run};

const MESSAGES: u64 = 200;

/// How often this thread has called read(2) and write(2); `None`: this system does not count that.
fn calls() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    let count = |name| counts.lines().find_map(|line| line.strip_prefix(name))?.trim().parse::<u64>().ok();
    Some(count("syscr:")? + count("syscw:")?)
}

#[test]
fn who_is_woken_for_a_message_does_not_raise_its_own_flag() {
    std::env::set_var("XMML_SPIN_US", "0");
    let model = Model::by("shm").submodel("a", "out:Oi in:S", MESSAGES).submodel("b", "in:S out:Oi", MESSAGES);
    let run = Run::of(model.with("b", |spec| spec.check_order = false).couple("a.out", "b.in").couple("b.out", "a.in"));
    let (a, b) = (run.join("a"), run.join("b"));
    let answers = std::thread::spawn(move || {
        b.reuse().unwrap();
        let before = calls();
        for number in 0..MESSAGES as i64 {
            assert_eq!(receive(&b, "in"), Some(number));
            send(&b, "out", number);
        }
        Some(calls()? - before?)
    });
    a.reuse().unwrap();
    for number in 0..MESSAGES as i64 {
        send(&a, "out", number);
        assert_eq!(receive(&a, "in"), Some(number));
    }
    // Poll, and the bell from and to the socket, are no such calls; to raise and lower a flag are two.
    if let Some(calls) = answers.join().unwrap() {
        assert!(calls < MESSAGES, "{calls} calls for {MESSAGES} messages");
    }
}
