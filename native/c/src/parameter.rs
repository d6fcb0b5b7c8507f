//! Parameters.

use std::ffi::{c_char, c_int};

use xmml_core::param;
use xmml_wire::error::Error;

use crate::argument::{object, optional_text, place, text, Out, Text};
use crate::instance::Member;
use crate::status::{guard, guard_or, Result};
use crate::text::CText;

#[no_mangle]
pub extern "C" fn xmml_param_double(me: Option<&Member>, name: Text, unit: Text, value: Out<f64>) -> c_int {
    guard(|| {
        let unit = optional_text(unit, "unit")?;
        place(value, "value")?.set(read(me, name, |text| param::as_float(text.as_str(), unit))?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_param_int(me: Option<&Member>, name: Text, unit: Text, value: Out<i64>) -> c_int {
    guard(|| {
        let unit = optional_text(unit, "unit")?;
        place(value, "value")?.set(read(me, name, |text| param::as_int(text.as_str(), unit))?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_param_bool(me: Option<&Member>, name: Text, value: Out<c_int>) -> c_int {
    guard(|| {
        place(value, "value")?.set(read(me, name, |text| param::as_bool(text.as_str()))?.into());
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_param_text(me: Option<&Member>, name: Text, value: Out<*const c_char>) -> c_int {
    guard(|| {
        let value = place(value, "value")?;
        value.set(read(me, name, |text| Ok(text.as_ptr()))?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_has_param(me: Option<&Member>, name: Text) -> c_int {
    guard_or(0, || Ok(object(me, "me")?.params.contains_key(text(name, "name")?).into()))
}

fn read<T>(
    me: Option<&Member>,
    name: Text,
    convert: impl FnOnce(&CText) -> std::result::Result<T, String>,
) -> Result<T> {
    let (me, name) = (object(me, "me")?, text(name, "name")?);
    let converted = match me.params.get(name) {
        Some(text) => convert(text),
        None => Err(missing(me)),
    };
    converted.map_err(|problem| Error::Parameter { instance: me.name.to_string(), name: name.into(), problem }.into())
}

fn missing(me: &Member) -> String {
    let known: Vec<&str> = me.params.keys().map(String::as_str).collect();
    match known.is_empty() {
        true => "the model sets no parameters; add <param id=\"...\" value=\"...\"/> to the submodel".into(),
        false => format!("the model does not set it; it sets {}", known.join(", ")),
    }
}
