//! A frame on its way between two relays.

use crate::frame::{framed, Address, FrameError, Head, Kind, Reader};

/// A piece of a frame inside a frame: short frames travel whole, long ones in several hops.
///
/// Body: u8 hops left, 7 zeros, u64 offset of the piece, u64 length of the whole inner frame, address of the source, address of
/// the destination, the piece. Conduit and sequence number of the head count the hops of this conduit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayHop {
    /// The conduit on this link.
    pub conduit: u32,
    /// Number of this hop on the conduit and link, from 1.
    pub sequence: u64,
    /// How many relays it may still pass; a frame that arrives with 0 and is not for this site is dropped as a loop.
    pub hops_left: u8,
    /// Where the inner frame comes from.
    pub source: Address,
    /// Where it goes.
    pub destination: Address,
    /// Where in the inner frame this piece stands.
    pub offset: u64,
    /// Length of the inner frame.
    pub total: u64,
    /// The piece.
    pub piece: Vec<u8>,
}

impl RelayHop {
    /// The frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = vec![self.hops_left, 0, 0, 0, 0, 0, 0, 0];
        body.extend_from_slice(&self.offset.to_le_bytes());
        body.extend_from_slice(&self.total.to_le_bytes());
        self.source.encode(&mut body);
        self.destination.encode(&mut body);
        body.extend_from_slice(&self.piece);
        framed(Kind::RelayHop, 0, self.conduit, self.sequence, &body)
    }

    pub(crate) fn decode(head: &Head, body: &[u8]) -> Result<RelayHop, FrameError> {
        let mut reader = Reader::new(body);
        let hops_left = reader.u8()?;
        reader.zeros(7)?;
        let (offset, total) = (reader.u64()?, reader.u64()?);
        let (source, destination) = (Address::decode(&mut reader)?, Address::decode(&mut reader)?);
        let piece = reader.bytes(reader.remaining())?.to_vec();
        match offset.checked_add(piece.len() as u64) {
            Some(end) if end <= total => {}
            _ => return Err(super::descriptor_error(format!("a piece beyond the {total} bytes of its frame"))),
        }
        Ok(RelayHop {
            conduit: head.conduit,
            sequence: head.sequence,
            hops_left,
            source,
            destination,
            offset,
            total,
            piece,
        })
    }
}
