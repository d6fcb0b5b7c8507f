//! Compression on the wire: any data to bytes at the sender (`zstd`, `lz4`), and back at the receiver (`unzstd`, `unlz4`).
//!
//! The bytes are the length of what was compressed (u64, little-endian) and the compressed stream. The length is believed only as far as
//! the format can have made so much of so little, and memory is spent as it is filled.

use zstd::bulk::{Compressor, Decompressor};

use xmml_wire::buffer::{Buffer, BufferPool};
use xmml_wire::data::Data;
use xmml_wire::frame::descriptor;
use xmml_wire::message::Message;

use super::{Filter, Problem};

/// More than this is never decompressed, whatever a message claims: 64 GiB.
pub(super) const DECOMPRESSED_MAX: u64 = 64 << 30;

/// The most bytes that one byte of a format stands for: a block of 128 KiB of one value takes 4 bytes in zstd; lz4 counts in bytes.
const ZSTD_MOST: u64 = (128 << 10) / 4;
const LZ4_MOST: u64 = 255;

/// What a format can always make, however short the stream.
const ALWAYS: u64 = 128 << 10;

/// Length of what was compressed.
const HEAD: usize = 8;

/// The level of zstd where none is given.
pub const ZSTD_LEVEL: i32 = 3;

/// How bytes are made fewer.
enum Codec {
    Zstd(Compressor<'static>),
    Lz4,
}

/// Any data to compressed bytes.
pub struct Pack {
    codec: Codec,
    pool: BufferPool,
}

impl Pack {
    /// With zstd; the levels are 1 (fast) to 22 (small).
    pub fn zstd(level: i32) -> Result<Pack, Problem> {
        if !(1..=22).contains(&level) {
            return Err(format!("level must be 1 to 22, not {level}"));
        }
        let compressor = Compressor::new(level).map_err(|error| format!("cannot begin to compress: {error}"))?;
        Ok(Pack { codec: Codec::Zstd(compressor), pool: BufferPool::new() })
    }

    /// With lz4.
    pub fn lz4() -> Pack {
        Pack { codec: Codec::Lz4, pool: BufferPool::new() }
    }

    fn bound(&self, len: usize) -> usize {
        match &self.codec {
            Codec::Zstd(_) => zstd::zstd_safe::compress_bound(len),
            Codec::Lz4 => lz4_flex::block::get_maximum_output_size(len),
        }
    }

    fn pack(&mut self, data: &Data) -> Result<Buffer, Problem> {
        let plain = descriptor::to_bytes(data, &self.pool).map_err(|error| error.to_string())?;
        let mut packed = self.pool.take(HEAD + self.bound(plain.len())).map_err(|none| none.to_string())?;
        packed[..HEAD].copy_from_slice(&(plain.len() as u64).to_le_bytes());
        let room = &mut packed[HEAD..];
        let count = match &mut self.codec {
            Codec::Zstd(zstd) => zstd.compress_to_buffer(&plain[..], room).map_err(|error| error.to_string()),
            Codec::Lz4 => lz4_flex::block::compress_into(&plain, room).map_err(|error| error.to_string()),
        };
        packed.truncate(HEAD + count.map_err(|error| format!("cannot compress: {error}"))?);
        Ok(packed.freeze())
    }
}

impl Filter for Pack {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn size_ratio(&self) -> f64 {
        0.5
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        out.push(Message { data: Data::Bytes(self.pack(&message.data)?), ..message });
        Ok(())
    }
}

/// The inverse of [`Pack`].
pub struct Unpack {
    zstd: Option<Decompressor<'static>>,
    pool: BufferPool,
}

impl Unpack {
    /// Of zstd.
    pub fn zstd() -> Result<Unpack, Problem> {
        let zstd = Decompressor::new().map_err(|error| format!("cannot begin to decompress: {error}"))?;
        Ok(Unpack { zstd: Some(zstd), pool: BufferPool::new() })
    }

    /// Of lz4.
    pub fn lz4() -> Unpack {
        Unpack { zstd: None, pool: BufferPool::new() }
    }

    /// The data that were compressed.
    pub fn unpack(&mut self, packed: &[u8]) -> Result<Data, Problem> {
        let (head, stream) = packed.split_first_chunk::<HEAD>().ok_or("the message is too short to be compressed")?;
        let claimed = u64::from_le_bytes(*head);
        let most = if self.zstd.is_some() { ZSTD_MOST } else { LZ4_MOST };
        let possible = (stream.len() as u64).saturating_mul(most).saturating_add(ALWAYS).min(DECOMPRESSED_MAX);
        if claimed > possible {
            return Err(format!("{} bytes claim to be {claimed}; at most {possible} can come of them", stream.len()));
        }
        let mut plain = self.pool.take(claimed as usize).map_err(|none| none.to_string())?;
        let count = match &mut self.zstd {
            Some(zstd) => zstd.decompress_to_buffer(stream, &mut plain[..]).map_err(|error| error.to_string()),
            None => lz4_flex::block::decompress_into(stream, &mut plain).map_err(|error| error.to_string()),
        };
        let count = count.map_err(|error| format!("the bytes cannot be decompressed: {error}"))?;
        if count as u64 != claimed {
            return Err(format!("{count} bytes came out where {claimed} were promised"));
        }
        descriptor::from_bytes(&plain.freeze()).map_err(|error| format!("what was compressed makes no sense: {error}"))
    }
}

impl Filter for Unpack {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn size_ratio(&self) -> f64 {
        2.0
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        let Data::Bytes(packed) = &message.data else {
            return Err(format!("the message holds {} where compressed bytes were expected", message.data.describe()));
        };
        // The codecs check what they read, but may read it twice.
        let packed = packed.settled(&self.pool).map_err(|none| none.to_string())?;
        out.push(Message { data: self.unpack(&packed)?, ..message });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use xmml_wire::data::{Array, Dtype, Order};

    use super::*;

    fn nested() -> Data {
        let array = Array::from_slice(&[2, 3], &[1.5_f64, -2.0, 0.0, f64::NAN.copysign(-1.0), 5.0, 6.0]).unwrap();
        let columns = Array { order: Order::ColumnMajor, ..array.clone() };
        let zeros = Array::new(Dtype::I32, Order::RowMajor, vec![0, 4], Buffer::copy_of(&[])).unwrap();
        Data::Map(vec![
            ("array".into(), array.into()),
            ("list".into(), vec![columns.into(), zeros.into(), Data::Int(3), Data::Nothing].into()),
            ("text".into(), "Zähne".into()),
        ])
    }

    fn passed(mut there: Pack, mut back: Unpack, data: &Data) -> (Data, usize) {
        let packed = there.pack(data).unwrap();
        (back.unpack(&packed).unwrap(), packed.len())
    }

    /// By their bytes, so that a NaN equals itself.
    fn bytes(data: &Data) -> Vec<u8> {
        descriptor::to_bytes(data, &BufferPool::new()).unwrap().to_vec()
    }

    #[test]
    fn data_come_back_with_type_shape_order_and_nesting() {
        for data in [nested(), Data::Nothing, Data::Float(1.5), Data::Bytes(Buffer::copy_of(&[]))] {
            assert_eq!(bytes(&passed(Pack::zstd(3).unwrap(), Unpack::zstd().unwrap(), &data).0), bytes(&data));
            assert_eq!(bytes(&passed(Pack::lz4(), Unpack::lz4(), &data).0), bytes(&data));
        }
    }

    #[test]
    fn what_repeats_itself_becomes_small() {
        let data = Array::from_slice(&[100_000], &vec![1.0_f64; 100_000]).unwrap().into();
        let (zstd, zstd_len) = passed(Pack::zstd(3).unwrap(), Unpack::zstd().unwrap(), &data);
        let (lz4, lz4_len) = passed(Pack::lz4(), Unpack::lz4(), &data);
        assert!(zstd == data && lz4 == data);
        assert!(zstd_len < 1000 && lz4_len < 8000, "{zstd_len} {lz4_len}");
    }

    #[test]
    fn a_length_that_the_format_cannot_have_made_is_refused_before_memory_is_taken() {
        for (mut there, mut back) in [(Pack::zstd(3).unwrap(), Unpack::zstd().unwrap()), (Pack::lz4(), Unpack::lz4())] {
            let mut packed = there.pack(&nested()).unwrap().to_vec();
            packed[..HEAD].copy_from_slice(&(1u64 << 40).to_le_bytes());
            let problem = back.unpack(&packed).unwrap_err();
            assert!(problem.contains("claim to be 1099511627776"), "{problem}");
        }
    }

    #[test]
    fn a_length_that_does_not_fit_the_stream_is_refused() {
        for (mut there, mut back) in [(Pack::zstd(3).unwrap(), Unpack::zstd().unwrap()), (Pack::lz4(), Unpack::lz4())] {
            let packed = there.pack(&nested()).unwrap().to_vec();
            let len = u64::from_le_bytes(packed[..HEAD].try_into().unwrap());
            for other in [0, 1, len - 1, len + 1, 2 * len] {
                let mut wrong = packed.clone();
                wrong[..HEAD].copy_from_slice(&other.to_le_bytes());
                assert!(back.unpack(&wrong).is_err(), "{other} instead of {len}");
            }
            assert!(back.unpack(&packed[..packed.len() - 1]).is_err());
            assert!(back.unpack(&[1, 2, 3]).is_err());
        }
    }

    #[test]
    fn levels_beyond_those_of_zstd_are_refused() {
        assert!(Pack::zstd(0).is_err() && Pack::zstd(23).is_err() && Pack::zstd(22).is_ok());
    }
}
