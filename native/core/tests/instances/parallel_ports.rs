//! Ranks that join together, and ports whose arrays are spread over them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use xmml_core::instance::{Instance, Received, Sent, Stamps};
use xmml_core::parallel::decomposition::Decomposition;
use xmml_core::spec::PartsSpec;
use xmml_wire::data::{Array, Data, Order};
use xmml_wire::error::Error;

use crate::ranks::{array, cut, member, ranks, values};
use crate::support::{Model, Run, LIMIT};

/// `a.out` spread one way to `b.in` spread another; with an ordinary port each, back from `b` to `a`.
fn spread(sender: &Decomposition, receiver: &Decomposition, steps: u64, shape: &[u64]) -> Model {
    let mut model = Model::new();
    for (name, ports, side) in [("a", "out:Oi answer:S", sender), ("b", "in:S reply:Oi", receiver)] {
        for rank in 0..side.ranks() {
            let name = member(name, rank);
            model = model.submodel(&name, ports, steps).with(&name, |spec| {
                spec.check_order = false;
                spec.params.insert("k".into(), "7".into());
                let port = spec.ports.iter_mut().find(|port| port.name == "out" || port.name == "in").unwrap();
                port.decomposition = side.clone();
                port.shape = shape.to_vec();
            });
        }
    }
    for (sender_rank, receiver_rank) in sender.pairs(receiver) {
        let (from, to) = (member("a", sender_rank), member("b", receiver_rank));
        model = model.couple_with(&format!("{from}.out"), &format!("{to}.in"), |conduit| {
            let (sender, receiver) = (sender.clone(), receiver.clone());
            conduit.parts = Some(PartsSpec { sender, sender_rank, receiver, receiver_rank }.into());
        });
    }
    model.couple("b.reply", "a.answer")
}

fn exchange(sender: Decomposition, receiver: Decomposition, written: Order, read: Order) {
    const STEPS: u64 = 3;
    let run = Arc::new(Run::of(spread(&sender, &receiver, STEPS, &[7, 5])));
    let writers = ranks(&run, "a", sender.ranks(), move |me| {
        assert!(me.reuse().unwrap());
        let mut step = 0;
        while me.next_step().unwrap().is_some() {
            let block = values(&me, "out", written, step);
            assert_eq!(me.send("out", None, Data::Array(block), Stamps::default()).unwrap(), Sent::Queued);
            let Received::Message(answer) = me.receive("answer", None, None).unwrap() else { panic!("no answer") };
            assert_eq!(answer.data, Data::Int(step as i64), "every rank has the answer to rank 0");
            step += 1;
        }
        assert!(!me.reuse().unwrap());
        me.leave().unwrap();
        step
    });
    let readers = ranks(&run, "b", receiver.ranks(), move |me| {
        me.prefer_order(read);
        assert!(me.reuse().unwrap());
        assert_eq!(me.spec().params["k"], "7");
        let mut step = 0;
        while let Some(time) = me.next_step().unwrap() {
            assert_eq!(time, step as f64);
            let found = array(me.receive("in", None, None).unwrap());
            let expected = values(&me, "in", read, step);
            assert_eq!(found.elements::<f64>(), expected.elements::<f64>());
            assert_eq!(found.shape, expected.shape);
            me.send("reply", None, Data::Int(if me.rank() == 0 { step as i64 } else { -1 }), Stamps::default())
                .unwrap();
            step += 1;
        }
        assert!(matches!(me.receive("in", None, None).unwrap(), Received::Ended));
        me.leave().unwrap();
        step
    });
    assert_eq!(writers.join().unwrap(), vec![STEPS; sender.ranks() as usize]);
    assert_eq!(readers.join().unwrap(), vec![STEPS; receiver.ranks() as usize]);
}

#[test]
fn four_ranks_send_to_three_that_cut_the_other_way() {
    exchange(cut(&[(0, 2), (1, 2)]), cut(&[(1, 3)]), Order::RowMajor, Order::RowMajor);
}

#[test]
fn a_serial_program_scatters_to_ranks() {
    exchange(Decomposition::whole(), cut(&[(0, 3)]), Order::RowMajor, Order::RowMajor);
}

#[test]
fn a_serial_program_gathers_from_ranks() {
    exchange(cut(&[(1, 2), (0, 2)]), Decomposition::whole(), Order::RowMajor, Order::RowMajor);
}

#[test]
fn a_column_major_writer_is_read_row_major() {
    exchange(cut(&[(0, 2)]), cut(&[(0, 3)]), Order::ColumnMajor, Order::RowMajor);
}

#[test]
fn a_row_major_writer_is_read_column_major() {
    exchange(cut(&[(0, 3)]), cut(&[(0, 3)]), Order::RowMajor, Order::ColumnMajor);
}

#[test]
fn a_mapper_addresses_the_copies_of_a_parallel_program() {
    let side = cut(&[(0, 2)]);
    let mut model = Model::new().mapper("m", "o:out*2");
    for copy in 0..2 {
        for rank in 0..2 {
            let name = member(&format!("c[{copy}]"), rank);
            model = model.submodel(&name, "in:finit", 1).with(&name, |spec| {
                spec.ports[0].decomposition = side.clone();
                (spec.index, spec.count) = (copy, 2);
            });
            model = model.couple_with("m.o", &format!("{name}.in"), |conduit| {
                conduit.receiver_copy = Some(copy);
                let (sender, receiver) = (Decomposition::whole(), side.clone());
                conduit.parts = Some(PartsSpec { sender, sender_rank: 0, receiver, receiver_rank: rank }.into());
            });
        }
    }
    let run = Arc::new(Run::of(model));
    let body = |me: Instance| {
        let mut found = Vec::new();
        while me.reuse().unwrap() {
            found.extend_from_slice(array(me.receive("in", None, None).unwrap()).elements::<f64>().unwrap());
            while me.next_step().unwrap().is_some() {}
        }
        me.leave().unwrap();
        found
    };
    let copies = [ranks(&run, "c[0]", 2, body), ranks(&run, "c[1]", 2, body)];
    let m = run.join("m");
    assert!(m.reuse().unwrap());
    for copy in 0..2 {
        let whole = Array::from_slice(&[3], &[0, 1, 2].map(|i| f64::from(10 * copy + i))).unwrap();
        m.send("o", Some(copy as u32), Data::Array(whole), Stamps::default()).unwrap();
    }
    m.leave().unwrap();
    let found = copies.map(|copy| copy.join().unwrap());
    assert_eq!(found, [vec![vec![0.0], vec![1.0, 2.0]], vec![vec![10.0], vec![11.0, 12.0]]]);
}

#[test]
fn one_rank_that_joins_alone_is_refused() {
    let run = Run::of(spread(&cut(&[(0, 2)]), &Decomposition::whole(), 1, &[7, 5]));
    let error = run.try_join("a").err().unwrap().to_string();
    assert!(error.contains("a.out is spread over 2 ranks"), "{error}");
}

#[test]
fn blocks_of_another_shape_than_the_decomposition_gives_are_refused() {
    let side = cut(&[(0, 2)]);
    let run = Arc::new(Run::of(spread(&side, &Decomposition::whole(), 1, &[7, 5])));
    let errors = ranks(&run, "a", 2, |me| {
        assert!(me.reuse().unwrap());
        let block = Array::from_slice(&[2, 5], &[0.0; 10]).unwrap();
        me.send("out", None, Data::Array(block), Stamps::default()).unwrap_err().to_string()
    });
    let errors = errors.join().unwrap();
    assert!(errors[1].contains("a block of [4, 5]; this one is [2, 5]"), "{errors:?}");
}

#[test]
fn an_error_of_rank_0_reaches_all_ranks() {
    let side = cut(&[(0, 3)]);
    let run = Arc::new(Run::of(spread(&side, &Decomposition::whole(), 1, &[7, 5])));
    let errors = ranks(&run, "a", 3, |me| {
        assert!(me.reuse().unwrap());
        if me.rank() == 0 {
            thread::sleep(Duration::from_millis(20));
        }
        me.receive("answer", None, None)
    });
    run.coordinator.abort("the test says so");
    for error in errors.join().unwrap() {
        assert!(matches!(error, Err(Error::Aborted { .. })), "{error:?}");
    }
}

#[test]
fn blocks_are_gathered_on_rank_0() {
    let model = Model::new().submodel("a", "out:Oi", 1).submodel("b", "in:S", 1).couple("a.out", "b.in");
    let run = Arc::new(Run::of(model));
    let writers = ranks(&run, "a", 4, |me| {
        assert!(me.reuse().unwrap());
        let rank = u64::from(me.rank());
        let (rows, columns) = (1 + rank / 2, 2 + rank % 2);
        let block = Array::from_slice(&[rows, columns], &vec![rank as f64; (rows * columns) as usize]).unwrap();
        let grid = cut(&[(0, 2), (1, 2)]);
        me.next_step().unwrap();
        me.send_gathered("out", None, block, &grid, Stamps::default()).unwrap();
        me.leave().unwrap();
    });
    let b = run.join("b");
    assert!(b.reuse().unwrap());
    let whole = array(b.receive("in", None, None).unwrap());
    assert_eq!(whole.shape[..], [3, 5]);
    let expected = [0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 2.0, 2.0, 3.0, 3.0, 3.0];
    assert_eq!(whole.elements::<f64>().unwrap(), expected);
    writers.join().unwrap();
    b.leave().unwrap();
}

#[test]
fn blocks_that_make_no_grid_are_an_error_on_every_rank() {
    let model = Model::new().submodel("a", "out:Oi", 1).submodel("b", "in:S", 1).couple("a.out", "b.in");
    let run = Arc::new(Run::of(model));
    let errors = ranks(&run, "a", 2, |me| {
        assert!(me.reuse().unwrap());
        let columns = 1 + u64::from(me.rank());
        let block = Array::from_slice(&[1, columns], &vec![0.0; columns as usize]).unwrap();
        me.send_gathered("out", None, block, &cut(&[(0, 2)]), Stamps::default()).unwrap_err().to_string()
    });
    for error in errors.join().unwrap() {
        assert!(error.contains("dimension 1"), "{error}");
    }
}

#[test]
fn a_time_out_on_a_parallel_port_takes_nothing_on_any_rank() {
    let side = cut(&[(0, 2)]);
    let run = Arc::new(Run::of(spread(&Decomposition::whole(), &side, 1, &[4, 2])));
    let readers = ranks(&run, "b", 2, |me| {
        assert!(me.reuse().unwrap());
        let early = me.receive("in", None, Some(Duration::from_millis(30))).unwrap();
        assert!(matches!(early, Received::TimedOut));
        assert!(!me.has_message("in", None).unwrap());
        me.send("reply", None, Data::Int(1), Stamps::default()).unwrap();
        let found = array(me.receive("in", None, Some(LIMIT)).unwrap());
        me.leave().unwrap();
        found.shape
    });
    let a = run.join("a");
    assert!(a.reuse().unwrap());
    assert!(matches!(a.receive("answer", None, None).unwrap(), Received::Message(_)));
    let whole = Array::from_slice(&[4, 2], &[0.5; 8]).unwrap();
    a.send("out", None, Data::Array(whole), Stamps::default()).unwrap();
    a.leave().unwrap();
    let shapes = readers.join().unwrap();
    assert_eq!(shapes.iter().map(|shape| shape.to_vec()).collect::<Vec<_>>(), vec![vec![2, 2]; 2]);
}

/// What the ranks of `a` have sent to those of `b` [bytes]: frames with arrays of this type and shape, one for each pair that overlaps.
fn bytes_sent(sender: &Decomposition, receiver: &Decomposition, shape: &[u64]) -> u64 {
    let run = Arc::new(Run::of(spread(sender, receiver, 1, shape)));
    let writers = ranks(&run, "a", sender.ranks(), |me| {
        assert!(me.reuse().unwrap());
        me.next_step().unwrap();
        me.send("out", None, Data::Array(values(&me, "out", Order::RowMajor, 0)), Stamps::default()).unwrap();
        me.receive("answer", None, None).unwrap();
        let sent = me.methods("out").unwrap().iter().map(|conduit| conduit.traffic.bytes).sum::<u64>();
        me.leave().unwrap();
        sent
    });
    let readers = ranks(&run, "b", receiver.ranks(), |me| {
        assert!(me.reuse().unwrap());
        me.next_step().unwrap();
        array(me.receive("in", None, None).unwrap());
        me.send("reply", None, Data::Int(1), Stamps::default()).unwrap();
        me.leave().unwrap();
    });
    readers.join().unwrap();
    writers.join().unwrap().iter().sum()
}

#[test]
fn the_bytes_on_the_wire_are_those_of_the_overlaps() {
    let (sender, receiver) = (cut(&[(0, 2), (1, 2)]), cut(&[(1, 3)]));
    let frames = sender.pairs(&receiver).len() as u64;
    for shape in [[4, 6], [400, 600]] {
        let elements = 8 * shape[0] * shape[1];
        let described = bytes_sent(&sender, &receiver, &shape).checked_sub(elements);
        assert!(described.is_some_and(|bytes| bytes <= 200 * frames), "{described:?} bytes for {frames} frames");
    }
}

#[test]
fn ranks_without_a_decomposition_receive_and_send_together_what_their_partner_spreads() {
    let (two, whole) = (cut(&[(0, 2)]), Decomposition::whole());
    let run = Arc::new(Run::of(spread(&two, &whole, 2, &[7, 5])));
    let writers = ranks(&run, "a", 2, |me| {
        assert!(me.reuse().unwrap());
        let mut step = 0;
        while me.next_step().unwrap().is_some() {
            me.send("out", None, Data::Array(values(&me, "out", Order::RowMajor, step)), Stamps::default()).unwrap();
            assert!(matches!(me.receive("answer", None, None).unwrap(), Received::Message(_)));
            step += 1;
        }
        me.leave().unwrap();
    });
    let readers = ranks(&run, "b", 3, |me| {
        assert!(me.reuse().unwrap());
        let mut sums = Vec::new();
        while me.next_step().unwrap().is_some() {
            let whole = array(me.receive("in", None, None).unwrap());
            sums.push(whole.elements::<f64>().unwrap().iter().sum::<f64>());
            me.send("reply", None, Data::Nothing, Stamps::default()).unwrap();
        }
        me.leave().unwrap();
        sums
    });
    writers.join().unwrap();
    assert_eq!(readers.join().unwrap(), vec![vec![595.0, 595.0 + 35_000.0]; 3]);
}
