//! One tar header: 512 bytes, numbers in octal, a checksum over itself.
//!
//! | Offset | Bytes | Field |
//! |---|---|---|
//! | 0 | 100 | name |
//! | 124 | 12 | size: octal, or base 256 when the first bit is set |
//! | 148 | 8 | sum of all bytes, with these eight taken as spaces |
//! | 156 | 1 | type |
//! | 257 | 8 | magic: `ustar\0` `00`, or GNU's `ustar  \0` |
//! | 345 | 155 | prefix of the name (ustar only) |

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use staddle_base::wire::Reader;
use staddle_base::{Error, Result};

/// Headers and padded payloads are multiples of this.
pub const BLOCK_BYTES: usize = 512;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Prefix and name.
    pub name: Vec<u8>,
    /// Bytes of the payload.
    pub size: u64,
    /// The type byte.
    pub kind: u8,
}

impl Header {
    /// Reads a block; `None` for a block of zeros, the end marker.
    ///
    /// # Errors
    /// `Corrupt` for a wrong checksum or a size that is not a number.
    pub fn parse(block: &[u8; BLOCK_BYTES]) -> Result<Option<Self>> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if !checksum_is_right(block) {
            return Err(Error::corrupt("the checksum of a tar header is wrong")
                .hint("the archive is damaged here, or this is not a tar file"));
        }
        let mut r = Reader::new("tar header", block);
        let name = until_nul(r.bytes(100)?);
        r.skip(24)?;
        let size = number(r.bytes(12)?)?;
        r.skip(20)?;
        let kind = r.u8()?;
        r.skip(100)?;
        let magic = r.bytes(8)?;
        r.skip(80)?;
        let prefix = until_nul(r.bytes(155)?);
        let mut full = Vec::new();
        if magic.starts_with(b"ustar\0") && !prefix.is_empty() {
            full.extend_from_slice(prefix);
            full.push(b'/');
        }
        full.extend_from_slice(name);
        Ok(Some(Self {
            name: full,
            size,
            kind,
        }))
    }
}

/// Whether a block is a header, by its checksum. Some old writers summed signed bytes.
pub fn checksum_is_right(block: &[u8; BLOCK_BYTES]) -> bool {
    let (head, rest) = block.split_at(148);
    let (field, tail) = rest.split_at(8);
    let Ok(stored) = number(field) else {
        return false;
    };
    let summed = || head.iter().chain(b"        ").chain(tail);
    let unsigned: u64 = summed().map(|byte| u64::from(*byte)).sum();
    let signed: i64 = summed().map(|byte| i64::from(byte.cast_signed())).sum();
    stored == unsigned || i64::try_from(stored) == Ok(signed)
}

/// Everything before the first NUL.
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
}

/// An octal number, ended by NUL or space; or, with the first bit set, a big-endian one.
fn number(field: &[u8]) -> Result<u64> {
    let wrong = || Error::corrupt("a number in a tar header is not one");
    if let Some((first, rest)) = field.split_first()
        && first & 0x80 != 0
    {
        let (high, low) = rest
            .split_last_chunk::<8>()
            .filter(|(high, _)| *first == 0x80 && high.iter().all(|byte| *byte == 0))
            .ok_or_else(wrong)?;
        debug_assert!(high.len() < field.len());
        return Ok(u64::from_be_bytes(*low));
    }
    until_nul(field)
        .trim_ascii()
        .iter()
        .try_fold(0_u64, |value, digit| {
            let digit = digit.checked_sub(b'0').filter(|digit| *digit < 8)?;
            value.checked_mul(8)?.checked_add(u64::from(digit))
        })
        .ok_or_else(wrong)
}
