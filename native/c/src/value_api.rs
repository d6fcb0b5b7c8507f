//! Reading and making values from C.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};

use xmml_wire::buffer::Buffer;
use xmml_wire::data::{Dtype, Order};

use crate::argument::{elements, handed, object, place, text, wanted, Container, Elements, Handed, Out, Room, Text};
use crate::array::{byte_size, shape_text, CArray};
use crate::status::{free, guard, guard_or, guard_pointer, Failure, Result, Status};
use crate::text::CText;
use crate::value::Value;

/// When reading: an array of any rank.
const ANY_RANK: usize = usize::MAX;

/// Levels of lists and maps within each other: as many as a message may have.
const MAX_DEPTH: usize = 64;

/// The element type with this code in C.
pub fn dtype_of(code: c_int) -> Result<Dtype> {
    u8::try_from(code).ok().and_then(Dtype::from_code).ok_or_else(|| {
        Failure::usage(format!("{code} is no element type; they run from XMML_BOOL (0) to XMML_C128 (12)"))
    })
}

fn order_of(code: c_int) -> Result<Option<Order>> {
    match code {
        0 => Ok(Some(Order::RowMajor)),
        1 => Ok(Some(Order::ColumnMajor)),
        2 => Ok(None),
        _ => Err(Failure::usage(format!("{code} is no order; see xmml_order"))),
    }
}

/// One of the two orders that arrays can have.
pub fn order_from_c(code: c_int) -> Result<Order> {
    order_of(code)?.ok_or_else(|| Failure::usage("say XMML_ROW_MAJOR or XMML_COLUMN_MAJOR, not XMML_ANY_ORDER"))
}

/// The array that C describes, copied.
pub fn array_from_c(
    dtype: c_int,
    order: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Elements<u8>,
) -> Result<Value> {
    let (dtype, order, shape, bytes) = array_arguments(dtype, order, rank, shape, data)?;
    CArray::copy_of(dtype, order, shape, bytes).map(Value::Array)
}

/// The same without a copy: the elements must stay as they are until the value is dropped.
pub fn lent_array_from_c(
    dtype: c_int,
    order: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Elements<u8>,
) -> Result<Value> {
    let (dtype, order, shape, bytes) = array_arguments(dtype, order, rank, shape, data)?;
    // SAFETY: xmml.h asks that of whoever calls xmml_value_lent_array; a send is done with them when it returns.
    unsafe { CArray::lent(dtype, order, shape, bytes) }.map(Value::Array)
}

fn array_arguments<'a>(
    dtype: c_int,
    order: c_int,
    rank: usize,
    shape: Elements<'a, usize>,
    data: Elements<'a, u8>,
) -> Result<(Dtype, Order, &'a [usize], &'a [u8])> {
    let dtype = dtype_of(dtype)?;
    let order = order_of(order)?.ok_or_else(|| {
        Failure::usage("an array is sent in XMML_ROW_MAJOR or XMML_COLUMN_MAJOR, not in XMML_ANY_ORDER")
    })?;
    let shape = shape_from_c(rank, shape)?;
    let bytes = elements(data, byte_size(dtype, shape)?, "data")?;
    Ok((dtype, order, shape, bytes))
}

pub fn shape_from_c(rank: usize, shape: Elements<'_, usize>) -> Result<&[usize]> {
    const MAX_RANK: usize = 64;
    if rank > MAX_RANK {
        return Err(Failure::usage(format!("rank {rank} is more than {MAX_RANK}")));
    }
    elements(shape, rank, "shape")
}

/// `xmml_array`.
#[repr(C)]
pub struct XmmlArray {
    dtype: c_int,
    order: c_int,
    rank: usize,
    shape: *const usize,
    size: usize,
    data: *const c_void,
}

/// Reads an array as the arguments of `xmml_read_array` say.
pub fn array_to_c(value: &Value, dtype: Option<c_int>, rank: usize, order: c_int) -> Result<XmmlArray> {
    let dtype = dtype.map(dtype_of).transpose()?;
    let rank = (rank != ANY_RANK).then_some(rank);
    let view = value.read_array(dtype, rank, order_of(order)?)?;
    Ok(XmmlArray {
        dtype: view.dtype as c_int,
        order: view.order as c_int,
        rank: view.shape.len(),
        shape: view.shape.as_ptr(),
        size: view.shape.iter().product(),
        data: view.data.as_ptr().cast(),
    })
}

/// Copies an array of exactly this type and shape.
pub fn copy_to_c(value: &Value, dtype: c_int, rank: usize, shape: Elements<usize>, data: Room<u8>) -> Result<()> {
    let dtype = dtype_of(dtype)?;
    let shape = shape_from_c(rank, shape)?;
    let view = value.read_array(Some(dtype), Some(rank), Some(Order::RowMajor))?;
    if view.shape != shape {
        let expected = format!("expected shape {}, but found {}", shape_text(shape), value.describe());
        return Err(Failure::new(Status::Type, expected));
    }
    if byte_size(dtype, shape)? > 0 && data.is_null() {
        return Err(Failure::usage("data is a null pointer"));
    }
    data.fill(view.data);
    Ok(())
}

#[no_mangle]
pub extern "C" fn xmml_dtype_size(dtype: c_int) -> usize {
    dtype_of(dtype).map_or(0, Dtype::size)
}

#[no_mangle]
pub extern "C" fn xmml_dtype_name(dtype: c_int) -> *const c_char {
    let name = match dtype_of(dtype) {
        Err(_) => c"unknown",
        Ok(Dtype::Bool) => c"bool",
        Ok(Dtype::I8) => c"int8",
        Ok(Dtype::I16) => c"int16",
        Ok(Dtype::I32) => c"int32",
        Ok(Dtype::I64) => c"int64",
        Ok(Dtype::U8) => c"uint8",
        Ok(Dtype::U16) => c"uint16",
        Ok(Dtype::U32) => c"uint32",
        Ok(Dtype::U64) => c"uint64",
        Ok(Dtype::F32) => c"float32",
        Ok(Dtype::F64) => c"float64",
        Ok(Dtype::C64) => c"complex64",
        Ok(Dtype::C128) => c"complex128",
    };
    name.as_ptr()
}

#[no_mangle]
pub extern "C" fn xmml_value_kind(value: Option<&Value>) -> c_int {
    match value {
        None | Some(Value::Nothing) => 0,
        Some(Value::Bool(_)) => 1,
        Some(Value::Int(_)) => 2,
        Some(Value::Float(_)) => 3,
        Some(Value::Complex(_)) => 4,
        Some(Value::Text(_)) => 5,
        Some(Value::Bytes(_)) => 6,
        Some(Value::Array(_)) => 7,
        Some(Value::List(_)) => 8,
        Some(Value::Map(_)) => 9,
    }
}

thread_local! {
    static DESCRIBED: RefCell<CText> = RefCell::new(CText::default());
}

#[no_mangle]
pub extern "C" fn xmml_describe(value: Option<&Value>) -> *const c_char {
    guard_or(c"nothing".as_ptr(), || {
        let text = value.map_or_else(|| "nothing".into(), Value::describe);
        DESCRIBED
            .try_with(|described| {
                *described.borrow_mut() = CText::from(text);
                described.borrow().as_ptr()
            })
            .map_err(|_| Failure::usage("this thread is ending"))
    })
}

#[no_mangle]
pub extern "C" fn xmml_read_bool(value: Option<&Value>, out: Out<c_int>) -> c_int {
    guard(|| {
        place(out, "out")?.set(object(value, "value")?.read_bool()?.into());
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_read_int(value: Option<&Value>, out: Out<i64>) -> c_int {
    guard(|| {
        place(out, "out")?.set(object(value, "value")?.read_int()?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_read_double(value: Option<&Value>, out: Out<f64>) -> c_int {
    guard(|| {
        place(out, "out")?.set(object(value, "value")?.read_float()?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_read_complex(value: Option<&Value>, real: Out<f64>, imaginary: Out<f64>) -> c_int {
    guard(|| complex_to_c(object(value, "value")?.read_complex(), real, imaginary))
}

/// Gives both parts of a complex number.
pub fn complex_to_c(parts: Result<(f64, f64)>, real: Out<f64>, imaginary: Out<f64>) -> Result<()> {
    let (real, imaginary) = (place(real, "real")?, place(imaginary, "imaginary")?);
    let parts = parts?;
    real.set(parts.0);
    imaginary.set(parts.1);
    Ok(())
}

#[no_mangle]
pub extern "C" fn xmml_read_text(value: Option<&Value>, out: Out<*const c_char>, length: Out<usize>) -> c_int {
    guard(|| text_to_c(object(value, "value")?.read_text(), out, length))
}

/// Gives a text and, if asked for, its length.
pub fn text_to_c(text: Result<&CText>, out: Out<*const c_char>, length: Out<usize>) -> Result<()> {
    let out = place(out, "text")?;
    match text {
        Ok(text) => {
            out.set(text.as_ptr());
            if let Some(length) = wanted(length) {
                length.set(text.len());
            }
            Ok(())
        }
        Err(failure) => {
            out.set(std::ptr::null());
            Err(failure)
        }
    }
}

#[no_mangle]
pub extern "C" fn xmml_read_bytes(value: Option<&Value>, out: Out<*const c_void>, size: Out<usize>) -> c_int {
    guard(|| bytes_to_c(object(value, "value")?.read_bytes(), out, size))
}

/// Gives bytes and their number.
pub fn bytes_to_c(bytes: Result<&[u8]>, out: Out<*const c_void>, size: Out<usize>) -> Result<()> {
    let (out, size) = (place(out, "bytes")?, place(size, "size")?);
    match bytes {
        Ok(bytes) => {
            out.set(bytes.as_ptr().cast());
            size.set(bytes.len());
            Ok(())
        }
        Err(failure) => {
            out.set(std::ptr::null());
            Err(failure)
        }
    }
}

#[no_mangle]
pub extern "C" fn xmml_read_array(
    value: Option<&Value>,
    dtype: c_int,
    rank: usize,
    order: c_int,
    array: Out<XmmlArray>,
) -> c_int {
    guard(|| {
        place(array, "array")?.set(array_to_c(object(value, "value")?, Some(dtype), rank, order)?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_read_any_array(value: Option<&Value>, order: c_int, array: Out<XmmlArray>) -> c_int {
    guard(|| {
        place(array, "array")?.set(array_to_c(object(value, "value")?, None, ANY_RANK, order)?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_copy_array(
    value: Option<&Value>,
    dtype: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Room<u8>,
) -> c_int {
    guard(|| copy_to_c(object(value, "value")?, dtype, rank, shape, data))
}

#[no_mangle]
pub extern "C" fn xmml_list_size(list: Option<&Value>) -> usize {
    match list {
        Some(Value::List(elements)) => elements.len(),
        _ => 0,
    }
}

#[no_mangle]
pub extern "C" fn xmml_list_get(list: Option<&Value>, i: usize) -> *const Value {
    match list {
        Some(Value::List(elements)) => elements.get(i).map_or(std::ptr::null(), |element| &raw const **element),
        _ => std::ptr::null(),
    }
}

#[no_mangle]
pub extern "C" fn xmml_map_size(map: Option<&Value>) -> usize {
    entries(map).len()
}

#[no_mangle]
pub extern "C" fn xmml_map_key(map: Option<&Value>, i: usize) -> *const c_char {
    entries(map).get(i).map_or(std::ptr::null(), |(key, _)| key.as_ptr())
}

#[no_mangle]
pub extern "C" fn xmml_map_value(map: Option<&Value>, i: usize) -> *const Value {
    entries(map).get(i).map_or(std::ptr::null(), |(_, value)| &raw const **value)
}

#[no_mangle]
pub extern "C" fn xmml_map_get(map: Option<&Value>, key: Text) -> *const Value {
    guard_or(std::ptr::null(), || {
        let key = text(key, "key")?;
        let found = entries(map).iter().find(|(name, _)| name.as_str() == key);
        Ok(found.map_or(std::ptr::null(), |(_, value)| &raw const **value))
    })
}

fn entries(map: Option<&Value>) -> &[(CText, Box<Value>)] {
    match map {
        Some(Value::Map(entries)) => entries,
        _ => &[],
    }
}

#[no_mangle]
pub extern "C" fn xmml_value_nothing() -> *mut Value {
    guard_pointer(|| Ok(Value::Nothing))
}

#[no_mangle]
pub extern "C" fn xmml_value_bool(value: c_int) -> *mut Value {
    guard_pointer(|| Ok(Value::Bool(value != 0)))
}

#[no_mangle]
pub extern "C" fn xmml_value_int(value: i64) -> *mut Value {
    guard_pointer(|| Ok(Value::Int(value)))
}

#[no_mangle]
pub extern "C" fn xmml_value_double(value: f64) -> *mut Value {
    guard_pointer(|| Ok(Value::Float(value)))
}

#[no_mangle]
pub extern "C" fn xmml_value_complex(real: f64, imaginary: f64) -> *mut Value {
    guard_pointer(|| Ok(Value::Complex([real, imaginary])))
}

#[no_mangle]
pub extern "C" fn xmml_value_text(value: Text) -> *mut Value {
    guard_pointer(|| text(value, "text").map(|text| Value::Text(text.into())))
}

#[no_mangle]
pub extern "C" fn xmml_value_text_of(value: Elements<u8>, length: usize) -> *mut Value {
    guard_pointer(|| {
        let bytes = elements(value, length, "text")?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::Text(text.into())),
            Err(_) => Err(Failure::usage(format!("text is not UTF-8: \"{}\"", String::from_utf8_lossy(bytes)))),
        }
    })
}

#[no_mangle]
pub extern "C" fn xmml_value_bytes(bytes: Elements<u8>, size: usize) -> *mut Value {
    guard_pointer(|| bytes_from_c(bytes, size))
}

/// Bytes that C describes, copied.
pub fn bytes_from_c(bytes: Elements<u8>, size: usize) -> Result<Value> {
    if size > isize::MAX as usize {
        return Err(Failure::usage(format!("{size} bytes do not fit into memory")));
    }
    let bytes = elements(bytes, size, "bytes")?;
    Ok(Value::Bytes(Buffer::copy_of(bytes)))
}

#[no_mangle]
pub extern "C" fn xmml_value_array(
    dtype: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Elements<u8>,
) -> *mut Value {
    guard_pointer(|| array_from_c(dtype, Order::RowMajor as c_int, rank, shape, data))
}

#[no_mangle]
pub extern "C" fn xmml_value_array_order(
    dtype: c_int,
    order: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Elements<u8>,
) -> *mut Value {
    guard_pointer(|| array_from_c(dtype, order, rank, shape, data))
}

#[no_mangle]
pub extern "C" fn xmml_value_lent_array(
    dtype: c_int,
    order: c_int,
    rank: usize,
    shape: Elements<usize>,
    data: Elements<u8>,
) -> *mut Value {
    guard_pointer(|| lent_array_from_c(dtype, order, rank, shape, data))
}

#[no_mangle]
pub extern "C" fn xmml_value_copy(value: Option<&Value>) -> *mut Value {
    guard_pointer(|| object(value, "value").cloned())
}

#[no_mangle]
pub extern "C" fn xmml_list_new() -> *mut Value {
    guard_pointer(|| Ok(Value::List(Vec::new())))
}

#[no_mangle]
pub extern "C" fn xmml_list_add(list: Container<Value>, element: Handed<Value>) -> c_int {
    guard(|| {
        let (element, list) = owned(element, list)?;
        match object(list, "list")? {
            Value::List(elements) => elements.push(element),
            other => return Err(Failure::usage(format!("cannot add to {}; only to a list", other.describe()))),
        }
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_map_new() -> *mut Value {
    guard_pointer(|| Ok(Value::Map(Vec::new())))
}

#[no_mangle]
pub extern "C" fn xmml_map_set(map: Container<Value>, key: Text, value: Handed<Value>) -> c_int {
    guard(|| {
        let (value, map) = owned(value, map)?;
        let key = text(key, "key")?;
        match object(map, "map")? {
            Value::Map(entries) => match entries.iter_mut().find(|(name, _)| name.as_str() == key) {
                Some((_, old)) => *old = value,
                None => entries.push((key.into(), value)),
            },
            other => return Err(Failure::usage(format!("cannot set a key of {}; only of a map", other.describe()))),
        }
        Ok(())
    })
}

/// Takes over a value that C made, to put it into `container`.
fn owned<'a>(value: Handed<Value>, container: Container<'a, Value>) -> Result<(Box<Value>, Option<&'a mut Value>)> {
    let (value, container) = handed(value, container)?;
    if value.depth() >= MAX_DEPTH {
        return Err(Failure::usage(format!("lists and maps may be nested {MAX_DEPTH} levels deep, not more")));
    }
    Ok((value, container))
}

#[no_mangle]
pub extern "C" fn xmml_value_free(value: Option<Box<Value>>) {
    free(value);
}
