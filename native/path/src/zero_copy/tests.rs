//! Over real sockets, whose kernel tells of real sends.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use socket2::{Domain, SockAddr, Socket, Type};

use xmml_wire::buffer::BufferPool;
use xmml_wire::wakeup::{Epoll, Interest};

use super::*;
use crate::frame::{Lane, Receipt};
use crate::session::{Bounds, Session};
use crate::settings::Settings;
use crate::socket::TcpWire;
use crate::stream::Stream;
use crate::waiting::await_that;

/// Fits into the buffers of a socket whose other end does not read, but by far not into those of the other end.
const MESSAGE: usize = 128 << 10;

const PIECE: usize = 64 << 10;

/// A stream that has all of a message, and the other end of its connection, where nothing is read and little fits.
struct Sent {
    stream: Stream,
    session: Mutex<Session>,
    peer: TcpStream,
}

fn sent(wanted: ZeroCopy, message: Buffer) -> Sent {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.set_recv_buffer_size(16 << 10).unwrap();
    listener.bind(&SockAddr::from(std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).unwrap();
    listener.listen(1).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let wire = TcpWire::connect(address, &Settings { socket_buffer: Some(1 << 20), ..Settings::default() }).unwrap();
    let peer: TcpStream = listener.accept().unwrap().0.into();

    let bounds = Bounds { control_window: 1 << 20, bulk_window: 64 << 20, max_message: 64 << 20, relays: false };
    let pool = BufferPool::new();
    let (mut session, mut other) = (Session::new(bounds, &pool), Session::new(bounds, &pool));
    session.attach(0, &other.have()).unwrap();
    session.have(); // no receipt is due
    session.send(Lane::Bulk, message).unwrap();
    let session = Mutex::new(session);
    let watch = Arc::new(Epoll::new().unwrap());
    watch.add(wire.fd(), 1, Interest::READ).unwrap();
    let stream = Stream::new(0, 1, Arc::new(wire), watch, &[]);
    stream.io().is_attached = true;
    stream.io().uncopied.set(wanted, &*stream.wire, false);
    let sent = Sent { stream, session, peer };
    sent.give();
    sent
}

impl Sent {
    /// Gives the kernel all of the message.
    fn give(&self) {
        await_that("it comes about", || {
            self.stream.write(Some(&self.session), PIECE as u64).unwrap();
            self.stream.io().is_idle() && !self.session.lock().unwrap().has_unsent()
        });
    }

    /// Another stream has brought the message, and the other end says so.
    fn is_receipted(&self) {
        let mut session = self.session.lock().unwrap();
        let end = session.outbox(Lane::Bulk).end();
        let receipt = Receipt { lane: Lane::Bulk, all_before: end, delivered: None, credit: end, besides: Vec::new() };
        session.receipted(&receipt).unwrap();
    }

    fn is_pending(&self) -> bool {
        let mut io = self.stream.io();
        io.uncopied.hear();
        io.uncopied.is_pending()
    }
}

/// Takes all that is on its way; the bytes of a message are among it.
fn taken(peer: &mut TcpStream, least: usize) -> Vec<u8> {
    let mut taken = vec![0; least];
    peer.read_exact(&mut taken).unwrap();
    taken
}

/// Memory that says when nobody holds it any more.
struct Watched(Vec<u8>, Arc<AtomicBool>);

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.store(true, Ordering::SeqCst);
    }
}

fn watched() -> (Watched, Arc<AtomicBool>) {
    let is_gone = Arc::new(AtomicBool::new(false));
    (Watched(vec![7; MESSAGE], is_gone.clone()), is_gone)
}

#[test]
fn the_kernel_tells_that_it_has_copied_and_a_stream_then_sends_as_usual() {
    let mut sent = sent(ZeroCopy::Auto, vec![7; MESSAGE].into());
    assert_eq!(sent.stream.io().uncopied.bytes, PIECE as u64, "one piece only, before the kernel has answered");
    taken(&mut sent.peer, MESSAGE);
    await_that("it comes about", || !sent.is_pending());
    assert_eq!(sent.stream.io().uncopied.copies(), Some(Copies::Kernel));
    sent.session.lock().unwrap().send(Lane::Bulk, vec![7; MESSAGE].into()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| taken(&mut sent.peer.try_clone().unwrap(), MESSAGE));
        sent.give();
    });
    assert_eq!(sent.stream.io().uncopied.bytes, PIECE as u64);
}

#[test]
fn what_the_program_may_change_is_copied() {
    let lent = sent(ZeroCopy::On, Buffer::from_owner(vec![7; MESSAGE]));
    let constant = sent(ZeroCopy::On, vec![7; MESSAGE].into());
    let short = sent(ZeroCopy::On, vec![7; LEAST - 1].into());
    let bytes = [lent, constant, short].map(|sent| sent.stream.io().uncopied.bytes);
    assert_eq!(bytes, [0, MESSAGE as u64, 0]);
}

#[test]
fn memory_is_not_used_again_before_the_kernel_has_let_go_of_it() {
    let pool = BufferPool::new();
    let mut message = pool.take(MESSAGE).unwrap();
    message.fill(7);
    let address = message.as_ptr();
    let mut sent = sent(ZeroCopy::On, message.freeze());
    sent.is_receipted();
    assert_eq!(sent.session.lock().unwrap().outbox(Lane::Bulk).kept(), 0);
    // The program goes on with what it takes to be free.
    let mut next = pool.take(MESSAGE).unwrap();
    next.fill(9);
    assert_ne!(next.as_ptr(), address);
    let taken = taken(&mut sent.peer, MESSAGE);
    assert!(taken.iter().filter(|byte| **byte == 7).count() > MESSAGE - 1000, "what was on its way was changed");
    await_that("it comes about", || !sent.is_pending());
    drop(next);
    assert_eq!(pool.kept_bytes(), 2 * MESSAGE, "it can be used again");
}

#[test]
fn memory_outlives_a_stream_that_has_ended_until_everything_has_arrived() {
    let (memory, is_gone) = watched();
    let mut sent = sent(ZeroCopy::On, Buffer::from_constant(memory));
    sent.is_receipted();
    sent.stream.wire.shut();
    drop(sent.stream);
    assert!(!is_gone.load(Ordering::SeqCst), "the kernel still reads it");
    let mut taken = Vec::new();
    sent.peer.read_to_end(&mut taken).unwrap();
    assert!(taken.len() > MESSAGE && taken.iter().filter(|byte| **byte == 7).count() >= MESSAGE);
    await_that("it comes about", || is_gone.load(Ordering::SeqCst));
}

#[test]
fn a_connection_whose_other_end_takes_nothing_is_broken_off_and_its_memory_let_go() {
    let (memory, is_gone) = watched();
    let mut sent = sent(ZeroCopy::On, Buffer::from_constant(memory));
    sent.is_receipted();
    drop(sent.stream);
    assert!(!is_gone.load(Ordering::SeqCst));
    await_that("it comes about", || is_gone.load(Ordering::SeqCst));
    let mut taken = Vec::new();
    let ended = sent.peer.read_to_end(&mut taken);
    assert_eq!(ended.map_err(|error| error.kind()), Err(io::ErrorKind::ConnectionReset));
    assert!(taken.len() < MESSAGE, "it was sent to an end that does not read");
}

#[test]
fn no_more_memory_is_held_than_a_socket_takes() {
    let sent = sent(ZeroCopy::On, vec![7; MESSAGE].into());
    let mut gone = Vec::new();
    // The other end takes nothing more, but other streams bring it what this one has.
    for _ in 0..100 {
        let (memory, is_gone) = watched();
        gone.push(is_gone);
        sent.session.lock().unwrap().send(Lane::Bulk, Buffer::from_constant(memory)).unwrap();
        sent.stream.write(Some(&sent.session), PIECE as u64).unwrap();
        let mut session = sent.session.lock().unwrap();
        while session.next(0, 1 << 20).is_some() {}
        drop(session);
        sent.is_receipted();
    }
    let held = gone.iter().filter(|is_gone| !is_gone.load(Ordering::SeqCst)).count();
    let room = SockRef::from(&sent.stream.wire.bare_socket().unwrap()).send_buffer_size().unwrap();
    assert!(held <= room / MESSAGE + 1, "{held} messages of {MESSAGE} bytes are held; the socket takes {room}");
}

#[test]
fn notices_come_in_any_order_and_their_numbers_begin_again() {
    let sent = sent(ZeroCopy::Off, Buffer::empty());
    let mut pending = Pending::new(sent.stream.wire.clone());
    let message = |number: u8| Buffer::from(vec![number; 10]);
    let before = u64::from(u32::MAX) - 1;
    pending.skip_to(before);
    (0..4).for_each(|number| pending.add(&message(number)));
    let notice = |first: u64, last: u64| Notice::of((before + first) as u32, (before + last) as u32, false);
    pending.take_in(&notice(3, 3));
    assert_eq!(pending.held(), 4, "those before it are still read");
    pending.take_in(&notice(0, 1));
    assert_eq!(pending.held(), 2);
    pending.take_in(&notice(4, 9));
    assert!(pending.is_open(), "nobody has sent those");
    pending.take_in(&notice(2, 2));
    assert_eq!((pending.held(), pending.is_open()), (0, false));
}

#[test]
fn a_stream_whose_sends_are_not_copied_goes_on_until_one_is() {
    let sent = sent(ZeroCopy::Auto, Buffer::empty());
    let mut io = sent.stream.io();
    let data = Buffer::from(vec![1; LEAST]);
    assert!(io.uncopied.takes(&data, 0) && !io.uncopied.takes(&data, 1));
    io.uncopied.learn(&Notice::of(0, 0, false));
    assert_eq!(io.uncopied.copies(), None);
    io.uncopied.learn(&Notice::of(1, 1, true));
    assert_eq!((io.uncopied.copies(), io.uncopied.takes(&data, 0)), (Some(Copies::Kernel), false));
    io.uncopied.set(ZeroCopy::On, &*sent.stream.wire, false);
    assert!(io.uncopied.takes(&data, 0));
    io.uncopied.set(ZeroCopy::Off, &*sent.stream.wire, false);
    io.uncopied.learn(&Notice::of(2, 2, false));
    assert_eq!((io.uncopied.copies(), io.uncopied.takes(&data, 0)), (Some(Copies::Told), false));
}
