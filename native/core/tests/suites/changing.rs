// The method of a conduit is changed while messages pass: none is lost, doubled or reordered, and nobody waits long. Whoever includes this
// file defines `METHODS`, which a conduit takes in turn, and `run_of`.
//
// `XMML_SOAK=1` changes 1,000 times instead of 50.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{Model, Run};
use xmml_wire::buffer::Buffer;
use xmml_wire::data::{Array, Data, Dtype, Order};
use xmml_core::instance::{Instance, Received, Stamps};

fn is_soak() -> bool {
    std::env::var("XMML_SOAK").is_ok_and(|soak| soak != "0")
}

fn changes() -> usize {
    if is_soak() {
        1000
    } else {
        50
    }
}

/// How long nothing may arrive while methods change. A change that waited for a timer would wait for that of a handshake which is not
/// answered, or longer. On a quiet machine, as for `XMML_SOAK=1`, it is a matter of milliseconds.
fn longest_pause() -> Duration {
    if is_soak() {
        Duration::from_millis(50)
    } else {
        Duration::from_secs(xmml_wire::handshake::TIMEOUT_S)
    }
}

/// A stream of messages without an end, from `a` to `b`, without an order of operators.
fn stream(capacity: u32) -> Model {
    Model::new()
        .submodel("a", "out:Oi other:Oi", 1)
        .submodel("b", "in:S more:S", 1)
        .with("a", |spec| spec.check_order = false)
        .with("b", |spec| spec.check_order = false)
        .couple_with("a.out", "b.in", |conduit| conduit.capacity = capacity)
        .couple("a.other", "b.more")
}

fn method_of(me: &Instance, port: &str) -> Option<String> {
    me.methods(port).unwrap()[0].chosen.clone()
}

fn only(method: &str) -> Vec<String> {
    vec![method.to_owned()]
}

/// Ends the stream also when the test fails, which would hang otherwise.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Numbers go from a to b until `done`, each with a payload whose size varies; returns how long b waited at most from one to the next.
fn pass_numbers(
    run: &Run,
    done: &AtomicBool,
    sizes: &[usize],
    meanwhile: impl FnOnce(&Instance, &Instance) + Send,
) -> Duration {
    let (a, b) = (run.join("a"), run.join("b"));
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            a.reuse().unwrap();
            let mut number = 0u64;
            while number < 100 || !done.load(Ordering::Relaxed) {
                let mut bytes = vec![number as u8; 8 + sizes[number as usize % sizes.len()]];
                bytes[..8].copy_from_slice(&number.to_le_bytes());
                let shape = vec![bytes.len() as u64];
                let data = Array { dtype: Dtype::U8, order: Order::RowMajor, shape: shape.into(), data: Buffer::copy_of(&bytes) };
                a.send("out", None, Data::Array(data), Stamps::default()).unwrap();
                number += 1;
            }
            a.leave().unwrap();
            number
        });
        let reading = scope.spawn(|| {
            b.reuse().unwrap();
            let (mut number, mut longest, mut last) = (0u64, Duration::ZERO, None);
            loop {
                match b.receive("in", None, None).unwrap() {
                    Received::Message(message) => {
                        let Data::Array(array) = message.data else { panic!("not an array") };
                        assert_eq!(array.data[..8], number.to_le_bytes(), "MESSAGES WRONG: message {number} is another");
                        assert_eq!(array.data.len(), 8 + sizes[number as usize % sizes.len()], "MESSAGES WRONG: {number}");
                        assert!(array.data[8..].iter().all(|byte| *byte == number as u8), "MESSAGES WRONG: {number} is torn");
                    }
                    Received::Ended => break,
                    other => panic!("{other:?}"),
                }
                number += 1;
                let now = Instant::now();
                longest = longest.max(last.map_or(Duration::ZERO, |last| now - last));
                last = Some(now);
            }
            b.leave().unwrap();
            (number, longest)
        });
        let ending = Ending(done);
        meanwhile(&a, &b);
        drop(ending);
        let (came, longest) = reading.join().unwrap();
        assert_eq!(came, sending.join().unwrap(), "MESSAGES WRONG: what came is what was sent");
        longest
    })
}

#[test]
fn a_conduit_under_load_goes_from_method_to_method_without_loss_or_reordering_or_a_long_pause() {
    let run = run_of(stream(64));
    let done = AtomicBool::new(false);
    let pause = pass_numbers(&run, &done, &[0, 100, 3000, 200_000, 24], |a, b| {
        for turn in 0..changes() {
            let method = METHODS[turn % METHODS.len()];
            // From either end.
            let result =
                if turn % 2 == 0 { a.set_methods("out", &only(method)) } else { b.set_methods("in", &only(method)) };
            result.unwrap();
            assert_eq!(method_of(a, "out").as_deref(), Some(method));
        }
    });
    assert!(pause < longest_pause(), "nothing arrived for {pause:?} while methods changed");
}
