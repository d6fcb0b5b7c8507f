//! Conduits over TCP whose connections are cut again and again. Alone in its process, since it cuts every TCP connection there is.

mod support;

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use support::{await_while_moving, Model, Run};
use xmml_core::instance::{Instance, Received, Stamps};
use xmml_wire::data::{Array, Data, Dtype, Order};

/// Ends both directions of every connected TCP socket of this process; returns how many there were.
fn cut_everything() -> usize {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return 0 };
    let descriptors = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    descriptors.filter(|fd| option(*fd, libc::SO_DOMAIN) == Some(libc::AF_INET)).filter(|fd| cut(*fd)).count()
}

fn cut(fd: RawFd) -> bool {
    // SAFETY: shutdown takes no pointers; of a socket that was closed meanwhile it fails.
    option(fd, libc::SO_ACCEPTCONN) == Some(0) && unsafe { libc::shutdown(fd, libc::SHUT_RDWR) } == 0
}

fn option(fd: RawFd, name: i32) -> Option<i32> {
    let mut value = 0i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointers describe `value` and `length`, which outlive the call.
    let status = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length) };
    (status == 0).then_some(value)
}

/// A message that tells its number, and is large now and then.
fn payload(number: u64) -> Data {
    let count = if number % 50 == 0 { 300_000 } else { 1 + number % 7 };
    let bytes: Vec<u8> = (0..count).flat_map(|_| number.to_le_bytes()).collect();
    let array = Array { dtype: Dtype::U64, order: Order::RowMajor, shape: vec![count].into(), data: bytes.into() };
    Data::Array(array)
}

fn talk(me: &Instance, passed: &AtomicU64) {
    assert!(me.reuse().unwrap());
    let mut number = 0;
    while me.next_step().unwrap().is_some() {
        me.send("o", None, payload(number), Stamps::default()).unwrap();
        match me.receive("i", None, None).unwrap() {
            Received::Message(message) => assert_eq!(message.data, payload(number), "MESSAGES WRONG: {number}"),
            other => panic!("message {number}: {other:?}"),
        }
        number += 1;
        passed.fetch_add(1, Ordering::Relaxed);
    }
    me.leave().unwrap();
}

/// Ends the cutting also when a test fails.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Stops the run when a test fails, whose threads would wait for ever otherwise.
struct Stopping<'a>(&'a Run);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("events: {:?}", self.0.drain());
            self.0.coordinator.abort("the test has failed");
        }
    }
}

/// Runs this while every TCP connection is cut every few milliseconds; returns how many were. `passed` counts messages.
fn while_everything_is_cut(run: &Run, passed: &AtomicU64, talks: Vec<Box<dyn FnOnce() + Send + '_>>) -> usize {
    let going = AtomicBool::new(true);
    let mut cuts = 0;
    std::thread::scope(|scope| {
        let ends: Vec<_> = talks.into_iter().map(|talk| scope.spawn(talk)).collect();
        scope.spawn(|| {
            while going.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(3));
                cuts += cut_everything();
            }
        });
        let _stopping = (Stopping(run), Ending(&going));
        await_while_moving(
            "all come to an end",
            || passed.load(Ordering::Relaxed),
            || ends.iter().all(|end| end.is_finished()).then_some(()),
        );
    });
    cuts
}

#[test]
fn no_message_is_lost_or_doubled_however_often_the_connections_break() {
    let steps = if std::env::var_os("XMML_SOAK").is_some() { 30_000 } else { 1_500 };
    let model = Model::by("tcp")
        .submodel("a", "o:Oi i:S", steps)
        .submodel("b", "o:Oi i:S", steps)
        .couple("a.o", "b.i")
        .couple("b.o", "a.i");
    let run = Run::of(model);
    let (a, b) = (run.join("a"), run.join("b"));
    let passed = AtomicU64::new(0);
    let talks: Vec<Box<dyn FnOnce() + Send>> = vec![Box::new(|| talk(&a, &passed)), Box::new(|| talk(&b, &passed))];
    let cuts = while_everything_is_cut(&run, &passed, talks);
    assert!(cuts > 0, "nothing was cut");
}

#[test]
fn a_conduit_that_a_handle_has_made_loses_and_doubles_nothing_either() {
    let count = if std::env::var_os("XMML_SOAK").is_some() { 20_000 } else { 1_000 };
    let model = Model::by("tcp")
        .submodel("giver", "news:Oi answers:S!", 1)
        .submodel("teller", "from:S news:Oi", 1)
        .submodel("user", "from:S answers:Oi!", 1)
        .couple("giver.news", "teller.from")
        .couple("teller.news", "user.from")
        .with("giver", |spec| spec.check_order = false)
        .with("user", |spec| spec.check_order = false);
    let model = model.with("teller", |spec| spec.check_order = false);
    let run = Run::of(model);
    let [giver, teller, user] = ["giver", "teller", "user"].map(|name| run.join(name));
    let next = |me: &Instance, port: &str| match me.receive(port, None, None).unwrap() {
        Received::Message(message) => Some(message.data),
        Received::Ended => None,
        other => panic!("{other:?}"),
    };
    let passed = AtomicU64::new(0);
    let give = || {
        let handle = giver.handle("answers", 1, &["tcp".to_owned()]).unwrap();
        giver.send("news", None, Data::Bytes(handle.into()), Stamps::default()).unwrap();
        for number in 0..count {
            assert_eq!(next(&giver, "answers"), Some(payload(number)), "MESSAGES WRONG: {number}");
            passed.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(next(&giver, "answers"), None);
        giver.leave().unwrap();
    };
    let tell = || {
        teller.send("news", None, next(&teller, "from").unwrap(), Stamps::default()).unwrap();
        teller.leave().unwrap();
    };
    let ask = || {
        let Some(Data::Bytes(handle)) = next(&user, "from") else { panic!("no handle") };
        user.open("answers", &handle).unwrap();
        for number in 0..count {
            user.send("answers", None, payload(number), Stamps::default()).unwrap();
        }
        user.leave().unwrap();
    };
    let cuts = while_everything_is_cut(&run, &passed, vec![Box::new(give), Box::new(tell), Box::new(ask)]);
    assert!(cuts > 0, "nothing was cut");
}
