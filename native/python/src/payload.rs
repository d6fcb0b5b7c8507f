//! Received arrays as numpy arrays over the memory they arrived in.

use std::os::raw::{c_int, c_uint, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};
use xmml_wire::buffer::Buffer;
use xmml_wire::data::{array_bytes, Array, Dtype, Order};
use xmml_wire::error::Error;

/// The memory of a received array; the `base` of the numpy array that shows it.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct Payload {
    buffer: Buffer,
    writeable: bool,
}

impl Payload {
    /// Shows `buffer`, for writing if the caller says that nobody else holds it.
    pub fn new(buffer: Buffer, writeable: bool) -> Payload {
        Payload { buffer, writeable }
    }
}

#[pymethods]
impl Payload {
    /// Size in bytes.
    fn __len__(&self) -> usize {
        self.buffer.len()
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let this = slf.get();
        // SAFETY: the buffer neither moves nor shrinks while `slf` lives, and the view holds a reference to `slf`. It is
        // offered for writing only when no other owner of the memory exists (see `to_numpy`).
        let status = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                this.buffer.as_ptr() as *mut c_void,
                this.buffer.len() as ffi::Py_ssize_t,
                c_int::from(!this.writeable),
                flags,
            )
        };
        if status == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}

/// Two functions of numpy's C interface: with them an array is made over memory in a fraction of the time that a call of its class takes,
/// which for a short message is more than all the rest.
struct Maker {
    new: New,
    set_base: SetBase,
}

type Version = unsafe extern "C" fn() -> c_uint;
type New = unsafe extern "C" fn(
    class: *mut ffi::PyTypeObject,
    dtype: *mut ffi::PyObject,
    rank: c_int,
    shape: *const ffi::Py_ssize_t,
    strides: *const ffi::Py_ssize_t,
    data: *mut c_void,
    flags: c_int,
    like: *mut ffi::PyObject,
) -> *mut ffi::PyObject;
type SetBase = unsafe extern "C" fn(array: *mut ffi::PyObject, base: *mut ffi::PyObject) -> c_int;

/// Flags of an array there.
const ROW_MAJOR: c_int = 0x1;
const COLUMN_MAJOR: c_int = 0x2;
const ALIGNED: c_int = 0x100;
const WRITEABLE: c_int = 0x400;

impl Maker {
    /// Where numpy keeps them; `None` if it is one whose binary interface is not known here.
    fn find(py: Python<'_>) -> Option<Maker> {
        // The places of functions in the table are the same in all of 1 (since 1.7) and 2.
        const VERSION: usize = 0;
        const NEW_FROM_DESCR: usize = 94;
        const SET_BASE_OBJECT: usize = 282;
        let module = py.import("numpy._core._multiarray_umath").or_else(|_| py.import("numpy.core._multiarray_umath"));
        let table = module.and_then(|module| module.getattr("_ARRAY_API")).ok()?;
        // SAFETY: an object is asked whether it is a capsule without a name; a failure leaves an exception, which is taken away.
        let table = unsafe { ffi::PyCapsule_GetPointer(table.as_ptr(), std::ptr::null()) }.cast::<*const c_void>();
        if table.is_null() {
            drop(PyErr::take(py));
            return None;
        }
        // SAFETY: the table of numpy's C interface has these functions at these places, if it has the version that is asked for first.
        unsafe {
            let version = std::mem::transmute::<*const c_void, Version>(*table.add(VERSION));
            matches!(version() >> 24, 1 | 2).then(|| Maker {
                new: std::mem::transmute::<*const c_void, New>(*table.add(NEW_FROM_DESCR)),
                set_base: std::mem::transmute::<*const c_void, SetBase>(*table.add(SET_BASE_OBJECT)),
            })
        }
    }

    /// An array of `class` over the memory of `payload`, which it keeps.
    fn make<'py>(
        &self,
        class: &Bound<'py, PyAny>,
        dtype: &Py<PyAny>,
        array: Array,
        writeable: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = class.py();
        let start = array.data.as_ptr();
        let shape: Vec<ffi::Py_ssize_t> = array.shape.iter().map(|extent| *extent as ffi::Py_ssize_t).collect();
        let order = if array.order == Order::RowMajor { ROW_MAJOR } else { COLUMN_MAJOR };
        // Complex numbers are pairs and need the alignment of a part.
        let aligned = if start as usize % array.dtype.size().min(8) == 0 { ALIGNED } else { 0 };
        let flags = order | aligned | if writeable { WRITEABLE } else { 0 };
        let base = Bound::new(py, Payload { buffer: array.data, writeable })?;
        // SAFETY: the class is numpy's, the dtype (whose reference is taken over) one of its own, and the memory as large as they say and
        // kept in place by the base, whose reference is taken over in any case.
        unsafe {
            let dtype = dtype.clone_ref(py).into_ptr();
            let (class, data) = (class.as_ptr().cast(), start as *mut c_void);
            let (rank, shape) = (shape.len() as c_int, shape.as_ptr());
            let made = (self.new)(class, dtype, rank, shape, std::ptr::null(), data, flags, std::ptr::null_mut());
            let made = Bound::from_owned_ptr_or_err(py, made)?;
            match (self.set_base)(made.as_ptr(), base.into_ptr()) {
                0 => Ok(made),
                _ => Err(PyErr::fetch(py)),
            }
        }
    }
}

/// What is needed of numpy, looked up when the first array arrives.
struct Numpy {
    ndarray: Py<PyAny>,
    maker: Option<Maker>,
    /// By the code of the [`Dtype`].
    dtypes: Vec<Py<PyAny>>,
    row_major: Py<PyString>,
    column_major: Py<PyString>,
}

static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();

fn numpy(py: Python<'_>) -> PyResult<&Numpy> {
    NUMPY.get_or_try_init(py, || {
        let module = py.import("numpy")?;
        let dtype = module.getattr("dtype")?;
        let dtypes = (0..).map_while(Dtype::from_code).map(|d| Ok(dtype.call1((d.name(),))?.unbind()));
        Ok(Numpy {
            ndarray: module.getattr("ndarray")?.unbind(),
            maker: Maker::find(py),
            dtypes: dtypes.collect::<PyResult<_>>()?,
            row_major: PyString::intern(py, "C").unbind(),
            column_major: PyString::intern(py, "F").unbind(),
        })
    })
}

/// An array to be filled, over memory that is handed over when it is sent.
pub fn empty<'py>(
    py: Python<'py>,
    me: &xmml_core::instance::Instance,
    shape: Vec<u64>,
    dtype: Option<&Bound<'py, PyAny>>,
    order: Order,
) -> PyResult<Bound<'py, PyAny>> {
    let wanted = match dtype {
        Some(dtype) => py.import("numpy")?.getattr("dtype")?.call1((dtype,))?,
        None => numpy(py)?.dtypes[Dtype::F64 as usize].bind(py).clone(),
    };
    let known = &numpy(py)?.dtypes;
    let mut found = None;
    for (code, dtype) in known.iter().enumerate() {
        if wanted.eq(dtype)? {
            found = Dtype::from_code(code as u8);
        }
    }
    let Some(dtype) = found else {
        let problem = format!(
            "arrays of {wanted} cannot be sent; they may hold bool, int8 to int64, uint8 to uint64, float32, float64, complex64 and complex128"
        );
        return Err(crate::errors::raise(py, Error::Usage { problem }));
    };
    let memory = me.loan(dtype, &shape, false).map_err(|error| crate::errors::raise(py, error))?;
    let bytes = array_bytes(dtype, &shape).unwrap_or(0) as usize;
    to_numpy(py, Array { dtype, order, shape: shape.into(), data: memory.slice(0..bytes) }, true)
}

/// A numpy array over the memory of `array`; it may be written to when `writeable`, which the caller must only say if
/// nobody else holds that memory.
pub fn to_numpy<'py>(py: Python<'py>, array: Array, writeable: bool) -> PyResult<Bound<'py, PyAny>> {
    let numpy = numpy(py)?;
    if let Some(maker) = numpy.maker.as_ref().filter(|_| !array.data.is_empty()) {
        return maker.make(numpy.ndarray.bind(py), &numpy.dtypes[array.dtype as usize], array, writeable);
    }
    let shape = PyTuple::new(py, &array.shape)?;
    let order = match array.order {
        Order::RowMajor => &numpy.row_major,
        Order::ColumnMajor => &numpy.column_major,
    };
    let dtype = &numpy.dtypes[array.dtype as usize];
    let payload = Bound::new(py, Payload { buffer: array.data, writeable })?;
    numpy.ndarray.bind(py).call1((shape, dtype, payload, 0, py.None(), order))
}
