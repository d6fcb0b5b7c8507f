//! Objects of pools whose arrays are spread over ranks.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use xmml_core::instance::{Instance, Object, Taken};
use xmml_core::parallel::decomposition::Decomposition;
use xmml_core::spec::{PartsSpec, PoolSpec};
use xmml_pool::value::Value;
use xmml_wire::data::{Array, Data, Order};

use crate::ranks::{array_of, cut, member, ranks, values};
use crate::support::{await_that, Model, Run, LIMIT};

const SHAPE: [u64; 2] = [7, 5];

/// An instance whose port is spread so; `in` or `out`, both in an ordinary loop of one step.
struct Side {
    name: &'static str,
    decomposition: Decomposition,
}

fn side(name: &'static str, cuts: &[(u32, u32)]) -> Side {
    Side { name, decomposition: cut(cuts) }
}

/// `out` of each writer leads to `in` of each reader, which selects so.
fn pool(writers: &[&Side], readers: &[(&Side, &str)], change: impl Fn(&mut PoolSpec)) -> Model {
    let mut model = Model::new();
    let sides = writers.iter().map(|side| (*side, "out:Oi")).chain(readers.iter().map(|(side, _)| (*side, "in:S")));
    for (side, port) in sides {
        for rank in 0..side.decomposition.ranks() {
            let name = member(side.name, rank);
            model = model.submodel(&name, port, 1).with(&name, |spec| {
                spec.ports[0].decomposition = side.decomposition.clone();
                spec.ports[0].shape = SHAPE.to_vec();
            });
        }
    }
    for writer in writers {
        for (reader, select) in readers {
            for (sender_rank, receiver_rank) in writer.decomposition.pairs(&reader.decomposition) {
                let from = format!("{}.out", member(writer.name, sender_rank));
                let to = format!("{}.in", member(reader.name, receiver_rank));
                model = model.couple_with(&from, &to, |conduit| {
                    let (sender, receiver) = (writer.decomposition.clone(), reader.decomposition.clone());
                    if sender.ranks() > 1 || receiver.ranks() > 1 {
                        let parts = PartsSpec { sender, sender_rank, receiver, receiver_rank };
                        conduit.parts = Some(parts.into());
                    }
                    let mut pool = PoolSpec {
                        attributes: "step:int! what:str".into(),
                        select: (*select).into(),
                        ..PoolSpec::default()
                    };
                    change(&mut pool);
                    conduit.pool = Some(pool.into());
                    (conduit.capacity, conduit.byte_budget) = (1 << 20, 1 << 20);
                });
            }
        }
    }
    model
}

fn step(number: u64) -> [(&'static str, Value); 1] {
    [("step", Value::Int(number as i64))]
}

/// Puts this rank's block of so many arrays, the first of which has the number `first`.
fn put(me: &Instance, order: Order, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let block = values(me, "out", order, number);
        me.put("out", Data::Array(block), &step(number)).unwrap();
    }
}

fn take(me: &Instance) -> Option<Object> {
    match me.take("in", Some(LIMIT)).unwrap() {
        Taken::Object(object) => Some(*object),
        Taken::Ended => None,
        other => panic!("neither an object nor the end: {other:?}"),
    }
}

fn number_of(object: &Object) -> u64 {
    match object.attributes.get("step").unwrap() {
        Some(Value::Int(step)) => step as u64,
        other => panic!("no step: {other:?}"),
    }
}

/// Takes everything, and compares each block with that of a serial program; returns the numbers.
fn checked(me: &Instance, order: Order) -> Vec<u64> {
    me.prefer_order(order);
    let mut numbers = Vec::new();
    while let Some(object) = take(me) {
        let number = number_of(&object);
        let expected = values(me, "in", order, number);
        assert_eq!(object.attributes.get("sys.shape").unwrap(), Some(Value::Ints(SHAPE.map(|n| n as i64).into())));
        assert_eq!(object.attributes.get("sys.size").unwrap(), Some(Value::Uint(7 * 5 * 8)));
        let found = array_of(object.data);
        assert_eq!((&found.shape, found.elements::<f64>()), (&expected.shape, expected.elements::<f64>()));
        numbers.push(number);
    }
    numbers
}

#[test]
fn each_rank_of_each_reader_gets_its_part_of_what_it_selects() {
    let four = side("w", &[(0, 2), (1, 2)]);
    let (three, one) = (side("cut", &[(1, 3)]), side("whole", &[]));
    let run = Arc::new(Run::of(pool(&[&four], &[(&three, ""), (&one, "step % 2 = 0")], |_| {})));
    let writers = ranks(&run, "w", 4, |me| {
        put(&me, Order::RowMajor, 0..6);
        me.leave().unwrap();
    });
    let all = ranks(&run, "cut", 3, |me| checked(&me, Order::ColumnMajor));
    let even = ranks(&run, "whole", 1, |me| checked(&me, Order::RowMajor));
    writers.join().unwrap();
    assert_eq!(all.join().unwrap(), vec![vec![0, 1, 2, 3, 4, 5]; 3]);
    assert_eq!(even.join().unwrap(), [vec![0, 2, 4]]);
}

#[test]
fn all_ranks_take_the_objects_of_several_writers_in_one_order() {
    let (two, serial) = (side("two", &[(0, 2)]), side("serial", &[]));
    let three = side("reader", &[(0, 3)]);
    let run = Arc::new(Run::of(pool(&[&two, &serial], &[(&three, "")], |_| {})));
    let writers = [
        ranks(&run, "two", 2, |me| {
            put(&me, Order::ColumnMajor, 0..20);
            me.leave().unwrap();
        }),
        ranks(&run, "serial", 1, |me| {
            put(&me, Order::RowMajor, 100..120);
            me.leave().unwrap();
        }),
    ];
    let found = ranks(&run, "reader", 3, |me| checked(&me, Order::RowMajor)).join().unwrap();
    writers.into_iter().for_each(|writer| _ = writer.join().unwrap());
    assert!(found.iter().all(|numbers| *numbers == found[0]), "{found:?}");
    let mut numbers = found[0].clone();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).chain(100..120).collect::<Vec<_>>());
}

#[test]
fn a_group_is_there_whole_at_each_rank_and_an_object_may_have_attributes_alone() {
    let (two, three) = (side("w", &[(1, 2)]), side("r", &[(0, 3)]));
    let run = Arc::new(Run::of(pool(&[&two], &[(&three, "what != 'left out'")], |_| {})));
    let writers = ranks(&run, "w", 2, |me| {
        me.begin_group("out", &[("what", Value::Text("field".into()))]).unwrap();
        put(&me, Order::RowMajor, 0..2);
        let left_out = [("step", Value::Int(9)), ("what", Value::Text("left out".into()))];
        me.put("out", Data::Array(values(&me, "out", Order::RowMajor, 9)), &left_out).unwrap();
        me.put("out", Data::Nothing, &step(2)).unwrap();
        me.end_group("out").unwrap();
        me.leave().unwrap();
    });
    let found = ranks(&run, "r", 3, |me| {
        let mut found = Vec::new();
        while let Some(object) = take(&me) {
            let follow = object.attributes.get("sys.follow").unwrap();
            let number = number_of(&object);
            match object.data {
                Data::Nothing => found.push((number, follow, 0.0)),
                data => {
                    let block = array_of(data);
                    let expected = values(&me, "in", Order::RowMajor, number);
                    assert_eq!(block.elements::<f64>(), expected.elements::<f64>());
                    found.push((number, follow, 1.0));
                }
            }
        }
        found
    });
    writers.join().unwrap();
    let follow = |number| Some(Value::Uint(number));
    let expected = vec![(0, follow(2), 1.0), (1, follow(1), 1.0), (2, follow(0), 0.0)];
    assert_eq!(found.join().unwrap(), vec![expected; 3]);
}

#[test]
fn each_object_of_a_group_tells_the_extents_of_its_own_array() {
    let (two, pair) = (side("w", &[(0, 2)]), side("r", &[(0, 2)]));
    let run = Arc::new(Run::of(pool(&[&two], &[(&pair, "")], |_| {})));
    let writers = ranks(&run, "w", 2, |me| {
        me.begin_group("out", &[]).unwrap();
        for rows in [2, 4, 6] {
            let block = Array::from_slice(&[rows / 2, 1], &vec![0.0; rows as usize / 2]).unwrap();
            me.put_block("out", Data::Array(block), Some(&[rows, 1]), &step(rows)).unwrap();
        }
        me.end_group("out").unwrap();
        me.leave().unwrap();
    });
    let found = ranks(&run, "r", 2, |me| {
        let mut wholes = Vec::new();
        while let Some(object) = take(&me) {
            wholes.push((number_of(&object), me.block("in", None).unwrap().1));
        }
        wholes
    });
    writers.join().unwrap();
    let expected = [2, 4, 6].map(|rows| (rows, vec![rows, 1]));
    assert_eq!(found.join().unwrap(), vec![expected.to_vec(); 2]);
}

#[test]
fn all_ranks_of_a_writer_hear_from_rank_0_how_many_would_choose_an_object() {
    let (two, pair) = (side("w", &[(0, 2)]), side("r", &[(0, 2)]));
    let run = Arc::new(Run::of(pool(&[&two], &[(&pair, "step = 1")], |_| {})));
    let writers = ranks(&run, "w", 2, |me| {
        let asked = |number: u64| me.wanted("out", &step(number)).unwrap();
        let answers = [asked(0), asked(1)];
        put(&me, Order::RowMajor, 1..2);
        // The reader leaves now; whenever that is heard, all ranks say the same.
        let mut seen = vec![asked(1)];
        while *seen.last().unwrap() > 0 {
            seen.push(asked(1));
        }
        me.leave().unwrap();
        (answers, seen)
    });
    let readers = ranks(&run, "r", 2, |me| {
        take(&me).unwrap();
        me.leave().unwrap();
    });
    readers.join().unwrap();
    let found = writers.join().unwrap();
    assert_eq!(found[0].0, [0, 1]);
    assert_eq!(found[0], found[1]);
}

#[test]
fn a_time_out_takes_nothing_on_any_rank() {
    let (one, two) = (side("w", &[]), side("r", &[(0, 2)]));
    let run = Arc::new(Run::of(pool(&[&one], &[(&two, "")], |_| {})));
    let have_waited = Arc::new(Barrier::new(3));
    let (have, waited) = (have_waited.clone(), have_waited);
    let readers = ranks(&run, "r", 2, move |me| {
        assert!(!me.has_message("in", None).unwrap());
        assert!(matches!(me.take("in", Some(Duration::from_millis(20))).unwrap(), Taken::TimedOut));
        have.wait();
        await_that("an object is there", || me.has_message("in", None).unwrap());
        checked(&me, Order::RowMajor)
    });
    let writer = ranks(&run, "w", 1, move |me| {
        waited.wait();
        put(&me, Order::RowMajor, 0..1);
        me.leave().unwrap();
    });
    writer.join().unwrap();
    assert_eq!(readers.join().unwrap(), [vec![0], vec![0]]);
}

#[test]
fn ranks_that_put_different_objects_are_told() {
    let (two, one) = (side("w", &[(0, 2)]), side("r", &[]));
    let run = Arc::new(Run::of(pool(&[&two], &[(&one, "")], |_| {})));
    let writers = ranks(&run, "w", 2, |me| {
        let block = values(&me, "out", Order::RowMajor, 0);
        me.put("out", Data::Array(block), &step(u64::from(me.rank()))).unwrap();
        me // stays until the reader has looked
    });
    let error = ranks(&run, "r", 1, |me| me.take("in", Some(LIMIT)).unwrap_err().to_string());
    let error = error.join().unwrap().remove(0);
    drop(writers.join().unwrap());
    assert!(error.contains("w.out: its ranks put different attributes, or other objects"), "{error}");
}

#[test]
fn ranks_that_get_different_objects_are_told_though_each_has_one_writer() {
    let (two, pair) = (side("w", &[(0, 2)]), side("r", &[(0, 2)]));
    let run = Arc::new(Run::of(pool(&[&two], &[(&pair, "")], |_| {})));
    let writers = ranks(&run, "w", 2, |me| {
        let block = values(&me, "out", Order::RowMajor, 0);
        me.put("out", Data::Array(block), &step(u64::from(me.rank()))).unwrap();
        me
    });
    let found = ranks(&run, "r", 2, |me| me.take("in", Some(LIMIT)).map(|_| ()).map_err(|error| error.to_string()));
    let found = found.join().unwrap();
    drop(writers.join().unwrap());
    assert!(found[0].is_ok());
    assert!(found[1].as_ref().unwrap_err().contains("w.out: its ranks put different attributes"), "{found:?}");
}

#[test]
fn ranks_that_put_unequally_often_are_told_when_one_has_ended() {
    let (two, pair) = (side("w", &[(0, 2)]), side("r", &[(0, 2)]));
    let run = Arc::new(Run::of(pool(&[&two], &[(&pair, "")], |_| {})));
    let writers = ranks(&run, "w", 2, |me| {
        put(&me, Order::RowMajor, 0..1 + u64::from(me.rank()));
        me.leave()
    });
    let found = ranks(&run, "r", 2, |me| {
        assert!(take(&me).is_some());
        me.take("in", None).map(|taken| matches!(taken, Taken::Ended)).map_err(|error| error.to_string())
    });
    let found = found.join().unwrap();
    assert_eq!(found[0], Ok(true));
    assert!(found[1].as_ref().unwrap_err().contains("w.out: its ranks must put equally often"), "{found:?}");
    drop(writers.join().unwrap());
}

#[test]
fn a_plain_reader_may_get_texts_from_a_port_whose_other_reader_takes_arrays_in_parts() {
    let (one, two, plain) = (side("w", &[]), side("r", &[(0, 2)]), side("p", &[]));
    let run = Arc::new(Run::of(pool(&[&one], &[(&two, "what != 'log'"), (&plain, "what = 'log'")], |_| {})));
    let writer = ranks(&run, "w", 1, |me| {
        let log = [("step", Value::Int(0)), ("what", Value::Text("log".into()))];
        assert_eq!(me.put("out", Data::Text("a line".into()), &log).unwrap(), 1);
        let field = [("step", Value::Int(1)), ("what", Value::Text("field".into()))];
        assert_eq!(me.put("out", Data::Array(values(&me, "out", Order::RowMajor, 1)), &field).unwrap(), 1);
        me.leave().unwrap();
    });
    let parts = ranks(&run, "r", 2, |me| checked(&me, Order::RowMajor));
    let texts = ranks(&run, "p", 1, |me| take(&me).unwrap().data);
    assert_eq!(texts.join().unwrap(), [Data::Text("a line".into())]);
    assert_eq!(parts.join().unwrap(), [vec![1], vec![1]]);
    writer.join().unwrap();
}

#[test]
fn what_is_no_array_cannot_be_spread() {
    for (writer, reader) in [(side("w", &[(0, 2)]), side("r", &[])), (side("w", &[]), side("r", &[(0, 2)]))] {
        let run = Arc::new(Run::of(pool(&[&writer], &[(&reader, "")], |_| {})));
        let size = writer.decomposition.ranks();
        let errors = ranks(&run, "w", size, |me| me.put("out", Data::Int(1), &step(0)).unwrap_err().to_string());
        for error in errors.join().unwrap() {
            assert!(error.contains("only arrays are spread over ranks"), "{error}");
        }
    }
}

#[test]
fn a_queue_of_parts_is_refused_when_an_instance_joins() {
    let (two, one) = (side("w", &[(0, 2)]), side("r", &[]));
    let run = Run::of(pool(&[&two], &[(&one, "")], |pool| pool.is_queue = true));
    let error = run.try_join("r").err().unwrap().to_string();
    assert!(error.contains("arrays that are spread over ranks (run:decomp) go by pools that are no queues"), "{error}");
}

#[test]
fn ranks_without_a_decomposition_all_get_the_whole_of_what_ranks_send() {
    let (two, three) = (side("w", &[(0, 2)]), side("r", &[]));
    let run = Arc::new(Run::of(pool(&[&two], &[(&three, "")], |_| {})));
    let writers = ranks(&run, "w", 2, |me| {
        put(&me, Order::RowMajor, 0..2);
        me.leave().unwrap();
    });
    let found = ranks(&run, "r", 3, |me| {
        let mut found = Vec::new();
        while let Some(object) = take(&me) {
            let whole: Array = array_of(object.data);
            let expected: Vec<f64> = (0..35).map(|place| f64::from(place) + 1000.0 * found.len() as f64).collect();
            assert_eq!(whole.elements::<f64>().unwrap(), expected);
            found.push(());
        }
        found.len()
    });
    writers.join().unwrap();
    assert_eq!(found.join().unwrap(), [2, 2, 2]);
}
