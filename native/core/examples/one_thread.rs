//! What a message costs in instructions: both ends in one thread, so that nobody waits and no cache line changes its processor.
//! `cargo run --release -p xmml-core --example one_thread -- [METHOD [BYTES ROUNDS]]`; under `valgrind --tool=callgrind` it shows where they go.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use xmml_core::coordinator::{Coordinator, CoordinatorOptions};
use xmml_core::instance::{Instance, JoinOptions, Received, Stamps};
use xmml_core::spec::{ConduitSpec, InstanceSpec};
use xmml_wire::buffer::Buffer;
use xmml_wire::data::{Array, Data, Dtype, Order};

fn main() {
    let method = std::env::args().nth(1).unwrap_or_else(|| "shm".to_owned());
    let number =
        |at: usize, otherwise: usize| std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (bytes, rounds) = (number(2, 0), number(3, 1_000_000));
    let secret = vec![42; 32];
    let options = CoordinatorOptions { run_id: "one thread".into(), secret: secret.clone(), listen: None, relay: None };
    let coordinator = Coordinator::start(options).expect("the coordinator starts");
    let conduit =
        ConduitSpec { capacity: 16, methods: vec![method.clone()], ..ConduitSpec::new(1, ("a", "out"), ("b", "in")) };
    for (name, port, operator) in [("a", "out", "Oi"), ("b", "in", "S")] {
        let mut spec = InstanceSpec::new(name);
        spec.add_port(port, operator).expect("an operator");
        coordinator.define(InstanceSpec { check_order: false, conduits: vec![conduit.clone().into()], ..spec });
    }
    let file = std::env::temp_dir().join(format!("xmml-one-thread-{}", std::process::id()));
    std::fs::write(&file, secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>()).expect("a secret file");
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its own file");
    let join = |name: &str| {
        let options = JoinOptions {
            coordinator: Some(coordinator.addresses().join(",")),
            instance: Some(name.to_owned()),
            secret_file: Some(file.clone()),
            language: "rust",
        };
        Instance::join(options).expect("joined")
    };
    let (a, b) = (join("a"), join("b"));
    let _ = std::fs::remove_file(&file);
    a.reuse().expect("a run");
    b.reuse().expect("a run");
    let payload = vec![1_u8; bytes];
    let (mut sending, mut receiving) = (0, 0);
    for round in 0..rounds + 1_000 {
        if round == 1_000 {
            (sending, receiving) = (0, 0);
        }
        // SAFETY: the payload outlives the send.
        let data = unsafe { Buffer::wrap(payload.as_ptr(), bytes) };
        let data = match bytes {
            0 => Data::Nothing,
            _ => {
                Data::Array(Array { dtype: Dtype::U8, order: Order::RowMajor, shape: [bytes as u64][..].into(), data })
            }
        };
        let begin = Instant::now();
        a.send("out", None, data, Stamps::default()).expect("sent");
        let middle = Instant::now();
        let received = b.receive("in", None, None).expect("received");
        let end = Instant::now();
        assert!(matches!(received, Received::Message(_)));
        drop(received);
        sending += (middle - begin).as_nanos();
        receiving += (end - middle).as_nanos();
    }
    let each = |total: u128| total as f64 / rounds as f64;
    println!("{method}, {bytes} bytes: send {:.0} ns, receive {:.0} ns", each(sending), each(receiving));
    a.leave().expect("left");
    b.leave().expect("left");
}
