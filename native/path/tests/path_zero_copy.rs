//! Paths that send without copying into the kernel: what they say of it, and what they do where the kernel has no room for it.

#[path = "support/path.rs"]
mod support;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use support::{await_some, identity, pair, pair_at, payload, streams, LIMIT};
use xmml_path::{Copies, Credentials, Lane, Listener, Path, Received, Settings, Stats, Tls, ZeroCopy};
use xmml_wire::buffer::Buffer;

/// Some pieces of which are long enough, also where four streams share them.
const LENGTH: usize = 8 << 20;

fn two_ways(path: &Path, other: &Path, rounds: u64) {
    for number in 0..rounds {
        for (from, to) in [(path, other), (other, path)] {
            from.post(Lane::Bulk, payload(number, LENGTH)).unwrap();
            assert!(to.receive(Lane::Bulk, LIMIT).unwrap() == Some(Received::Message(payload(number, LENGTH))));
        }
    }
}

/// Waits until the stats say what is expected; the kernel answers in its time.
fn until(path: &Path, is_so: impl Fn(&Stats) -> bool) -> Stats {
    await_some("the kernel says how it sends", || Some(path.stats()).filter(&is_so))
}

#[test]
fn by_default_each_stream_tries_one_piece_and_copies_where_the_kernel_does() {
    let (here, there) = pair(streams(4), Settings::default());
    assert_eq!(here.stats().why_copied, Some(Copies::Untried));
    two_ways(&here, &there, 4);
    let stats = until(&here, |stats| stats.why_copied == Some(Copies::Kernel));
    assert!((64 << 10..=4 << 20).contains(&stats.zero_copy_bytes), "one piece of each stream: {stats:?}");
    assert_eq!(stats.zero_copy_streams, 0);
}

#[test]
fn it_can_be_forced_and_forbidden_while_messages_pass() {
    let wanted = |zero_copy| Settings { zero_copy, ..streams(2) };
    let (here, there) = pair(wanted(ZeroCopy::Off), wanted(ZeroCopy::Off));
    two_ways(&here, &there, 2);
    let stats = here.stats();
    assert_eq!((stats.zero_copy_bytes, stats.why_copied), (0, Some(Copies::Told)));
    here.set(wanted(ZeroCopy::On)).unwrap();
    two_ways(&here, &there, 2);
    let most = until(&here, |stats| stats.why_copied == Some(Copies::Kernel)).zero_copy_bytes;
    assert!(most > LENGTH as u64, "{most}");
    here.set(wanted(ZeroCopy::Off)).unwrap();
    two_ways(&here, &there, 2);
    let stats = here.stats();
    assert_eq!((stats.zero_copy_bytes, stats.why_copied), (most, Some(Copies::Told)));
}

#[test]
fn what_a_program_lends_is_copied() {
    let (here, there) = pair(Settings { zero_copy: ZeroCopy::On, ..streams(1) }, Settings::default());
    let memory = payload(1, LENGTH);
    here.post(Lane::Bulk, Buffer::from_owner(memory.clone())).unwrap();
    assert!(there.receive(Lane::Bulk, LIMIT).unwrap() == Some(Received::Message(memory)));
    assert_eq!(here.stats().zero_copy_bytes, 0);
}

#[test]
fn memory_may_change_when_it_was_sent_from() {
    // Longer than what is copied at once; by far not all of it fits where nobody reads, and what does not waits in this kernel.
    const LONG: usize = 160 << 10;
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), Settings::default()).unwrap();
    let settings = Settings { zero_copy: ZeroCopy::On, chunk: Some(80 << 10), ..streams(1) };
    let here = Path::dial(&listener.address(), &identity("here"), "there", settings).unwrap();
    here.attend().unwrap();
    let there = listener.accept(LIMIT).unwrap().expect("a path comes in");
    assert!(here.wait_open(LIMIT).unwrap());
    let mut memory = payload(1, LONG).to_vec();
    assert!(here.send_from(Lane::Bulk, &memory, LIMIT).unwrap());
    memory.fill(0xff);
    assert!(there.receive(Lane::Bulk, LIMIT).unwrap() == Some(Received::Message(payload(1, LONG))));
}

#[test]
fn an_encrypted_path_says_that_its_encryption_copies() {
    let hour = Duration::from_secs(3600);
    let (mine, theirs) = (Credentials::make("here", hour).unwrap(), Credentials::make("there", hour).unwrap());
    let tls = |own: &Credentials, other: &Credentials| Tls::new(own, &[other.fingerprint()]).unwrap();
    let on = Settings { zero_copy: ZeroCopy::On, ..streams(1) };
    let there = identity("there").encrypted(tls(&theirs, &mine));
    let listener = Listener::bind("127.0.0.1:0", &there, on.clone()).unwrap();
    let here = identity("here").encrypted(tls(&mine, &theirs));
    let here = Path::dial(&listener.address(), &here, "there", on).unwrap();
    here.attend().unwrap();
    let there = listener.accept(LIMIT).unwrap().expect("a path comes in");
    there.attend().unwrap();
    two_ways(&here, &there, 1);
    for path in [&here, &there] {
        let stats = path.stats();
        assert_eq!((stats.zero_copy_bytes, stats.why_copied), (0, Some(Copies::Encrypted)));
    }
}

/// In a process of its own, which may lock no memory.
#[test]
#[ignore = "another test starts it in a process of its own"]
fn without_memory_that_may_be_locked() {
    let listener = Listener::bind("127.0.0.1:0", &identity("there"), Settings::default()).unwrap();
    for zero_copy in [ZeroCopy::Auto, ZeroCopy::On] {
        let (here, there) = pair_at(&listener, &listener.address(), Settings { zero_copy, ..streams(2) });
        two_ways(&here, &there, 3);
        let stats = here.stats();
        assert_eq!((stats.zero_copy_bytes, stats.why_copied), (0, Some(Copies::NoRoom)), "{zero_copy:?}");
    }
}

#[test]
fn a_kernel_without_room_for_it_is_no_error() {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "without_memory_that_may_be_locked", "--ignored"]);
    let limited = || {
        const CAP_IPC_LOCK: libc::c_ulong = 14;
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `none` outlives the call, which may be made between fork and exec.
        if unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const none) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: takes no pointers. Only who is root has what is dropped here, and so only root may drop it.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0) };
        Ok(())
    };
    // SAFETY: nothing but two system calls is done in the child.
    unsafe { again.pre_exec(limited) };
    let output = again.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
