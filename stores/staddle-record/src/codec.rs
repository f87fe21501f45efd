//! How payloads are compressed: none, deflate, lz4, zstd with or without a dictionary trained on the set.
//!
//! Each record is compressed alone, so that any one of them can be read alone. A record that would save less than a
//! sixteenth is kept raw. Decompression never allocates: the caller brings a buffer of exactly `raw_length` bytes, which
//! was checked against a limit first, so a compression bomb is an error and not a full memory.

use std::io::Write as _;
use std::sync::Arc;

use staddle_base::{Error, Result};

/// A compression method. The number is what stands in entries and frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// As it is.
    #[default]
    None,
    /// RFC 1951, without a wrapper.
    Deflate,
    /// One LZ4 block, without a frame.
    Lz4,
    /// RFC 8878, without checksum and content size; with the dictionary of the entry's slot, if any.
    Zstd,
}

impl Codec {
    /// The number on disk.
    pub fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Deflate => 1,
            Self::Lz4 => 2,
            Self::Zstd => 3,
        }
    }

    /// From the number on disk.
    ///
    /// # Errors
    /// `Unsupported` for a number of a later version.
    #[inline]
    pub fn from_id(id: u8) -> Result<Self> {
        match id {
            0 => Ok(Self::None),
            1 => Ok(Self::Deflate),
            2 => Ok(Self::Lz4),
            3 => Ok(Self::Zstd),
            _ => Err(
                Error::unsupported(format!("codec {id} is unknown to this version"))
                    .hint("upgrade staddle"),
            ),
        }
    }

    /// The name in options and `meta.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Deflate => "deflate",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// A zstd dictionary of a set.
pub struct Dictionary {
    slot: u8,
    bytes: Vec<u8>,
}

impl Dictionary {
    /// The dictionary `bytes` of `slot`.
    pub fn new(slot: u8, bytes: Vec<u8>) -> Self {
        Self { slot, bytes }
    }

    /// Its slot, 1 to 255.
    pub fn slot(&self) -> u8 {
        self.slot
    }

    /// The dictionary as trained.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Trains a dictionary of at most `size` bytes on `samples`.
    ///
    /// # Errors
    /// `Invalid` when there are too few samples to learn from.
    pub fn train(samples: &[&[u8]], size: usize) -> Result<Vec<u8>> {
        let sizes: Vec<usize> = samples.iter().map(|s| s.len()).collect();
        zstd::dict::from_continuous(&samples.concat(), &sizes, size).map_err(|e| {
            Error::invalid(format!("no dictionary could be trained: {e}"))
                .with("samples", samples.len())
        })
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Dictionary(slot {}, {} bytes)",
            self.slot,
            self.bytes.len()
        )
    }
}

/// Compresses records; one per worker, since contexts are reused.
pub struct Encoder {
    codec: Codec,
    level: i32,
    dictionary: u8,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    out: Vec<u8>,
}

impl Encoder {
    /// An encoder for `codec` at `level` (deflate 1-9, zstd 1-19), with a dictionary for zstd.
    ///
    /// # Errors
    /// `Exhausted` when the library cannot allocate its context.
    pub fn new(codec: Codec, level: i32, dictionary: Option<&Arc<Dictionary>>) -> Result<Self> {
        let zstd = match codec {
            Codec::Zstd => {
                let bytes: &[u8] = dictionary.map_or(&[], |d| d.bytes());
                let mut compressor = zstd::bulk::Compressor::with_dictionary(level, bytes)
                    .map_err(library("zstd"))?;
                compressor
                    .include_contentsize(false)
                    .map_err(library("zstd"))?;
                compressor
                    .include_checksum(false)
                    .map_err(library("zstd"))?;
                compressor.include_dictid(false).map_err(library("zstd"))?;
                Some(compressor)
            }
            _ => None,
        };
        let dictionary = if codec == Codec::Zstd {
            dictionary.map_or(0, |d| d.slot())
        } else {
            0
        };
        Ok(Self {
            codec,
            level,
            dictionary,
            zstd,
            out: Vec::new(),
        })
    }

    /// The payload to store for `record`, and with what codec and dictionary slot: the compressed bytes, or the record
    /// itself where compression would save less than a sixteenth.
    ///
    /// # Errors
    /// `Internal` when the library fails.
    pub fn encode<'a>(&'a mut self, record: &'a [u8]) -> Result<(&'a [u8], Codec, u8)> {
        let worth = record.len() - record.len() / 16;
        self.out.clear();
        match (self.codec, &mut self.zstd) {
            (Codec::None, _) => return Ok((record, Codec::None, 0)),
            (Codec::Deflate, _) => {
                let level =
                    flate2::Compression::new(u32::try_from(self.level.clamp(1, 9)).unwrap_or(6));
                let mut writer = flate2::write::DeflateEncoder::new(&mut self.out, level);
                writer
                    .write_all(record)
                    .and_then(|()| writer.try_finish())
                    .map_err(library("deflate"))?;
            }
            (Codec::Lz4, _) => {
                self.out
                    .resize(lz4_flex::block::get_maximum_output_size(record.len()), 0);
                let len = lz4_flex::block::compress_into(record, &mut self.out)
                    .map_err(library("lz4"))?;
                self.out.truncate(len);
            }
            (Codec::Zstd, Some(compressor)) => {
                self.out
                    .reserve(zstd::zstd_safe::compress_bound(record.len()));
                compressor
                    .compress_to_buffer(record, &mut self.out)
                    .map_err(library("zstd"))?;
            }
            (Codec::Zstd, None) => return Err(Error::internal("a zstd encoder has no context")),
        }
        if self.out.len() < worth {
            Ok((&self.out, self.codec, self.dictionary))
        } else {
            Ok((record, Codec::None, 0))
        }
    }
}

/// Decompresses records; one per worker, since contexts are reused and a dictionary is digested once for each.
#[derive(Default)]
pub struct Decoder {
    plain: Option<zstd::bulk::Decompressor<'static>>,
    primed: Vec<(Arc<Dictionary>, zstd::bulk::Decompressor<'static>)>,
}

/// Contexts with a dictionary that one decoder keeps; a set rarely uses more than two at a time.
const PRIMED_MAX: usize = 4;

impl Decoder {
    /// Decompresses `payload` into `out`, which must have exactly the record's raw length.
    ///
    /// # Errors
    /// `Corrupt` when the payload does not decompress to exactly `out.len()` bytes.
    pub fn decode(
        &mut self,
        codec: Codec,
        payload: &[u8],
        dictionary: Option<&Arc<Dictionary>>,
        out: &mut [u8],
    ) -> Result<()> {
        let want = out.len();
        let got = match codec {
            Codec::None if payload.len() == want => {
                out.copy_from_slice(payload);
                want
            }
            Codec::None => payload.len(),
            Codec::Deflate => inflate(payload, out)?,
            Codec::Lz4 => {
                lz4_flex::block::decompress_into(payload, out).map_err(undecodable("lz4"))?
            }
            Codec::Zstd => self
                .zstd(dictionary)?
                .decompress_to_buffer(payload, out)
                .map_err(undecodable("zstd"))?,
        };
        if got == want {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "a {} payload holds {got} bytes, its header says {want}",
            codec.name()
        )))
    }

    fn zstd(
        &mut self,
        dictionary: Option<&Arc<Dictionary>>,
    ) -> Result<&mut zstd::bulk::Decompressor<'static>> {
        let Some(dictionary) = dictionary else {
            return match &mut self.plain {
                Some(plain) => Ok(plain),
                empty => {
                    Ok(empty.insert(zstd::bulk::Decompressor::new().map_err(library("zstd"))?))
                }
            };
        };
        let at = match self
            .primed
            .iter()
            .position(|(known, _)| Arc::ptr_eq(known, dictionary))
        {
            Some(at) => at,
            None => {
                let primed = zstd::bulk::Decompressor::with_dictionary(dictionary.bytes())
                    .map_err(library("zstd"))?;
                if self.primed.len() == PRIMED_MAX {
                    self.primed.remove(0);
                }
                self.primed.push((Arc::clone(dictionary), primed));
                self.primed.len() - 1
            }
        };
        Ok(&mut self.primed[at].1)
    }
}

fn inflate(payload: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut state = flate2::Decompress::new(false);
    let status = state
        .decompress(payload, out, flate2::FlushDecompress::Finish)
        .map_err(undecodable("deflate"))?;
    match status {
        flate2::Status::StreamEnd => Ok(usize::try_from(state.total_out()).unwrap_or(usize::MAX)),
        _ => Err(Error::corrupt(
            "a deflate payload does not end where its header says",
        )),
    }
}

fn library<E: std::fmt::Display>(name: &'static str) -> impl Fn(E) -> Error {
    move |e| Error::internal(format!("the {name} library failed: {e}"))
}

fn undecodable<E: std::fmt::Display>(name: &'static str) -> impl Fn(E) -> Error {
    move |e| Error::corrupt(format!("a {name} payload does not decompress: {e}"))
}

#[cfg(test)]
mod tests;
