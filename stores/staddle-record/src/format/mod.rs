//! Bytes on disk: the constants, layouts and checks that writer, reader and repair share.
//!
//! Offsets appear nowhere else. `docs/format/record.md` holds the same tables with a worked example.

#![deny(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

pub mod chunk;
pub mod entry;
pub mod frame;
pub mod head;
pub mod log;
pub mod names;

pub use chunk::{ChunkFooter, ChunkHeader};
pub use entry::Entry;
pub use frame::{Frame, Op};
pub use head::{Head, OpenChunk};
pub use log::{LogHeader, LogRecord};

/// The version that this build writes. Readers accept `1..=VERSION`.
pub const VERSION: u32 = 1;

/// Identifies one set; every file of the set carries it, so a stray chunk of another set is recognised.
pub type Uuid = [u8; 16];

/// A set holds at most 2^40 records: the frame's index field has 40 bits.
pub const RECORDS_MAX: u64 = 1 << 40;

/// A record's payload is below 4 GiB: the length field has 32 bits.
pub const RECORD_BYTES_MAX: u64 = u32::MAX as u64;

/// Dictionary slots are 1..=255; 0 means none.
pub const DICTIONARIES_MAX: usize = 255;

/// Slots of one offset-table segment (16 MiB).
pub const SEGMENT_SLOTS: u64 = 1 << 20;

/// Bytes of one full segment.
pub const SEGMENT_BYTES: u64 = SEGMENT_SLOTS * Entry::BYTES as u64;

/// Slots covered by one checksum of a segment's `.sum` file (a 4 KiB page).
pub const PAGE_SLOTS: u64 = 256;

/// Formats a uuid as 32 hex digits.
pub fn uuid_text(uuid: &Uuid) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
