//! Python values to [`Data`] and back.

use pyo3::exceptions::PyOverflowError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyComplex, PyComplexMethods, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};
use xmml_wire::buffer::BufferPool;
use xmml_wire::data::Data;

use crate::array::{to_array, Loan};
use crate::payload::to_numpy;
use crate::refused::{type_name, Refused};

/// Nesting of lists and dicts deeper than this is refused; a list that holds itself ends here too.
const MAX_DEPTH: usize = 64;

/// What `value` is as the payload of a message; arrays and bytes are copied into memory from `pool`.
pub fn to_data(value: &Bound<'_, PyAny>, pool: &BufferPool) -> PyResult<Data> {
    Conversion { pool, loans: None }.convert(value, 0).map_err(|refused| refused.into_py(value.py()))
}

/// The same, with arrays shown where they lie: for a send, until which has returned the loans must be kept.
pub fn lend_data(value: &Bound<'_, PyAny>, pool: &BufferPool) -> PyResult<(Data, Vec<Loan>)> {
    let mut conversion = Conversion { pool, loans: Some(Vec::new()) };
    let data = conversion.convert(value, 0).map_err(|refused| refused.into_py(value.py()))?;
    Ok((data, conversion.loans.unwrap_or_default()))
}

/// Where the memory of a payload comes from.
struct Conversion<'a> {
    pool: &'a BufferPool,
    loans: Option<Vec<Loan>>,
}

impl Conversion<'_> {
    fn convert(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Result<Data, Refused> {
        if value.is_none() {
            return Ok(Data::Nothing);
        }
        // numpy's float64, complex128, str_ and bytes_ are subclasses of Python's types and go as these.
        if let Ok(number) = value.cast::<PyFloat>() {
            return Ok(Data::Float(number.value()));
        }
        if let Ok(truth) = value.cast::<PyBool>() {
            return Ok(Data::Bool(truth.is_true()));
        }
        if let Ok(number) = value.cast::<PyInt>() {
            return integer(number);
        }
        if let Ok(text) = value.cast::<PyString>() {
            return match text.to_cow() {
                Ok(text) => Ok(Data::Text(text.into_owned())),
                Err(_) => Err(Refused::new("text with lone surrogates cannot be sent: it has no UTF-8 form".into())),
            };
        }
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(Data::Bytes(self.pool.copy_of(bytes.as_bytes())?));
        }
        if let Ok(items) = value.cast::<PyList>() {
            check_depth(depth)?;
            return self.sequence(items.iter(), depth);
        }
        if let Ok(items) = value.cast::<PyTuple>() {
            check_depth(depth)?;
            return self.sequence(items.iter(), depth);
        }
        if let Ok(entries) = value.cast::<PyDict>() {
            check_depth(depth)?;
            return self.mapping(entries, depth);
        }
        if let Ok(number) = value.cast::<PyComplex>() {
            return Ok(Data::Complex(number.real(), number.imag()));
        }
        if let Ok(bytes) = value.cast::<PyByteArray>() {
            // SAFETY: nothing else runs on the interpreter while the bytes are copied.
            return Ok(Data::Bytes(self.pool.copy_of(unsafe { bytes.as_bytes() })?));
        }
        // SAFETY: a check of the type's slots; `value` is a live object.
        if unsafe { ffi::PyObject_CheckBuffer(value.as_ptr()) } != 0 {
            return to_array(value, self.pool, self.loans.as_mut()).map(Data::Array);
        }
        if let Some(array) = as_numpy_array(value) {
            return to_array(&array, self.pool, self.loans.as_mut()).map(Data::Array);
        }
        Err(Refused::new(format!(
        "a value of type {} cannot be sent; messages hold None, bool, int, float, complex, str, bytes, arrays, and lists and dicts of these",
        type_name(value)
    )))
    }

    fn sequence<'py>(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>, depth: usize) -> Result<Data, Refused> {
        let items = items.enumerate();
        items
            .map(|(i, item)| self.convert(&item, depth + 1).map_err(|r| r.within(format!("[{i}]"))))
            .collect::<Result<_, _>>()
            .map(Data::List)
    }

    fn mapping(&mut self, entries: &Bound<'_, PyDict>, depth: usize) -> Result<Data, Refused> {
        let mut map = Vec::with_capacity(entries.len());
        for (key, item) in entries.iter() {
            let Some(name) = key.cast::<PyString>().ok().and_then(|k| k.to_cow().ok().map(|k| k.into_owned())) else {
                return Err(Refused::new(format!("the key {key} is {}; keys must be text (str)", type_name(&key))));
            };
            let data = self.convert(&item, depth + 1).map_err(|r| r.within(format!("[{name:?}]")))?;
            map.push((name, data));
        }
        Ok(Data::Map(map))
    }
}

fn check_depth(depth: usize) -> Result<(), Refused> {
    match depth < MAX_DEPTH {
        true => Ok(()),
        false => Err(Refused::new(format!("lists and dicts nested more than {MAX_DEPTH} deep"))),
    }
}

fn integer(number: &Bound<'_, PyInt>) -> Result<Data, Refused> {
    number.extract().map(Data::Int).map_err(|e| {
        let problem = if e.is_instance_of::<PyOverflowError>(number.py()) {
            "this integer needs more than 64 bits; send a float, a str, or a list of parts".to_string()
        } else {
            e.to_string()
        };
        Refused::new(problem)
    })
}

/// Objects of other libraries (pandas, xarray, torch, jax) that can show themselves as numpy arrays: by themselves, by their memory, or
/// by DLPack.
fn as_numpy_array<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let has = |name| matches!(value.getattr_opt(name), Ok(Some(_)));
    let array = if has("__array__") {
        value.call_method0("__array__").ok()?
    } else if has("__array_interface__") || has("__array_struct__") {
        value.py().import("numpy").ok()?.call_method1("asarray", (value,)).ok()?
    } else if has("__dlpack__") {
        value.py().import("numpy").ok()?.call_method1("from_dlpack", (value,)).ok()?
    } else {
        return None;
    };
    // SAFETY: as above.
    (unsafe { ffi::PyObject_CheckBuffer(array.as_ptr()) } != 0).then_some(array)
}

/// The Python value of `data`. Arrays are shown in place; they can be written to when the message owns their memory alone.
pub fn from_data<'py>(py: Python<'py>, data: Data) -> PyResult<Bound<'py, PyAny>> {
    let writeable = data.owns_its_memory();
    build(py, data, writeable)
}

fn build<'py>(py: Python<'py>, data: Data, writeable: bool) -> PyResult<Bound<'py, PyAny>> {
    Ok(match data {
        Data::Nothing => py.None().into_bound(py),
        Data::Bool(truth) => PyBool::new(py, truth).to_owned().into_any(),
        Data::Int(number) => number.into_pyobject(py)?.into_any(),
        Data::Float(number) => PyFloat::new(py, number).into_any(),
        Data::Complex(real, imaginary) => PyComplex::from_doubles(py, real, imaginary).into_any(),
        Data::Text(text) => PyString::new(py, &text).into_any(),
        Data::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
        Data::Array(array) => to_numpy(py, array, writeable)?,
        Data::List(items) => {
            let items = items.into_iter().map(|item| build(py, item, writeable)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Data::Map(entries) => {
            let dict = PyDict::new(py);
            for (key, item) in entries {
                dict.set_item(key, build(py, item, writeable)?)?;
            }
            dict.into_any()
        }
    })
}
