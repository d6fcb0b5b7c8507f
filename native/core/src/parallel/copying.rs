//! Copies a block from one array into another, from either memory order into either, in one pass.

use xmml_wire::data::Order;

/// Side of the square tiles in which a block is copied whose two arrays run in different directions: a tile of the widest elements
/// (16 bytes) is 16 KiB in each array, so that both stay in the first cache.
const TILE: usize = 32;

/// Side of the squares that go through registers: a line of a square of doubles is a cache line.
const SQUARE: usize = 8;

/// Where a block lies in an array.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Extents of the array.
    pub shape: &'a [u64],
    /// How its elements follow each other.
    pub order: Order,
    /// First index of the block in it.
    pub start: &'a [u64],
}

impl Place<'_> {
    /// Distance between neighbours in each dimension, and where the block begins; both in elements.
    fn strides(&self) -> (Vec<usize>, usize) {
        let mut strides = vec![0; self.shape.len()];
        let mut stride = 1;
        let mut each = |axis: usize| {
            strides[axis] = stride;
            stride *= self.shape[axis] as usize;
        };
        match self.order {
            Order::RowMajor => (0..self.shape.len()).rev().for_each(&mut each),
            Order::ColumnMajor => (0..self.shape.len()).for_each(&mut each),
        }
        let begin = strides.iter().zip(self.start).map(|(stride, start)| stride * *start as usize).sum();
        (strides, begin)
    }
}

/// Copies the block of `extent` at `from` in `source` to `to` in `target`.
///
/// # Panics
/// If a block does not lie within its array, or an array has not as many bytes as its shape says.
pub fn copy_block(source: &[u8], from: Place<'_>, target: &mut [u8], to: Place<'_>, extent: &[u64], element: usize) {
    assert_fits(source.len(), from, extent, element);
    assert_fits(target.len(), to, extent, element);
    if extent.contains(&0) {
        return;
    }
    let ((from_strides, from_begin), (to_strides, to_begin)) = (from.strides(), to.strides());
    let mut axes: Vec<Axis> = (0..extent.len())
        .map(|axis| Axis { extent: extent[axis] as usize, from: from_strides[axis], to: to_strides[axis] })
        .filter(|axis| axis.extent > 1)
        .collect();
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.to));
    let axes = joined(axes);
    let (source, target) = (&source[from_begin * element..], &mut target[to_begin * element..]);
    match element {
        1 => nest::<1>(&axes, source, target),
        2 => nest::<2>(&axes, source, target),
        4 => nest::<4>(&axes, source, target),
        8 => nest::<8>(&axes, source, target),
        16 => nest::<16>(&axes, source, target),
        other => unreachable!("no element has {other} bytes"),
    }
}

fn assert_fits(bytes: usize, place: Place<'_>, extent: &[u64], element: usize) {
    assert!(place.shape.len() == extent.len() && place.start.len() == extent.len(), "a block of another rank");
    let elements = place.shape.iter().try_fold(element as u64, |all, &extent| all.checked_mul(extent.max(1)));
    let elements = elements.map(|all| if place.shape.contains(&0) { 0 } else { all });
    assert_eq!(elements, Some(bytes as u64), "an array's bytes and shape disagree");
    for ((&start, &extent), &shape) in place.start.iter().zip(extent).zip(place.shape) {
        assert!(start.checked_add(extent).is_some_and(|end| end <= shape), "a block outside of its array");
    }
}

/// One dimension of a copy: how many, and how far apart in each array (in elements).
#[derive(Clone, Copy)]
struct Axis {
    extent: usize,
    from: usize,
    to: usize,
}

/// Joins neighbouring dimensions that follow each other without a gap in both arrays.
fn joined(axes: Vec<Axis>) -> Vec<Axis> {
    let mut joined: Vec<Axis> = Vec::with_capacity(axes.len());
    for axis in axes {
        match joined.last_mut() {
            Some(outer) if outer.from == axis.from * axis.extent && outer.to == axis.to * axis.extent => {
                *outer = Axis { extent: outer.extent * axis.extent, ..axis };
            }
            _ => joined.push(axis),
        }
    }
    joined
}

/// Goes through the outer dimensions; the innermost is copied as runs, or the two innermost of each array in tiles.
fn nest<const SIZE: usize>(axes: &[Axis], source: &[u8], target: &mut [u8]) {
    let Some((inner, outer)) = axes.split_last() else {
        target[..SIZE].copy_from_slice(&source[..SIZE]);
        return;
    };
    if inner.from == 1 && inner.to == 1 {
        let run = inner.extent * SIZE;
        each(outer, |from, to| {
            target[to * SIZE..to * SIZE + run].copy_from_slice(&source[from * SIZE..from * SIZE + run]);
        });
        return;
    }
    // The target runs along the last dimension; where does the source?
    let Some(fast) =
        (0..outer.len()).min_by_key(|&axis| outer[axis].from).filter(|&axis| outer[axis].from < inner.from)
    else {
        each(outer, |from, to| {
            for i in 0..inner.extent {
                element::<SIZE>(source, from + i * inner.from, target, to + i * inner.to);
            }
        });
        return;
    };
    let across = outer[fast];
    let rest: Vec<Axis> = outer.iter().enumerate().filter(|(axis, _)| *axis != fast).map(|(_, axis)| *axis).collect();
    each(&rest, |from, to| {
        for rows in (0..across.extent).step_by(TILE) {
            for columns in (0..inner.extent).step_by(TILE) {
                let (height, width) = (TILE.min(across.extent - rows), TILE.min(inner.extent - columns));
                let from = from + rows * across.from + columns * inner.from;
                let to = to + rows * across.to + columns * inner.to;
                tile::<SIZE>([height, width], [across, *inner], &source[from * SIZE..], &mut target[to * SIZE..]);
            }
        }
    });
}

/// Copies a tile of `height` by `width` elements: small squares through registers, the edges one by one.
fn tile<const SIZE: usize>([height, width]: [usize; 2], [across, inner]: [Axis; 2], source: &[u8], target: &mut [u8]) {
    let is_square = height % SQUARE == 0 && width % SQUARE == 0 && across.from == 1 && inner.to == 1;
    if !is_square {
        for row in 0..height {
            for column in 0..width {
                let from = row * across.from + column * inner.from;
                element::<SIZE>(source, from, target, row * across.to + column * inner.to);
            }
        }
        return;
    }
    for row in (0..height).step_by(SQUARE) {
        for column in (0..width).step_by(SQUARE) {
            let mut square = [[[0_u8; SIZE]; SQUARE]; SQUARE];
            #[allow(clippy::needless_range_loop)] // j counts the columns of the source, too
            for j in 0..SQUARE {
                let from = (row + (column + j) * inner.from) * SIZE;
                for (i, element) in source[from..from + SQUARE * SIZE].chunks_exact(SIZE).enumerate() {
                    square[i][j].copy_from_slice(element);
                }
            }
            for (i, line) in square.iter().enumerate() {
                let to = ((row + i) * across.to + column) * SIZE;
                target[to..to + SQUARE * SIZE].copy_from_slice(line.as_flattened());
            }
        }
    }
}

#[inline(always)]
fn element<const SIZE: usize>(source: &[u8], from: usize, target: &mut [u8], to: usize) {
    let (from, to) = (from * SIZE, to * SIZE);
    target[to..to + SIZE].copy_from_slice(&source[from..from + SIZE]);
}

/// Calls `body` with the offsets in both arrays for every index of these dimensions.
fn each(axes: &[Axis], mut body: impl FnMut(usize, usize)) {
    let mut index = vec![0; axes.len()];
    let (mut from, mut to) = (0, 0);
    loop {
        body(from, to);
        let mut axis = axes.len();
        loop {
            let Some(previous) = axis.checked_sub(1) else { return };
            axis = previous;
            index[axis] += 1;
            from += axes[axis].from;
            to += axes[axis].to;
            if index[axis] < axes[axis].extent {
                break;
            }
            from -= axes[axis].from * axes[axis].extent;
            to -= axes[axis].to * axes[axis].extent;
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where an element lies in an array, in elements.
    fn place_of(index: &[u64], shape: &[u64], order: Order) -> usize {
        let axes: Vec<usize> = match order {
            Order::RowMajor => (0..shape.len()).collect(),
            Order::ColumnMajor => (0..shape.len()).rev().collect(),
        };
        axes.iter().fold(0, |place, &axis| place * shape[axis] as usize + index[axis] as usize)
    }

    fn check(shape: &[u64], start: &[u64], extent: &[u64], element: usize) {
        let count: u64 = shape.iter().product();
        let source: Vec<u8> = (0..count as usize * element).map(|i| (i * 31 % 251) as u8).collect();
        for from in [Order::RowMajor, Order::ColumnMajor] {
            for to in [Order::RowMajor, Order::ColumnMajor] {
                let mut target = vec![0; extent.iter().product::<u64>() as usize * element];
                let zeros = vec![0; shape.len()];
                let there = Place { shape: extent, order: to, start: &zeros };
                copy_block(&source, Place { shape, order: from, start }, &mut target, there, extent, element);
                for number in 0..target.len() / element {
                    let mut rest = number as u64;
                    let mut index = vec![0; extent.len()];
                    for axis in (0..extent.len()).rev() {
                        index[axis] = rest % extent[axis];
                        rest /= extent[axis];
                    }
                    let inner = place_of(&index, extent, to) * element;
                    let outer: Vec<u64> = index.iter().zip(start).map(|(index, start)| index + start).collect();
                    let outer = place_of(&outer, shape, from) * element;
                    assert_eq!(target[inner..inner + element], source[outer..outer + element], "{shape:?} {index:?}");
                }
            }
        }
    }

    #[test]
    fn every_element_arrives_at_its_index_in_both_orders() {
        for element in [1, 2, 4, 8, 16] {
            check(&[72, 40], &[0, 0], &[72, 40], element);
            check(&[67, 45], &[2, 3], &[64, 40], element);
            check(&[33, 70], &[1, 0], &[31, 69], element);
            check(&[9, 17, 24], &[1, 1, 0], &[8, 16, 24], element);
            check(&[16, 3, 8, 5], &[0, 1, 0, 2], &[16, 2, 8, 1], element);
        }
    }

    #[test]
    fn an_array_without_dimensions_is_one_element() {
        check(&[], &[], &[], 8);
    }
}
