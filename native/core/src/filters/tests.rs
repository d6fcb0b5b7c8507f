use std::any::Any;
use std::collections::BTreeMap;

use proptest::prelude::*;

use xmml_wire::buffer::{Buffer, BufferPool, Owner};
use xmml_wire::data::{Array, Data, Dtype, Element, Order};

use super::*;

fn spec(name: &str, factor: Option<f64>, params: &[(&str, &str)]) -> FilterSpec {
    let params: BTreeMap<String, String> =
        params.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    FilterSpec { name: name.into(), factor, params }
}

fn chain(specs: &[FilterSpec]) -> Chain {
    Chain::build(specs, "a.o -> b.i").unwrap()
}

fn at(timestamp: f64, next: Option<f64>, data: impl Into<Data>) -> Message {
    Message { timestamp, next_timestamp: next, data: data.into() }
}

fn floats(values: &[f64]) -> Data {
    Array::from_slice(&[values.len() as u64], values).unwrap().into()
}

fn times(messages: &[Message]) -> Vec<f64> {
    messages.iter().map(|message| message.timestamp).collect()
}

#[test]
fn multiply_keeps_the_type_of_reals_and_of_integers_with_an_integral_factor() {
    let one = |factor, data: Data| {
        let mut out = chain(&[spec("multiply", Some(factor), &[])]).apply(at(0.0, None, data)).unwrap();
        out.remove(0).data
    };
    assert_eq!(one(0.5, floats(&[0.0, 1.0, 3.0])), floats(&[0.0, 0.5, 1.5]));
    let ints: Data = Array::from_slice(&[2], &[1_i32, -2]).unwrap().into();
    assert_eq!(one(3.0, ints.clone()), Array::from_slice(&[2], &[3_i32, -6]).unwrap().into());
    assert_eq!(one(0.5, ints), floats(&[0.5, -1.0]));
    let pair: Data = Array::from_slice(&[1], &[[1.0_f32, 2.0]]).unwrap().into();
    assert_eq!(one(2.0, pair), Array::from_slice(&[1], &[[2.0_f32, 4.0]]).unwrap().into());
    assert_eq!(one(2.0, Data::Int(4)), Data::Int(8));
    assert_eq!(one(2.0, Data::List(vec![Data::Float(1.5)])), Data::List(vec![Data::Float(3.0)]));
}

#[test]
fn multiply_refuses_what_is_no_number_or_does_not_fit() {
    let mut filter = chain(&[spec("multiply", Some(2.0), &[])]);
    let text = filter.apply(at(0.0, None, "abc")).unwrap_err().to_string();
    assert_eq!(text, "conduit a.o -> b.i: filter multiply: needs numbers, but the message holds text");
    let small: Data = Array::from_slice(&[1], &[100_i8]).unwrap().into();
    let text = filter.apply(at(0.0, None, small)).unwrap_err().to_string();
    assert!(text.ends_with("the result 200 does not fit int8"), "{text}");
}

#[test]
fn the_published_double_filter_example_gives_its_published_values() {
    let mut filters = chain(&[
        spec("multiply", Some(2.0), &[]),
        spec("serialize", None, &[]),
        spec("compress", None, &[]),
        spec("decompress", None, &[]),
        spec("deserialize", None, &[]),
        spec("multiply", Some(0.3), &[]),
    ]);
    let out = filters.apply(at(0.0, None, floats(&[0.0, 1.0, 2.0, 3.0, 4.0]))).unwrap();
    assert_eq!(out[0].data, floats(&[0.0, 0.6, 1.2, 1.799_999_999_999_999_8, 2.4]));
}

#[test]
fn drop_forwards_every_kth_message() {
    let mut filter = chain(&[spec("drop", Some(2.0), &[])]);
    let kept: Vec<_> = (0..5).flat_map(|k| filter.apply(at(f64::from(k), None, Data::Nothing)).unwrap()).collect();
    assert_eq!(times(&kept), [0.0, 2.0, 4.0]);
}

#[test]
fn time_interpolation_then_a_time_factor_gives_the_published_times() {
    let mut filters = chain(&[spec("lineartimeinterpolation", Some(2.0), &[]), spec("timefactor", Some(10.0), &[])]);
    let out: Vec<_> = (0..4)
        .flat_map(|k| {
            let t = f64::from(k);
            filters.apply(at(t, Some(t + 1.0), floats(&[t]))).unwrap()
        })
        .collect();
    assert_eq!(times(&out), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
    assert_eq!(out[1].data, floats(&[0.5]));
    assert_eq!(out[0].next_timestamp, Some(5.0));
}

#[test]
fn repeat_and_extrapolate_share_the_interval_out() {
    let first = at(0.0, Some(4.0), floats(&[1.0]));
    let second = at(4.0, Some(8.0), floats(&[5.0]));
    let mut filter = chain(&[spec("repeat", Some(4.0), &[])]);
    let out = filter.apply(first.clone()).unwrap();
    assert_eq!(times(&out), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(out[3].next_timestamp, Some(4.0));
    let mut filter = chain(&[spec("extrapolate", Some(4.0), &[])]);
    assert!(filter.apply(first).unwrap().iter().all(|message| message.data == floats(&[1.0])));
    let values: Vec<_> = filter.apply(second).unwrap().into_iter().map(|message| message.data).collect();
    assert_eq!(values, [floats(&[5.0]), floats(&[6.0]), floats(&[7.0]), floats(&[8.0])]);
}

#[test]
fn extrapolation_follows_time_and_not_the_count_of_messages() {
    let mut filter = chain(&[spec("extrapolate", Some(2.0), &[])]);
    filter.apply(at(0.0, Some(1.0), 0.0)).unwrap();
    let out = filter.apply(at(1.0, Some(5.0), 10.0)).unwrap();
    assert_eq!(out, [at(1.0, Some(3.0), 10.0), at(3.0, Some(5.0), 30.0)]);
}

#[test]
fn the_last_message_fills_an_interval_as_long_as_the_one_before() {
    for (name, second) in [("repeat", 4.0), ("extrapolate", 5.0)] {
        let mut filter = chain(&[spec(name, Some(2.0), &[])]);
        filter.apply(at(0.0, Some(4.0), 2.0)).unwrap();
        let out = filter.apply(at(4.0, None, 4.0)).unwrap();
        assert_eq!(out, [at(4.0, Some(6.0), 4.0), at(6.0, None, second)], "{name}");
    }
}

#[test]
fn interpolated_integers_are_real_in_every_message() {
    let whole = |value: i16| Data::from(Array::from_slice(&[1], &[value]).unwrap());
    for name in ["extrapolate", "lineartimeinterpolation"] {
        let mut filter = chain(&[spec(name, Some(2.0), &[])]);
        let mut out = filter.apply(at(0.0, Some(1.0), whole(1))).unwrap();
        out.extend(filter.apply(at(1.0, Some(2.0), whole(2))).unwrap());
        for message in out {
            assert!(matches!(&message.data, Data::Array(array) if array.dtype == Dtype::F64), "{name}: {message:?}");
        }
    }
}

#[test]
fn a_sum_of_integers_of_every_type_keeps_the_type_and_is_checked() {
    fn check<T: Element + TryFrom<i128> + Into<i128>>(largest: T, one: u8) {
        let array = |value: T| Data::from(Array::from_slice(&[2], &[value, value]).unwrap());
        let of = |value: i128| T::try_from(value).unwrap_or(largest);
        let small = array(of(i128::from(one)));
        assert_eq!(numeric::sum(&[small.clone(), small.clone()]), Ok(array(of(2 * i128::from(one)))));
        assert!(numeric::sum(&[array(largest), small]).unwrap_err().contains("does not fit"));
    }
    check(i8::MAX, 1);
    check(i16::MAX, 1);
    check(i32::MAX, 1);
    check(i64::MAX, 1);
    check(u8::MAX, 1);
    check(u16::MAX, 1);
    check(u32::MAX, 1);
    check(u64::MAX, 1);
    assert!(numeric::sum(&[Data::Int(i64::MAX), Data::Int(1)]).is_err());
}

#[test]
fn complex_numbers_and_nested_values_are_averaged_in_their_places() {
    let of = |real: f64| {
        Data::Map(vec![
            ("z".into(), Data::Complex(real, 2.0 * real)),
            ("pair".into(), Array::from_slice(&[], &[[real as f32, 0.0]]).unwrap().into()),
        ])
    };
    assert_eq!(numeric::mean(&[of(1.0), of(3.0)]), Ok(of(2.0)));
    let fewer = Data::Map(vec![("z".into(), Data::Complex(0.0, 0.0))]);
    assert!(numeric::mean(&[fewer.clone(), of(1.0)]).is_err());
    assert!(numeric::mean(&[of(1.0), fewer]).is_err());
}

#[test]
fn elements_that_are_not_aligned_are_read_all_the_same() {
    let bytes: Vec<u8> = [1.0_f64, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let odd = Buffer::copy_of(&[&[0], &bytes[..]].concat()).slice(1..17);
    let array = Array::new(Dtype::F64, Order::RowMajor, vec![2], odd).unwrap();
    assert_eq!(numeric::scale(&array.into(), 2.0), Ok(floats(&[2.0, 4.0])));
}

#[test]
fn sum_and_mean_cover_the_interval_of_their_group() {
    for (name, value) in [("sum", 6.0), ("mean", 2.0)] {
        let mut filter = chain(&[spec(name, Some(3.0), &[])]);
        let out: Vec<_> = (1..=4)
            .flat_map(|k| {
                let t = f64::from(k);
                filter.apply(at(t, Some(t + 1.0), t)).unwrap()
            })
            .collect();
        assert_eq!(out, [at(1.0, Some(4.0), value)]);
    }
}

#[test]
fn messages_of_different_shapes_are_not_added() {
    let mut filter = chain(&[spec("sum", Some(2.0), &[])]);
    filter.apply(at(0.0, None, floats(&[1.0]))).unwrap();
    let text = filter.apply(at(1.0, None, floats(&[1.0, 2.0]))).unwrap_err().to_string();
    assert!(text.contains("shape (1,)") && text.contains("shape (2,)"), "{text}");
}

#[test]
fn last_comes_at_the_end_of_the_senders_run_and_passes_the_filters_behind_it() {
    let mut filters = chain(&[spec("last", None, &[]), spec("multiply", Some(2.0), &[])]);
    assert!(filters.apply(at(0.0, None, 1.0)).unwrap().is_empty());
    assert!(filters.apply(at(1.0, None, 2.0)).unwrap().is_empty());
    assert_eq!(filters.end_of_run().unwrap(), [at(1.0, None, 4.0)]);
    assert!(filters.end_of_run().unwrap().is_empty());
}

#[test]
fn offsets_and_limits_take_units() {
    let mut filter = chain(&[spec("timeoffset", None, &[("offset", "1 min")])]);
    assert_eq!(filter.apply(at(1.0, Some(2.0), 0.0)).unwrap(), [at(61.0, Some(62.0), 0.0)]);
    let mut filter = chain(&[spec("blockafter", None, &[("t", "2 s")])]);
    let kept: Vec<_> = (0..5).flat_map(|k| filter.apply(at(f64::from(k), None, 0.0)).unwrap()).collect();
    assert_eq!(times(&kept), [0.0, 1.0, 2.0]);
    assert_eq!(filter.take_warnings().len(), 1);
    assert!(filter.take_warnings().is_empty());
}

#[test]
fn convert_changes_the_unit() {
    let mut filter = chain(&[spec("convert", None, &[("from", "km/hr"), ("to", "m/s")])]);
    assert_eq!(filter.apply(at(0.0, None, 36.0)).unwrap()[0].data, Data::Float(10.0));
    assert!(Chain::build(&[spec("convert", None, &[("from", "km"), ("to", "s")])], "").is_err());
}

#[test]
fn linear_interpolation_takes_means_along_the_first_axis_in_either_order() {
    let mut filter = chain(&[spec("linearinterpolation", None, &[])]);
    let rows: Data = Array::from_slice(&[3, 2], &[0.0, 10.0, 1.0, 20.0, 2.0, 30.0]).unwrap().into();
    let means: Data = Array::from_slice(&[2, 2], &[0.5, 15.0, 1.5, 25.0]).unwrap().into();
    assert_eq!(filter.apply(at(0.0, None, rows)).unwrap()[0].data, means);
    let mut columns = Array::from_slice(&[3, 2], &[0.0, 1.0, 2.0, 10.0, 20.0, 30.0]).unwrap();
    columns.order = Order::ColumnMajor;
    let mut means = Array::from_slice(&[2, 2], &[0.5, 1.5, 15.0, 25.0]).unwrap();
    means.order = Order::ColumnMajor;
    assert_eq!(filter.apply(at(0.0, None, columns)).unwrap()[0].data, means.into());
    let single = filter.apply(at(0.0, None, floats(&[1.0]))).unwrap();
    assert_eq!(single[0].data, floats(&[]));
    assert!(filter.apply(at(0.0, None, floats(&[]))).is_err());
}

#[test]
fn chunks_join_to_what_they_were() {
    let bytes = Data::Bytes(xmml_wire::buffer::Buffer::copy_of(b"0123456789"));
    let mut split = chain(&[spec("chunk", Some(4.0), &[])]);
    let parts = split.apply(at(0.0, None, bytes.clone())).unwrap();
    assert_eq!(parts.iter().map(|part| part.data.payload_bytes()).collect::<Vec<_>>(), [2, 2, 2, 4]);
    let mut join = chain(&[spec("dechunk", Some(4.0), &[])]);
    let whole: Vec<_> = parts.into_iter().flat_map(|part| join.apply(part).unwrap()).collect();
    assert_eq!(whole[0].data, bytes);
}

/// Memory that another process may still change, as a loan is.
struct Lent {
    _memory: Vec<u8>,
}

impl Owner for Lent {
    fn may_change(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn bytes_that_another_process_may_still_change_are_copied_before_they_are_deserialised() {
    let data = floats(&[1.5; 1000]);
    let bytes = xmml_wire::frame::descriptor::to_bytes(&data, &BufferPool::new()).unwrap();
    let mut memory = bytes.to_vec();
    let (start, len) = (memory.as_mut_ptr(), memory.len());
    // SAFETY: the owner keeps the memory, which does not move with it.
    let lent = unsafe { Buffer::owned_by(start, len, Box::new(Lent { _memory: memory })) };
    let made = chain(&[spec("deserialize", None, &[])]).apply(at(0.0, None, Data::Bytes(lent.clone()))).unwrap();
    assert_eq!(made[0].data, data);
    let Data::Array(array) = &made[0].data else { panic!("{:?}", made[0].data) };
    assert!(!array.data.shares_memory_with(&lent));
}

#[test]
fn damaged_bytes_are_an_error_of_the_filter() {
    for name in ["deserialize", "decompress"] {
        let bytes = Data::Bytes(xmml_wire::buffer::Buffer::copy_of(b"not what it should be"));
        assert!(chain(&[spec(name, None, &[])]).apply(at(0.0, None, bytes)).is_err(), "{name}");
    }
}

#[test]
fn impossible_arguments_and_unknown_names_are_refused() {
    for bad in [
        spec("drop", None, &[]),
        spec("drop", Some(0.0), &[]),
        spec("repeat", Some(1.5), &[]),
        spec("timeoffset", None, &[("offset", "1 km")]),
        spec("multiply", Some(f64::NAN), &[]),
        spec("multipy", Some(1.0), &[]),
    ] {
        assert!(Chain::build(std::slice::from_ref(&bad), "c").is_err(), "{bad:?}");
    }
}

fn every_filter(k: u32) -> Vec<FilterSpec> {
    NAMES
        .iter()
        .filter(|name| !matches!(**name, "blockafter" | "deserialize" | "decompress"))
        .map(|name| match *name {
            "convert" => spec(name, None, &[("from", "km"), ("to", "m")]),
            "precision" => spec(name, None, &[("to", "float32")]),
            "pipe" | "thread" | "null" | "console" | "last" | "serialize" | "linearinterpolation" | "compress" => {
                spec(name, None, &[])
            }
            _ => spec(name, Some(f64::from(k)), &[]),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 24 }, ..ProptestConfig::default() })]

    #[test]
    fn as_many_messages_come_out_as_the_filter_declares(k in 1_u32..7, n in 0_u64..40) {
        for filter_spec in every_filter(k) {
            let mut filter = build(&filter_spec, "a.o -> b.i").unwrap();
            let mut out = Vec::new();
            for input in 0..n {
                let bytes = matches!(filter_spec.name.as_str(), "compress" | "chunk" | "dechunk");
                let data = if bytes {
                    Data::Bytes(xmml_wire::buffer::Buffer::copy_of(&[7; 5]))
                } else {
                    floats(&[1.0, 2.0])
                };
                let t = input as f64;
                filter.apply(at(t, Some(t + 1.0), data), &mut out).unwrap();
                prop_assert_eq!(out.len() as u64, filter.outputs(input + 1), "{}", &filter_spec.name);
                prop_assert!(out.windows(2).all(|pair| pair[0].timestamp <= pair[1].timestamp));
            }
            filter.end_of_run(&mut out).unwrap();
            let declared = filter.outputs(n) + filter.outputs_at_end(n);
            prop_assert_eq!(out.len() as u64, declared, "{}", &filter_spec.name);
        }
    }
}

/// Counts what comes out of a chain by what its filters declare: each counts on over all runs, but `last` holds one message back
/// until the end of a run.
struct Declared {
    specs: Vec<FilterSpec>,
    into: Vec<u64>,
    out: u64,
}

impl Declared {
    fn new(specs: &[FilterSpec]) -> Declared {
        Declared { specs: specs.to_vec(), into: vec![0; specs.len()], out: 0 }
    }

    fn feed(&mut self, at: usize, messages: u64) {
        let Some(spec) = self.specs.get(at) else {
            self.out += messages;
            return;
        };
        let before = outputs(spec, self.into[at]).unwrap();
        self.into[at] += messages;
        let new = outputs(spec, self.into[at]).unwrap() - before;
        self.feed(at + 1, new);
    }

    fn end_run(&mut self) {
        for at in 0..self.specs.len() {
            if self.specs[at].name == "last" {
                let let_go = outputs_at_end(&self.specs[at], std::mem::take(&mut self.into[at])).unwrap();
                self.feed(at + 1, let_go);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 48 }, ..ProptestConfig::default() })]

    #[test]
    fn filters_count_on_over_the_runs_of_the_sender_and_only_last_lets_go_at_their_ends(
        names in prop::collection::vec(
            (prop::sample::select(vec!["sum", "mean", "drop", "repeat", "extrapolate", "lineartimeinterpolation", "last"]), 1_u32..5),
            0..4,
        ),
        runs in prop::collection::vec(1_u64..8, 1..6),
    ) {
        let specs: Vec<FilterSpec> = names.iter().map(|(name, k)| spec(name, Some(f64::from(*k)), &[])).collect();
        let mut filters = chain(&specs);
        let mut declared = Declared::new(&specs);
        let (mut t, mut out) = (0.0, 0);
        for messages in runs {
            for _ in 0..messages {
                out += filters.apply(at(t, Some(t + 1.0), floats(&[t]))).unwrap().len() as u64;
                t += 1.0;
                declared.feed(0, 1);
                prop_assert_eq!(out, declared.out, "{:?} after {} messages", &names, t);
            }
            out += filters.end_of_run().unwrap().len() as u64;
            declared.end_run();
            prop_assert_eq!(out, declared.out, "{:?} at the end of the run after {} messages", &names, t);
        }
    }
}

#[test]
fn a_group_that_the_sender_does_not_complete_is_told_at_its_end() {
    let bytes = Data::Bytes(xmml_wire::buffer::Buffer::copy_of(b"abc"));
    for (name, data) in [("sum", Data::Int(1)), ("mean", Data::Float(1.0)), ("dechunk", bytes)] {
        let mut filter = chain(&[spec(name, Some(4.0), &[])]);
        for t in 0..4 {
            filter.apply(at(f64::from(t), None, data.clone())).unwrap();
        }
        assert!(filter.left_over().is_empty());
        filter.apply(at(5.0, None, data.clone())).unwrap();
        filter.end_of_run().unwrap();
        filter.apply(at(6.0, None, data)).unwrap();
        assert_eq!(
            filter.left_over(),
            [format!(
                "conduit a.o -> b.i: filter {name}: the last 2 of 6 messages did not come out: their group of 4 is not \
                 complete; let 4 divide the number of messages"
            )]
        );
    }
}

#[test]
fn a_misspelt_filter_gets_a_suggestion() {
    let problem = |name| build(&spec(name, None, &[]), "a.o -> b.i").err().unwrap().to_string();
    assert!(problem("repaet").ends_with("did you mean repeat?"), "{}", problem("repaet"));
    assert!(problem("fourier").contains("the filters are blockafter, checksum, chunk"));
}
