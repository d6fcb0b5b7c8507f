//! Frames: whatever is sent comes back, whatever else arrives is an error by cause and never a panic.
//!
//! `XMML_SOAK=1` multiplies the number of random cases by twenty.

use proptest::prelude::*;
use xmml_wire::buffer::{Buffer, BufferPool};
use xmml_wire::data::{array_bytes, Array, Data, Dtype, Order};
use xmml_wire::frame::descriptor::{from_bytes, to_bytes, MAX_DEPTH};
use xmml_wire::frame::*;
use xmml_wire::message::Message;

const CASES: u32 = 4000;

fn config() -> ProptestConfig {
    let soak = std::env::var_os("XMML_SOAK").is_some();
    ProptestConfig {
        cases: if soak { 20 * CASES } else { CASES },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn decoder() -> Decoder {
    Decoder::new(BufferPool::new(), Limits::default())
}

fn bytes_of(encoded: &EncodedMessage) -> Vec<u8> {
    encoded.slices().collect::<Vec<_>>().concat()
}

fn encoded(data: Data) -> Vec<u8> {
    let message = Message { timestamp: 1.5, next_timestamp: Some(2.0), data };
    bytes_of(&encode_message(7, 3, None, &message).unwrap())
}

fn decoded(bytes: &[u8]) -> Result<Data, FrameError> {
    match decoder().push(bytes)?.pop() {
        Some(Frame::Message(frame)) => Ok(frame.message.data),
        other => panic!("{other:?}"),
    }
}

fn cause(bytes: &[u8]) -> String {
    decoder().push(bytes).expect_err("these bytes are no frame").to_string()
}

fn floats(count: usize) -> Array {
    let values: Vec<f64> = (0..count).map(|i| i as f64).collect();
    Array::from_slice(&[count as u64], &values).unwrap()
}

#[test]
fn the_elements_of_a_large_array_are_neither_copied_to_send_nor_to_receive() {
    let array = floats(100_000);
    let message = Message { data: array.clone().into(), ..Message::default() };
    let encoded = encode_message(1, 1, None, &message).unwrap();
    assert!(encoded.payload[0].shares_memory_with(&array.data));

    let pool = BufferPool::new();
    let mut decoder = Decoder::new(pool, Limits::default());
    let bytes = bytes_of(&encoded);
    let (mut at, mut direct) = (0, 0);
    let frame = loop {
        if let Some(frame) = decoder.next_frame().unwrap() {
            break frame;
        }
        let space = decoder.space();
        let count = space.len().min(bytes.len() - at);
        direct += if space.len() > 16 * 1024 { count } else { 0 };
        space[..count].copy_from_slice(&bytes[at..at + count]);
        at += count;
        decoder.filled(count);
    };
    assert!(direct > 780_000, "only {direct} bytes were read to their final place");
    let Frame::Message(MessageFrame { message: Message { data: Data::Array(mut received), .. }, .. }) = frame else {
        panic!("{frame:?}")
    };
    assert_eq!(received, array);
    assert!(received.data.get_mut().is_some(), "the receiver owns the elements alone");
}

#[test]
fn nested_arrays_are_views_into_one_block() {
    let list = Data::List(vec![floats(50_000).into(), Data::Text("between".into()), floats(3).into()]);
    let Data::List(items) = decoded(&encoded(list.clone())).unwrap() else { panic!() };
    assert_eq!(Data::List(items.clone()), list);
    match (&items[0], &items[2]) {
        (Data::Array(first), Data::Array(last)) => {
            assert!(first.data.shares_memory_with(&last.data));
            assert!(last.elements::<f64>().is_some(), "aligned");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_short_message_is_one_piece() {
    let message = Message { data: floats(10).into(), ..Message::default() };
    assert!(encode_message(1, 1, None, &message).unwrap().payload.is_empty());
}

#[test]
fn a_message_for_several_receivers_is_encoded_once() {
    let message = Message { data: floats(1000).into(), ..Message::default() };
    let first = encode_message(1, 5, None, &message).unwrap();
    let second = first.readdressed(2, 9, Some(4));
    assert!(second.payload[0].shares_memory_with(&first.payload[0]));
    assert_eq!(bytes_of(&second), bytes_of(&encode_message(2, 9, Some(4), &message).unwrap()));
}

#[test]
fn lent_memory_is_copied_before_its_owner_may_change_it() {
    let data = Buffer::from(vec![1; 4000]);
    let message = Message { data: data.clone().into(), ..Message::default() };
    let encoded = encode_message(1, 1, None, &message).unwrap();
    assert!(encoded.payload[0].is_foreign());
    let owned = encoded.owned(&BufferPool::new()).unwrap();
    assert!(!owned.payload[0].is_foreign());
    assert_eq!(&owned.payload[0], &data);
}

#[test]
fn frames_follow_each_other_in_one_read() {
    let mut bytes = encode_receipt(4, 9).to_vec();
    bytes.extend(encoded(Data::Int(5)));
    bytes.extend(encode_control(b"\xc0"));
    bytes.extend(encode_end(7, 4));
    let frames = decoder().push(&bytes).unwrap();
    assert_eq!(frames[0], Frame::Receipt { conduit: 4, sequence: 9 });
    assert!(matches!(&frames[1], Frame::Message(frame) if frame.message.data == Data::Int(5) && frame.sequence == 3));
    assert_eq!(frames[2], Frame::Control(vec![0xc0]));
    assert_eq!(frames[3], Frame::End { conduit: 7, sequence: 4 });
}

#[test]
fn a_descriptor_longer_than_the_staging_area_is_understood() {
    let list = Data::List((0..10_000).map(Data::Int).collect());
    assert_eq!(decoded(&encoded(list.clone())).unwrap(), list);
}

#[test]
fn what_is_read_ahead_grows_with_what_comes() {
    let mut decoder = decoder();
    assert!(decoder.space().len() <= 1024, "a silent connection needs little");
    let receipts = encode_receipt(1, 2).repeat(1024);
    let (mut rest, mut frames) = (&receipts[..], 0);
    while !rest.is_empty() {
        let space = decoder.space();
        let count = space.len().min(rest.len());
        space[..count].copy_from_slice(&rest[..count]);
        decoder.filled(count);
        rest = &rest[count..];
        while decoder.next_frame().unwrap().is_some() {
            frames += 1;
        }
    }
    assert_eq!(frames, 1024);
    assert_eq!(decoder.space().len(), Limits::default().staging, "a busy one is read as far as it may");
}

#[test]
fn a_control_frame_longer_than_the_staging_area_is_understood() {
    let value = vec![7; 100_000];
    assert_eq!(decoder().push(&encode_control(&value)).unwrap(), [Frame::Control(value)]);
}

#[test]
fn nesting_is_possible_up_to_the_limit_and_refused_beyond_it() {
    let nested = |depth| (0..depth).fold(Data::Nothing, |inner, _| Data::List(vec![inner]));
    assert_eq!(decoded(&encoded(nested(MAX_DEPTH))).unwrap(), nested(MAX_DEPTH));
    let message = Message { data: nested(MAX_DEPTH + 1), ..Message::default() };
    let problem = encode_message(1, 1, None, &message).unwrap_err().to_string();
    assert_eq!(problem, "this cannot be sent: lists and maps nested more than 64 deep");
}

#[test]
fn a_map_with_one_key_twice_cannot_be_sent() {
    let map = Data::Map(vec![("a".into(), Data::Nothing), ("a".into(), Data::Nothing)]);
    let message = Message { data: map, ..Message::default() };
    assert!(encode_message(1, 1, None, &message).is_err());
}

#[test]
fn what_is_not_known_is_refused_by_cause() {
    let message = Message { timestamp: 1.5, next_timestamp: None, data: Data::Float(1.0) };
    let good = bytes_of(&encode_message(7, 3, None, &message).unwrap());
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(cause(&with(8, 99)), "a frame of unknown kind 99");
    assert_eq!(cause(&with(9, 2)), "a frame of format 2; this side reads format 1");
    assert_eq!(cause(&with(10, 5)), "a Message frame with unknown flags 0x0005");
    assert_eq!(cause(&with(8, 16)), "a Hello frame where none belongs");
    assert_eq!(cause(&with(8, 4)), "a Receipt frame of 40 bytes; at most 0 are allowed");
    assert!(cause(&with(48, 42)).contains("unknown tag 42"));
    assert!(cause(&with(40, 15)).contains("a length of 15"));
    assert_eq!(cause(&with(40, 96)), "a frame that ends before its contents");
    assert_eq!(cause(&with(40, 8)), "a frame that ends before its contents");
}

#[test]
fn a_truth_value_other_than_0_and_1_is_refused() {
    let array = Array::new(Dtype::Bool, Order::RowMajor, vec![2], Buffer::copy_of(&[1, 0])).unwrap();
    let mut bytes = encoded(array.into());
    *bytes.last_mut().unwrap() = 2;
    assert!(cause(&bytes).contains("neither 0 nor 1"));
}

#[test]
fn a_control_frame_beyond_its_limit_is_refused_before_it_is_read() {
    let mut head = encode_receipt(0, 0);
    head[8] = Kind::Control as u8;
    head[0..8].copy_from_slice(&(17_u64 << 20).to_le_bytes());
    assert_eq!(cause(&head), "a Control frame of 17825792 bytes; at most 16777216 are allowed");
}

#[test]
fn an_announced_terabyte_costs_nothing_before_it_arrives() {
    let array = floats(100);
    let mut bytes = encoded(array.into());
    let body = 1_u64 << 39;
    bytes[0..8].copy_from_slice(&body.to_le_bytes());
    let mut decoder = decoder();
    match decoder.push(&bytes) {
        Ok(frames) => assert!(frames.is_empty() && decoder.is_inside_frame()),
        Err(error) => assert!(matches!(error, FrameError::NoMemory { .. }), "{error}"),
    }
}

#[test]
fn a_connection_that_ends_inside_a_frame_is_an_error() {
    let bytes = encoded(floats(10_000).into());
    for cut in [1, 23, 24, 40, 60, 100, 20_000, bytes.len() - 1] {
        let mut decoder = decoder();
        assert!(decoder.push(&bytes[..cut]).unwrap().is_empty());
        assert!(matches!(decoder.finish(), Err(FrameError::Cut { .. })), "cut at {cut}");
    }
    let mut decoder = decoder();
    decoder.push(&bytes).unwrap();
    decoder.finish().unwrap();
}

#[test]
fn after_an_error_nothing_more_is_understood() {
    let mut decoder = decoder();
    let error = decoder.push(&[0xff; 24]).unwrap_err();
    assert_eq!(decoder.push(&encode_receipt(1, 1)), Err(error));
}

#[test]
fn a_block_that_reaches_beyond_the_whole_array_is_refused() {
    let block = Block {
        conduit: 1,
        sequence: 1,
        timestamp: 0.0,
        next_timestamp: None,
        sender_rank: 0,
        receiver_rank: 1,
        blocks: 1,
        whole: vec![8],
        start: vec![6],
        elements: Array::from_slice(&[3], &[1_u8, 2, 3]).unwrap(),
    };
    assert!(block.encode().unwrap_err().to_string().contains("a block from 6 of length 3 in an extent of 8"));
}

fn some_array() -> impl Strategy<Value = Data> {
    let shape = prop::collection::vec(0_u64..5, 0..5);
    (0_u8..13, any::<bool>(), shape, any::<u8>()).prop_map(|(dtype, column, shape, fill)| {
        let dtype = Dtype::from_code(dtype).unwrap();
        let order = if column { Order::ColumnMajor } else { Order::RowMajor };
        let fill = if dtype == Dtype::Bool { fill % 2 } else { fill };
        let bytes = vec![fill; array_bytes(dtype, &shape).unwrap() as usize];
        Data::Array(Array::new(dtype, order, shape, Buffer::copy_of(&bytes)).unwrap())
    })
}

fn some_data() -> impl Strategy<Value = Data> {
    let leaf = prop_oneof![
        Just(Data::Nothing),
        any::<bool>().prop_map(Data::Bool),
        any::<i64>().prop_map(Data::Int),
        any::<f64>().prop_map(Data::Float),
        (any::<f64>(), any::<f64>()).prop_map(|(re, im)| Data::Complex(re, im)),
        ".{0,40}".prop_map(Data::Text),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Data::Bytes(Buffer::copy_of(&bytes))),
        (16_000_usize..40_000, any::<u8>()).prop_map(|(len, byte)| Data::Bytes(Buffer::copy_of(&vec![byte; len]))),
        some_array(),
        some_array(),
    ];
    leaf.prop_recursive(5, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Data::List),
            prop::collection::btree_map(".{0,9}", inner, 0..6).prop_map(|map| Data::Map(map.into_iter().collect())),
        ]
    })
}

/// Feeds `bytes` in pieces of the given sizes; whatever comes, the decoder must answer with frames or an error.
fn feed(bytes: &[u8], sizes: &[usize], staging: usize) -> Result<Vec<Frame>, FrameError> {
    let limits = Limits { staging, message: 1 << 20, ..Limits::default() };
    let mut decoder = Decoder::new(BufferPool::new(), limits);
    let (mut rest, mut frames, mut sizes) = (bytes, Vec::new(), sizes.iter().cycle());
    loop {
        while let Some(frame) = decoder.next_frame()? {
            frames.push(frame);
        }
        if rest.is_empty() {
            return decoder.finish().map(|()| frames);
        }
        let space = decoder.space();
        assert!(!space.is_empty());
        let count = space.len().min(rest.len()).min(*sizes.next().unwrap());
        space[..count].copy_from_slice(&rest[..count]);
        decoder.filled(count);
        rest = &rest[count..];
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_message_comes_back_whatever_the_pieces_it_arrives_in(
        data in some_data(), timestamp: f64, next: Option<f64>, copy in prop::option::of(0..u32::MAX),
        sizes in prop::collection::vec(1_usize..9000, 1..20), staging in 96_usize..20_000,
    ) {
        let message = Message { timestamp, next_timestamp: next, data };
        let bytes = bytes_of(&encode_message(9, 4, copy, &message).unwrap());
        let mut stream = encode_receipt(1, 2).to_vec();
        stream.extend_from_slice(&bytes);
        stream.extend_from_slice(&encode_end(9, 5));
        let frames = feed(&stream, &sizes, staging).unwrap();
        prop_assert_eq!(frames.len(), 3);
        let Frame::Message(frame) = &frames[1] else { panic!("{frames:?}") };
        prop_assert_eq!((frame.conduit, frame.sequence, frame.sender_copy), (9, 4, copy));
        prop_assert_eq!(frame.frame_len, bytes.len() as u64);
        // Not a number is not equal to itself, so the bytes are compared.
        prop_assert_eq!(bytes_of(&encode_message(9, 4, copy, &frame.message).unwrap()), bytes);
    }

    #[test]
    fn serialised_data_comes_back(data in some_data()) {
        let pool = BufferPool::new();
        let bytes = to_bytes(&data, &pool).unwrap();
        prop_assert_eq!(to_bytes(&from_bytes(&bytes).unwrap(), &pool).unwrap(), bytes);
    }

    #[test]
    fn changed_bytes_never_cause_a_panic(
        data in some_data(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        sizes in prop::collection::vec(1_usize..5000, 1..4), descriptor_only: bool, staging in 96_usize..2000,
    ) {
        let message = Message { timestamp: 0.0, next_timestamp: None, data };
        let encoded = encode_message(9, 4, None, &message).unwrap();
        let mut bytes = bytes_of(&encoded);
        let head = if descriptor_only { encoded.head.len() } else { bytes.len() };
        for (at, value) in changes {
            let at = at.index(head);
            bytes[at] = value;
        }
        let _ = feed(&bytes, &sizes, staging);
    }

    #[test]
    fn changed_frames_of_other_kinds_never_cause_a_panic(
        which in 0..3, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut bytes = match which {
            0 => bytes_of(&Block {
                conduit: 1, sequence: 1, timestamp: 0.0, next_timestamp: None, sender_rank: 0, receiver_rank: 1, blocks: 2,
                whole: vec![8, 4], start: vec![2, 0], elements: Array::from_slice(&[1, 2], &[1.0_f32, 2.0]).unwrap(),
            }.encode().unwrap()),
            1 => bytes_of(&Lent {
                conduit: 1, sequence: 1, sender_copy: None, timestamp: 0.0, next_timestamp: None,
                descriptor: vec![0; 8], region: 1, offset: 0, length: 0, generation: 1,
            }.encode()),
            _ => Returned { conduit: 1, sequence: 1, region: 1, offset: 0, generation: 1 }.encode(),
        };
        let changed = !changes.is_empty();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let outcome = feed(&bytes, &[usize::MAX], 4096);
        prop_assert!(changed || outcome.is_ok_and(|frames| frames.len() == 1));
    }

    #[test]
    fn random_bytes_never_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0_u8..40) {
        let _ = feed(&bytes, &[usize::MAX], 96);
        let _ = from_bytes(&Buffer::copy_of(&bytes));
        // The same behind a head that makes sense, so that the bodies of all kinds are reached.
        let mut framed = encode_receipt(1, 1).to_vec();
        framed[8] = kind;
        framed[0..8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        framed.extend_from_slice(&bytes);
        let _ = feed(&framed, &[usize::MAX], 4096);
    }
}
