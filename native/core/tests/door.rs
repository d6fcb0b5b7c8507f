//! Strangers at the door of an instance: none of them gets in, and none disturbs the run.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use support::{receive, send, Model, Run, LIMIT, SECRET};
use xmml_core::coordinator::Event;
use xmml_wire::handshake::{fresh_nonce, Dialler, Party, Role, Step, TIMEOUT_S, VERSIONS};

fn party(secret: &[u8], run: &str, versions: (u16, u16)) -> Party {
    Party {
        secret: secret.to_vec(),
        run: run.into(),
        name: "a".into(),
        versions,
        nonce: fresh_nonce().unwrap(),
        private_key: fresh_nonce().unwrap(),
    }
}

/// Carries out a handshake; the stream after it, or why there is none.
fn shake(address: &str, me: Party) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let (mut dialler, hello) = Dialler::new(me, Role::Data, "b", false).unwrap();
    stream.write_all(&hello).unwrap();
    let mut bytes = [0; 1024];
    loop {
        let count = stream.read(&mut bytes).map_err(|error| error.to_string())?;
        if count == 0 {
            return Err("closed".into());
        }
        match dialler.feed(&bytes[..count]) {
            Step::More => {}
            Step::Send(send) => stream.write_all(&send).unwrap(),
            Step::Done { send, .. } => {
                stream.write_all(&send).unwrap();
                return Ok(stream);
            }
            Step::Refused { reason, .. } => return Err(reason.to_string()),
        }
    }
}

/// Whether the other side closes the connection; what it says before does not matter.
fn is_closed(mut stream: TcpStream) -> bool {
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn strangers_are_turned_away_and_reported_and_the_run_goes_on() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    std::env::set_var("XMML_LISTEN", &address); // this is the only test of its program
    let model = Model::by("tcp").submodel("a", "out:Oi", 100).submodel("b", "in:S", 100).couple("a.out", "b.in");
    let run = Run::of(model);
    let b = run.join("b");
    b.reuse().unwrap();

    // Garbage.
    for bytes in [vec![0; 4096], vec![0xff; 64], b"GET / HTTP/1.1\r\n\r\n".to_vec(), u64::MAX.to_le_bytes().repeat(16)]
    {
        let mut stream = TcpStream::connect(&address).unwrap();
        let _ = stream.write_all(&bytes);
        assert!(is_closed(stream));
    }
    run.event("the first is reported", |event| matches!(event, Event::Refused { .. }));

    // The wrong secret, run, version.
    assert!(shake(&address, party(&[8; 32], "test run", VERSIONS)).unwrap_err().contains("secret"));
    assert!(shake(&address, party(&SECRET, "another run", VERSIONS)).unwrap_err().contains("another run"));
    let error = shake(&address, party(&SECRET, "test run", (7, 9))).unwrap_err();
    assert!(error.contains("versions 1 to 1") && error.contains("7 to 9"), "{error}");

    // Half-open connections, more than are kept; the oldest give way.
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&address).unwrap()).collect();

    let a = run.join("a");
    a.reuse().unwrap();
    for value in 0..100 {
        send(&a, "out", value);
        assert_eq!(receive(&b, "in"), Some(value));
    }
    drop(silent);
    std::thread::scope(|scope| {
        scope.spawn(|| a.leave().unwrap()); // until b has read the end
        assert!(!b.reuse().unwrap());
        b.leave().unwrap();
    });
    let refused = run.drain().into_iter().filter(|event| matches!(event, Event::Refused { .. })).count();
    assert_eq!(refused, 0, "one source is reported once");
}

/// Whether it says nothing, or the beginning of a greeting byte by byte: each of them gives it no more time.
#[test]
fn who_does_not_prove_itself_in_time_is_turned_away() {
    // The coordinator's door has the same rules, and needs no environment.
    let run = Run::listening(Model::new(), Some("127.0.0.1:0"));
    let addresses = run.coordinator.addresses();
    let tcp = addresses.iter().find_map(|address| address.strip_prefix("tcp:")).unwrap();
    let connect = || TcpStream::connect(tcp.split('?').next().unwrap()).unwrap();
    std::thread::scope(|scope| {
        for is_slow in [false, true] {
            let (begin, stream) = (Instant::now(), connect());
            let mut writing = stream.try_clone().unwrap();
            if is_slow {
                let (_, hello) = Dialler::new(party(&SECRET, "test run", VERSIONS), Role::Data, "b", false).unwrap();
                scope.spawn(move || {
                    let is_turned_away = hello.into_iter().any(|byte| {
                        std::thread::sleep(Duration::from_millis(200));
                        writing.write_all(&[byte]).is_err()
                    });
                    assert!(is_turned_away, "all of the greeting was taken");
                });
            }
            scope.spawn(move || {
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                assert!(is_closed(stream));
                let seconds = begin.elapsed().as_secs_f64();
                assert!(seconds > 0.9 * TIMEOUT_S as f64, "{seconds} s, slow: {is_slow}");
            });
        }
    });
}
