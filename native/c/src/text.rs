//! Text as C wants it.

use std::ffi::c_char;

/// UTF-8 text followed by a 0 byte; it may hold further 0 bytes, which C sees by the length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CText(Vec<u8>);

impl CText {
    /// The text without the 0 byte at the end.
    pub fn as_str(&self) -> &str {
        // Made from a String and never changed.
        std::str::from_utf8(&self.0[..self.len()]).unwrap_or_default()
    }

    /// For C; lives as long as the text.
    pub fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    /// Bytes without the 0 byte at the end.
    pub fn len(&self) -> usize {
        self.0.len() - 1
    }
}

impl Default for CText {
    fn default() -> CText {
        CText(vec![0])
    }
}

impl From<String> for CText {
    fn from(text: String) -> CText {
        let mut bytes = text.into_bytes();
        bytes.push(0);
        CText(bytes)
    }
}

impl From<&str> for CText {
    fn from(text: &str) -> CText {
        CText::from(text.to_owned())
    }
}
