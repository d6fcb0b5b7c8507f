//! Any object with the buffer protocol (numpy arrays, `array.array`, memoryviews) to an [`Array`], by one copy or none.

use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::os::raw::c_int;

use pyo3::ffi;
use pyo3::prelude::*;
use xmml_wire::buffer::{Buffer, BufferPool};
use xmml_wire::data::{Array, Dtype, Order, Shape};

use crate::refused::{type_name, Refused};

/// From this size on other Python threads run while the bytes are copied.
const DETACH_BYTES: usize = 1 << 20;

/// A borrowed view of an exporter's memory, given back when dropped.
struct View {
    // Boxed: an exporter may let `shape` point into the struct itself, so it must not move.
    raw: Box<ffi::Py_buffer>,
}

impl View {
    fn of(value: &Bound<'_, PyAny>) -> PyResult<View> {
        let mut raw = Box::new(ffi::Py_buffer::new());
        // SAFETY: `raw` is a valid, empty Py_buffer and `value` a live object; on success the exporter fills it in.
        let status = unsafe { ffi::PyObject_GetBuffer(value.as_ptr(), &mut *raw, ffi::PyBUF_RECORDS_RO as c_int) };
        if status != 0 {
            return Err(PyErr::fetch(value.py()));
        }
        Ok(View { raw })
    }

    fn rank(&self) -> usize {
        self.raw.ndim as usize
    }

    fn shape(&self) -> &[ffi::Py_ssize_t] {
        self.extents(self.raw.shape)
    }

    fn strides(&self) -> &[ffi::Py_ssize_t] {
        self.extents(self.raw.strides)
    }

    fn extents(&self, start: *const ffi::Py_ssize_t) -> &[ffi::Py_ssize_t] {
        if start.is_null() || self.raw.ndim == 0 {
            return &[];
        }
        // SAFETY: the request for strides makes the exporter fill `shape` and `strides` with `ndim` entries each.
        unsafe { std::slice::from_raw_parts(start, self.rank()) }
    }

    fn format(&self) -> &str {
        if self.raw.format.is_null() {
            return "B";
        }
        // SAFETY: a non-null format is a NUL-terminated string that lives as long as the view.
        unsafe { CStr::from_ptr(self.raw.format) }.to_str().unwrap_or("?unreadable")
    }

    /// Whether the elements lie without gaps, the last (`RowMajor`) or the first (`ColumnMajor`) index fastest.
    fn is_dense(&self, order: Order) -> bool {
        let mut expected = self.raw.itemsize;
        let dimensions = self.shape().iter().zip(self.strides());
        let mut dense = |(&extent, &stride): (&isize, &isize)| {
            let fits = extent == 1 || stride == expected;
            expected *= extent;
            fits
        };
        match order {
            Order::RowMajor => dimensions.rev().all(&mut dense),
            Order::ColumnMajor => dimensions.clone().all(&mut dense),
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: filled by a successful PyObject_GetBuffer and released once, with the GIL held.
        unsafe { ffi::PyBuffer_Release(&mut *self.raw) };
    }
}

/// A PEP 3118 element format: its type, and whether its bytes must be swapped.
fn element(format: &str, size: usize) -> Option<(Dtype, bool)> {
    let (swapped, code) = match format.as_bytes().first()? {
        b'>' | b'!' => (size > 1, &format[1..]),
        b'<' | b'=' | b'@' => (false, &format[1..]),
        _ => (false, format),
    };
    let dtype = match (code, size) {
        ("?", 1) => Dtype::Bool,
        ("b", 1) => Dtype::I8,
        ("h" | "i" | "l" | "q" | "n", 2) => Dtype::I16,
        ("h" | "i" | "l" | "q" | "n", 4) => Dtype::I32,
        ("h" | "i" | "l" | "q" | "n", 8) => Dtype::I64,
        ("B", 1) => Dtype::U8,
        ("H" | "I" | "L" | "Q" | "N", 2) => Dtype::U16,
        ("H" | "I" | "L" | "Q" | "N", 4) => Dtype::U32,
        ("H" | "I" | "L" | "Q" | "N", 8) => Dtype::U64,
        ("f", 4) => Dtype::F32,
        ("d", 8) => Dtype::F64,
        ("Zf" | "F", 8) => Dtype::C64,
        ("Zd" | "D", 16) => Dtype::C128,
        _ => return None,
    };
    Some((dtype, swapped))
}

/// The memory of an exporter, lent to a message for as long as a send lasts: keep this until it has returned, and drop it with the GIL
/// held.
pub struct Loan {
    view: ManuallyDrop<View>,
    data: Buffer,
}

impl Drop for Loan {
    fn drop(&mut self) {
        // If somebody kept the message all the same, the memory must stay, for good.
        if self.data.owners() == 1 {
            // SAFETY: dropped here only.
            unsafe { ManuallyDrop::drop(&mut self.view) };
        }
    }
}

/// The elements of `value`: copied into memory from `pool`, or, with `loans`, where they lie if they can be sent as they are.
///
/// Dense arrays keep their order (C or Fortran); all others are copied to C order; big-endian elements are converted.
pub fn to_array(value: &Bound<'_, PyAny>, pool: &BufferPool, loans: Option<&mut Vec<Loan>>) -> Result<Array, Refused> {
    let view = View::of(value).map_err(|e| {
        let cause = e.value(value.py()).str().map(|s| s.to_string()).unwrap_or_default();
        Refused::new(format!("{} cannot be sent: {cause}", describe(value)))
    })?;
    let itemsize = view.raw.itemsize as usize;
    let Some((dtype, swapped)) = element(view.format(), itemsize) else {
        return Err(Refused::new(format!(
            "{} cannot be sent; arrays may hold bool, int8 to int64, uint8 to uint64, float32, float64, complex64 and complex128: {}",
            describe(value),
            advice(view.format())
        )));
    };
    let order = if view.is_dense(Order::RowMajor) {
        Some(Order::RowMajor)
    } else if view.is_dense(Order::ColumnMajor) {
        Some(Order::ColumnMajor)
    } else {
        None
    };
    let len = view.raw.len as usize;
    let shape: Shape = view.shape().iter().map(|&n| n as u64).collect();
    if let (Some(order), Some(loans), false, true) = (order, loans, swapped, len > 0) {
        // SAFETY: a dense view covers `len` bytes from `buf`, which the export keeps in place; the loan outlives their use.
        let data = unsafe { Buffer::wrap(view.raw.buf as *const u8, len) };
        loans.push(Loan { view: ManuallyDrop::new(view), data: data.clone() });
        return Ok(Array { dtype, order, shape, data });
    }
    let mut bytes = pool.take(len)?;
    match order {
        Some(_) if len > 0 => {
            // SAFETY: a dense view covers `len` bytes from `buf`, and the export keeps them in place while `view` lives.
            let source = unsafe { std::slice::from_raw_parts(view.raw.buf as *const u8, len) };
            if len >= DETACH_BYTES {
                value.py().detach(|| bytes.copy_from_slice(source));
            } else {
                bytes.copy_from_slice(source);
            }
        }
        None if len > 0 => {
            // SAFETY: shape and strides describe memory that the exporter holds for us; `bytes` has room for every element.
            unsafe { gather(view.raw.buf as *const u8, view.shape(), view.strides(), itemsize, &mut &mut bytes[..]) };
        }
        _ => {}
    }
    if swapped {
        let part = if matches!(dtype, Dtype::C64 | Dtype::C128) { itemsize / 2 } else { itemsize };
        bytes.chunks_exact_mut(part).for_each(<[u8]>::reverse);
    }
    Ok(Array { dtype, order: order.unwrap_or(Order::RowMajor), shape, data: bytes.freeze() })
}

/// Copies a strided block in C order to the front of `out`, and moves `out` behind it.
///
/// # Safety
/// `start`, `shape` and `strides` must describe readable memory of elements of `size` bytes.
unsafe fn gather(start: *const u8, shape: &[isize], strides: &[isize], size: usize, out: &mut &mut [u8]) {
    let (Some((&extent, inner_shape)), Some((&stride, inner_strides))) = (shape.split_first(), strides.split_first())
    else {
        // SAFETY: by contract `start` is one readable element.
        take(out, size).copy_from_slice(unsafe { std::slice::from_raw_parts(start, size) });
        return;
    };
    if inner_shape.is_empty() && stride == size as isize {
        let bytes = extent as usize * size;
        // SAFETY: the innermost dimension is dense.
        take(out, bytes).copy_from_slice(unsafe { std::slice::from_raw_parts(start, bytes) });
        return;
    }
    for i in 0..extent {
        // SAFETY: `i` lies within this dimension.
        unsafe { gather(start.offset(i * stride), inner_shape, inner_strides, size, out) };
    }
}

fn take<'a>(out: &mut &'a mut [u8], len: usize) -> &'a mut [u8] {
    let (front, rest) = std::mem::take(out).split_at_mut(len);
    *out = rest;
    front
}

/// What to do about elements of a format that is not carried.
fn advice(format: &str) -> &'static str {
    match format.trim_start_matches(['<', '>', '=', '!', '@']) {
        "e" => "convert it first, without loss by .astype(\"float32\")",
        "g" => "convert it first, rounded to double precision by .astype(\"float64\")",
        "Zg" | "G" => "convert it first, rounded to double precision by .astype(\"complex128\")",
        "O" => "send a list, or convert it to an array of numbers, e.g. with .astype(float)",
        code if code.ends_with(['w', 's', 'u']) => "send its texts as a list, by .tolist()",
        code if code.starts_with("T{") => {
            "send its fields as a dict, {name: array[name] for name in array.dtype.names}"
        }
        _ => "convert it first, e.g. with .astype(float)",
    }
}

/// "an array of float16 and shape (3, 4)", "a value of type set".
fn describe(value: &Bound<'_, PyAny>) -> String {
    match (value.getattr("dtype"), value.getattr("shape")) {
        (Ok(dtype), Ok(shape)) => format!("an array of {dtype} and shape {shape}"),
        _ => format!("a value of type {}", type_name(value)),
    }
}
