//! HEAD: two slots of 4 KiB, the only bytes of a set that are ever overwritten. The newest slot with a good CRC wins.
//!
//! | Offset | Type | Field |
//! |---|---|---|
//! | 0 | 8 B | magic `STADREC1` |
//! | 8, 12 | u32, u32 | version; required features (unknown bit: refuse) |
//! | 16 | u64 | optional features (unknown bit: ignore) |
//! | 24 | 16 B | uuid |
//! | 40 | u64 | generation |
//! | 48, 56 | u64, u64 | records; live records |
//! | 64 | u64 | base_len: slots valid in segments |
//! | 72 | u64 | manifest number |
//! | 80, 88 | u64, u64 | log number; its published end |
//! | 96 | u64 | next sequence |
//! | 104, 112 | u64, u64 | generation of the last update or tombstone; of the last swap-delete |
//! | 120, 128 | u64, u64 | live bytes (payloads); total bytes (chunks) |
//! | 136 | u64 | wall clock, nanoseconds since 1970 (for people) |
//! | 144, 148 | u32, u32 | open chunks; zero |
//! | 152 | 40 B each, at most 64 | id u32, zero u32, end u64, records u64, sequence_max u64, digest u64 |
//! | 4092 | u32 | CRC32C of bytes 0-4091 |
//!
//! Generation g lives in slot g mod 2, so a commit overwrites the older one.

use staddle_base::checksum::crc32c;
use staddle_base::wire::{Put, Reader};
use staddle_base::{Error, Result};

use super::{RECORDS_MAX, Uuid, VERSION};

const MAGIC: &[u8; 8] = b"STADREC1";
/// Bytes of one slot.
pub const SLOT_BYTES: usize = 4096;
/// Bytes of the whole file.
pub const FILE_BYTES: usize = 2 * SLOT_BYTES;
const BODY_BYTES: usize = SLOT_BYTES - 4;

/// A chunk that is still being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenChunk {
    /// The chunk's id.
    pub id: u32,
    /// Bytes before this are published.
    pub end: u64,
    /// Frames before `end`.
    pub records: u64,
    /// Largest sequence before `end`.
    pub sequence_max: u64,
    /// Digest of the frames before `end`, see [`super::chunk::fold`].
    pub digest: u64,
}

/// One published state of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The set.
    pub uuid: Uuid,
    /// Counts commits.
    pub generation: u64,
    /// Number of records, holes included.
    pub n: u64,
    /// Number of records that are not holes.
    pub live: u64,
    /// Slots below this are valid in the segments; changes to them go through the log.
    pub base_len: u64,
    /// The manifest in force.
    pub manifest: u64,
    /// The log in force.
    pub log: u64,
    /// Its published end.
    pub log_end: u64,
    /// The sequence number that the next operation takes.
    pub next_sequence: u64,
    /// Generation of the last update or tombstone.
    pub changed_generation: u64,
    /// Generation of the last swap-delete.
    pub moved_generation: u64,
    /// Payload bytes of live records.
    pub live_bytes: u64,
    /// Bytes of all chunks.
    pub total_bytes: u64,
    /// When it was written, for people.
    pub time_ns: u64,
    /// Chunks still being written.
    pub open: Vec<OpenChunk>,
}

impl Head {
    /// At most this many chunks are open.
    pub const OPEN_MAX: usize = 64;

    /// Which slot this generation lives in.
    pub fn slot_offset(&self) -> u64 {
        if self.generation.is_multiple_of(2) {
            0
        } else {
            SLOT_BYTES as u64
        }
    }

    /// The bytes of one slot.
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.open.len() <= Self::OPEN_MAX);
        let mut out = Vec::with_capacity(SLOT_BYTES);
        out.extend_from_slice(MAGIC);
        out.put_u32(VERSION);
        out.put_u32(0);
        out.put_u64(0);
        out.extend_from_slice(&self.uuid);
        for field in [
            self.generation,
            self.n,
            self.live,
            self.base_len,
            self.manifest,
            self.log,
            self.log_end,
            self.next_sequence,
            self.changed_generation,
            self.moved_generation,
            self.live_bytes,
            self.total_bytes,
            self.time_ns,
        ] {
            out.put_u64(field);
        }
        out.put_u32(self.open.len() as u32);
        out.put_u32(0);
        for chunk in &self.open {
            out.put_u32(chunk.id);
            out.put_u32(0);
            for field in [chunk.end, chunk.records, chunk.sequence_max, chunk.digest] {
                out.put_u64(field);
            }
        }
        out.resize(BODY_BYTES, 0);
        let crc = crc32c(&out);
        out.put_u32(crc);
        out
    }

    /// Reads one slot.
    ///
    /// # Errors
    /// `Corrupt` for a wrong magic, checksum or impossible field; `Unsupported` for a newer format.
    pub fn decode(slot: &[u8]) -> Result<Self> {
        let mut outer = Reader::new("HEAD slot", slot);
        let body = outer.bytes(BODY_BYTES)?;
        let crc = outer.u32()?;
        if !body.starts_with(MAGIC) {
            return Err(Error::corrupt("HEAD slot: the magic bytes are wrong"));
        }
        if crc32c(body) != crc {
            return Err(Error::corrupt("HEAD slot: checksum mismatch"));
        }
        let mut r = Reader::new("HEAD slot", body);
        r.skip(8)?;
        let (version, required, _optional) = (r.u32()?, r.u32()?, r.u64()?);
        if version > VERSION || required != 0 {
            return Err(Error::unsupported(format!(
                "the set was written in format {version} with features {required:#x}; this version reads up to {VERSION}"
            ))
            .hint("upgrade staddle"));
        }
        let uuid = r.array()?;
        let mut next = || r.u64();
        let mut head = Self {
            uuid,
            generation: next()?,
            n: next()?,
            live: next()?,
            base_len: next()?,
            manifest: next()?,
            log: next()?,
            log_end: next()?,
            next_sequence: next()?,
            changed_generation: next()?,
            moved_generation: next()?,
            live_bytes: next()?,
            total_bytes: next()?,
            time_ns: next()?,
            open: Vec::new(),
        };
        let count = r.u32()?;
        r.zeros(4)?;
        let count = r.bounded_capacity(u64::from(count), 40, Self::OPEN_MAX)?;
        for _ in 0..count {
            let id = r.u32()?;
            r.zeros(4)?;
            head.open.push(OpenChunk {
                id,
                end: r.u64()?,
                records: r.u64()?,
                sequence_max: r.u64()?,
                digest: r.u64()?,
            });
        }
        let possible =
            head.n <= head.base_len && head.live <= head.n && head.base_len <= RECORDS_MAX;
        if !possible {
            return Err(
                Error::corrupt("HEAD slot: the record counts contradict each other")
                    .with("records", head.n)
                    .with("live", head.live)
                    .with("base_len", head.base_len),
            );
        }
        Ok(head)
    }

    /// The newest good slot of a HEAD file.
    ///
    /// # Errors
    /// `Corrupt` when both slots are bad, with both reasons; `Unsupported` when the only good slot is of a newer format.
    pub fn newest(file: &[u8]) -> Result<Self> {
        let (a, b) = file.split_at_checked(SLOT_BYTES).unwrap_or((file, &[]));
        match (Self::decode(a), Self::decode(b)) {
            (Ok(a), Ok(b)) => Ok(if a.generation > b.generation { a } else { b }),
            (Ok(one), Err(e)) | (Err(e), Ok(one)) => match e.kind() {
                staddle_base::ErrorKind::Unsupported => Err(e),
                _ => Ok(one),
            },
            (Err(a), Err(b)) if a.kind() == staddle_base::ErrorKind::Unsupported => {
                Err(a.with("other_slot", b.message()))
            }
            (Err(a), Err(b)) => Err(b
                .context("both HEAD slots are bad")
                .with("other_slot", a.message())
                .hint("run `staddle repair` on the set: it rebuilds the index from the chunks")),
        }
    }
}
