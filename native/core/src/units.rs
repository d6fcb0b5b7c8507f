//! Units of parameters: numbers with a unit expression such as `5 km`, `1e-9 m^2/s` or `2 W/m^2`.
//!
//! A unit word is a name from the tables below, or a decimal prefix followed by a name that takes prefixes. Words are combined by
//! `*`, `/`, blanks (multiplication) and integer powers `^n`. The words of the xMML language (time, space, data) have the same values here;
//! the physical units beyond them exist for parameters only.

use std::fmt;

/// Exponents of the base dimensions: s, m, byte, kg, K, A, mol.
type Dimension = [i8; 7];

const BASE_NAMES: [&str; 7] = ["s", "m", "B", "kg", "K", "A", "mol"];

/// A unit: how many base units it is, and of what dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Size in base units (s, m, byte, kg, K, A, mol).
    pub factor: f64,
    dimension: Dimension,
}

/// Words that stand alone, without a prefix.
const WORDS: &[(&str, f64, Dimension)] = &[
    ("minutes", 60.0, TIME),
    ("minute", 60.0, TIME),
    ("min", 60.0, TIME),
    ("hours", 3600.0, TIME),
    ("hour", 3600.0, TIME),
    ("hrs", 3600.0, TIME),
    ("hr", 3600.0, TIME),
    ("days", 86_400.0, TIME),
    ("day", 86_400.0, TIME),
    ("weeks", 604_800.0, TIME),
    ("week", 604_800.0, TIME),
    ("wks", 604_800.0, TIME),
    ("wk", 604_800.0, TIME),
    ("months", 2_628_000.0, TIME),
    ("month", 2_628_000.0, TIME),
    ("years", 31_536_000.0, TIME),
    ("year", 31_536_000.0, TIME),
    ("yrs", 31_536_000.0, TIME),
    ("yr", 31_536_000.0, TIME),
    ("%", 0.01, NONE),
];

/// Words that take a prefix.
const PREFIXABLE: &[(&str, f64, Dimension)] = &[
    ("seconds", 1.0, TIME),
    ("second", 1.0, TIME),
    ("sec", 1.0, TIME),
    ("s", 1.0, TIME),
    ("meters", 1.0, SPACE),
    ("meter", 1.0, SPACE),
    ("metres", 1.0, SPACE),
    ("metre", 1.0, SPACE),
    ("m", 1.0, SPACE),
    ("bytes", 1.0, DATA),
    ("byte", 1.0, DATA),
    ("B", 1.0, DATA),
    ("bits", 0.125, DATA),
    ("bit", 0.125, DATA),
    ("g", 1e-3, [0, 0, 0, 1, 0, 0, 0]),
    ("K", 1.0, [0, 0, 0, 0, 1, 0, 0]),
    ("A", 1.0, [0, 0, 0, 0, 0, 1, 0]),
    ("mol", 1.0, [0, 0, 0, 0, 0, 0, 1]),
    ("Hz", 1.0, [-1, 0, 0, 0, 0, 0, 0]),
    ("N", 1.0, [-2, 1, 0, 1, 0, 0, 0]),
    ("Pa", 1.0, [-2, -1, 0, 1, 0, 0, 0]),
    ("J", 1.0, [-2, 2, 0, 1, 0, 0, 0]),
    ("W", 1.0, [-3, 2, 0, 1, 0, 0, 0]),
    ("V", 1.0, [-3, 2, 0, 1, 0, -1, 0]),
];

/// Prefixes, longest first, so that `da` is tried before `d`.
const PREFIXES: &[(&str, f64)] = &[
    ("deca", 1e1),
    ("hecto", 1e2),
    ("kilo", 1e3),
    ("mega", 1e6),
    ("giga", 1e9),
    ("tera", 1e12),
    ("peta", 1e15),
    ("exa", 1e18),
    ("zetta", 1e21),
    ("yotta", 1e24),
    ("deci", 1e-1),
    ("centi", 1e-2),
    ("milli", 1e-3),
    ("micro", 1e-6),
    ("nano", 1e-9),
    ("pico", 1e-12),
    ("femto", 1e-15),
    ("atto", 1e-18),
    ("zepto", 1e-21),
    ("yocto", 1e-24),
    ("da", 1e1),
    ("h", 1e2),
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("Z", 1e21),
    ("Y", 1e24),
    ("d", 1e-1),
    ("c", 1e-2),
    ("m", 1e-3),
    ("u", 1e-6),
    ("\u{b5}", 1e-6),
    ("\u{3bc}", 1e-6),
    ("n", 1e-9),
    ("p", 1e-12),
    ("f", 1e-15),
    ("a", 1e-18),
    ("z", 1e-21),
    ("y", 1e-24),
];

const NONE: Dimension = [0; 7];
const TIME: Dimension = [1, 0, 0, 0, 0, 0, 0];
const SPACE: Dimension = [0, 1, 0, 0, 0, 0, 0];
const DATA: Dimension = [0, 0, 1, 0, 0, 0, 0];

impl Unit {
    /// The number 1, without a dimension.
    pub const ONE: Unit = Unit { factor: 1.0, dimension: NONE };

    /// Reads a unit expression; the empty text is [`Unit::ONE`].
    ///
    /// # Errors
    /// A text that says which word is not a unit, or what is wrong with the expression.
    pub fn parse(text: &str) -> Result<Unit, String> {
        let mut unit = Unit::ONE;
        let mut rest = text.trim();
        let mut divide = false;
        while !rest.is_empty() {
            let (sign, factor, after) = factor(rest, text)?;
            let word_unit = factor.power(if divide { -sign } else { sign }, text)?;
            unit = unit.times(word_unit, text)?;
            rest = after.trim_start();
            divide = false;
            if let Some(after) = rest.strip_prefix(['/', '*']) {
                divide = rest.starts_with('/');
                rest = after.trim_start();
                if rest.is_empty() {
                    return Err(format!("\"{text}\" ends with an operator"));
                }
            }
        }
        Ok(unit)
    }

    /// How many of `other` one of these is.
    ///
    /// # Errors
    /// The two measure different things.
    pub fn ratio(self, other: Unit) -> Result<f64, String> {
        if self.dimension == other.dimension {
            Ok(self.factor / other.factor)
        } else {
            Err(format!("{self} cannot be converted to {other}"))
        }
    }

    /// Whether it has no dimension.
    pub fn is_dimensionless(self) -> bool {
        self.dimension == NONE
    }

    fn times(self, other: Unit, text: &str) -> Result<Unit, String> {
        let mut dimension = self.dimension;
        for (mine, theirs) in dimension.iter_mut().zip(other.dimension) {
            *mine = mine.checked_add(theirs).ok_or_else(|| too_large(text))?;
        }
        Ok(Unit { factor: self.factor * other.factor, dimension })
    }

    fn power(self, exponent: i8, text: &str) -> Result<Unit, String> {
        let mut dimension = self.dimension;
        for mine in &mut dimension {
            *mine = mine.checked_mul(exponent).ok_or_else(|| too_large(text))?;
        }
        Ok(Unit { factor: self.factor.powi(i32::from(exponent)), dimension })
    }
}

impl fmt::Display for Unit {
    /// The dimension in base units: `m^2 s^-1`; `a plain number` without one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_dimensionless() {
            return f.write_str("a plain number");
        }
        let mut first = true;
        for (name, exponent) in BASE_NAMES.iter().zip(self.dimension).filter(|(_, e)| *e != 0) {
            if !first {
                f.write_str(" ")?;
            }
            first = false;
            f.write_str(name)?;
            if exponent != 1 {
                write!(f, "^{exponent}")?;
            }
        }
        Ok(())
    }
}

fn too_large(text: &str) -> String {
    format!("the powers in \"{text}\" are too large")
}

/// Reads `word`, `word^n` or `1` from the front of `rest`: exponent, unit, and what follows.
fn factor<'a>(rest: &'a str, text: &str) -> Result<(i8, Unit, &'a str), String> {
    let end = rest.find(|c: char| "/*^ \t".contains(c)).unwrap_or(rest.len());
    let (word, mut after) = rest.split_at(end);
    let unit = if word == "1" { Unit::ONE } else { word_unit(word).ok_or_else(|| unknown(word, text))? };
    let mut exponent = 1;
    if let Some(power) = after.strip_prefix('^') {
        let digits = power.find(|c: char| !c.is_ascii_digit() && c != '-' && c != '+').unwrap_or(power.len());
        let (number, behind) = power.split_at(digits);
        exponent = number
            .parse::<i8>()
            .ok()
            .filter(|e| e.unsigned_abs() <= 12)
            .ok_or_else(|| format!("\"{text}\": a power must be an integer between -12 and 12"))?;
        after = behind;
    }
    Ok((exponent, unit, after))
}

fn unknown(word: &str, text: &str) -> String {
    if word.is_empty() {
        format!("\"{text}\" is not a unit expression; write it like m/s or kg/m^3")
    } else if word == text {
        format!("\"{word}\" is not a unit")
    } else {
        format!("\"{word}\" is not a unit (in \"{text}\")")
    }
}

fn word_unit(word: &str) -> Option<Unit> {
    let find = |table: &[(&str, f64, Dimension)], name: &str| {
        table.iter().find(|(known, ..)| *known == name).map(|&(_, factor, dimension)| Unit { factor, dimension })
    };
    find(WORDS, word).or_else(|| find(PREFIXABLE, word)).or_else(|| {
        PREFIXES.iter().find_map(|&(prefix, scale)| {
            let unit = find(PREFIXABLE, word.strip_prefix(prefix)?)?;
            Some(Unit { factor: scale * unit.factor, ..unit })
        })
    })
}

/// Splits `-1.5e3 km/s` into the number and the unit behind it.
///
/// # Errors
/// A text that says what is wrong.
pub fn parse_quantity(text: &str) -> Result<(f64, Unit), String> {
    let text = text.trim();
    let end = number_end(text);
    let value: f64 = text[..end]
        .parse()
        .map_err(|_| format!("\"{text}\" is not a number, nor a number with a unit such as \"5 km\""))?;
    Ok((value, Unit::parse(text[end..].trim())?))
}

/// Where the decimal number at the front of `text` ends.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut at = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    at = digits(at);
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
        let end = digits(at + 1 + sign);
        if end > at + 1 + sign {
            at = end;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_unit(text: &str, unit: &str) -> Result<f64, String> {
        let (value, have) = parse_quantity(text)?;
        Ok(value * have.ratio(Unit::parse(unit)?)?)
    }

    #[test]
    fn quantities_convert_between_units_of_one_dimension() {
        for (text, unit, value) in [
            ("5 km", "m", 5000.0),
            ("1 min", "s", 60.0),
            ("2 days", "hr", 48.0),
            ("1e-9 m^2/s", "um^2/s", 1000.0),
            ("10 1/s", "Hz", 10.0),
            ("1 W/m^2", "kg/s^3", 1.0),
            ("1 kPa", "N/m^2", 1000.0),
            ("8 bit", "B", 1.0),
            ("25 %", "", 0.25),
            ("3.5", "", 3.5),
            ("-.5e1 mm", "m", -0.005),
            ("1 kg m^2 s^-2", "J", 1.0),
            ("1 \u{b5}m", "nm", 1000.0),
        ] {
            let found = in_unit(text, unit).unwrap();
            assert!((found - value).abs() <= 1e-12 * value.abs(), "{text} in {unit}: {found}");
        }
    }

    #[test]
    fn different_dimensions_are_refused_and_named() {
        assert_eq!(in_unit("5 s", "m").unwrap_err(), "s cannot be converted to m");
        assert_eq!(in_unit("5 m/s", "1").unwrap_err(), "s^-1 m cannot be converted to a plain number");
    }

    #[test]
    fn words_that_are_no_units_are_named() {
        for text in ["1 h", "1 d", "1 b", "1 milli seconds", "5 KiB", "abc", "1 m/", "1 m^x", "1 /", "1 m^200"] {
            assert!(parse_quantity(text).is_err(), "{text}");
        }
        assert_eq!(parse_quantity("1 parsec/s").unwrap_err(), "\"parsec\" is not a unit (in \"parsec/s\")");
        assert_eq!(parse_quantity("1 parsec").unwrap_err(), "\"parsec\" is not a unit");
    }
}
