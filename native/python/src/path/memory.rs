//! Messages in the memory of Python objects, and as Python objects.

use std::os::raw::c_int;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use xmml_wire::buffer::Buffer;

use crate::payload::Payload;

/// The memory of a Python object, kept for as long as a message needs it.
struct View {
    // Boxed: an exporter may point into the struct itself, so it must not move.
    raw: Box<ffi::Py_buffer>,
}

// SAFETY: what the view shows is kept in place by the exporter until it is released; the view itself is only used by its owner.
unsafe impl Send for View {}
// SAFETY: as above, and shared references only read.
unsafe impl Sync for View {}

impl View {
    fn of(value: &Bound<'_, PyAny>) -> PyResult<View> {
        let mut raw = Box::new(ffi::Py_buffer::new());
        // SAFETY: `raw` is a valid, empty Py_buffer and `value` a live object; a contiguous block of bytes is asked for.
        let status = unsafe { ffi::PyObject_GetBuffer(value.as_ptr(), &mut *raw, ffi::PyBUF_SIMPLE as c_int) };
        match status {
            0 => Ok(View { raw }),
            _ => Err(PyErr::fetch(value.py())),
        }
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        if self.raw.len == 0 {
            return &[];
        }
        // SAFETY: a simple view covers `len` bytes from `buf`.
        unsafe { std::slice::from_raw_parts(self.raw.buf as *const u8, self.raw.len as usize) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // While the interpreter ends the memory is left to the end of the process.
        // SAFETY: filled by a successful PyObject_GetBuffer and released once, with the interpreter attached.
        Python::try_attach(|_| unsafe { ffi::PyBuffer_Release(&mut *self.raw) });
    }
}

/// The bytes of any object with contiguous memory, where they are. `bytes` never change, and are kept as long as the message is.
pub fn lent(data: &Bound<'_, PyAny>) -> PyResult<Buffer> {
    match data.cast::<PyBytes>() {
        Ok(bytes) => Ok(Buffer::from_constant(PyBackedBytes::from(bytes.clone()))),
        Err(_) => View::of(data).map(Buffer::from_owner),
    }
}

/// Bytes of a message as a memoryview over the memory they came in.
pub fn shown<'py>(py: Python<'py>, message: Buffer) -> PyResult<Bound<'py, PyAny>> {
    let payload = Bound::new(py, Payload::new(message, true))?;
    py.import("builtins")?.getattr("memoryview")?.call1((payload,))
}
