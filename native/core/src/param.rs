//! Parameters of an instance: text as written in the model, read as the type a program asks for.

use crate::units::{parse_quantity, Unit};

/// Reads a truth value: true/false, yes/no, 1/0, in any case.
///
/// # Errors
/// A text that says what was expected.
pub fn as_bool(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(format!("\"{text}\" is not a truth value; write true or false")),
    }
}

/// Reads an integer; `1e3` and `5 km` (asked for in `m`) are integers too if nothing is left behind the point.
///
/// # Errors
/// A text that says what is wrong.
pub fn as_int(text: &str, unit: Option<&str>) -> Result<i64, String> {
    if let Ok(value) = text.trim().parse() {
        return Ok(value);
    }
    let value = as_float(text, unit)?;
    if value.fract() == 0.0 && value.abs() < 9.007_199_254_740_992e15 {
        Ok(value as i64)
    } else {
        Err(format!("\"{text}\" is not an integer"))
    }
}

/// Reads a real number, converted to `unit` if one is asked for.
///
/// A bare number is taken to be in the asked unit already. Without an asked unit the value comes in base units (s, m, byte, kg, K, A, mol).
///
/// # Errors
/// A text that says what is wrong: no number, not a unit, or a unit of another dimension.
pub fn as_float(text: &str, unit: Option<&str>) -> Result<f64, String> {
    if let Some(value) = special(text.trim()) {
        return Ok(value);
    }
    let (value, have) = parse_quantity(text)?;
    let Some(wanted) = unit else {
        return Ok(value * have.factor);
    };
    let wanted = Unit::parse(wanted)?;
    if have == Unit::ONE {
        return Ok(value);
    }
    let ratio = have.ratio(wanted).map_err(|problem| format!("\"{text}\": {problem}"))?;
    Ok(value * ratio)
}

fn special(text: &str) -> Option<f64> {
    match text.to_ascii_lowercase().as_str() {
        "inf" | "+inf" | "infinity" => Some(f64::INFINITY),
        "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_values_are_words_or_digits() {
        assert_eq!(as_bool("Yes"), Ok(true));
        assert_eq!(as_bool("0"), Ok(false));
        assert!(as_bool("maybe").is_err());
    }

    #[test]
    fn integers_may_be_written_with_exponent_or_unit() {
        assert_eq!(as_int("-12", None), Ok(-12));
        assert_eq!(as_int("1e3", None), Ok(1000));
        assert_eq!(as_int("5 km", Some("m")), Ok(5000));
        assert_eq!(as_int("2.5", None), Err("\"2.5\" is not an integer".into()));
    }

    #[test]
    fn a_bare_number_is_in_the_asked_unit() {
        assert_eq!(as_float("2.5", Some("mm")), Ok(2.5));
        assert_eq!(as_float("2.5 cm", Some("mm")), Ok(25.0));
    }

    #[test]
    fn without_an_asked_unit_the_value_is_in_base_units() {
        assert_eq!(as_float("2 km", None), Ok(2000.0));
    }

    #[test]
    fn a_unit_of_another_dimension_is_an_error() {
        assert_eq!(as_float("5 s", Some("m")), Err("\"5 s\": s cannot be converted to m".into()));
    }
}
