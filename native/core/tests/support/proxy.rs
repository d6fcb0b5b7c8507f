//! A proxy between those who dial it and a listener: it passes bytes on, and does to each connection what the test wants.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use xmml_core::instance::Instance;

use super::Run;

/// What happens to one connection. Bytes count from its beginning, in both directions together unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    /// It is cut after so many bytes.
    pub cut_after: Option<u64>,
    /// When it is cut, the listener learns of it so much later than the dialler.
    pub linger: Duration,
    /// After so many bytes nothing passes for a while.
    pub stall: Option<(u64, Duration)>,
    /// After so many bytes nothing passes any more, and nobody is told.
    pub silent_after: Option<u64>,
    /// After so many bytes the direction that has just carried one ends; the other goes on.
    pub half_close_after: Option<u64>,
    /// This bit, counted from the first byte of the dialler, arrives changed.
    pub flip: Option<u64>,
    /// This bit, counted from the first byte of the listener, arrives changed.
    pub flip_answer: Option<u64>,
}

/// A small generator; the same numbers in every run of a test.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// See the module.
pub struct Proxy {
    pub address: String,
    pub connections: Arc<AtomicU64>,
    /// How often something has been done to a connection.
    pub strikes: Arc<AtomicU64>,
    /// From now on nothing passes any more, and nobody is told.
    pub silence: Arc<AtomicBool>,
    target: Arc<Mutex<String>>,
    /// The diallers' ends of all connections.
    diallers: Arc<Mutex<Vec<TcpStream>>>,
    stop: Arc<AtomicBool>,
}

/// The environment is of the process: one instance at a time is told where to listen.
static JOINING: Mutex<()> = Mutex::new(());

impl Proxy {
    /// `fate` decides over the connection with this number, counted from 0, while so many strikes have been made.
    pub fn new(mut fate: impl FnMut(u64, u64) -> Fate + Send + 'static) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap().to_string(),
            connections: Arc::default(),
            strikes: Arc::default(),
            silence: Arc::default(),
            target: Arc::default(),
            diallers: Arc::default(),
            stop: Arc::default(),
        };
        let (target, stop) = (proxy.target.clone(), proxy.stop.clone());
        let (connections, strikes) = (proxy.connections.clone(), proxy.strikes.clone());
        let silence = proxy.silence.clone();
        let diallers = proxy.diallers.clone();
        std::thread::spawn(move || {
            for dialler in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(dialler) = dialler else { continue };
                // The listener may be gone, as it may be without a proxy.
                let Ok(listener) = TcpStream::connect(&*target.lock().unwrap()) else { continue };
                diallers.lock().unwrap().push(dialler.try_clone().unwrap());
                let number = connections.fetch_add(1, Ordering::Relaxed);
                let fate = fate(number, strikes.load(Ordering::Relaxed));
                carry(dialler, listener, fate, &strikes, &silence);
            }
        });
        proxy
    }

    /// Joins as an instance that others reach through the proxy only.
    pub fn join_behind(&self, run: &Run, name: &str) -> Instance {
        let _alone = JOINING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        self.target.lock().unwrap().clone_from(&free);
        std::env::set_var("XMML_LISTEN", &free);
        std::env::set_var("XMML_PUBLISH", &self.address);
        let instance = run.join(name);
        std::env::remove_var("XMML_LISTEN");
        std::env::remove_var("XMML_PUBLISH");
        instance
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        for dialler in self.diallers.lock().unwrap().drain(..) {
            let _ = dialler.shutdown(Shutdown::Both);
        }
    }

    /// Carries to this address instead, `host:port`.
    pub fn lead_to(&self, address: &str) {
        address.clone_into(&mut self.target.lock().unwrap());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
    }
}

/// Joins as an instance that nobody need reach through a proxy, while others of this program may.
pub fn join_plainly(run: &Run, name: &str) -> Instance {
    let _alone = JOINING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    run.join(name)
}

fn carry(dialler: TcpStream, listener: TcpStream, fate: Fate, strikes: &Arc<AtomicU64>, silence: &Arc<AtomicBool>) {
    let passed = Arc::new(Mutex::new(0_u64));
    let ends = [(&dialler, &listener, true), (&listener, &dialler, false)];
    for (from, to, is_dialler) in ends {
        let _ = to.set_nodelay(true);
        let direction = Direction {
            from: from.try_clone().unwrap(),
            to: to.try_clone().unwrap(),
            dialler: dialler.try_clone().unwrap(),
            listener: listener.try_clone().unwrap(),
            is_dialler,
            fate,
            passed: passed.clone(),
            strikes: strikes.clone(),
            silence: silence.clone(),
        };
        std::thread::spawn(move || direction.run());
    }
}

struct Direction {
    from: TcpStream,
    to: TcpStream,
    dialler: TcpStream,
    listener: TcpStream,
    is_dialler: bool,
    fate: Fate,
    passed: Arc<Mutex<u64>>,
    strikes: Arc<AtomicU64>,
    silence: Arc<AtomicBool>,
}

impl Direction {
    fn run(mut self) {
        let mut bytes = [0; 8192];
        let mut own = 0;
        let mut is_stalled = false;
        let mut is_cut = false;
        while let Ok(count @ 1..) = self.from.read(&mut bytes) {
            let end = {
                let mut passed = self.passed.lock().unwrap();
                *passed += count as u64;
                *passed
            };
            let crosses = |after: Option<u64>| after.is_some_and(|after| end > after);
            if let Some(bit) = if self.is_dialler { self.fate.flip } else { self.fate.flip_answer } {
                if (own..own + count as u64).contains(&(bit / 8)) {
                    bytes[(bit / 8 - own) as usize] ^= 1 << (bit % 8);
                    self.strikes.fetch_add(1, Ordering::Relaxed);
                }
            }
            own += count as u64;
            if let Some((after, pause)) = self.fate.stall {
                if !is_stalled && crosses(Some(after)) {
                    is_stalled = true;
                    self.strikes.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(pause);
                }
            }
            if crosses(self.fate.silent_after) || self.silence.load(Ordering::Relaxed) {
                self.strikes.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let mut pass = count;
            if let Some(after) = self.fate.cut_after.or(self.fate.half_close_after).filter(|after| end > *after) {
                pass = count.saturating_sub((end - after) as usize);
                is_cut = true;
            }
            if self.to.write_all(&bytes[..pass]).is_err() || is_cut {
                break;
            }
        }
        if is_cut {
            self.strikes.fetch_add(1, Ordering::Relaxed);
        }
        if is_cut && self.fate.cut_after.is_none() {
            let _ = self.to.shutdown(Shutdown::Write);
            while let Ok(1..) = self.from.read(&mut bytes) {}
            return;
        }
        let is_silent = self.fate.silent_after.is_some_and(|after| *self.passed.lock().unwrap() > after);
        if is_silent || self.silence.load(Ordering::Relaxed) {
            return; // whoever closes learns nothing, and nobody learns of it
        }
        let _ = self.dialler.shutdown(Shutdown::Both);
        if is_cut {
            std::thread::sleep(self.fate.linger);
        }
        let _ = self.listener.shutdown(Shutdown::Both);
    }
}
