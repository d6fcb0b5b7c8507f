//! What unit tests of several parts of the relay need.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use xmml_path::{Identity, Lane, Listener, Path, Settings, State};
use xmml_wire::frame::HEAD;
use xmml_wire::message_pack;
use xmml_wire::methods::relay::asking::Inbox;
use xmml_wire::methods::relay::protocol::FromRelay;
use xmml_wire::wakeup::Ready;

use crate::link_frame::{self, LinkFrame, LinkMessage};
use crate::log::{Format, Level, Log};
use crate::nonblocking_tcp::NonblockingTcp;
use crate::relay::poller::Poller;
use crate::waiting::{await_some, await_that, LIMIT};

/// Returns a log into memory.
pub fn memory_log() -> Log {
    Log::to_memory(Format::Text, Level::Debug)
}

/// Waits until descriptors are ready, and returns which.
pub fn await_ready(poller: &Poller) -> Vec<Ready> {
    let mut ready = Vec::new();
    poller.wait(&mut ready, Some(Instant::now() + LIMIT)).unwrap();
    assert!(!ready.is_empty(), "nothing has happened for {LIMIT:?}");
    ready
}

/// Returns a connection as the relay has it, and the end of its peer.
pub fn tcp() -> (NonblockingTcp, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (socket, from) = listener.accept().unwrap();
    (NonblockingTcp::new(socket, from).unwrap(), peer)
}

/// Waits for the next answer that a process gets.
pub fn next_answer(process: &TcpStream) -> FromRelay {
    let wire = NonblockingTcp::new(process.try_clone().unwrap(), process.peer_addr().unwrap()).unwrap();
    let mut inbox = Inbox::default();
    let (_, frame) = await_some("an answer", || inbox.next(&wire).unwrap());
    process.set_nonblocking(false).unwrap();
    message_pack::decode_from(&frame[HEAD..], "the relay").unwrap()
}

/// Waits for the next frame that arrives on a path.
pub fn next_frame(path: &Path, lane: Lane) -> LinkFrame {
    link_frame::read(await_some("a frame", || path.take(lane))).unwrap()
}

/// Waits for the next message that arrives on a path.
pub fn next_message(path: &Path) -> LinkMessage {
    match next_frame(path, Lane::Control) {
        LinkFrame::Message(message) => message,
        frame => panic!("{frame:?} is no message"),
    }
}

/// Returns the two ends of an open path, both of which are driven by threads.
pub fn paths() -> [Path; 2] {
    let identity = |name| Identity::new(b"the secret", "canal", name);
    let listener = Listener::bind("127.0.0.1:0", &identity("b"), Settings::default()).unwrap();
    listener.attend().unwrap();
    let near = Path::dial(&listener.address(), &identity("a"), "b", Settings::default()).unwrap();
    near.attend().unwrap();
    let far = listener.accept(Some(Duration::from_secs(20))).unwrap().unwrap();
    far.attend().unwrap();
    await_that("the path is open", || [&near, &far].iter().all(|path| matches!(path.state(), State::Open)));
    [near, far]
}
