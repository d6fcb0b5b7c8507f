//! The address of an instance, or of one copy of a multiplied instance, across runs and sites.

use std::fmt;

use crate::frame::{push_text, FrameError, Reader, NO_COPY};

/// Where a message goes or comes from, independent of machines and ports.
///
/// On the wire: the three texts, each with its length in front as u16, then u32 copy (`ff ff ff ff`: none).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The run.
    pub run: String,
    /// The site where the instance runs.
    pub site: String,
    /// The instance's id in the model, without an index.
    pub instance: String,
    /// Which copy, if the instance has a multiplicity.
    pub copy: Option<u32>,
}

impl Address {
    /// Appends the bytes of this address.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        push_text(bytes, &self.run);
        push_text(bytes, &self.site);
        push_text(bytes, &self.instance);
        bytes.extend_from_slice(&self.copy.unwrap_or(NO_COPY).to_le_bytes());
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Address, FrameError> {
        let (run, site, instance) = (reader.text()?, reader.text()?, reader.text()?);
        let copy = reader.u32()?;
        Ok(Address { run, site, instance, copy: (copy != NO_COPY).then_some(copy) })
    }

    /// Reads an address that fills `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Address, FrameError> {
        let mut reader = Reader::new(bytes);
        let address = Address::decode(&mut reader)?;
        reader.end()?;
        Ok(address)
    }
}

/// `run/site/instance`, with a copy `run/site/instance[3]`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.run, self.site, self.instance)?;
        match self.copy {
            Some(copy) => write!(f, "[{copy}]"),
            None => Ok(()),
        }
    }
}
