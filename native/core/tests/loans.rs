//! Arrays that are handed over instead of copied, and payloads that several receivers see.

mod support;

use support::{receive_any, Model, Run};
use xmml_core::instance::{Instance, Sent, Stamps};
use xmml_wire::buffer::Buffer;
use xmml_wire::data::{Array, Data, Dtype, Order};

const METHODS: [&str; 3] = ["shm", "unix", "tcp"];

/// Asks for an array of bytes, fills it as a program does that knows its address only, and shows it to a send.
fn filled_loan(me: &Instance, bytes: usize, value: u8) -> Data {
    let buffer = me.loan(Dtype::U8, &[bytes as u64], true).unwrap();
    let start = buffer.as_ptr().cast_mut();
    // SAFETY: the loan is that long, and nobody looks at it yet.
    unsafe { start.write_bytes(value, bytes) };
    drop(buffer);
    seen(start, bytes)
}

/// An array in the memory of the program, as a binding shows it.
fn seen(start: *const u8, bytes: usize) -> Data {
    // SAFETY: the tests keep the memory until the send has returned.
    let data = unsafe { Buffer::wrap(start, bytes) };
    Data::Array(Array { dtype: Dtype::U8, order: Order::RowMajor, shape: vec![bytes as u64].into(), data })
}

fn bytes_of(data: &Data) -> &Buffer {
    match data {
        Data::Array(array) => &array.data,
        other => panic!("not an array: {other:?}"),
    }
}

fn pair(method: &str) -> Run {
    Run::of(Model::by(method).submodel("a", "out:Oi", 9).submodel("b", "in:S", 9).couple("a.out", "b.in"))
}

#[test]
fn an_array_on_loan_arrives_whole_by_every_method() {
    for method in METHODS {
        let run = pair(method);
        let (a, b) = (run.join("a"), run.join("b"));
        a.reuse().unwrap();
        b.reuse().unwrap();
        for (value, bytes) in [(1, 100), (2, 20_000), (3, 3 << 20)] {
            let loan = filled_loan(&a, bytes, value);
            assert_eq!(a.send("out", None, loan, Stamps::default()).unwrap(), Sent::Queued);
            let message = receive_any(&b, "in").unwrap();
            assert!(
                bytes_of(&message.data).len() == bytes && bytes_of(&message.data).iter().all(|byte| *byte == value)
            );
        }
    }
}

#[test]
fn an_array_that_was_handed_over_cannot_be_sent_again() {
    let run = pair("shm");
    let a = run.join("a");
    a.reuse().unwrap();
    let loan = filled_loan(&a, 50_000, 7);
    a.send("out", None, loan.clone(), Stamps::default()).unwrap();
    let error = a.send("out", None, loan, Stamps::default()).unwrap_err().to_string();
    assert!(error.starts_with("a: this array was handed over"), "{error}");
}

#[test]
fn a_loan_for_a_port_without_receiver_stays_with_the_program() {
    let run = Run::of(Model::new().submodel("a", "out:Oi", 9));
    let a = run.join("a");
    a.reuse().unwrap();
    let loan = filled_loan(&a, 50_000, 7);
    assert_eq!(a.send("out", None, loan.clone(), Stamps::default()).unwrap(), Sent::NotConnected);
    assert!(a.is_loan(bytes_of(&loan).as_ptr()));
    assert!(a.give_back(bytes_of(&loan).as_ptr()) && !a.give_back(bytes_of(&loan).as_ptr()));
}

#[test]
fn a_single_receiver_may_write_to_what_it_got() {
    for method in METHODS {
        let run = pair(method);
        let (a, b) = (run.join("a"), run.join("b"));
        a.reuse().unwrap();
        b.reuse().unwrap();
        let mine = vec![5_u8; 100_000];
        a.send("out", None, seen(mine.as_ptr(), mine.len()), Stamps::default()).unwrap();
        let mut message = receive_any(&b, "in").unwrap();
        let Data::Array(array) = &mut message.data else { panic!() };
        array.data.get_mut().unwrap_or_else(|| panic!("{method}"))[0] = 9;
        assert_eq!(mine[0], 5, "the sender's own array is not touched");
    }
}

#[test]
fn several_receivers_in_shared_memory_see_one_copy_that_none_of_them_may_write_to() {
    let model = Model::by("shm").submodel("a", "out:Oi", 9).submodel("b", "in:S", 9).submodel("c", "in:S", 9);
    let run = Run::of(model.couple("a.out", "b.in").couple("a.out", "c.in"));
    let (a, b, c) = (run.join("a"), run.join("b"), run.join("c"));
    for me in [&a, &b, &c] {
        me.reuse().unwrap();
    }
    // The first message only brings the connections up: until then each receiver may get a copy of its own.
    for value in 0..3_u8 {
        let mine = vec![value; 100_000];
        a.send("out", None, seen(mine.as_ptr(), mine.len()), Stamps::default()).unwrap();
        let mut got = [receive_any(&b, "in").unwrap(), receive_any(&c, "in").unwrap()];
        for message in &mut got {
            let Data::Array(array) = &mut message.data else { panic!() };
            assert!(array.data.iter().all(|byte| *byte == value));
            assert!(value == 0 || array.data.get_mut().is_none());
        }
    }
}

#[test]
fn a_loan_for_several_receivers_that_are_not_connected_yet_is_read_only_for_all_of_them() {
    let model = Model::by("shm").submodel("a", "out:Oi", 9).submodel("b", "in:S", 9).submodel("c", "in:S", 9);
    let run = Run::of(model.couple("a.out", "b.in").couple("a.out", "c.in"));
    let a = run.join("a");
    a.reuse().unwrap();
    a.send("out", None, filled_loan(&a, 50_000, 3), Stamps::default()).unwrap();
    let (b, c) = (run.join("b"), run.join("c"));
    for me in [&b, &c] {
        me.reuse().unwrap();
    }
    for me in [&b, &c] {
        let mut message = receive_any(me, "in").unwrap();
        let Data::Array(array) = &mut message.data else { panic!() };
        assert!(array.data.iter().all(|byte| *byte == 3) && array.data.get_mut().is_none());
    }
}

/// Resident memory of this process that is shared with nobody, in bytes.
fn private_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn arrays_that_wait_for_a_receiver_wait_where_it_will_read_them() {
    const EACH: usize = 6 << 20;
    let run = pair("shm");
    let a = run.join("a");
    a.reuse().unwrap();
    let array = vec![7_u8; EACH];
    let before = private_memory();
    for _ in 0..8 {
        a.send("out", None, seen(array.as_ptr(), EACH), Stamps::default()).unwrap();
    }
    let waiting = private_memory().saturating_sub(before);
    assert!(waiting < 4 * EACH as u64, "{waiting} bytes of copies that have to be copied again");
    let b = run.join("b");
    b.reuse().unwrap();
    for _ in 0..8 {
        assert!(bytes_of(&receive_any(&b, "in").unwrap().data).iter().all(|byte| *byte == 7));
    }
}

#[test]
fn an_array_lent_by_one_process_is_passed_on_by_another_as_it_is() {
    let model = Model::by("shm").submodel("a", "out:Oi", 9).submodel("b", "in:S out:Oi", 9).submodel("c", "in:S", 9);
    let run = Run::of(model.with("b", |spec| spec.check_order = false).couple("a.out", "b.in").couple("b.out", "c.in"));
    let (a, b, c) = (run.join("a"), run.join("b"), run.join("c"));
    for me in [&a, &b, &c] {
        me.reuse().unwrap();
    }
    for value in 0..4 {
        // b's own memory is lent to c as well, so that both know a region of the same number.
        b.send("out", None, filled_loan(&b, 50_000, 100), Stamps::default()).unwrap();
        a.send("out", None, filled_loan(&a, 50_000, value), Stamps::default()).unwrap();
        let passed = receive_any(&b, "in").unwrap();
        b.send("out", None, passed.data, Stamps::default()).unwrap();
        assert!(bytes_of(&receive_any(&c, "in").unwrap().data).iter().all(|byte| *byte == 100));
        assert!(bytes_of(&receive_any(&c, "in").unwrap().data).iter().all(|byte| *byte == value));
    }
}
