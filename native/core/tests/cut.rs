//! Conduits over TCP whose connections are cut again and again. Alone in its process, since it cuts every TCP connection there is.

mod support;

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{Model, Run};
use xmml_core::data::{Array, Data, Dtype, Order};
use xmml_core::instance::{Instance, Received};

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
    let array = Array { dtype: Dtype::U64, order: Order::RowMajor, shape: vec![count], data: bytes.into() };
    Data::Array(array)
}

fn talk(me: &Instance) {
    assert!(me.reuse().unwrap());
    let mut number = 0;
    while me.next_step().unwrap().is_some() {
        me.send("o", None, payload(number), None, None).unwrap();
        match me.receive("i", None, None).unwrap() {
            Received::Message(message) => assert_eq!(message.data, payload(number), "message {number}"),
            other => panic!("message {number}: {other:?}"),
        }
        number += 1;
    }
    me.leave().unwrap();
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
    let going = AtomicBool::new(true);
    let mut cuts = 0;
    std::thread::scope(|scope| {
        let ends = [scope.spawn(|| talk(&a)), scope.spawn(|| talk(&b))];
        scope.spawn(|| {
            while going.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(3));
                cuts += cut_everything();
            }
        });
        let until = Instant::now() + Duration::from_secs(if steps > 10_000 { 600 } else { 60 });
        while !ends.iter().all(|end| end.is_finished()) {
            if Instant::now() > until {
                eprintln!("the two do not come to an end; events: {:?}", run.drain());
                std::process::abort();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        going.store(false, Ordering::Relaxed);
    });
    assert!(cuts > 0, "nothing was cut");
}
