//! The log of redirects since the last checkpoint: one record for each change below `base_len`.
//!
//! | Header | Type | Field |
//! |---|---|---|
//! | 0 | 8 B | magic `STADLOG1` |
//! | 8, 10 | u16, 6 B | version; zero |
//! | 16 | 16 B | set uuid |
//! | 32, 40 | u64, u64 | log number; first generation |
//! | 48, 60 | 12 B, u32 | zero; CRC32C of bytes 0-59 |
//!
//! | Record | Type | Field |
//! |---|---|---|
//! | 0 | u32 | CRC32C of bytes 4-39 |
//! | 4, 5 | u8, 3 B | operation, as in a frame; zero |
//! | 8 | u64 | sequence |
//! | 16 | u64 | index |
//! | 24 | 16 B | the entry that the index has from now on |

use staddle_base::checksum::crc32c;
use staddle_base::wire::{Put, Reader};
use staddle_base::{Error, Result};

use super::chunk::checked;
use super::{Entry, Op, Uuid, VERSION};

const MAGIC: &[u8; 8] = b"STADLOG1";

/// The start of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// The set it belongs to.
    pub uuid: Uuid,
    /// The log's number, never used twice in a set.
    pub number: u64,
    /// The first generation that names it.
    pub generation: u64,
}

impl LogHeader {
    /// Bytes on disk.
    pub const BYTES: usize = 64;

    /// As on disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::BYTES);
        out.extend_from_slice(MAGIC);
        out.put_u16(VERSION as u16);
        out.put_zeros(6);
        out.extend_from_slice(&self.uuid);
        out.put_u64(self.number);
        out.put_u64(self.generation);
        out.put_zeros(12);
        let crc = crc32c(&out);
        out.put_u32(crc);
        out
    }

    /// From disk.
    ///
    /// # Errors
    /// `Corrupt` for a wrong magic or checksum, `Unsupported` for a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let body = checked(bytes, "log header", MAGIC)?;
        let mut r = Reader::new("log header", body);
        r.skip(8)?;
        let version = u32::from(r.u16()?);
        if version > VERSION {
            return Err(
                Error::unsupported(format!("the log was written in format {version}"))
                    .hint("upgrade staddle"),
            );
        }
        r.zeros(6)?;
        Ok(Self {
            uuid: r.array()?,
            number: r.u64()?,
            generation: r.u64()?,
        })
    }
}

/// One redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// What happened.
    pub op: Op,
    /// Its place in the order of all operations.
    pub sequence: u64,
    /// The slot.
    pub index: u64,
    /// What the slot holds from now on.
    pub entry: Entry,
}

impl LogRecord {
    /// Bytes on disk.
    pub const BYTES: usize = 40;

    /// Appends the record's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(Self::BYTES);
        body.put_u8(self.op.id());
        body.put_zeros(3);
        body.put_u64(self.sequence);
        body.put_u64(self.index);
        body.extend_from_slice(&self.entry.to_bytes());
        out.put_u32(crc32c(&body));
        out.extend_from_slice(&body);
    }

    /// From disk.
    ///
    /// # Errors
    /// `Corrupt` for a wrong checksum or operation.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new("log record", bytes);
        let crc = r.u32()?;
        let body = r.bytes(36)?;
        if crc32c(body) != crc {
            return Err(Error::corrupt("log record: checksum mismatch"));
        }
        let mut r = Reader::new("log record", body);
        let op = Op::from_id(r.u8()?)?;
        r.zeros(3)?;
        Ok(Self {
            op,
            sequence: r.u64()?,
            index: r.u64()?,
            entry: Entry::from_bytes(r.array()?),
        })
    }
}

/// All records of a log's bytes after its header. The length must be a whole number of records: the caller passes what
/// HEAD says, and bytes below a published end never change.
///
/// # Errors
/// `Corrupt` with the offset of the first bad record.
pub fn decode_all(bytes: &[u8]) -> Result<Vec<LogRecord>> {
    let records = bytes.chunks_exact(LogRecord::BYTES);
    if !records.remainder().is_empty() {
        return Err(Error::corrupt("the log ends inside a record").with("bytes", bytes.len()));
    }
    let mut offset = LogHeader::BYTES;
    records
        .map(|record| {
            let decoded = LogRecord::decode(record).map_err(|e| e.with("offset", offset));
            offset = offset.saturating_add(LogRecord::BYTES);
            decoded
        })
        .collect()
}
