//! A message to several receivers: it is described and encoded once, and where receivers read memory it lies there once.

mod support;

use std::collections::BTreeSet;

use support::{receive_any, Model, Run};
use xmml_core::instance::{Instance, Sent, Stamps, Taken};
use xmml_core::spec::PoolSpec;
use xmml_pool::value::Value;
use xmml_wire::buffer::Buffer;
use xmml_wire::data::{Array, Data, Dtype, Order};

const RECEIVERS: usize = 5;

/// `a.out` to as many receivers, `b0`, `b1`, ...
fn fan(methods: &[&str]) -> Run {
    let mut model = Model::new().submodel("a", "out:Oi", 99);
    model.methods = methods.iter().map(|method| (*method).to_owned()).collect();
    for number in 0..RECEIVERS {
        let name = format!("b{number}");
        model = model.submodel(&name, "in:S", 99).couple("a.out", &format!("{name}.in"));
    }
    Run::of(model)
}

fn begin(run: &Run, name: &str) -> Instance {
    let me = run.join(name);
    me.reuse().unwrap();
    me
}

fn receivers(run: &Run) -> Vec<Instance> {
    (0..RECEIVERS).map(|number| begin(run, &format!("b{number}"))).collect()
}

/// Numbers in the memory of the program, as a binding shows them to a send.
fn shown(values: &[u8]) -> Data {
    // SAFETY: the tests keep the memory until the send has returned.
    let data = unsafe { Buffer::wrap(values.as_ptr(), values.len()) };
    Data::Array(Array { dtype: Dtype::U8, order: Order::RowMajor, shape: vec![values.len() as u64].into(), data })
}

/// Sends to all and says what each of them got. Once with something small, so that all are connected.
fn sent_to_all(a: &Instance, receivers: &[Instance], data: Data) -> Vec<Buffer> {
    assert_eq!(a.send("out", None, Data::Int(1), Stamps::default()).unwrap(), Sent::Queued);
    receivers.iter().for_each(|b| drop(receive_any(b, "in").unwrap()));
    assert_eq!(a.send("out", None, data, Stamps::default()).unwrap(), Sent::Queued);
    receivers.iter().map(|b| bytes_of(receive_any(b, "in").unwrap().data)).collect()
}

fn bytes_of(data: Data) -> Buffer {
    match data {
        Data::Array(array) => array.data,
        other => panic!("not an array: {other:?}"),
    }
}

/// What lies at an address of this process, by whatever address it is seen: the number of the file, and where in it.
fn place(address: *const u8) -> (u64, usize) {
    let address = address as usize;
    let number = |hex: &str| usize::from_str_radix(hex, 16).unwrap();
    for line in std::fs::read_to_string("/proc/self/maps").unwrap().lines() {
        let mut columns = line.split_whitespace();
        let (start, end) = columns.next().unwrap().split_once('-').unwrap();
        if (number(start)..number(end)).contains(&address) {
            let offset = number(columns.nth(1).unwrap());
            let file = columns.nth(1).unwrap().parse().unwrap();
            assert!(line.contains("memfd:xmml-payloads"), "{line}");
            return (file, offset + (address - number(start)));
        }
    }
    panic!("nothing is mapped at {address:#x}");
}

#[test]
fn in_shared_memory_all_receivers_see_the_same_bytes_by_mappings_of_their_own() {
    let run = fan(&["shm"]);
    let (a, receivers) = (begin(&run, "a"), receivers(&run));
    let mine = vec![7; 3 << 20];
    let got = sent_to_all(&a, &receivers, shown(&mine));
    assert!(got.iter().all(|buffer| **buffer == *mine));
    let places: Vec<_> = got.iter().map(|buffer| place(buffer.as_ptr())).collect();
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    let mut addresses: Vec<_> = got.iter().map(|buffer| buffer.as_ptr()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), RECEIVERS, "each has a mapping of its own");
}

#[test]
fn an_array_on_loan_is_seen_by_all_receivers_where_the_sender_has_filled_it() {
    let run = fan(&["shm"]);
    let (a, receivers) = (begin(&run, "a"), receivers(&run));
    let loan = a.loan(Dtype::U8, &[3 << 20], true).unwrap();
    let filled = place(loan.as_ptr());
    let array = Array { dtype: Dtype::U8, order: Order::RowMajor, shape: vec![3 << 20].into(), data: loan };
    for mut buffer in sent_to_all(&a, &receivers, Data::Array(array)) {
        assert_eq!(place(buffer.as_ptr()), filled);
        assert!(buffer.get_mut().is_none(), "others see it");
    }
}

#[test]
fn in_one_process_all_receivers_see_the_same_address_and_none_may_write_there() {
    let run = fan(&["inproc"]);
    let (a, receivers) = (begin(&run, "a"), receivers(&run));
    let mine = vec![7; 3 << 20];
    let mut got = sent_to_all(&a, &receivers, shown(&mine));
    assert!(got.iter().all(|buffer| buffer.as_ptr() == got[0].as_ptr()));
    assert_ne!(got[0].as_ptr(), mine.as_ptr(), "the sender goes on with its own");
    assert!(got.iter_mut().all(|buffer| buffer.get_mut().is_none()), "who wants to write takes a copy");
}

/// What programs get that write to whatever says that it is writable: what others hold does not say so, and the last one may be written to.
fn check_guarded(mut got: Vec<Buffer>) {
    while let Some(buffer) = got.pop() {
        let address = buffer.as_ptr();
        let Data::Bytes(guarded) = Data::Bytes(buffer).guarded() else { panic!() };
        assert_eq!((guarded.as_ptr(), guarded.is_writable()), (address, got.is_empty()));
    }
}

/// Resident memory of this process, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn what_waits_for_receivers_that_are_not_there_yet_waits_once_for_all_of_them() {
    const BYTES: usize = 48 << 20; // far more than what the other tests of this file take meanwhile
    for method in ["inproc", "shm", "unix", "tcp"] {
        let run = fan(&[method]);
        let a = begin(&run, "a");
        let mine = vec![7; BYTES];
        let before = memory();
        assert_eq!(a.send("out", None, shown(&mine), Stamps::default()).unwrap(), Sent::Queued);
        let taken = memory().saturating_sub(before);
        assert!(taken < 2 * BYTES as u64, "{method}: {taken} bytes for {RECEIVERS} receivers of {BYTES}");
        let mut got: Vec<_> = receivers(&run).iter().map(|b| bytes_of(receive_any(b, "in").unwrap().data)).collect();
        assert!(got.iter().all(|buffer| **buffer == *mine), "{method}");
        if method == "inproc" {
            assert!(got.iter().all(|buffer| buffer.as_ptr() == got[0].as_ptr()));
            assert!(got.iter_mut().all(|buffer| buffer.get_mut().is_none()));
            check_guarded(got);
        }
    }
}

#[test]
fn an_object_of_a_pool_lies_in_memory_once() {
    let mut model = Model::by("shm").submodel("a", "out:Oi", 1);
    for number in 0..RECEIVERS {
        let name = format!("b{number}");
        model = model.submodel(&name, "in:S", 1).couple_with("a.out", &format!("{name}.in"), |conduit| {
            let pool = PoolSpec { attributes: "step:int name:str".into(), ..PoolSpec::default() };
            conduit.pool = Some(Box::new(pool));
        });
    }
    let run = Run::of(model);
    let (a, receivers) = (begin(&run, "a"), receivers(&run));
    let attributes = [("step", Value::Int(3)), ("name", Value::Text("a field".into()))];
    let taken = || {
        let take = |me: &Instance| match me.take("in", None).unwrap() {
            Taken::Object(object) => object.data,
            other => panic!("no object: {other:?}"),
        };
        receivers.iter().map(take).collect::<Vec<Data>>()
    };
    a.put("out", Data::Int(1), &attributes).unwrap(); // so that all are connected
    taken();
    let values = vec![7; 1 << 20];
    a.put("out", shown(&values), &attributes).unwrap();
    let arrays: Vec<Buffer> = taken().into_iter().map(bytes_of).collect();
    assert!(arrays.iter().all(|array| array[..] == values[..]));
    let places: BTreeSet<(u64, usize)> = arrays.iter().map(|array| place(array.as_ptr())).collect();
    assert_eq!(places.len(), 1);
}
