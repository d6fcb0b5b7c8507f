//! Arrays as they lie in memory: sizes, order, alignment.

use std::sync::OnceLock;

use smallvec::SmallVec;

use xmml_wire::buffer::{Buffer, BufferMut};
use xmml_wire::data::{Array, Dtype, Order};

use crate::status::{Failure, Result};

/// The extents of an array, as C counts.
type Extents = SmallVec<[usize; 4]>;

/// An array as C reads it: every element aligned for its type.
#[derive(Clone, Debug)]
pub struct CArray {
    pub dtype: Dtype,
    pub order: Order,
    pub shape: Extents,
    data: Buffer,
    /// The same elements in the other order, made when first asked for.
    other: OnceLock<Buffer>,
}

impl CArray {
    /// A copy of `bytes` as an array; their number must fit the shape.
    pub fn copy_of(dtype: Dtype, order: Order, shape: &[usize], bytes: &[u8]) -> Result<CArray> {
        check_bools(dtype, bytes)?;
        Ok(CArray {
            dtype,
            order,
            shape: Extents::from_slice(shape),
            data: Buffer::copy_of(bytes),
            other: OnceLock::new(),
        })
    }

    /// `bytes` as an array, where they lie.
    ///
    /// # Safety
    /// They must stay as they are until the array is dropped.
    pub unsafe fn lent(dtype: Dtype, order: Order, shape: &[usize], bytes: &[u8]) -> Result<CArray> {
        check_bools(dtype, bytes)?;
        // SAFETY: promised by the caller; there is no owner to be dropped.
        let data = unsafe { Buffer::wrap(bytes.as_ptr(), bytes.len()) };
        Ok(CArray { dtype, order, shape: Extents::from_slice(shape), data, other: OnceLock::new() })
    }

    /// The elements in this order, without a copy when they are in it already.
    pub fn data(&self, order: Order) -> &[u8] {
        // With at most one extent above 1, both orders are the same.
        if order == self.order || self.shape.iter().filter(|&&extent| extent > 1).count() <= 1 {
            return &self.data;
        }
        self.other.get_or_init(|| reordered(self))
    }

    /// For the core; shares the elements.
    pub fn to_core(&self) -> Array {
        let shape = self.shape.iter().map(|&extent| extent as u64).collect();
        Array { dtype: self.dtype, order: self.order, shape, data: self.data.clone() }
    }
}

fn check_bools(dtype: Dtype, bytes: &[u8]) -> Result<()> {
    if dtype == Dtype::Bool {
        if let Some(place) = bytes.iter().position(|&byte| byte > 1) {
            return Err(Failure::usage(format!(
                "element {place} of a bool array is {}; a bool is one byte, 0 or 1",
                bytes[place]
            )));
        }
    }
    Ok(())
}

impl From<Array> for CArray {
    fn from(array: Array) -> CArray {
        let Array { dtype, order, shape, data } = array;
        let shape: Extents = shape.into_iter().map(|extent| extent as usize).collect();
        assert_eq!(byte_size(dtype, &shape).ok(), Some(data.len()), "an array's bytes and shape disagree");
        CArray { dtype, order, shape, data: aligned(data, dtype), other: OnceLock::new() }
    }
}

/// Bytes of an array of this type and shape.
pub fn byte_size(dtype: Dtype, shape: &[usize]) -> Result<usize> {
    // An extent of 0 must not hide an overflow of the others: pointers into the array are computed from them.
    shape
        .iter()
        .try_fold(dtype.size(), |bytes, &extent| bytes.checked_mul(extent.max(1)))
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .map(|bytes| if shape.contains(&0) { 0 } else { bytes })
        .ok_or_else(|| Failure::usage(format!("an array of shape {} has too many elements", shape_text(shape))))
}

/// `(3, 4)`, as numpy writes it.
pub fn shape_text(shape: &[usize]) -> String {
    match shape {
        [only] => format!("({only},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

fn aligned(data: Buffer, dtype: Dtype) -> Buffer {
    // Complex numbers are pairs and need the alignment of a part.
    let alignment = dtype.size().min(8);
    if (data.as_ptr() as usize) % alignment == 0 {
        return data;
    }
    let mut copy = BufferMut::take(data.len());
    copy.copy_from_slice(&data);
    copy.freeze()
}

fn reordered(array: &CArray) -> Buffer {
    let mut target = BufferMut::take(array.data.len());
    // The shape such that its last index is the fastest in the target.
    let (shape, strides) = match array.order {
        Order::ColumnMajor => (array.shape.clone(), column_major_strides(&array.shape)),
        Order::RowMajor => {
            let backwards: Extents = array.shape.iter().rev().copied().collect();
            let strides = column_major_strides(&backwards);
            (backwards, strides)
        }
    };
    match array.dtype.size() {
        1 => gather::<1>(&array.data, &mut target, &shape, &strides),
        2 => gather::<2>(&array.data, &mut target, &shape, &strides),
        4 => gather::<4>(&array.data, &mut target, &shape, &strides),
        8 => gather::<8>(&array.data, &mut target, &shape, &strides),
        _ => gather::<16>(&array.data, &mut target, &shape, &strides),
    }
    target.freeze()
}

fn column_major_strides(shape: &[usize]) -> Vec<usize> {
    let mut stride = 1;
    let mut strides = Vec::with_capacity(shape.len());
    for extent in shape {
        strides.push(stride);
        stride *= extent;
    }
    strides
}

/// Fills `target` with the last index fastest from a source with these strides (in elements).
fn gather<const SIZE: usize>(source: &[u8], target: &mut [u8], shape: &[usize], strides: &[usize]) {
    let Some((&inner, outer)) = shape.split_last() else { return target.copy_from_slice(source) };
    let inner_stride = strides[strides.len() - 1];
    let mut index = vec![0; outer.len()];
    for row in target.chunks_exact_mut(SIZE * inner.max(1)) {
        let start: usize = index.iter().zip(strides).map(|(i, stride)| i * stride).sum();
        for (i, element) in row.chunks_exact_mut(SIZE).enumerate() {
            let from = (start + i * inner_stride) * SIZE;
            element.copy_from_slice(&source[from..from + SIZE]);
        }
        for (i, extent) in index.iter_mut().zip(outer).rev() {
            *i += 1;
            if *i < *extent {
                break;
            }
            *i = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(order: Order, shape: &[usize]) -> CArray {
        let count: usize = shape.iter().product();
        let bytes: Vec<u8> = (0..count as u16).flat_map(u16::to_le_bytes).collect();
        CArray::copy_of(Dtype::U16, order, shape, &bytes).unwrap()
    }

    fn read(bytes: &[u8]) -> Vec<u16> {
        bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()
    }

    #[test]
    fn a_column_major_matrix_is_transposed_for_a_row_major_reader() {
        // | 0 2 4 |
        // | 1 3 5 |
        let matrix = numbers(Order::ColumnMajor, &[2, 3]);
        assert_eq!(read(matrix.data(Order::RowMajor)), [0, 2, 4, 1, 3, 5]);
        assert_eq!(read(matrix.data(Order::ColumnMajor)), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_row_major_matrix_is_transposed_for_a_column_major_reader() {
        let matrix = numbers(Order::RowMajor, &[2, 3]);
        assert_eq!(read(matrix.data(Order::ColumnMajor)), [0, 3, 1, 4, 2, 5]);
    }

    #[test]
    fn rank_three_keeps_every_element_at_its_index() {
        let shape = [2, 3, 4];
        let array = numbers(Order::ColumnMajor, &shape);
        let row_major = read(array.data(Order::RowMajor));
        for (i, j, k) in (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| (i, j, k)))) {
            assert_eq!(row_major[(i * 3 + j) * 4 + k] as usize, i + 2 * (j + 3 * k));
        }
    }

    #[test]
    fn a_vector_is_not_copied_whatever_the_order() {
        let vector = numbers(Order::ColumnMajor, &[1, 5, 1]);
        assert_eq!(vector.data(Order::RowMajor).as_ptr(), vector.data(Order::ColumnMajor).as_ptr());
    }

    #[test]
    fn a_shape_with_too_many_elements_is_refused_also_beside_a_zero() {
        assert!(byte_size(Dtype::F64, &[usize::MAX, 2]).is_err());
        assert!(byte_size(Dtype::F64, &[usize::MAX, 0]).is_err());
        assert_eq!(byte_size(Dtype::F64, &[3, 0]).unwrap(), 0);
        assert_eq!(byte_size(Dtype::F64, &[]).unwrap(), 8);
    }

    #[test]
    fn a_bool_that_is_neither_0_nor_1_is_refused() {
        let failure = CArray::copy_of(Dtype::Bool, Order::RowMajor, &[3], &[0, 1, 2]).unwrap_err();
        assert!(failure.text.contains("element 2"), "{}", failure.text);
    }
}
