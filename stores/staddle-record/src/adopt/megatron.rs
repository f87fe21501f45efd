//! Megatron's indexed data set: a `.bin` of token sequences back to back, and an `.idx` that says where each begins.
//!
//! | Offset in `.idx` | Type | Field |
//! |---|---|---|
//! | 0 | 9 B | magic `MMIDIDX\0\0` |
//! | 9 | u64 | version, 1 |
//! | 17 | u8 | element type: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16 |
//! | 18 | u64 | S, sequences |
//! | 26 | u64 | D, document boundaries |
//! | 34 | S x i32 | lengths, in elements |
//! | | S x i64 | pointers into the `.bin`, in bytes |
//! | | D x i64 | document boundaries: the sequence that each document begins with, then S |
//! | | S x i8 | modes, if the data set is multimodal |

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use staddle_base::{Error, Result};

use super::{Adopter, Item, Scanned, Window, compressed, compression};
use crate::options::Dtype;

/// First bytes of an `.idx`.
pub const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";
/// Bytes before the lengths.
pub const HEADER_BYTES: u64 = 34;

/// Sequences whose fields are read at a time.
const BLOCK: u64 = 4096;

/// The parser of an `.idx` whose `.bin` has `bin_bytes`.
#[derive(Clone, Copy, Debug)]
pub struct Megatron {
    /// Size of the `.bin`.
    pub bin_bytes: u64,
}

/// What an `.idx` says before its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of each element.
    pub dtype: Dtype,
    /// How many sequences there are.
    pub sequences: u64,
    /// How many document boundaries there are.
    pub documents: u64,
    /// Where the pointers begin.
    pub pointers_at: u64,
    /// Where the document boundaries begin.
    pub documents_at: u64,
    /// Where the modes begin, if there are any.
    pub modes_at: Option<u64>,
}

impl Header {
    /// Reads and checks the header against the size of the `.idx`.
    ///
    /// # Errors
    /// `Corrupt` when the magic or a count cannot be right, `Unsupported` for another version, an unknown element type
    /// or a compressed file.
    pub fn read(file: &mut Window<'_>) -> Result<Self> {
        let head = file.up_to(0, MAGIC.len())?;
        if head != MAGIC {
            if let Some(codec) = compression(head) {
                return Err(compressed("Megatron .idx", codec));
            }
            let message = "the magic bytes of a Megatron .idx are wrong";
            return Err(if head.starts_with(b"TNTIDX") {
                Error::unsupported("this is the older, unmapped index of fairseq and Megatron")
                    .hint("rebuild the data set with Megatron's preprocess_data.py")
            } else {
                Error::corrupt(message).with("offset", 0)
            });
        }
        let version = u64::from_le_bytes(file.array(9)?);
        if version != 1 {
            return Err(Error::unsupported(format!(
                "the Megatron .idx has version {version}; only version 1 is known"
            )));
        }
        let [code] = file.array(17)?;
        let dtype = dtype(code)?;
        let sequences = u64::from_le_bytes(file.array(18)?);
        let documents = u64::from_le_bytes(file.array(26)?);
        let size = file.size();
        let tables = || {
            let pointers_at = sequences.checked_mul(4)?.checked_add(HEADER_BYTES)?;
            let documents_at = sequences.checked_mul(8)?.checked_add(pointers_at)?;
            let end = documents.checked_mul(8)?.checked_add(documents_at)?;
            let modes_at = match size.checked_sub(end)? {
                0 => None,
                rest if rest == sequences => Some(end),
                _ => return None,
            };
            Some((pointers_at, documents_at, modes_at))
        };
        let (pointers_at, documents_at, modes_at) = tables().ok_or_else(|| {
            Error::corrupt(format!(
                "a Megatron .idx of {sequences} sequences and {documents} document boundaries does not have {size} bytes"
            ))
            .with("offset", 18)
        })?;
        Ok(Self {
            dtype,
            sequences,
            documents,
            pointers_at,
            documents_at,
            modes_at,
        })
    }
}

fn dtype(code: u8) -> Result<Dtype> {
    Ok(match code {
        1 => Dtype::U8,
        2 => Dtype::I8,
        3 => Dtype::I16,
        4 => Dtype::I32,
        5 => Dtype::I64,
        6 => Dtype::F64,
        7 => Dtype::F32,
        8 => Dtype::U16,
        _ => {
            return Err(Error::unsupported(format!(
                "element type {code} of a Megatron .idx is not known"
            ))
            .with("offset", 17));
        }
    })
}

impl Adopter for Megatron {
    fn kind(&self) -> &'static str {
        "megatron"
    }

    fn scan(
        &self,
        file: &mut Window<'_>,
        found: &mut dyn FnMut(Item<'_>) -> Result<()>,
    ) -> Result<Scanned> {
        let header = Header::read(file)?;
        check_documents(file, &header)?;
        let width = header.dtype.bytes() as u64;
        let mut first = 0;
        while first < header.sequences {
            let count = header.sequences.saturating_sub(first).min(BLOCK);
            let lengths: Vec<i32> = table(file, HEADER_BYTES, first, count, i32::from_le_bytes)?;
            let pointers: Vec<i64> =
                table(file, header.pointers_at, first, count, i64::from_le_bytes)?;
            for ((length, pointer), index) in lengths.into_iter().zip(pointers).zip(first..) {
                let (offset, len) = self.place(length, pointer, width).ok_or_else(|| {
                    Error::corrupt(format!(
                        "sequence {index} has {length} elements of {width} bytes at {pointer}: outside the .bin of {} bytes",
                        self.bin_bytes
                    ))
                    .with("index", index)
                    .hint("the .idx and the .bin do not belong together, or one is damaged")
                })?;
                found(Item {
                    name: b"",
                    offset,
                    len,
                })?;
            }
            first = first.saturating_add(count);
        }
        Ok(Scanned {
            items: header.sequences,
            ..Scanned::default()
        })
    }
}

impl Megatron {
    fn place(&self, length: i32, pointer: i64, width: u64) -> Option<(u64, u64)> {
        let len = u64::try_from(length).ok()?.checked_mul(width)?;
        let offset = u64::try_from(pointer).ok()?;
        (offset.checked_add(len)? <= self.bin_bytes).then_some((offset, len))
    }
}

/// Document boundaries must not fall, and must not point beyond the sequences.
fn check_documents(file: &mut Window<'_>, header: &Header) -> Result<()> {
    let mut last = 0;
    let mut first = 0;
    while first < header.documents {
        let count = header.documents.saturating_sub(first).min(BLOCK);
        let block: Vec<i64> = table(file, header.documents_at, first, count, i64::from_le_bytes)?;
        for (boundary, number) in block.into_iter().zip(first..) {
            last = u64::try_from(boundary)
                .ok()
                .filter(|at| *at >= last && *at <= header.sequences)
                .ok_or_else(|| {
                    Error::corrupt(format!(
                        "document boundary {number} is {boundary}, after {last} and with {} sequences",
                        header.sequences
                    ))
                })?;
        }
        first = first.saturating_add(count);
    }
    Ok(())
}

/// `count` little-endian numbers of a table, from its item `first` on.
fn table<T, const N: usize>(
    file: &mut Window<'_>,
    at: u64,
    first: u64,
    count: u64,
    decode: fn([u8; N]) -> T,
) -> Result<Vec<T>> {
    let width = N as u64;
    let offset = first.saturating_mul(width).saturating_add(at);
    let len = usize::try_from(count.saturating_mul(width)).unwrap_or(usize::MAX);
    let (items, _) = file.get(offset, len)?.as_chunks::<N>();
    Ok(items.iter().map(|item| decode(*item)).collect())
}
