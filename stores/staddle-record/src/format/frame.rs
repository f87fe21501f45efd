//! What stands before each payload in a chunk, so that the index can be rebuilt from chunks alone.
//!
//! | Offset | Type | Field |
//! |---|---|---|
//! | 0 | u32 | physical length |
//! | 4 | u32 | raw length (before compression) |
//! | 8 | u32 | CRC32C of the payload, then of header bytes 0-7 and 12-23 |
//! | 12 | u32 | sequence minus the chunk's base sequence |
//! | 16 | u40 | index when written |
//! | 21 | u8 | operation: 1 put; 2 swap-delete (payload: u64 old last index); 3 tombstone; 4 rebase (payload: u64 n, u64 first) |
//! | 22 | u8 | codec |
//! | 23 | u8 | dictionary slot |
//!
//! The payload is aligned (8 by default), so the header of the next frame begins 24 bytes before the next aligned
//! address that leaves room for it; the gap is zero.

use staddle_base::checksum::{crc32c, crc32c_append};
use staddle_base::wire::Reader;
use staddle_base::{Error, Result};

use super::RECORDS_MAX;
use crate::codec::Codec;

/// What a frame does when the set is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets the record at the index.
    Put,
    /// The last record takes the place of the one at the index; the set gets shorter.
    SwapDelete,
    /// Empties the index; the set keeps its length.
    Tombstone,
    /// A rebalance ended here: the set is what puts from its first sequence on give, over so many empty slots.
    Rebase,
}

impl Op {
    /// As on disk.
    pub fn id(self) -> u8 {
        match self {
            Self::Put => 1,
            Self::SwapDelete => 2,
            Self::Tombstone => 3,
            Self::Rebase => 4,
        }
    }

    /// From disk.
    ///
    /// # Errors
    /// `Corrupt` for an unknown operation.
    pub fn from_id(id: u8) -> Result<Self> {
        match id {
            1 => Ok(Self::Put),
            2 => Ok(Self::SwapDelete),
            3 => Ok(Self::Tombstone),
            4 => Ok(Self::Rebase),
            _ => Err(Error::corrupt(format!("operation {id} does not exist"))),
        }
    }
}

/// The header before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes of the payload as stored.
    pub physical_length: u32,
    /// Bytes of the record.
    pub raw_length: u32,
    /// The operation's sequence number minus the chunk's base.
    pub sequence_delta: u32,
    /// The index when it was written.
    pub index: u64,
    /// The operation.
    pub op: Op,
    /// How the payload is compressed.
    pub codec: Codec,
    /// The dictionary slot, 0 for none.
    pub dictionary: u8,
}

impl Frame {
    /// Bytes of the header.
    pub const BYTES: usize = 24;

    /// The header's bytes, given the CRC32C of the payload alone. Returns the final CRC too.
    pub fn encode(&self, payload_crc: u32) -> ([u8; Self::BYTES], u32) {
        debug_assert!(self.index < RECORDS_MAX);
        let lengths = u64::from(self.physical_length) | (u64::from(self.raw_length) << 32);
        let place = (self.index & (RECORDS_MAX - 1))
            | (u64::from(self.op.id()) << 40)
            | (u64::from(self.codec.id()) << 48)
            | (u64::from(self.dictionary) << 56);
        let tail = u128::from(self.sequence_delta) | (u128::from(place) << 32);
        let [t @ .., _, _, _, _] = tail.to_le_bytes();
        let crc = crc32c_append(crc32c_append(payload_crc, &lengths.to_le_bytes()), &t);
        let mut out = [0; Self::BYTES];
        let (head, rest) = out.split_at_mut(8);
        head.copy_from_slice(&lengths.to_le_bytes());
        let (sum, rest) = rest.split_at_mut(4);
        sum.copy_from_slice(&crc.to_le_bytes());
        rest.copy_from_slice(&t);
        (out, crc)
    }

    /// Reads a header and the CRC that it carries; the payload is not checked, see [`Frame::check`].
    ///
    /// # Errors
    /// `Corrupt` for an unknown operation, `Unsupported` for an unknown codec.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<(Self, u32)> {
        let mut r = Reader::new("frame header", bytes);
        let physical_length = r.u32()?;
        let raw_length = r.u32()?;
        let crc = r.u32()?;
        let sequence_delta = r.u32()?;
        let place = r.u64()?;
        let frame = Self {
            physical_length,
            raw_length,
            sequence_delta,
            index: place & (RECORDS_MAX - 1),
            op: Op::from_id((place >> 40) as u8)?,
            codec: Codec::from_id((place >> 48) as u8)?,
            dictionary: (place >> 56) as u8,
        };
        Ok((frame, crc))
    }

    /// The CRC that header bytes and payload should carry.
    #[inline]
    pub fn crc(header: &[u8; Self::BYTES], payload: &[u8]) -> u32 {
        Self::crc_with(header, crc32c(payload))
    }

    /// [`Frame::crc`] when the payload's own CRC is known already (computed while copying).
    #[inline]
    pub fn crc_with(header: &[u8; Self::BYTES], payload_crc: u32) -> u32 {
        let (lengths, rest) = header.split_at(8);
        let (_, tail) = rest.split_at(4);
        crc32c_append(crc32c_append(payload_crc, lengths), tail)
    }

    /// The CRC stored in a header.
    #[inline]
    pub fn stored_crc(header: &[u8; Self::BYTES]) -> u32 {
        let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = *header;
        u32::from_le_bytes([a, b, c, d])
    }

    /// Whether header and payload are what was written.
    #[inline]
    pub fn check(header: &[u8; Self::BYTES], payload: &[u8]) -> bool {
        Self::stored_crc(header) == Self::crc(header, payload)
    }

    /// Where the payload of the frame that follows `end` begins: aligned, with room for the header before it.
    /// `None` on overflow.
    pub fn payload_after(end: u64, alignment: u64) -> Option<u64> {
        end.checked_add(Self::BYTES as u64)?
            .checked_next_multiple_of(alignment.max(1))
    }
}
