//! TFRecord: length, masked CRC32C of the length, payload, masked CRC32C of the payload, and again.
//!
//! | Offset | Type | Field |
//! |---|---|---|
//! | 0 | u64 | length of the payload |
//! | 8 | u32 | masked CRC32C of bytes 0-7 |
//! | 12 | bytes | payload |
//! | 12 + length | u32 | masked CRC32C of the payload |

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use staddle_base::checksum::{crc32c_append, crc32c_mask, crc32c_masked};
use staddle_base::wire::Reader;
use staddle_base::{Error, Result};

use super::{Adopter, Item, Scanned, Window, compressed, compression};

/// Bytes before a payload.
pub const HEADER_BYTES: usize = 12;
/// Bytes after a payload.
pub const FOOTER_BYTES: usize = 4;

/// The bytes of a file that a payload CRC is computed over at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// The TFRecord parser.
#[derive(Clone, Copy, Debug, Default)]
pub struct TfRecord {
    /// Read every payload and check its CRC too.
    pub verify: bool,
}

impl Adopter for TfRecord {
    fn kind(&self) -> &'static str {
        "tfrecord"
    }

    fn scan(
        &self,
        file: &mut Window<'_>,
        found: &mut dyn FnMut(Item<'_>) -> Result<()>,
    ) -> Result<Scanned> {
        let mut scanned = Scanned::default();
        let mut at = 0;
        while at < file.size() {
            let record = record_at(file, at).map_err(|e| e.with("record", scanned.items))?;
            if self.verify {
                check_payload(file, &record).map_err(|e| e.with("record", scanned.items))?;
            }
            found(Item {
                name: b"",
                offset: record.offset,
                len: record.len,
            })?;
            scanned.items = scanned.items.saturating_add(1);
            at = record.end;
        }
        Ok(scanned)
    }
}

struct Record {
    offset: u64,
    len: u64,
    end: u64,
}

fn record_at(file: &mut Window<'_>, at: u64) -> Result<Record> {
    let header: [u8; HEADER_BYTES] = match file.array(at) {
        Ok(header) => header,
        Err(error) => return Err(not_plain(file, at).unwrap_or(error)),
    };
    let mut r = Reader::new("TFRecord header", &header);
    let len_bytes: [u8; 8] = r.array()?;
    let crc = r.u32()?;
    if crc32c_masked(&len_bytes) != crc {
        return Err(not_plain(file, at).unwrap_or_else(|| {
            Error::corrupt("the checksum of a record's length is wrong")
                .with("offset", at)
                .hint("this is not a TFRecord file, or it is damaged here")
        }));
    }
    let len = u64::from_le_bytes(len_bytes);
    let offset = file.inside(at, HEADER_BYTES as u64)?;
    let end = offset
        .checked_add(len)
        .and_then(|end| end.checked_add(FOOTER_BYTES as u64))
        .filter(|end| *end <= file.size())
        .ok_or_else(|| {
            Error::corrupt(format!(
                "a record of {len} bytes begins where the file has {} left",
                file.size().saturating_sub(offset)
            ))
            .with("offset", at)
            .with("size", file.size())
            .hint("the file is cut short: its writer may not have finished")
        })?;
    Ok(Record { offset, len, end })
}

/// A compressed file is only recognised where the plain format does not fit: a length may look like any magic.
fn not_plain(file: &mut Window<'_>, at: u64) -> Option<Error> {
    if at != 0 {
        return None;
    }
    let head = file.up_to(0, 8).ok()?;
    let zlib = matches!(head, [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..]).then_some("zlib");
    compression(head)
        .or(zlib)
        .map(|codec| compressed("TFRecord", codec))
}

fn check_payload(file: &mut Window<'_>, record: &Record) -> Result<()> {
    let mut crc = 0;
    let mut at = record.offset;
    let mut left = record.len;
    while left > 0 {
        let len = usize::try_from(left).map_or(BLOCK_BYTES, |left| left.min(BLOCK_BYTES));
        crc = crc32c_append(crc, file.get(at, len)?);
        at = at.saturating_add(len as u64);
        left = left.saturating_sub(len as u64);
    }
    let stored = u32::from_le_bytes(file.array(at)?);
    if crc32c_mask(crc) == stored {
        return Ok(());
    }
    Err(
        Error::corrupt("a record's payload does not match its checksum")
            .with("offset", record.offset)
            .with("length", record.len),
    )
}
