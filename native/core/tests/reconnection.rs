//! Methods that break: connections are cut at random bytes, and every message still arrives once and in order.
//!
//! `XMML_SOAK=1000` cuts that often instead of 50 times.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{Model, Run};
use xmml_core::data::Data;
use xmml_core::instance::{Instance, Received};
use xmml_core::message::Message;

/// Carries bytes between those who dial it and `target`, and cuts each connection after a random number of bytes.
struct Proxy {
    address: String,
    cuts: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

/// A small generator; the same numbers in every run of the test.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

impl Proxy {
    fn to(target: Arc<Mutex<String>>, cuts_wanted: u64) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let cuts = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (counter, stopped) = (cuts.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            for client in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let client = client.unwrap();
                let server = TcpStream::connect(&*target.lock().unwrap()).unwrap();
                let cut_after = (counter.load(Ordering::Relaxed) < cuts_wanted).then(|| 300 + random.below(60_000));
                let left = Arc::new(Mutex::new(cut_after));
                for (mut from, mut to) in [
                    (client.try_clone().unwrap(), server.try_clone().unwrap()),
                    (server.try_clone().unwrap(), client.try_clone().unwrap()),
                ] {
                    let (left, counter) = (left.clone(), counter.clone());
                    std::thread::spawn(move || {
                        let mut bytes = [0; 8192];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            let mut pass = count as u64;
                            let mut cut = false;
                            if let Some(left) = &mut *left.lock().unwrap() {
                                cut = *left > 0 && pass >= *left;
                                pass = pass.min(*left);
                                *left -= pass;
                            }
                            let _ = to.write_all(&bytes[..pass as usize]);
                            if cut {
                                counter.fetch_add(1, Ordering::Relaxed);
                            }
                            if cut || pass < count as u64 {
                                break;
                            }
                        }
                        let _ = from.shutdown(Shutdown::Both);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Proxy { address, cuts, stop }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
    }
}

/// Joins as an instance that others reach through the proxy only. (The environment is of the process: one such test per program.)
fn join_behind(run: &Run, name: &str, proxy: &Proxy, target: &Mutex<String>) -> Instance {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    target.lock().unwrap().clone_from(&free);
    std::env::set_var("XMML_LISTEN", &free);
    std::env::set_var("XMML_PUBLISH", &proxy.address);
    run.join(name)
}

fn cuts_wanted() -> u64 {
    std::env::var("XMML_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(50)
}

#[test]
fn every_message_arrives_once_although_connections_are_cut_at_random_bytes() {
    let cuts = cuts_wanted();
    let target = Arc::new(Mutex::new(String::new()));
    let proxy = Proxy::to(target.clone(), cuts);
    let model =
        Model::by("tcp").submodel("a", "out:Oi", 0).submodel("b", "in:S", 0).couple_with("a.out", "b.in", |conduit| {
            conduit.capacity = 64;
        });
    let run = Run::of(model.with("a", |spec| spec.check_order = false).with("b", |spec| spec.check_order = false));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receiver = join_behind(&run, "b", &proxy, &target);
        scope.spawn(|| {
            let me = run.join("a");
            me.reuse().unwrap();
            let mut random = Random(42);
            let mut value = 0_i64;
            while proxy.cuts.load(Ordering::Relaxed) < cuts || value < 500 {
                send_padded(&me, value, random.below(6000) as usize);
                value += 1;
                assert!(value < 2_000_000, "the proxy does not cut");
            }
            done.store(true, Ordering::Relaxed);
            me.leave().unwrap();
            println!("{value} messages over {} cuts", proxy.cuts.load(Ordering::Relaxed));
        });
        receiver.reuse().unwrap();
        let mut expected = 0;
        while let Some(value) = receive_padded(&receiver) {
            assert_eq!(value, expected);
            expected += 1;
        }
        assert!(done.load(Ordering::Relaxed) && expected >= 500);
        receiver.leave().unwrap();
    });
}

fn send_padded(me: &Instance, value: i64, padding: usize) {
    let data = Data::List(vec![Data::Int(value), Data::Text("x".repeat(padding))]);
    me.send("out", None, data, Some(0.0), Some(None)).unwrap();
}

fn receive_padded(me: &Instance) -> Option<i64> {
    match me.receive("in", None, Some(Duration::from_secs(60))).unwrap() {
        Received::Message(Message { data: Data::List(items), .. }) => match items[0] {
            Data::Int(value) => Some(value),
            _ => panic!("not a number"),
        },
        Received::Ended => None,
        other => panic!("{other:?}"),
    }
}
