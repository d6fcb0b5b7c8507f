//! Schemas of attributes, and selectors over them.

use std::collections::BTreeMap;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple};
use pyo3::IntoPyObjectExt;
use xmml_pool::object::{Described, System};
use xmml_pool::packing::MOST_BYTES;
use xmml_pool::schema::Schema;
use xmml_pool::selector::needs::Need;
use xmml_pool::selector::{self, Selector};
use xmml_pool::time::Time;
use xmml_pool::value::Value;
use xmml_pool::Mistake;

/// The attributes that objects of a datatype have.
///
/// Args:
///     text: declarations with white space between them: `NAME:TYPE`, a range such as `[0..]` behind the type, `!` for
///         what each object must have, `=VALUE` for a default.
///
/// Raises:
///     ValueError: the text is no such declaration; its arguments are what is wrong, the first character of that, and
///         the one behind the last.
///
/// >>> AttributeSchema("step:int[0..]! levtype:enum(sfc,pl,ml)")
/// AttributeSchema('step:int[0..]! levtype:enum(sfc,pl,ml)')
#[pyclass(frozen, module = "xmml_native._native")]
pub struct AttributeSchema(Schema);

#[pymethods]
impl AttributeSchema {
    #[new]
    fn new(text: &str) -> PyResult<AttributeSchema> {
        Schema::parse(text).map(AttributeSchema).map_err(|mistake| raised(text, &mistake))
    }

    /// Return the attributes of an object, checked and with defaults.
    ///
    /// Args:
    ///     attributes: those that were declared.
    ///     system: those that every object has, such as `sys.t`; what is not given is 0, empty or absent.
    ///
    /// Raises:
    ///     ValueError: an attribute that does not exist, is not allowed or is missing.
    ///     TypeError: a value that no attribute can have.
    #[pyo3(signature = (attributes, system = BTreeMap::new()))]
    fn complete(
        &self,
        attributes: BTreeMap<String, Bound<'_, PyAny>>,
        system: BTreeMap<String, Bound<'_, PyAny>>,
    ) -> PyResult<Attributes> {
        let mut set = Vec::with_capacity(attributes.len());
        for (name, value) in &attributes {
            set.push((name.as_str(), to_value(name, value)?));
        }
        let own = self.0.complete(set).map_err(PyValueError::new_err)?;
        let mut known = System::default();
        for (name, value) in &system {
            known.set(name, &to_value(name, value)?).map_err(PyValueError::new_err)?;
        }
        Ok(Attributes { own, system: known })
    }

    /// Return the type of each attribute, without its range: `{"step": "int", "levtype": "enum(sfc,pl)"}`.
    fn types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let types = PyDict::new(py);
        for each in self.0.attributes() {
            types.set_item(&*each.name, each.kind.without_bounds().to_string())?;
        }
        Ok(types)
    }

    fn __repr__(&self) -> String {
        let declarations: Vec<String> = self.0.attributes().iter().map(ToString::to_string).collect();
        format!("AttributeSchema('{}')", declarations.join(" "))
    }
}

/// The attributes of one object.
#[pyclass(frozen, module = "xmml_native._native")]
pub struct Attributes {
    own: Vec<Option<Value>>,
    system: System,
}

/// A predicate over the attributes of objects.
///
/// Args:
///     text: such as "param in (130, 131) and step % 6 = 0".
///     schema: the attributes.
///     variables: values of `$index`, `$count` and the parameters of the reader.
///
/// Raises:
///     ValueError: the text is no selector of these attributes; its arguments are as those of `AttributeSchema`.
#[pyclass(frozen, module = "xmml_native._native", name = "Selector")]
pub struct PySelector(Selector);

#[pymethods]
impl PySelector {
    #[new]
    #[pyo3(signature = (text, schema, variables = BTreeMap::new()))]
    fn new(
        text: &str,
        schema: &AttributeSchema,
        variables: BTreeMap<String, Bound<'_, PyAny>>,
    ) -> PyResult<PySelector> {
        let mut known = BTreeMap::new();
        for (name, value) in &variables {
            known.insert(name.as_str(), to_value(name, value)?);
        }
        let compiled = Selector::compile(text, &schema.0, |name| known.get(name).cloned());
        compiled.map(PySelector).map_err(|mistake| raised(text, &mistake))
    }

    /// Return whether it chooses an object.
    ///
    /// Raises:
    ///     ValueError: a result that no type can hold, or a remainder by zero.
    fn matches(&self, object: &Attributes) -> PyResult<bool> {
        let described = Described { own: &object.own, system: &object.system };
        self.0.matches(&described).map_err(|undefined| PyValueError::new_err(undefined.problem))
    }

    /// Return conditions that every object meets that the selector chooses, or that it cannot be compared with.
    ///
    /// `(name, values)`: the attribute is one of the values. `(name, least, most)`: it lies between these, and may be
    /// either; `None`: there is no such end.
    ///
    /// Args:
    ///     schema: the attributes for which it was compiled.
    fn needs<'py>(&self, py: Python<'py>, schema: &AttributeSchema) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let shown = |value: &Value| to_python(py, value);
        let mut needs = Vec::new();
        for (place, need) in self.0.needs() {
            let Some(name) = schema.0.name(place) else { continue };
            needs.push(match need {
                Need::OneOf(values) if values.iter().all(is_shown) => {
                    let values = values.iter().map(shown).collect::<PyResult<Vec<_>>>()?;
                    (name, values).into_pyobject(py)?
                }
                Need::OneOf(_) => continue,
                Need::Within { least, most } => {
                    let end = |value: Option<Value>| value.filter(is_shown).as_ref().map(shown).transpose();
                    (name, end(least)?, end(most)?).into_pyobject(py)?
                }
            });
        }
        Ok(needs)
    }

    /// Return whether there may be an object that it chooses; false is certain.
    fn can_match(&self, schema: &AttributeSchema) -> bool {
        self.0.can_match(&schema.0)
    }
}

/// Return the names behind a `$` in a selector, each once.
///
/// Raises:
///     ValueError: the text is no sequence of words of selectors; its arguments are as those of `AttributeSchema`.
#[pyfunction]
pub fn selector_variables(text: &str) -> PyResult<Vec<String>> {
    let names = selector::variables(text).map_err(|mistake| raised(text, &mistake))?;
    Ok(names.into_iter().collect())
}

/// A `ValueError` with the mistake and the characters where it stands.
fn raised(text: &str, mistake: &Mistake) -> PyErr {
    let character = |byte: usize| text[..byte].chars().count();
    PyValueError::new_err((mistake.problem.clone(), character(mistake.at.start), character(mistake.at.end)))
}

/// Whether Python has such a value: its times end with the year 9999, those of selectors do not.
fn is_shown(value: &Value) -> bool {
    !matches!(value, Value::Time(time) if !time.is_of_a_calendar())
}

/// A value of an attribute as one of Python.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Bool(value) => value.into_bound_py_any(py)?,
        Value::Int(value) => value.into_bound_py_any(py)?,
        Value::Uint(value) => value.into_bound_py_any(py)?,
        Value::Real(value) => value.into_bound_py_any(py)?,
        Value::Text(value) => value.into_bound_py_any(py)?,
        Value::Time(Time(microseconds)) => {
            let module = py.import("datetime")?;
            let utc = module.getattr("UTC")?;
            let epoch = module.getattr("datetime")?.call_method1("fromtimestamp", (0, utc))?;
            epoch.add(module.getattr("timedelta")?.call1((0, 0, *microseconds))?)?
        }
        Value::Ints(values) => values.into_bound_py_any(py)?,
        Value::Reals(values) => values.into_bound_py_any(py)?,
        Value::Bytes(value) => PyBytes::new(py, value).into_any(),
    })
}

/// Attributes as they are given by name; one that is None is left out.
pub fn attributes_of(given: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, Value)>> {
    let mut set = Vec::new();
    for (name, value) in given.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        let name = name.extract::<String>()?;
        let value = to_value(&name, &value)?;
        set.push((name, value));
    }
    Ok(set)
}

/// More than all attributes of an object may have is not copied.
fn within_limit<'a>(name: &str, bytes: &'a [u8]) -> PyResult<&'a [u8]> {
    match bytes.len() <= MOST_BYTES {
        true => Ok(bytes),
        false => {
            let problem =
                format!("{name}: {} bytes, and the attributes of an object may have {MOST_BYTES}", bytes.len());
            Err(PyValueError::new_err(problem))
        }
    }
}

/// A value of Python as one of an attribute.
pub fn to_value(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(value) = value.extract::<bool>() {
        return Ok(Value::Bool(value)); // also one of numpy
    }
    if let Ok(text) = value.cast::<PyString>() {
        within_limit(name, text.to_str()?.as_bytes())?;
        return Ok(Value::Text(text.to_str()?.into()));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return within_limit(name, bytes.as_bytes()).map(|bytes| Value::Bytes(bytes.into()));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return within_limit(name, &bytes.to_vec()).map(|bytes| Value::Bytes(bytes.into()));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Value::Real(number.value()));
    }
    match (value.extract(), value.extract()) {
        (Ok(number), _) => return Ok(Value::Int(number)),
        (_, Ok(number)) => return Ok(Value::Uint(number)),
        _ if value.is_instance_of::<PyInt>() => {
            return Err(PyValueError::new_err(format!("{name} = {value} is larger than any int or uint")));
        }
        _ => {}
    }
    if let Ok(number) = value.extract() {
        return Ok(Value::Real(number));
    }
    if let Ok(numbers) = value.extract::<Vec<i64>>() {
        return Ok(Value::Ints(numbers.into()));
    }
    if let Ok(numbers) = value.extract::<Vec<f64>>() {
        return Ok(Value::Reals(numbers.into()));
    }
    let plain = value.call_method0("item"); // of numpy
    if let Ok(text) = plain.as_ref().unwrap_or(value).call_method0("isoformat") {
        return Ok(Value::Text(text.extract::<String>()?.into())); // a date or time, which attributes of that type read
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("{name}: an attribute cannot be a {kind}")))
}
