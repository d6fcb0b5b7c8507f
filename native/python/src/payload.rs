//! Received arrays as numpy arrays over the memory they arrived in.

use std::os::raw::{c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};
use xmml_core::buffer::Buffer;
use xmml_core::data::{array_bytes, Array, Dtype, Order};
use xmml_core::error::Error;

/// The memory of a received array; the `base` of the numpy array that shows it.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct Payload {
    buffer: Buffer,
    writeable: bool,
}

impl Payload {
    /// The bytes of a buffer, to be read only.
    pub fn of(buffer: Buffer) -> Payload {
        Payload { buffer, writeable: false }
    }

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

/// What is needed of numpy, looked up when the first array arrives.
struct Numpy {
    ndarray: Py<PyAny>,
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
    to_numpy(py, Array { dtype, order, shape, data: memory.slice(0..bytes) }, true)
}

/// A numpy array over the memory of `array`; it may be written to when `writeable`, which the caller must only say if
/// nobody else holds that memory.
pub fn to_numpy<'py>(py: Python<'py>, array: Array, writeable: bool) -> PyResult<Bound<'py, PyAny>> {
    let numpy = numpy(py)?;
    let shape = PyTuple::new(py, &array.shape)?;
    let order = match array.order {
        Order::RowMajor => &numpy.row_major,
        Order::ColumnMajor => &numpy.column_major,
    };
    let dtype = &numpy.dtypes[array.dtype as usize];
    let payload = Bound::new(py, Payload { buffer: array.data, writeable })?;
    numpy.ndarray.bind(py).call1((shape, dtype, payload, 0, py.None(), order))
}
