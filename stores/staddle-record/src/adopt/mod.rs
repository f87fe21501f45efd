//! Foreign files in place: parsers that find the records of a tar, TFRecord or Megatron file without copying a payload.
//!
//! An entry of the offset table is (chunk, offset, length), so an index over foreign bytes is a record set. An
//! [`Adopter`] reads a file's own headers through a [`Window`] and reports where each record lies; nothing here maps,
//! writes or keeps a payload.
//!
//! | Module | The question it answers |
//! |---|---|
//! | [`window`] | how is a file read when most of it is skipped |
//! | [`tar`] | where do the members of a tar archive lie |
//! | [`tfrecord`] | where do the records of a TFRecord file lie |
//! | [`megatron`] | where do the sequences of a Megatron `.bin` lie, by its `.idx` |
//! | [`samples`] | which members of a tar belong to one WebDataset sample |
//! | [`pattern`], [`source`] | which files does a user's `s-{000..146}.tar` mean |
//! | [`kind`] | which format does a file have |
//! | [`scan`] | what did the parser find in one file |
//! | [`run`] | how do many files become one set, or aligned sets |
//! | [`locate`] | where is an adopted file, and may this set go there |
//!
//! **Invariants**: a count from a file is checked against the file's size before memory is taken for it; every offset
//! that is reported lies inside the file; what a parser does not understand is an error and never a guess.

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic
)]

use staddle_base::{Error, Result};

pub mod kind;
pub mod locate;
pub mod megatron;
pub mod pattern;
pub mod run;
pub mod samples;
pub mod scan;
pub mod source;
pub mod tar;
pub mod tfrecord;
pub mod window;

pub use kind::Kind;
pub use run::{AdoptOptions, AdoptReport, Adopted, Split, adopt};
pub use window::{Source, Window};

/// A record found in a foreign file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Its name in the file; empty where the format has none.
    pub name: &'a [u8],
    /// Where its payload begins.
    pub offset: u64,
    /// Bytes of the payload.
    pub len: u64,
}

/// What a scan saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Records reported.
    pub items: u64,
    /// Members passed over on request: links, devices, pipes.
    pub skipped: u64,
    /// The name of the first of them.
    pub first_skipped: Option<String>,
    /// The file ends without its end marker: whoever wrote it may not have finished.
    pub unterminated: bool,
}

/// A format whose records can be used where they lie.
pub trait Adopter: Send + Sync {
    /// The name kept in the manifest: `tar`, `tfrecord`, `megatron`.
    fn kind(&self) -> &'static str;

    /// Reports every record in file order. `found` may stop the scan with an error.
    ///
    /// # Errors
    /// `Corrupt` (with the offset) for a file that contradicts itself, `Unsupported` for compressed files and for
    /// features that have no bytes in place, `Exhausted` for a header beyond the limits; those of the file and of `found`.
    fn scan(
        &self,
        file: &mut Window<'_>,
        found: &mut dyn FnMut(Item<'_>) -> Result<()>,
    ) -> Result<Scanned>;
}

/// Names the compression of a file by its first bytes.
pub fn compression(head: &[u8]) -> Option<&'static str> {
    const MAGICS: [(&[u8], &str); 6] = [
        (&[0x1f, 0x8b], "gzip"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
        (b"BZh", "bzip2"),
        (&[0x04, 0x22, 0x4d, 0x18], "lz4"),
        (b"PK\x03\x04", "zip"),
    ];
    MAGICS
        .iter()
        .find(|(magic, _)| head.starts_with(magic))
        .map(|(_, name)| *name)
}

/// The error for a compressed file.
#[cold]
pub(crate) fn compressed(what: &str, codec: &str) -> Error {
    Error::unsupported(format!(
        "the {what} file is compressed with {codec}: its records have no bytes in place"
    ))
    .hint("decompress it first")
}

/// Bytes as text for a message: escaped, and cut where it gets long.
pub(crate) fn shown(name: &[u8]) -> String {
    const CHARS: usize = 200;
    let text = String::from_utf8_lossy(name);
    let mut out: String = text
        .chars()
        .take(CHARS)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(CHARS).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests;
