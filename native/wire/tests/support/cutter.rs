//! A proxy that cuts connections after so many bytes as the test says, or lets them stall.
#![allow(dead_code)] // no test uses all of it

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

/// What happens to a connection after so many bytes in both directions together.
#[derive(Clone, Copy)]
pub enum Fate {
    /// Nothing.
    Lives,
    /// It is cut.
    Cut(u64),
    /// Nothing passes any more, and nobody is told.
    Stall(u64),
}

/// See the module.
pub struct Cutter {
    pub address: String,
    /// How often something was done to a connection.
    pub strikes: Arc<AtomicU64>,
}

impl Cutter {
    /// Passes on to `target`; `fate` decides over the connection with this number, counted from 0.
    pub fn new(target: String, fate: impl FnMut(u64) -> Fate + Send + 'static) -> Cutter {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let strikes = Arc::new(AtomicU64::new(0));
        let (fate, struck) = (Mutex::new(fate), strikes.clone());
        std::thread::spawn(move || {
            for (number, dialler) in listener.incoming().enumerate() {
                let Ok(dialler) = dialler else { continue };
                let Ok(other) = TcpStream::connect(&target) else { continue };
                let fate = (fate.lock().unwrap())(number as u64);
                let left = Arc::new(AtomicI64::new(match fate {
                    Fate::Lives => i64::MAX,
                    Fate::Cut(bytes) | Fate::Stall(bytes) => bytes as i64,
                }));
                for (from, to) in [(&dialler, &other), (&other, &dialler)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (left, struck) = (left.clone(), struck.clone());
                    std::thread::spawn(move || pass(from, to, fate, &left, &struck));
                }
            }
        });
        Cutter { address, strikes }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, fate: Fate, left: &AtomicI64, strikes: &AtomicU64) {
    let mut bytes = vec![0; 32 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let before = left.fetch_sub(count as i64, Ordering::Relaxed);
        let allowed = before.clamp(0, count as i64) as usize;
        if to.write_all(&bytes[..allowed]).is_err() {
            break;
        }
        if allowed < count {
            if before > 0 {
                strikes.fetch_add(1, Ordering::Relaxed);
            }
            if let Fate::Stall(_) = fate {
                loop {
                    std::thread::sleep(Duration::from_secs(3600));
                }
            }
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
