//! Numbered messages that pass there and back while something is done to relays: nothing may be lost, doubled, reordered or altered.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::{await_while_moving, Pipe, Site, RUN, SECRET};

/// So many messages pass at least before something is done, and when it is done.
const SOME: u64 = 50;

/// A message by its number: of any length up to some packets, with the length in front.
fn message(number: u64) -> Vec<u8> {
    let length = number.wrapping_mul(7919) % 5000;
    let body = (0..length).map(|at| (number.wrapping_mul(31).wrapping_add(at) >> 3) as u8);
    length.to_le_bytes().into_iter().chain(number.to_le_bytes()).chain(body).collect()
}

/// Somebody who sends messages, and somebody who checks them and sends them back, until the count is asked for.
pub struct Flow {
    is_over: Arc<AtomicBool>,
    passed: Arc<AtomicU64>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<u64>,
}

impl Flow {
    /// Between two processes of one site.
    pub fn at(site: &Site) -> Flow {
        Flow::along(site, site)
    }

    /// From a process of one site to one of another, which has to be in reach.
    pub fn along(from: &Site, to: &Site) -> Flow {
        Flow::of((RUN, SECRET), from, to)
    }

    /// The same of another run.
    pub fn of(run: (&str, &[u8]), from: &Site, to: &Site) -> Flow {
        let listener = to.listener_of(run, "counting");
        let (near, far) = from.pipe_of(run, &to.name, "counting", &*listener);
        let (is_over, passed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (until, count) = (is_over.clone(), passed.clone());
        let sender = std::thread::spawn(move || send(&near, &until, &count));
        let receiver = std::thread::spawn(move || send_back(&far));
        let flow = Flow { is_over, passed, sender, receiver };
        flow.goes_on();
        flow
    }

    /// Waits until messages have passed that were not under way before.
    pub fn goes_on(&self) {
        let wanted = self.passed.load(Ordering::Relaxed) + SOME;
        let passed = || self.passed.load(Ordering::Relaxed);
        await_while_moving("messages pass", passed, || (passed() >= wanted || self.sender.is_finished()).then_some(()));
    }

    /// Messages still pass, and both ends have counted as many; returns how many.
    pub fn counted(self) -> u64 {
        self.goes_on();
        self.is_over.store(true, Ordering::Relaxed);
        let (sent, came) = (self.sender.join().unwrap(), self.receiver.join().unwrap());
        assert_eq!(sent, came, "MESSAGES WRONG: what came is not what was sent");
        assert!(sent >= 2 * SOME, "only {sent} messages passed");
        sent
    }
}

fn send(pipe: &Pipe, is_over: &AtomicBool, passed: &AtomicU64) -> u64 {
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let message = message(number);
        pipe.send(&message);
        let came = receive(pipe, number, message.len());
        assert!(came == message, "MESSAGES WRONG: message {number} on its way back has {} bytes", came.len());
        number += 1;
        passed.store(number, Ordering::Relaxed);
    }
    pipe.finish();
    number
}

/// So many bytes of a message, or less if the stream ends before.
fn receive(pipe: &Pipe, number: u64, count: usize) -> Vec<u8> {
    let came = pipe.receive_or_not(count);
    came.unwrap_or_else(|| panic!("MESSAGES WRONG: message {number} does not come"))
}

fn send_back(pipe: &Pipe) -> u64 {
    for number in 0.. {
        let head = receive(pipe, number, 8);
        if head.is_empty() {
            return number;
        }
        let wanted = message(number);
        assert_eq!(head, wanted[..8], "MESSAGES WRONG: message {number}");
        let body = receive(pipe, number, wanted.len() - 8);
        assert!(body == wanted[8..], "MESSAGES WRONG: message {number} is altered");
        pipe.send(&wanted);
    }
    unreachable!()
}
