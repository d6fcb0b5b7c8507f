use super::*;
use proptest::prelude::*;
use xmml_wire::data::{Element, Order};

fn passed(form: Form, data: Data) -> Data {
    let mut out = Vec::new();
    Reduce::new(form).apply(Message { data, ..Message::default() }, &mut out).unwrap();
    Restore::default().restore(out.remove(0).data).unwrap()
}

fn wire_bytes(form: Form, data: Data) -> u64 {
    let mut out = Vec::new();
    Reduce::new(form).apply(Message { data, ..Message::default() }, &mut out).unwrap();
    out[0].data.payload_bytes()
}

fn array<T: Element>(values: &[T]) -> Data {
    Array::from_slice(&[values.len() as u64], values).unwrap().into()
}

fn values<T: Element>(data: &Data) -> Vec<T> {
    match data {
        Data::Array(array) => array.elements().unwrap().to_vec(),
        other => panic!("{}", other.describe()),
    }
}

#[test]
fn float64_comes_back_as_the_nearest_number_of_the_form() {
    let sent = [1.0, 0.1, -1.0 / 3.0, 65000.0, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY];
    let float32: Vec<f64> = sent.iter().map(|x| f64::from(*x as f32)).collect();
    assert_eq!(values::<f64>(&passed(Form::Float32, array(&sent))), float32);
    let float16: Vec<f64> = sent.iter().map(|x| f16::from_f64(*x).to_f64()).collect();
    assert_eq!(values::<f64>(&passed(Form::Float16, array(&sent))), float16);
    let bfloat16: Vec<f64> = sent.iter().map(|x| bf16::from_f64(*x).to_f64()).collect();
    assert_eq!(values::<f64>(&passed(Form::Bfloat16, array(&sent))), bfloat16);
}

#[test]
fn the_wire_carries_as_few_bytes_as_the_form_needs() {
    let data = || array(&[1.5_f64; 1000]);
    assert_eq!(wire_bytes(Form::Float32, data()), 4000);
    assert_eq!(wire_bytes(Form::Float16, data()), 2000);
    assert_eq!(wire_bytes(Form::Bfloat16, data()), 2000);
    assert_eq!(wire_bytes(Form::Within(0.04), data()), 2000);
    assert_eq!(wire_bytes(Form::Within(1e-3), data()), 3000);
    assert_eq!(wire_bytes(Form::Within(1e-6), data()), 4000);
    assert_eq!(wire_bytes(Form::Within(1e-17), data()), 8000);
    assert_eq!(wire_bytes(Form::Within(1e-2), array(&[1.5_f32; 1000])), 2000);
}

#[test]
fn type_shape_order_and_nesting_stay() {
    let matrix = Array { order: Order::ColumnMajor, ..Array::from_slice(&[2, 3], &[0.5_f64; 6]).unwrap() };
    let complex = Array::from_slice(&[2], &[[1.0_f64, -2.0], [3.0, 4.0]]).unwrap();
    let single = Array::from_slice(&[], &[[1.0_f32, 2.0]]).unwrap();
    let empty = Array::from_slice::<f64>(&[0, 3], &[]).unwrap();
    let data = Data::Map(vec![
        ("m".into(), matrix.into()),
        ("l".into(), vec![complex.into(), single.into(), empty.into(), array(&[1_i64, 2]), Data::Float(0.1)].into()),
        ("t".into(), "text".into()),
    ]);
    for form in [Form::Float32, Form::Float16, Form::Bfloat16, Form::Within(1e-2), Form::Within(1e-9)] {
        assert_eq!(passed(form, data.clone()), data, "{form:?}");
    }
}

#[test]
fn a_number_beyond_the_range_of_the_form_is_an_error_not_infinity() {
    for (form, number) in [(Form::Float32, 1e39), (Form::Float16, 70000.0), (Form::Bfloat16, 3.4e38 * 1.01)] {
        let mut out = Vec::new();
        let message = Message { data: array(&[number]), ..Message::default() };
        let problem = Reduce::new(form).apply(message, &mut out).unwrap_err();
        assert!(problem.contains("does not fit into"), "{problem}");
    }
}

#[test]
fn what_is_neither_finite_nor_small_survives_a_tolerance() {
    let sent = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 0.0, -0.0];
    let got = values::<f64>(&passed(Form::Within(0.04), array(&sent)));
    assert!(got[0].is_nan());
    assert_eq!(got[1..3], sent[1..3]);
    assert!(got.iter().skip(3).all(|number| number.is_finite()));
    let quiet_in_the_last_bit = f64::from_bits(0x7ff0_0000_0000_0001);
    assert!(values::<f64>(&passed(Form::Within(0.04), array(&[quiet_in_the_last_bit])))[0].is_nan());
}

#[test]
fn what_precision_did_not_make_is_refused() {
    let restore = |data| Restore::default().restore(data).unwrap_err();
    restore(Data::Int(1));
    restore(vec![Data::Int(1), Data::Int(2)].into());
    restore(vec![array(&[1.0_f64]), Data::List(vec![])].into());
    restore(vec![array(&[1.0_f64]), vec![Data::Int(10), Data::Int(99)].into()].into());
    restore(vec![array(&[1.0_f32]), vec![Data::Int(3), Data::Int(1)].into()].into());
    restore(vec![array(&[1_u8]), vec![Data::Int(10), Data::Int(18)].into()].into());
    restore(vec![Data::Int(1), vec![Data::Int(10)].into()].into());
}

proptest! {
    #[test]
    fn a_tolerance_is_kept(number in prop::num::f64::NORMAL, exponent in 1..15_i32) {
        let tolerance = 10_f64.powi(-exponent);
        let got = values::<f64>(&passed(Form::Within(tolerance), array(&[number])))[0];
        prop_assert!((got - number).abs() <= tolerance * number.abs(), "{number} became {got}");
    }

    #[test]
    fn a_tolerance_is_kept_for_float32(number in prop::num::f32::NORMAL, exponent in 1..7_i32) {
        let tolerance = 10_f64.powi(-exponent);
        let got = values::<f32>(&passed(Form::Within(tolerance), array(&[number])))[0];
        let (got, number) = (f64::from(got), f64::from(number));
        prop_assert!((got - number).abs() <= tolerance * number.abs(), "{number} became {got}");
    }
}
