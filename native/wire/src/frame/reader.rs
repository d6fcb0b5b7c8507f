//! Reads the fields of a descriptor or body.

use super::{descriptor_error, FrameError};

/// Bytes from one descriptor or body, read from front to back; never beyond the end.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of these bytes, at their front.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], FrameError> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(FrameError::TooShort)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(FrameError::TooShort)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, FrameError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// The next two bytes as a number, little-endian; so the others.
    pub fn u16(&mut self) -> Result<u16, FrameError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next four bytes as a number.
    pub fn u32(&mut self) -> Result<u32, FrameError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next eight bytes as a number.
    pub fn u64(&mut self) -> Result<u64, FrameError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The next eight bytes as a floating-point number.
    pub fn f64(&mut self) -> Result<f64, FrameError> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// The next text, with its length in front as u16.
    pub fn text(&mut self) -> Result<String, FrameError> {
        let len = usize::from(self.u16()?);
        let bytes = self.bytes(len)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| FrameError::NotText)
    }

    /// Skips `len` reserved bytes.
    ///
    /// # Errors
    ///
    /// One of them is not zero.
    pub fn zeros(&mut self, len: usize) -> Result<(), FrameError> {
        match self.bytes(len)?.iter().all(|&byte| byte == 0) {
            true => Ok(()),
            false => Err(descriptor_error("reserved bytes are not zero")),
        }
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    ///
    /// [`FrameError::LeftOver`].
    pub fn end(&self) -> Result<(), FrameError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(FrameError::LeftOver { bytes: bytes as u64 }),
        }
    }
}
