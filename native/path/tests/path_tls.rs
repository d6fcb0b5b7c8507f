//! Encrypted paths: what passes, and who is not believed.

#[path = "support/path.rs"]
mod support;

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use support::{await_that, identity, payload, streams, LIMIT};
use xmml_path::{
    Credentials, Fingerprint, Identity, Lane, Listener, OutOfTime, Path, Received, Settings, State, Tls, TlsWire,
};
use xmml_wire::methods::Stream;

const HOUR: Duration = Duration::from_secs(3600);

fn tls(mine: &Credentials, theirs: &[Fingerprint]) -> Tls {
    Tls::new(mine, theirs).unwrap()
}

/// Dials a listener, each end with its identity; what comes of it.
fn meet(here: Identity, there: Identity, count: u32) -> Result<(Path, Path), (String, String)> {
    let listener = Listener::bind("127.0.0.1:0", &there, Settings::default()).unwrap();
    let path = Path::dial(&listener.address(), &here, "there", streams(count)).unwrap();
    path.attend().unwrap();
    loop {
        if let Some(other) = listener.accept(Some(Duration::from_millis(20))).unwrap() {
            other.attend().unwrap();
            return Ok((path, other));
        }
        if let State::Failed(error) = path.state() {
            return Err((error.to_string(), listener.refusals().1.unwrap_or_default()));
        }
    }
}

#[test]
fn encrypted_messages_pass_both_ways_over_any_number_of_streams() {
    let (mine, theirs) = (Credentials::make("here", HOUR).unwrap(), Credentials::make("there", HOUR).unwrap());
    for count in [1, 5] {
        let here = identity("here").encrypted(tls(&mine, &[theirs.fingerprint()]));
        let there = identity("there").encrypted(tls(&theirs, &[mine.fingerprint()]));
        let (here, there) = meet(here, there, count).unwrap();
        for (from, to) in [(&here, &there), (&there, &here)] {
            for (number, size) in [0, 10, 5000, 400_000, 20 << 20].into_iter().enumerate() {
                from.post(Lane::Bulk, payload(number as u64, size)).unwrap();
                let got = to.receive(Lane::Bulk, LIMIT).unwrap();
                assert!(got == Some(Received::Message(payload(number as u64, size))), "{size} bytes");
            }
        }
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(here.close(LIMIT).unwrap()));
            assert!(there.close(LIMIT).unwrap());
        });
    }
}

#[test]
fn threads_of_their_own_carry_streams_and_give_them_back() {
    let (mine, theirs) = (Credentials::make("here", HOUR).unwrap(), Credentials::make("there", HOUR).unwrap());
    let here = identity("here").encrypted(tls(&mine, &[theirs.fingerprint()]));
    let there = identity("there").encrypted(tls(&theirs, &[mine.fingerprint()]));
    let (here, there) = meet(here, there, 4).unwrap();
    let workers = || {
        let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "xmml-path-worke").count()
    };
    let mut number = 0;
    for (count, expected) in [(2, 4), (0, 0), (1, 2)] {
        for path in [&here, &there] {
            path.set(Settings { workers: Some(count), ..streams(4) }).unwrap();
        }
        await_that(&format!("{expected} threads"), || {
            for (from, to) in [(&here, &there), (&there, &here)] {
                from.post(Lane::Bulk, payload(number, 300_000)).unwrap();
                from.post(Lane::Control, payload(number, 10)).unwrap();
                assert!(to.receive(Lane::Control, LIMIT).unwrap() == Some(Received::Message(payload(number, 10))));
                assert!(to.receive(Lane::Bulk, LIMIT).unwrap() == Some(Received::Message(payload(number, 300_000))));
                number += 1;
            }
            workers() == expected
        });
        for (from, to) in [(&here, &there), (&there, &here)] {
            from.post(Lane::Bulk, payload(number, 8 << 20)).unwrap();
            assert!(to.receive(Lane::Bulk, LIMIT).unwrap() == Some(Received::Message(payload(number, 8 << 20))));
            number += 1;
        }
    }
    // Left to the path: none for a little, one for each core while much passes, none again.
    for path in [&here, &there] {
        path.set(streams(4)).unwrap();
    }
    let cores = std::thread::available_parallelism().unwrap().get();
    let much = if cores > 1 { 2 * cores.min(4) } else { 0 };
    for (size, expected) in [(1000, 0), (4 << 20, much), (1000, 0)] {
        await_that(&format!("{expected} threads"), || {
            // Much at a time, or between two looks little.
            let batch = if size == 1000 { 1 } else { 16 };
            for _ in 0..batch {
                here.post(Lane::Bulk, payload(number, size)).unwrap();
                assert!(there.receive(Lane::Bulk, LIMIT).unwrap() == Some(Received::Message(payload(number, size))));
                number += 1;
            }
            workers() == expected
        });
    }
}

#[test]
fn a_certificate_of_another_run_is_refused_whichever_end_has_it() {
    let make = |name| Credentials::make(name, HOUR).unwrap();
    let (mine, theirs, foreign) = (make("here"), make("there"), make("there"));
    let here = identity("here").encrypted(tls(&mine, &[theirs.fingerprint()]));
    let there = identity("there").encrypted(tls(&foreign, &[mine.fingerprint()]));
    let (told, _) = meet(here.clone(), there, 2).unwrap_err();
    assert!(told.contains("its certificate is not one of those that are trusted"), "{told}");

    let stranger = identity("here").encrypted(tls(&foreign, &[theirs.fingerprint()]));
    let there = identity("there").encrypted(tls(&theirs, &[mine.fingerprint()]));
    let (told, noted) = meet(stranger, there, 2).unwrap_err();
    assert!(told.contains("refuses the certificate of this end"), "{told}");
    assert!(noted.contains("not one of those that are trusted"), "{noted}");
}

#[test]
fn an_expired_certificate_is_refused_whichever_end_has_it() {
    let now = SystemTime::now();
    let good = Credentials::make("good", HOUR).unwrap();
    let old = Credentials::make_valid("old", now - 48 * HOUR, now - HOUR).unwrap();
    let (trust_old, trust_good) = ([old.fingerprint()], [good.fingerprint()]);
    let here = identity("here").encrypted(tls(&good, &trust_old));
    let (told, _) = meet(here, identity("there").encrypted(tls(&old, &trust_good)), 1).unwrap_err();
    assert!(told.contains("its certificate has expired"), "{told}");
    let here = identity("here").encrypted(tls(&old, &trust_good));
    let (told, noted) = meet(here, identity("there").encrypted(tls(&good, &trust_old)), 1).unwrap_err();
    assert!(told.contains("has expired there"), "{told}");
    assert!(noted.contains("its certificate has expired"), "{noted}");
}

#[test]
fn a_certificate_with_a_long_name_is_good_until_its_last_day_in_the_next_century() {
    let (from, to) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + 24 * 365 * 200 * HOUR);
    let made = Credentials::make_valid(&"n\u{e4}me, of=\"it\"\0".repeat(30), from, to).unwrap();
    assert_eq!(made.out_of_time(to - HOUR), None);
    assert_eq!(made.out_of_time(to + HOUR), Some(OutOfTime::Expired { at: to }));
}

#[test]
fn no_certificate_is_good_beyond_the_year_9999() {
    let refused = Credentials::make("here", Duration::MAX).unwrap_err().to_string();
    assert!(refused.contains("good beyond the year 9999"), "{refused}");
}

#[test]
fn encryption_at_one_end_only_is_told() {
    let (mine, theirs) = (Credentials::make("here", HOUR).unwrap(), Credentials::make("there", HOUR).unwrap());
    let here = identity("here").encrypted(tls(&mine, &[theirs.fingerprint()]));
    let (told, _) = meet(here, identity("there"), 1).unwrap_err();
    assert!(told.contains("encrypt the path at both ends, or at none"), "{told}");
}

#[test]
fn credentials_are_the_same_after_a_file() {
    let made = Credentials::make("here", HOUR).unwrap();
    let read = Credentials::from_pem(&made.to_pem()).unwrap();
    assert_eq!(read.fingerprint(), made.fingerprint());
    assert_eq!(made.fingerprint().to_string().parse::<Fingerprint>().unwrap(), made.fingerprint());
    assert!(Tls::new(&read, &[made.fingerprint()]).is_ok());
    assert!(Credentials::from_pem("nothing").is_err());
    assert!("0g".repeat(32).parse::<Fingerprint>().is_err());
}

/// A socket that counts what is written to it.
struct Counting {
    socket: UnixStream,
    written: Arc<AtomicUsize>,
}

impl Stream for Counting {
    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn peer(&self) -> &str {
        "the test"
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.socket).read(into)
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = (&self.socket).write_vectored(parts)?;
        self.written.fetch_add(count, Ordering::Relaxed);
        Ok(count)
    }

    fn shut(&self) {}
}

/// What small messages cost is records and system calls: the parts of one write are one record, and a read that has got it looks no
/// further.
#[test]
fn what_is_written_at_once_is_one_record_and_is_read_at_once() {
    const RECORD: usize = 5 + 1 + 16; // head, kind, seal
    let (mine, theirs) = (Credentials::make("here", HOUR).unwrap(), Credentials::make("there", HOUR).unwrap());
    let (one, other) = UnixStream::pair().unwrap();
    let written = Arc::new(AtomicUsize::new(0));
    let counting = |socket: UnixStream| {
        socket.set_nonblocking(true).unwrap();
        Box::new(Counting { socket, written: written.clone() })
    };
    let here = TlsWire::client(counting(one), &tls(&mine, &[theirs.fingerprint()])).unwrap();
    let there = TlsWire::server(counting(other), &tls(&theirs, &[mine.fingerprint()]), &[]).unwrap();
    let mut bytes = [0; 1024];
    let nothing = |wire: &TlsWire, bytes: &mut [u8]| {
        let _ = wire.flush();
        assert_eq!(wire.read(bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    };
    for _ in 0..5 {
        nothing(&here, &mut bytes);
        nothing(&there, &mut bytes);
    }
    let before = written.load(Ordering::Relaxed);
    let parts = [[1; 10], [2; 10], [3; 10]];
    assert_eq!(here.write(&parts.each_ref().map(|part| IoSlice::new(part))).unwrap(), 30);
    assert_eq!(written.load(Ordering::Relaxed) - before, 30 + RECORD);
    assert_eq!(there.read(&mut bytes).unwrap(), 30);
    assert_eq!(bytes[..30], parts.concat()[..]);
    assert!(!there.reads_ahead(), "it would be read once more, for nothing");
}
