//! Refusals: why a peer ends a connection before it begins, in words of a stranger.

use super::{FrameError, Reader};

/// Longest reason of a refusal that is believed, in bytes.
const MAX_REASON: usize = 400;

/// The reason in the body of a refusal.
pub fn reason(body: &[u8]) -> std::result::Result<String, FrameError> {
    let mut reader = Reader::new(body);
    reader.bytes(6)?;
    let reason = reader.text()?;
    reader.end()?;
    Ok(shortened(&reason))
}

/// Text of a stranger, fit for a log: bounded, on one line.
pub fn shortened(text: &str) -> String {
    let mut short: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if short.len() > MAX_REASON {
        let mut len = MAX_REASON;
        while !short.is_char_boundary(len) {
            len -= 1;
        }
        short.truncate(len);
    }
    short
}
