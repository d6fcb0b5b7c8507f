//! Filters over bytes: serialisation, compression, chunks.

use std::io::{Read, Write};

use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use flate2::Compression;

use xmml_wire::buffer::{Buffer, BufferMut, BufferPool};
use xmml_wire::data::Data;
use xmml_wire::frame::descriptor;
use xmml_wire::message::Message;

use super::compression::DECOMPRESSED_MAX;
use super::{incomplete_group, Filter, Problem};

fn bytes_of(message: &Message, before: &str) -> Result<Buffer, Problem> {
    match &message.data {
        Data::Bytes(bytes) => Ok(bytes.clone()),
        other => Err(format!("needs bytes, but the message holds {}; put {before} before it", other.describe())),
    }
}

/// The same where nobody can change them any more: for readers that read twice, or trust what they have checked.
fn settled_bytes_of(message: &Message, before: &str, pool: &BufferPool) -> Result<Buffer, Problem> {
    bytes_of(message, before)?.settled(pool).map_err(|none| none.to_string())
}

/// Any data to bytes.
#[derive(Default)]
pub struct Serialize {
    pool: BufferPool,
}

impl Filter for Serialize {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        let bytes = descriptor::to_bytes(&message.data, &self.pool).map_err(|error| error.to_string())?;
        out.push(Message { data: Data::Bytes(bytes), ..message });
        Ok(())
    }
}

/// The inverse of [`Serialize`].
#[derive(Default)]
pub struct Deserialize {
    pool: BufferPool,
}

impl Filter for Deserialize {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        let bytes = settled_bytes_of(&message, "serialize", &self.pool)?;
        let data =
            descriptor::from_bytes(&bytes).map_err(|error| format!("the bytes were not made by serialize: {error}"))?;
        out.push(Message { data, ..message });
        Ok(())
    }
}

/// Bytes to zlib; no bytes stay no bytes.
pub struct Compress;

impl Filter for Compress {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn size_ratio(&self) -> f64 {
        0.5
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        let bytes = bytes_of(&message, "serialize")?;
        if bytes.is_empty() {
            out.push(message);
            return Ok(());
        }
        let mut encoder = ZlibEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::default());
        let packed = encoder
            .write_all(&bytes)
            .and_then(|()| encoder.finish())
            .map_err(|error| format!("cannot compress: {error}"))?;
        out.push(Message { data: Data::Bytes(Buffer::copy_of(&packed)), ..message });
        Ok(())
    }
}

/// The inverse of [`Compress`].
#[derive(Default)]
pub struct Decompress {
    pool: BufferPool,
}

impl Filter for Decompress {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn size_ratio(&self) -> f64 {
        2.0
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        let bytes = settled_bytes_of(&message, "compress", &self.pool)?;
        if bytes.is_empty() {
            out.push(message);
            return Ok(());
        }
        let mut unpacked = Vec::new();
        // deflate makes at most 1032 bytes of one.
        let most = (bytes.len() as u64).saturating_mul(1032).min(DECOMPRESSED_MAX);
        ZlibDecoder::new(&bytes[..])
            .take(most + 1)
            .read_to_end(&mut unpacked)
            .map_err(|error| format!("the bytes were not made by compress: {error}"))?;
        if unpacked.len() as u64 > most {
            return Err(format!("more than {most} bytes came out of {}", bytes.len()));
        }
        out.push(Message { data: Data::Bytes(Buffer::copy_of(&unpacked)), ..message });
        Ok(())
    }
}

/// Splits bytes into n messages; the last takes the rest.
pub struct Chunk(pub u32);

impl Filter for Chunk {
    fn outputs(&self, n: u64) -> u64 {
        n.saturating_mul(u64::from(self.0))
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        let bytes = bytes_of(&message, "serialize")?;
        let part = bytes.len() / self.0 as usize;
        for at in 0..self.0 as usize {
            let end = if at + 1 == self.0 as usize { bytes.len() } else { (at + 1) * part };
            out.push(Message { data: Data::Bytes(bytes.slice(at * part..end)), ..message.clone() });
        }
        Ok(())
    }
}

/// Joins n messages of bytes.
pub struct Dechunk {
    n: usize,
    parts: Vec<Buffer>,
    seen: u64,
}

impl Dechunk {
    pub fn new(n: u32) -> Dechunk {
        Dechunk { n: n as usize, parts: Vec::new(), seen: 0 }
    }
}

impl Filter for Dechunk {
    fn outputs(&self, n: u64) -> u64 {
        n / self.n as u64
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        self.parts.push(bytes_of(&message, "chunk")?);
        self.seen += 1;
        if self.parts.len() == self.n {
            let mut joined = BufferMut::take(self.parts.iter().map(|part| part.len()).sum());
            let mut at = 0;
            for part in self.parts.drain(..) {
                joined[at..at + part.len()].copy_from_slice(&part);
                at += part.len();
            }
            out.push(Message { data: Data::Bytes(joined.freeze()), ..message });
        }
        Ok(())
    }

    fn left_over(&self) -> Option<String> {
        incomplete_group(self.parts.len(), self.n, self.seen)
    }
}
