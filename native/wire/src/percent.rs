//! Text inside addresses: what is not a letter, digit, `.`, `_` or `-` is written as `%XX`.

use std::fmt::{self, Write};

/// Writes a text so that it holds no separator.
pub fn encode(to: &mut impl Write, text: &str) -> fmt::Result {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => to.write_char(char::from(byte))?,
            _ => write!(to, "%{byte:02X}")?,
        }
    }
    Ok(())
}

/// Reads what [`encode`] wrote; `None`: it did not write that.
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let code = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(code, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}
