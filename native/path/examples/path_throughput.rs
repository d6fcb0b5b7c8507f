//! How fast a path is: `path_throughput listen HOST:PORT` at one end, `path_throughput dial HOST:PORT STREAMS|auto MIB COUNT [tls]` at the other;
//! `path_throughput loop STREAMS|auto MIB COUNT [tls|relay]` is both; with `relay` a program between two paths passes everything on. Prints the rate of each message, in MB/s, as the receiver's answer shows it.
//! The secret is no secret here: for measurements only. `XMML_PATH_WINDOW` sets the socket buffers, in bytes,
//! `XMML_PATH_ZERO_COPY` (auto, on, off) whether the path sends without copies.

use std::time::{Duration, Instant};

use xmml_path::{relay, Credentials, Identity, Lane, Listener, Path, Received, Settings, Streams, Tls, ZeroCopy};
use xmml_wire::buffer::Buffer;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const LIMIT: Option<Duration> = Some(Duration::from_secs(300));

fn identity(name: &str) -> Identity {
    Identity::new(b"for measurements only", "measurement", name)
}

fn settings(streams: Option<&str>) -> Outcome<Settings> {
    let streams = match streams {
        None | Some("auto") => Streams::Auto,
        Some(count) => Streams::Fixed(count.parse()?),
    };
    let socket_buffer = match std::env::var("XMML_PATH_WINDOW") {
        Ok(bytes) => Some(bytes.parse()?),
        Err(_) => None,
    };
    let zero_copy = match std::env::var("XMML_PATH_ZERO_COPY") {
        Ok(name) => ZeroCopy::from_name(&name).ok_or("XMML_PATH_ZERO_COPY is auto, on or off")?,
        Err(_) => ZeroCopy::Auto,
    };
    Ok(Settings { streams, socket_buffer, queue: 1 << 30, zero_copy, ..Settings::default() })
}

/// Answers each message when it has come whole.
fn answer(listener: &Listener) -> Outcome<()> {
    let path = listener.accept(LIMIT)?.ok_or("nobody dials")?;
    path.attend()?;
    while let Some(Received::Message(_)) = path.receive(Lane::Bulk, LIMIT)? {
        path.post(Lane::Control, Buffer::empty())?;
    }
    path.close(LIMIT)?;
    Ok(())
}

fn measure(path: &Path, mebibytes: usize, count: usize) -> Outcome<()> {
    path.attend()?;
    path.wait_open(LIMIT)?;
    let payload = Buffer::copy_of(&vec![7; mebibytes << 20]);
    for number in 0..count {
        let begun = Instant::now();
        path.post(Lane::Bulk, payload.clone())?;
        path.receive(Lane::Control, LIMIT)?.ok_or("no answer in time")?;
        let seconds = begun.elapsed().as_secs_f64();
        let stats = path.stats();
        println!(
            "{number} {:.1} MB/s streams {} chunk {} rtt {:.4} retransmitted {}",
            payload.len() as f64 / seconds / 1e6,
            stats.streams,
            stats.chunk,
            stats.round_trip,
            stats.retransmitted
        );
    }
    path.close(LIMIT)?;
    Ok(())
}

fn through_a_relay(streams: &str, mebibytes: usize, count: usize) -> Outcome<()> {
    let (here, there) = (identity("here"), identity("there"));
    let (last, middle) = (
        Listener::bind("127.0.0.1:0", &there, settings(None)?)?,
        Listener::bind("127.0.0.1:0", &there, settings(None)?)?,
    );
    let (to, from, of_far) = (last.address(), middle.address(), settings(Some(streams))?);
    let answering = std::thread::spawn(move || answer(&last).map_err(|error| error.to_string()));
    let passing = std::thread::spawn(move || {
        let far = Path::dial(&to, &here, "there", of_far)?;
        let near = middle.accept(LIMIT)?.expect("somebody dials");
        relay(&near, &far)?;
        near.close(LIMIT)?;
        far.close(LIMIT)
    });
    let path = Path::dial(&from, &identity("here"), "there", settings(Some(streams))?)?;
    measure(&path, mebibytes, count)?;
    passing.join().map_err(|_| "the relay panicked")??;
    answering.join().map_err(|_| "the answering end panicked")??;
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["listen", address] => answer(&Listener::bind(address, &identity("there"), settings(None)?)?),
        ["dial", address, streams, mebibytes, count] => {
            let path = Path::dial(address, &identity("here"), "there", settings(Some(streams))?)?;
            measure(&path, mebibytes.parse()?, count.parse()?)
        }
        ["loop", streams, mebibytes, count, ref rest @ ..] => {
            let (mut here, mut there) = (identity("here"), identity("there"));
            if rest == ["relay"] {
                return through_a_relay(streams, mebibytes.parse()?, count.parse()?);
            }
            if rest == ["tls"] {
                let hour = Duration::from_secs(3600);
                let (mine, theirs) = (Credentials::make("here", hour)?, Credentials::make("there", hour)?);
                here = here.encrypted(Tls::new(&mine, &[theirs.fingerprint()])?);
                there = there.encrypted(Tls::new(&theirs, &[mine.fingerprint()])?);
            }
            let listener = Listener::bind("127.0.0.1:0", &there, settings(None)?)?;
            let address = listener.address();
            let answering = std::thread::spawn(move || answer(&listener).map_err(|error| error.to_string()));
            let path = Path::dial(&address, &here, "there", settings(Some(streams))?)?;
            measure(&path, mebibytes.parse()?, count.parse()?)?;
            answering.join().map_err(|_| "the answering end panicked")??;
            Ok(())
        }
        _ => Err(
            "usage: path_throughput listen HOST:PORT | dial HOST:PORT STREAMS MIB COUNT | loop STREAMS MIB COUNT [tls|relay]"
                .into(),
        ),
    }
}
