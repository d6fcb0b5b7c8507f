//! Ranks of a parallel program, reached through a Python object (`xmml_native.mpi.Ranks`).

use std::os::raw::c_char;

use pyo3::ffi;
use pyo3::prelude::*;
use xmml_core::parallel::decomposition::{Cut, Decomposition};
use xmml_core::team::Team;

/// The ranks that a Python object reaches: it has `rank`, `size`, and the methods `give`, `take`, `deliver` and `collect`, which get
/// memory to read from or write to.
pub struct Ranks {
    rank: u32,
    size: u32,
    object: Py<PyAny>,
}

impl Ranks {
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Ranks> {
        let (rank, size) = (object.getattr("rank")?.extract()?, object.getattr("size")?.extract()?);
        Ok(Ranks { rank, size, object: object.clone().unbind() })
    }

    /// Calls a method with a view of memory, which ends with the call.
    fn call(&self, method: &str, from: Option<u32>, start: *const u8, len: usize, writes: bool) -> Result<(), String> {
        let flags = if writes { ffi::PyBUF_WRITE } else { ffi::PyBUF_READ };
        let attempt = |py: Python<'_>| -> PyResult<()> {
            // SAFETY: the memory belongs to the caller, who waits for this call; a view for reading is not written to. What is released
            // below cannot be used by anybody who has kept it.
            let view = unsafe {
                let view = ffi::PyMemoryView_FromMemory(start as *mut c_char, len as ffi::Py_ssize_t, flags);
                Bound::from_owned_ptr_or_err(py, view)?
            };
            let object = self.object.bind(py);
            let called = match from {
                Some(rank) => object.call_method1(method, (rank, &view)),
                None => object.call_method1(method, (&view,)),
            };
            view.call_method0("release")?;
            called.map(|_| ())
        };
        Python::attach(|py| attempt(py).map_err(|error| error.value(py).to_string()))
    }
}

impl Team for Ranks {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn give(&self, bytes: &[u8]) -> Result<(), String> {
        self.call("give", None, bytes.as_ptr(), bytes.len(), false)
    }

    fn take(&self, bytes: &mut [u8]) -> Result<(), String> {
        self.call("take", None, bytes.as_mut_ptr(), bytes.len(), true)
    }

    fn deliver(&self, bytes: &[u8]) -> Result<(), String> {
        self.call("deliver", None, bytes.as_ptr(), bytes.len(), false)
    }

    fn collect(&self, from: u32, bytes: &mut [u8]) -> Result<(), String> {
        self.call("collect", Some(from), bytes.as_mut_ptr(), bytes.len(), true)
    }
}

/// Return the pairs of a sending and a receiving rank that can have elements of an array in common.
///
/// Each side is given as its dimensions, each with the number of parts into which it is cut.
#[pyfunction]
pub fn rank_pairs(sender: Vec<(u32, u32)>, receiver: Vec<(u32, u32)>) -> PyResult<Vec<(u32, u32)>> {
    let side = |cuts: Vec<(u32, u32)>| {
        let cuts = cuts.into_iter().map(|(dimension, parts)| Cut { dimension, parts }).collect();
        let side = Decomposition { cuts };
        side.check().map(|()| side).map_err(pyo3::exceptions::PyValueError::new_err)
    };
    Ok(side(sender)?.pairs(&side(receiver)?))
}
