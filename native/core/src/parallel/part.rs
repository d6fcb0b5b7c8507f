//! What one rank sends to another: the part of its block that the other holds too.
//!
//! A part travels as an ordinary message, so that every method and every filter that works value by value can carry it. Its data is a
//! map with one entry: the key says which part of which array it is (`part [2:4,0:3] of [4,6]`), the value is the array of its
//! elements, in the memory order of the sender.

use xmml_wire::buffer::{Buffer, BufferPool};
use xmml_wire::data::{Array, Data, Order};
use xmml_wire::error::{Error, Result};

use super::blocks::Block;
use super::copying::{copy_block, Place};

/// A part that has arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Extents of the whole array.
    pub whole: Vec<u64>,
    /// Which part of it this is.
    pub block: Block,
    /// The elements.
    pub elements: Array,
}

/// The part of `array`, the block `held` of an array with the extents `whole`, that lies in `wanted`, as the data of a message.
///
/// Without a copy where that is all of `array`.
///
/// # Errors
/// There is no memory for the part.
pub fn part_for(array: &Array, held: &Block, whole: &[u64], wanted: &Block, pool: &BufferPool) -> Result<Data> {
    let common = held.overlap(wanted);
    let data = if common == *held {
        array.data.clone()
    } else {
        let element = array.dtype.size();
        let start = if common.is_empty() { vec![0; whole.len()] } else { held.offset_of(&common) };
        let mut target = pool.take(elements_of(&common) as usize * element).map_err(no_memory)?;
        let from = Place { shape: &held.extent, order: array.order, start: &start };
        let to = Place { shape: &common.extent, order: array.order, start: &vec![0; whole.len()] };
        if !common.is_empty() {
            copy_block(&array.data, from, &mut target, to, &common.extent, element);
        }
        target.freeze()
    };
    let key = key_of(whole, &common);
    let elements = Array { dtype: array.dtype, order: array.order, shape: common.extent.into(), data };
    Ok(Data::Map(vec![(key, Data::Array(elements))]))
}

fn elements_of(block: &Block) -> u64 {
    if block.is_empty() {
        0
    } else {
        block.len()
    }
}

fn no_memory(none: xmml_wire::buffer::OutOfMemory) -> Error {
    Error::Io { action: "make room for a part of an array".into(), cause: none.to_string() }
}

impl Part {
    /// Reads what [`part_for`] made, from a peer.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn of(data: Data) -> std::result::Result<Part, String> {
        let described = data.describe();
        let Data::Map(entries) = data else { return Err(format!("expected a part of an array, found {described}")) };
        let Ok([(key, Data::Array(elements))]) = <[_; 1]>::try_from(entries) else {
            return Err("expected one part of an array".into());
        };
        let (whole, block) = read_key(&key).ok_or_else(|| format!("\"{key}\" is no part of an array"))?;
        let rank = whole.len();
        let fits = (0..rank)
            .all(|axis| block.start[axis].checked_add(block.extent[axis]).is_some_and(|end| end <= whole[axis]));
        if !fits || elements.shape[..] != block.extent[..] {
            return Err(format!("{} cannot be {key}", Data::Array(elements).describe()));
        }
        Ok(Part { whole, block, elements })
    }
}

/// `part [2:4,0:3] of [4,6]`
fn key_of(whole: &[u64], block: &Block) -> String {
    let ranges: Vec<String> =
        block.start.iter().zip(&block.extent).map(|(start, extent)| format!("{start}:{}", start + extent)).collect();
    let extents: Vec<String> = whole.iter().map(u64::to_string).collect();
    format!("part [{}] of [{}]", ranges.join(","), extents.join(","))
}

fn read_key(key: &str) -> Option<(Vec<u64>, Block)> {
    let (ranges, extents) = key.strip_prefix("part [")?.strip_suffix(']')?.split_once("] of [")?;
    let list = |text: &str| -> Vec<String> {
        if text.is_empty() {
            Vec::new()
        } else {
            text.split(',').map(str::to_owned).collect()
        }
    };
    let whole = list(extents).iter().map(|extent| extent.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let mut block = Block { start: Vec::new(), extent: Vec::new() };
    for range in list(ranges) {
        let (start, end) = range.split_once(':')?;
        let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
        block.start.push(start);
        block.extent.push(end.checked_sub(start)?);
    }
    (block.start.len() == whole.len()).then_some((whole, block))
}

/// Puts the parts of a message together: the block `held(whole)` of the array, in memory order `order`.
///
/// Without a copy where one part is the whole block and lies in that order already.
///
/// # Errors
/// What is wrong with the parts, for people: they are of different arrays, or do not make the block.
pub fn put_together(
    parts: Vec<Part>,
    held: impl Fn(&[u64]) -> Block,
    order: Order,
    pool: &BufferPool,
) -> std::result::Result<(Array, Block), String> {
    let Some(first) = parts.first() else { return Err("a message without parts".into()) };
    let (whole, dtype) = (first.whole.clone(), first.elements.dtype);
    let block = held(&whole);
    for part in &parts {
        if part.whole != whole || part.elements.dtype != dtype {
            return Err(format!(
                "the ranks of the sender sent parts of different arrays: of {} {:?} and of {} {:?}",
                dtype.name(),
                whole,
                part.elements.dtype.name(),
                part.whole
            ));
        }
        if !part.block.is_empty() && !block.contains(&part.block) {
            return Err(format!("a part {:?} does not belong here", part.block));
        }
    }
    // Parts of one message do not overlap: enough of them make the block.
    let elements: u64 = parts.iter().map(|part| elements_of(&part.block)).sum();
    if elements != elements_of(&block) {
        return Err(format!("{elements} elements came for a block of {}", elements_of(&block)));
    }
    let is_line = block.extent.iter().filter(|&&extent| extent > 1).count() <= 1;
    if let Some(only) = parts.iter().position(|part| part.block == block) {
        let part = &parts[only];
        if part.elements.order == order || is_line {
            return Ok((Array { order, ..part.elements.clone() }, block));
        }
    }
    let element = dtype.size();
    let mut target = match elements {
        0 => return Ok((Array { dtype, order, shape: block.extent.clone().into(), data: Buffer::default() }, block)),
        _ => pool.take(elements as usize * element).map_err(|none| none.to_string())?,
    };
    for part in parts.iter().filter(|part| !part.block.is_empty()) {
        let from = Place { shape: &part.block.extent, order: part.elements.order, start: &vec![0; whole.len()] };
        let to = Place { shape: &block.extent, order, start: &block.offset_of(&part.block) };
        copy_block(&part.elements.data, from, &mut target, to, &part.block.extent, element);
    }
    Ok((Array { dtype, order, shape: block.extent.clone().into(), data: target.freeze() }, block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::decomposition::{Cut, Decomposition};
    use proptest::prelude::*;
    use xmml_wire::data::Dtype;

    /// The serial reference: every element is its row-major number in the whole array.
    fn block_of(whole: &[u64], block: &Block, order: Order) -> Array {
        let rank = whole.len();
        let count = elements_of(block);
        let mut bytes = Vec::new();
        for place in 0..count {
            let mut rest = place;
            let mut index = vec![0; rank];
            let axes: Vec<usize> = match order {
                Order::RowMajor => (0..rank).rev().collect(),
                Order::ColumnMajor => (0..rank).collect(),
            };
            for axis in axes {
                index[axis] = block.start[axis] + rest % block.extent[axis];
                rest /= block.extent[axis];
            }
            let number = (0..rank).fold(0, |number, axis| number * whole[axis] + index[axis]);
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        Array { dtype: Dtype::U64, order, shape: block.extent.clone().into(), data: Buffer::copy_of(&bytes) }
    }

    fn order() -> impl Strategy<Value = Order> {
        prop_oneof![Just(Order::RowMajor), Just(Order::ColumnMajor)]
    }

    /// A decomposition over 1, 2, 3, 4 or 6 ranks in `dimensions` dimensions, cut in any of them.
    fn decomposition(dimensions: usize) -> impl Strategy<Value = Decomposition> {
        (prop::sample::select(vec![1_u32, 2, 3, 4, 6]), prop::collection::vec(0_usize..6, 3)).prop_map(
            move |(ranks, choices)| {
                let mut cuts = Vec::new();
                let mut left = ranks;
                for dimension in 0..dimensions {
                    let divisors: Vec<u32> = (1..=left).filter(|divisor| left % divisor == 0).collect();
                    let parts =
                        if dimension + 1 == dimensions { left } else { divisors[choices[dimension] % divisors.len()] };
                    left /= parts;
                    cuts.push(Cut { dimension: dimension as u32, parts });
                }
                if choices[0] % 2 == 1 {
                    cuts.reverse();
                }
                Decomposition { cuts }
            },
        )
    }

    fn two_sides() -> impl Strategy<Value = (Vec<u64>, Decomposition, Decomposition)> {
        (1_usize..4).prop_flat_map(|dimensions| {
            (prop::collection::vec(0_u64..12, dimensions), decomposition(dimensions), decomposition(dimensions))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 300 }))]

        #[test]
        fn every_receiving_rank_has_what_a_serial_program_would_have(
            (whole, sender, receiver) in two_sides(), written in order(), read in order()
        ) {
            let pool = BufferPool::new();
            let mut travelled = 0;
            for to in 0..receiver.ranks() {
                let wanted = receiver.block(to, &whole);
                let mut parts = Vec::new();
                for from in (0..sender.ranks()).filter(|&from| sender.meets(from, &receiver, to)) {
                    let held = sender.block(from, &whole);
                    let data = part_for(&block_of(&whole, &held, written), &held, &whole, &wanted, &pool).unwrap();
                    travelled += data.payload_bytes();
                    prop_assert_eq!(data.payload_bytes(), 8 * elements_of(&held.overlap(&wanted)));
                    parts.push(Part::of(data).unwrap());
                }
                let (array, block) = put_together(parts, |whole| receiver.block(to, whole), read, &pool).unwrap();
                prop_assert_eq!(&block, &wanted);
                let expected = block_of(&whole, &wanted, read);
                prop_assert_eq!(array.elements::<u64>(), expected.elements::<u64>());
            }
            prop_assert_eq!(travelled, 8 * elements_of(&Block::whole(&whole)), "every element travels once");
        }

        #[test]
        fn a_key_says_which_part_it_is(whole in prop::collection::vec(0_u64..1 << 40, 0..4), part in 0_u32..4) {
            let cuts = (0..whole.len() as u32).map(|dimension| Cut { dimension, parts: 4 }).collect();
            let block = Decomposition { cuts }.block(part, &whole);
            prop_assert_eq!(read_key(&key_of(&whole, &block)), Some((whole, block)));
        }

        #[test]
        fn no_text_makes_a_reader_panic(key in ".{0,40}") {
            let _ = read_key(&key);
            let _ = read_key(&format!("part [{key}] of [{key}]"));
        }
    }

    #[test]
    fn a_part_that_is_the_whole_block_is_not_copied() {
        let whole = [4, 6];
        let held = Block { start: vec![2, 0], extent: vec![2, 6] };
        let array = block_of(&whole, &held, Order::RowMajor);
        let data = part_for(&array, &held, &whole, &Block::whole(&whole), &BufferPool::new()).unwrap();
        let part = Part::of(data).unwrap();
        assert!(part.elements.data.shares_memory_with(&array.data));
        let (again, _) = put_together(vec![part], |_| held.clone(), Order::RowMajor, &BufferPool::new()).unwrap();
        assert!(again.data.shares_memory_with(&array.data));
    }

    #[test]
    fn parts_of_different_arrays_or_too_few_are_refused() {
        let half = |whole: u64| Part {
            whole: vec![whole],
            block: Block { start: vec![0], extent: vec![2] },
            elements: block_of(&[whole], &Block { start: vec![0], extent: vec![2] }, Order::RowMajor),
        };
        let pool = BufferPool::new();
        let all = |whole: &[u64]| Block::whole(whole);
        assert!(put_together(vec![half(4)], all, Order::RowMajor, &pool).unwrap_err().contains("2 elements came"));
        let mixed = put_together(vec![half(4), half(5)], all, Order::RowMajor, &pool).unwrap_err();
        assert!(mixed.contains("different arrays"), "{mixed}");
        assert!(put_together(vec![], all, Order::RowMajor, &pool).is_err());
    }

    #[test]
    fn what_is_no_part_is_refused() {
        assert!(Part::of(Data::Int(3)).is_err());
        assert!(Part::of(Data::Map(vec![("part [0:2] of [4]".into(), Data::Int(3))])).is_err());
        let three = Data::Array(Array::from_slice(&[3], &[1.0, 2.0, 3.0]).unwrap());
        assert!(Part::of(Data::Map(vec![("part [0:2] of [4]".into(), three.clone())])).is_err());
        assert!(Part::of(Data::Map(vec![("part [2:5] of [4]".into(), three.clone())])).is_err());
        assert!(Part::of(Data::Map(vec![("part [1:4] of [4]".into(), three)])).is_ok());
    }
}
