//! Words, numbers, texts and signs of a selector.

use std::ops::Range;

use crate::Mistake;

/// The least part of a selector that means something.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A word, perhaps with dots in it.
    Word(String),
    /// `$` and a word: its name.
    Variable(String),
    /// A whole number.
    Integer(i128),
    /// A number with a point or an exponent.
    Real(f64),
    /// What stands between quotes.
    Text(String),
    /// A sign.
    Sign(&'static str),
}

/// Longer ones first: `<=` is not `<` and `=`.
const SIGNS: &[&str] = &["==", "<>", "..", "!=", "<=", ">=", "=", "<", ">", "(", ")", ",", "+", "-", "*", "%"];

/// The tokens of a text, each with its place.
pub fn tokens(text: &str) -> Result<Vec<(Token, Range<usize>)>, Mistake> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, length) =
            next(&text[at..], first).map_err(|(length, problem)| Mistake::new(at..at + length, problem))?;
        found.push((token, at..at + length));
        at += length;
    }
    Ok(found)
}

/// The token at the beginning of `rest`, and its length; or what is wrong with so many bytes there.
fn next(rest: &str, first: char) -> Result<(Token, usize), (usize, String)> {
    let belongs = |each: char| each.is_ascii_alphanumeric() || each == '_';
    let word_of = |rest: &str| rest.find(|each| !belongs(each)).unwrap_or(rest.len());
    match first {
        '\'' | '"' => quoted(rest, first),
        '0'..='9' => number(rest),
        '$' => match word_of(&rest[1..]) {
            0 => Err((1, "'$' is followed by the name of a parameter, by index or by count".into())),
            length => Ok((Token::Variable(rest[1..1 + length].into()), 1 + length)),
        },
        _ if belongs(first) => {
            let mut length = word_of(rest);
            while rest[length..].starts_with('.') && rest[length + 1..].starts_with(belongs) {
                length += 1 + word_of(&rest[length + 1..]);
            }
            Ok((Token::Word(rest[..length].into()), length))
        }
        _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(&"==") => Err((2, "there is no '=='; did you mean =?".into())),
            Some(&"<>") => Err((2, "there is no '<>'; did you mean !=?".into())),
            Some(sign) => Ok((Token::Sign(sign), sign.len())),
            None => Err((first.len_utf8(), unknown(rest, first))),
        },
    }
}

fn unknown(rest: &str, first: char) -> String {
    let meant = match (first, rest.chars().nth(1)) {
        ('&', _) => "; did you mean and?",
        ('|', _) => "; did you mean or?",
        ('!', _) => "; did you mean != or not?",
        ('/', _) => ": whole numbers are not divided",
        _ => "",
    };
    format!("'{first}' has no meaning in a selector{meant}")
}

/// A text in quotes; a quote in it is written twice.
fn quoted(rest: &str, quote: char) -> Result<(Token, usize), (usize, String)> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, each)) = characters.next() {
        if each != quote {
            text.push(each);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            text.push(quote);
        } else {
            return Ok((Token::Text(text), at + 1));
        }
    }
    Err((rest.len(), format!("the text that begins here has no {quote} at its end")))
}

fn number(rest: &str) -> Result<(Token, usize), (usize, String)> {
    let digits = |rest: &str| rest.find(|each: char| !each.is_ascii_digit()).unwrap_or(rest.len());
    let mut length = digits(rest);
    let mut is_real = false;
    // Of `1..5` the number is 1.
    if rest[length..].starts_with('.') && rest[length + 1..].starts_with(|each: char| each.is_ascii_digit()) {
        length += 1 + digits(&rest[length + 1..]);
        is_real = true;
    }
    if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let count = digits(&exponent[sign..]);
        if count > 0 {
            length += 1 + sign + count;
            is_real = true;
        }
    }
    let text = &rest[..length];
    if rest[length..].starts_with(|each: char| each.is_ascii_alphanumeric() || each == '_') {
        return Err((length + 1, "a number ends where a word begins; quote what is a text".into()));
    }
    let token = match is_real {
        true => text.parse().ok().filter(|number: &f64| number.is_finite()).map(Token::Real),
        false => text.parse().ok().filter(|number| *number <= i128::from(u64::MAX)).map(Token::Integer),
    };
    token.map(|token| (token, length)).ok_or((length, "this number is too large".into()))
}
