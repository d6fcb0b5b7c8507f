//! One-way time and throughput between two processes:
//! `cargo run --release -p xmml-core --example ping_pong -- [METHOD [BYTES ROUNDS]]`.
//!
//! The program is its own coordinator, and starts itself twice more, as the two instances. With `XMML_BY_CALLBACK=1` the second one
//! answers by a callback instead of a receive.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xmml_core::coordinator::{Coordinator, CoordinatorOptions};
use xmml_core::instance::{Instance, JoinOptions, Received, Served, Stamps};
use xmml_core::spec::{ConduitSpec, InstanceSpec};
use xmml_wire::buffer::Buffer;
use xmml_wire::data::{Array, Data, Dtype, Order};
use xmml_wire::message::Message;

/// Bytes of a message, and how often it goes there and back.
const SIZES: [(usize, usize); 6] =
    [(0, 20_000), (1 << 10, 20_000), (64 << 10, 4_000), (1 << 20, 400), (16 << 20, 40), (64 << 20, 12)];

fn main() {
    let method = std::env::args().nth(1).unwrap_or_else(|| "unix".to_owned());
    match std::env::var("XMML_INSTANCE").ok().as_deref() {
        Some("a") => play(true),
        Some(_) => play(false),
        None => conduct(&method),
    }
}

fn conduct(method: &str) {
    let secret = vec![42; 32];
    let options = CoordinatorOptions { run_id: "ping-pong".into(), secret: secret.clone(), listen: None, relay: None };
    let coordinator = Coordinator::start(options).expect("the coordinator starts");
    let (protect, name) = match method.strip_prefix("protected ") {
        Some(name) => (Some(true), name),
        None => (None, method),
    };
    let conduit = |id: u32, sender: &str, receiver: &str| ConduitSpec {
        capacity: 16,
        methods: vec![name.to_owned()],
        protect,
        ..ConduitSpec::new(id, (sender, "out"), (receiver, "in"))
    };
    for name in ["a", "b"] {
        let mut spec = InstanceSpec::new(name);
        spec.add_port("out", "Oi").expect("an operator");
        spec.add_port("in", "S").expect("an operator");
        coordinator.define(InstanceSpec {
            check_order: false,
            conduits: vec![conduit(1, "a", "b").into(), conduit(2, "b", "a").into()],
            ..spec
        });
    }
    let file = std::env::temp_dir().join(format!("xmml-ping-pong-{}", std::process::id()));
    std::fs::write(&file, secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>()).expect("a secret file");
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its own file");
    let start = |name: &str| -> Child {
        Command::new(std::env::current_exe().expect("this program"))
            .args(std::env::args().skip(1))
            .env("XMML_INSTANCE", name)
            .env("XMML_COORDINATOR", coordinator.addresses().join(","))
            .env("XMML_SECRET_FILE", &file)
            .spawn()
            .expect("an instance starts")
    };
    println!("{method}: bytes, one way [us], GiB/s");
    let mut children = [start("a"), start("b")];
    children.iter_mut().for_each(|child| drop(child.wait()));
    let _ = std::fs::remove_file(&file);
}

fn play(leads: bool) {
    let me = Instance::join(JoinOptions { coordinator: None, instance: None, secret_file: None, language: "rust" });
    let me = Arc::new(me.expect("joined"));
    me.reuse().expect("a run");
    let number = |at: usize| std::env::args().nth(at).and_then(|text| text.parse::<usize>().ok());
    let sizes = match (number(2), number(3)) {
        (Some(bytes), Some(rounds)) => vec![(bytes, rounds)],
        _ => SIZES.to_vec(),
    };
    let echoes = !leads && std::env::var_os("XMML_BY_CALLBACK").is_some();
    for (bytes, rounds) in sizes {
        if echoes {
            echo_by_callback(&me, rounds);
            continue;
        }
        let payload = Buffer::from(vec![1_u8; bytes]);
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let array = Array {
                dtype: Dtype::U8,
                order: Order::RowMajor,
                shape: vec![bytes as u64].into(),
                data: payload.clone(),
            };
            let begin = Instant::now();
            if leads {
                send(&me, array.clone());
            }
            assert_eq!(receive(&me), bytes);
            if !leads {
                send(&me, array);
            }
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        let median = times[times.len() / 2] / 2;
        if leads {
            let rate = bytes as f64 / median.max(Duration::from_nanos(1)).as_secs_f64() / f64::from(1 << 30);
            println!("{bytes:>10} {:>10.3} {rate:>8.2}", median.as_secs_f64() * 1e6);
        }
    }
    me.leave().expect("left");
}

/// Sends so many messages back.
fn echo_by_callback(me: &Arc<Instance>, rounds: usize) {
    let instance = Arc::downgrade(me);
    let echo = move |message: Message| match (message.data, instance.upgrade()) {
        (data @ (Data::Array(_) | Data::Nothing), Some(me)) => {
            me.send("out", None, data, Stamps::default()).expect("sent");
            Ok(())
        }
        (other, _) => Err(format!("not an array: {other:?}")),
    };
    me.on_message("in", Some(Box::new(echo))).expect("a port for messages");
    (0..rounds).for_each(|_| assert_eq!(me.serve(None).expect("a message"), Served::Called));
    me.on_message("in", None).expect("a port for messages");
}

/// Of no bytes, a message is nothing at all.
fn send(me: &Instance, array: Array) {
    let data = if array.data.is_empty() { Data::Nothing } else { Data::Array(array) };
    me.send("out", None, data, Stamps::default()).expect("sent");
}

fn receive(me: &Instance) -> usize {
    match me.receive("in", None, None).expect("received") {
        Received::Message(message) => match message.data {
            Data::Array(array) => array.data.len(),
            Data::Nothing => 0,
            other => panic!("not an array: {other:?}"),
        },
        other => panic!("no message: {other:?}"),
    }
}
