//! A chunk: a 64-byte header, frames, and once sealed a 64-byte footer.
//!
//! | Header | Type | Field |
//! |---|---|---|
//! | 0 | 8 B | magic `STADCHK1` |
//! | 8, 10 | u16, u16 | version; flags (zero) |
//! | 12 | u32 | chunk id |
//! | 16 | 16 B | set uuid |
//! | 32 | u64 | base sequence |
//! | 40 | u64 | generation when made |
//! | 48 | u32 | payload alignment |
//! | 52 | 8 B | zero |
//! | 60 | u32 | CRC32C of bytes 0-59 |
//!
//! | Footer | Type | Field |
//! |---|---|---|
//! | 0 | 8 B | magic `STADEND1` |
//! | 8, 16 | u64, u64 | frames; bytes before the footer |
//! | 24, 32 | u64, u64 | smallest and largest sequence |
//! | 40 | u64 | digest: the frames' CRCs folded in order, see [`fold`] |
//! | 48 | 12 B | zero |
//! | 60 | u32 | CRC32C of bytes 0-59 |

use staddle_base::checksum::crc32c;
use staddle_base::hash::mix2;
use staddle_base::wire::{Put, Reader};
use staddle_base::{Error, Result};

use super::{Uuid, VERSION};

const MAGIC: &[u8; 8] = b"STADCHK1";
const END_MAGIC: &[u8; 8] = b"STADEND1";

/// Adds one frame's CRC to a chunk's digest. The digest binds which frames a chunk holds, and their order, at the cost
/// of a few nanoseconds a record, and needs eight bytes of state, so a writer can stop and go on.
#[inline]
pub fn fold(digest: u64, frame_crc: u32) -> u64 {
    mix2(digest, u64::from(frame_crc))
}

/// What a chunk says about itself at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The chunk's number, never used twice in a set.
    pub id: u32,
    /// The set it belongs to.
    pub uuid: Uuid,
    /// Sequence numbers of its frames count from here.
    pub base_sequence: u64,
    /// The generation that was current when it was made.
    pub generation: u64,
    /// Payload addresses are multiples of this.
    pub alignment: u32,
}

impl ChunkHeader {
    /// Bytes on disk.
    pub const BYTES: usize = 64;

    /// As on disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::BYTES);
        out.extend_from_slice(MAGIC);
        out.put_u16(VERSION as u16);
        out.put_u16(0);
        out.put_u32(self.id);
        out.extend_from_slice(&self.uuid);
        out.put_u64(self.base_sequence);
        out.put_u64(self.generation);
        out.put_u32(self.alignment);
        out.put_zeros(8);
        let crc = crc32c(&out);
        out.put_u32(crc);
        out
    }

    /// From disk.
    ///
    /// # Errors
    /// `Corrupt` for a wrong magic, checksum or field; `Unsupported` for a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let body = checked(bytes, "chunk header", MAGIC)?;
        let mut r = Reader::new("chunk header", body);
        r.skip(8)?;
        let version = u32::from(r.u16()?);
        if version > VERSION || r.u16()? != 0 {
            return Err(Error::unsupported(format!(
                "the chunk was written in format {version}; this version reads up to {VERSION}"
            ))
            .hint("upgrade staddle"));
        }
        let header = Self {
            id: r.u32()?,
            uuid: r.array()?,
            base_sequence: r.u64()?,
            generation: r.u64()?,
            alignment: r.u32()?,
        };
        r.zeros(8)?;
        if !header.alignment.is_power_of_two() || header.alignment > 1 << 20 {
            return Err(Error::corrupt(format!(
                "alignment {} is not a power of two",
                header.alignment
            )));
        }
        Ok(header)
    }
}

/// What a sealed chunk says about itself at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkFooter {
    /// How many frames.
    pub frames: u64,
    /// Bytes before the footer, header included.
    pub bytes: u64,
    /// Smallest sequence number.
    pub sequence_min: u64,
    /// Largest sequence number.
    pub sequence_max: u64,
    /// See [`fold`].
    pub digest: u64,
}

impl ChunkFooter {
    /// Bytes on disk.
    pub const BYTES: usize = 64;

    /// As on disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::BYTES);
        out.extend_from_slice(END_MAGIC);
        for field in [
            self.frames,
            self.bytes,
            self.sequence_min,
            self.sequence_max,
            self.digest,
        ] {
            out.put_u64(field);
        }
        out.put_zeros(12);
        let crc = crc32c(&out);
        out.put_u32(crc);
        out
    }

    /// From disk.
    ///
    /// # Errors
    /// `Corrupt` for a wrong magic or checksum.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let body = checked(bytes, "chunk footer", END_MAGIC)?;
        let mut r = Reader::new("chunk footer", body);
        r.skip(8)?;
        Ok(Self {
            frames: r.u64()?,
            bytes: r.u64()?,
            sequence_min: r.u64()?,
            sequence_max: r.u64()?,
            digest: r.u64()?,
        })
    }
}

/// The first 60 of 64 bytes, if magic and CRC are right.
pub(super) fn checked<'a>(
    bytes: &'a [u8],
    what: &'static str,
    magic: &[u8; 8],
) -> Result<&'a [u8]> {
    let mut r = Reader::new(what, bytes);
    let body = r.bytes(60)?;
    let crc = r.u32()?;
    if !body.starts_with(magic) {
        return Err(Error::corrupt(format!("{what}: the magic bytes are wrong")));
    }
    if crc32c(body) != crc {
        return Err(Error::corrupt(format!("{what}: checksum mismatch")));
    }
    Ok(body)
}
