//! A listener whose process has no descriptor left. Alone in its program: the limit is one of the process.

#[path = "support/path.rs"]
mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use support::{identity, streams, LIMIT};
use xmml_path::{Listener, Path, Settings};

/// Descriptors that this process may have.
const MOST: u64 = 256;

/// How long it is watched what the listener does, and how much of it its thread may work: without a rest it works all the time.
const WATCHED: Duration = Duration::from_millis(300);
const MOST_TICKS: u64 = 3;

/// Takes every descriptor that is left; they are free again when the result goes.
fn take_all() -> Vec<File> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = MOST;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    let taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!taken.is_empty());
    taken
}

/// What the kernel tells of the thread that attends listeners, as soon as that has taken its name.
fn porter() -> File {
    let begun = Instant::now();
    let is_porter = |name: String| name.trim_end() == "xmml-acceptor";
    loop {
        let mut threads = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        if let Some(thread) = threads.find(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(is_porter)) {
            return File::open(thread.join("stat")).unwrap();
        }
        assert!(begun.elapsed() < LIMIT.unwrap(), "nobody attends the listener");
        std::thread::yield_now();
    }
}

/// How long a thread has worked, in the kernel's ticks of 10 ms.
fn worked(stat: &File) -> u64 {
    let mut bytes = [0; 1024];
    let len = stat.read_at(&mut bytes, 0).unwrap();
    let text = std::str::from_utf8(&bytes[..len]).unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_listener_rests_while_there_is_no_descriptor_for_who_waits_and_goes_on_when_there_is() {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), Settings::default()).unwrap();
    listener.attend().unwrap();
    let address = listener.address();
    let stat = porter();
    let waiting = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let taken = take_all();
    waiting.connect(&address.parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    let before = worked(&stat);
    std::thread::sleep(WATCHED);
    let ticks = worked(&stat) - before;
    drop(taken);
    assert!(ticks <= MOST_TICKS, "it has worked {ticks} ticks of 10 ms");

    let here = Path::dial(&address, &identity("here"), "there", streams(2)).unwrap();
    assert!(here.wait_open(LIMIT).unwrap());
    assert!(listener.accept(LIMIT).unwrap().is_some());
}
