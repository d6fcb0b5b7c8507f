//! One rank's part of an array that M ranks send and N ranks receive.

use smallvec::smallvec;

use crate::buffer::Buffer;
use crate::data::{array_bytes, Array};
use crate::error::{Error, Result};
use crate::frame::descriptor::{array_node, push_array_node, Front, MAX_RANK};
use crate::frame::message::Prefix;
use crate::frame::{descriptor_error, EncodedMessage, FrameError, Head, Kind, Reader};

/// The overlap of what one sending rank holds with what one receiving rank wants.
///
/// The body is that of a message whose descriptor is an array node (the block's own extents), followed by u32 receiving rank, u32
/// number of blocks that rank gets for this message, u64 extents of the whole array\[rank\], u64 first index of the block\[rank\].
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// On which conduit.
    pub conduit: u32,
    /// Number of the message that this is a part of.
    pub sequence: u64,
    /// Model time, in seconds.
    pub timestamp: f64,
    /// Model time of the next message.
    pub next_timestamp: Option<f64>,
    /// Which rank sends it.
    pub sender_rank: u32,
    /// Which rank receives it.
    pub receiver_rank: u32,
    /// How many blocks make the receiving rank's part complete.
    pub blocks: u32,
    /// Extents of the whole array.
    pub whole: Vec<u64>,
    /// Index of the block's first element in the whole array.
    pub start: Vec<u64>,
    /// The elements of the block.
    pub elements: Array,
}

impl Block {
    fn check(&self) -> std::result::Result<(), String> {
        let rank = self.elements.shape.len();
        if rank > MAX_RANK || self.whole.len() != rank || self.start.len() != rank {
            return Err(format!("a block of rank {rank} in an array of rank {}", self.whole.len()));
        }
        for ((&start, &extent), &whole) in self.start.iter().zip(&self.elements.shape).zip(&self.whole) {
            if start.checked_add(extent).is_none_or(|end| end > whole) {
                return Err(format!("a block from {start} of length {extent} in an extent of {whole}"));
            }
        }
        match array_bytes(self.elements.dtype, &self.elements.shape) {
            Some(len) if len == self.elements.data.len() as u64 => Ok(()),
            _ => Err("a block whose shape does not fit its bytes".into()),
        }
    }

    /// The frame, without copying the elements.
    pub fn encode(&self) -> Result<EncodedMessage> {
        self.check().map_err(|problem| Error::Usage { problem: format!("this cannot be sent: {problem}") })?;
        let Array { dtype, order, shape, data } = &self.elements;
        let mut descriptor = Front::new();
        push_array_node(&mut descriptor, *dtype, *order, shape);
        descriptor.extend_from_slice(&0_u64.to_le_bytes());
        descriptor.extend_from_slice(&self.receiver_rank.to_le_bytes());
        descriptor.extend_from_slice(&self.blocks.to_le_bytes());
        for number in self.whole.iter().chain(&self.start) {
            descriptor.extend_from_slice(&number.to_le_bytes());
        }
        let prefix = Prefix {
            timestamp: self.timestamp,
            next_timestamp: self.next_timestamp,
            descriptor_len: descriptor.len() as u32,
            copy: Some(self.sender_rank),
        };
        Ok(prefix.encode(Kind::Block, self.conduit, self.sequence, &descriptor, smallvec![data.clone()]))
    }

    pub(crate) fn decode(
        head: &Head,
        prefix: Prefix,
        descriptor: &[u8],
        payload: Buffer,
    ) -> std::result::Result<Block, FrameError> {
        let mut reader = Reader::new(descriptor);
        let [tag, dtype, order, rank] = reader.array()?;
        if tag != 7 {
            return Err(descriptor_error(format!("a block with the tag {tag}")));
        }
        reader.zeros(4)?;
        let (dtype, order, shape) = array_node(&mut reader, dtype, order, rank)?;
        reader.zeros(8)?;
        let (receiver_rank, blocks) = (reader.u32()?, reader.u32()?);
        let mut extents = || (0..rank).map(|_| reader.u64()).collect::<std::result::Result<Vec<_>, _>>();
        let (whole, start) = (extents()?, extents()?);
        reader.end()?;
        let block = Block {
            conduit: head.conduit,
            sequence: head.sequence,
            timestamp: prefix.timestamp,
            next_timestamp: prefix.next_timestamp,
            sender_rank: prefix.copy.ok_or_else(|| descriptor_error("a block without a rank"))?,
            receiver_rank,
            blocks,
            whole,
            start,
            elements: Array { dtype, order, shape, data: payload },
        };
        block.check().map_err(descriptor_error)?;
        Ok(block)
    }
}
