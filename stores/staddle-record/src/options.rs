//! What a user may choose, checked once, before any file is made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use staddle_base::{Error, Result, size, suggest};

use crate::codec::Codec;
use crate::format::chunk::ChunkHeader;

/// The element type of a set whose records are arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are the types")]
pub enum Dtype {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Dtype {
    /// Every dtype with its name.
    pub const ALL: [(&'static str, Self); 13] = [
        ("bool", Self::Bool),
        ("u8", Self::U8),
        ("u16", Self::U16),
        ("u32", Self::U32),
        ("u64", Self::U64),
        ("i8", Self::I8),
        ("i16", Self::I16),
        ("i32", Self::I32),
        ("i64", Self::I64),
        ("f16", Self::F16),
        ("bf16", Self::Bf16),
        ("f32", Self::F32),
        ("f64", Self::F64),
    ];

    /// The name in options and manifests.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, d)| *d == self)
            .map_or("", |(name, _)| name)
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// From a name; NumPy's names (`float32`, `uint8`, …) are accepted too.
    ///
    /// # Errors
    /// `Invalid` with the nearest known name.
    pub fn parse(name: &str) -> Result<Self> {
        let short = match name {
            "float16" => "f16",
            "bfloat16" => "bf16",
            "float32" | "float" => "f32",
            "float64" | "double" => "f64",
            "uint8" => "u8",
            "uint16" => "u16",
            "uint32" => "u32",
            "uint64" => "u64",
            "int8" => "i8",
            "int16" => "i16",
            "int32" => "i32",
            "int64" => "i64",
            other => other,
        };
        Self::ALL
            .iter()
            .find(|(known, _)| *known == short)
            .map(|(_, dtype)| *dtype)
            .ok_or_else(|| {
                let known: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
                Error::invalid(format!("unknown dtype `{name}`")).hint(suggest::hint(name, &known))
            })
    }
}

/// What codec new records get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodecChoice {
    /// Stored as they are: zero-copy reads.
    #[default]
    None,
    /// RFC 1951.
    #[serde(alias = "flate")]
    Deflate,
    /// LZ4 blocks.
    Lz4,
    /// Zstandard.
    Zstd,
    /// Decided on the first records: zstd with a dictionary where that helps, none where nothing helps.
    Auto,
}

impl CodecChoice {
    /// From a name.
    ///
    /// # Errors
    /// `Invalid` with the nearest known name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "none" => Ok(Self::None),
            "deflate" | "flate" => Ok(Self::Deflate),
            "lz4" => Ok(Self::Lz4),
            "zstd" => Ok(Self::Zstd),
            "auto" => Ok(Self::Auto),
            _ => Err(
                Error::invalid(format!("unknown codec `{name}`")).hint(suggest::hint(
                    name,
                    &["none", "deflate", "lz4", "zstd", "auto"],
                )),
            ),
        }
    }

    /// The codec to write with, where it is decided.
    pub fn codec(self) -> Option<Codec> {
        match self {
            Self::None => Some(Codec::None),
            Self::Deflate => Some(Codec::Deflate),
            Self::Lz4 => Some(Codec::Lz4),
            Self::Zstd => Some(Codec::Zstd),
            Self::Auto => None,
        }
    }
}

/// When an append is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When `flush` or `close` has returned.
    #[default]
    Flush,
    /// When each call has returned.
    Call,
    /// Never promised; `flush` publishes without syncing. For scratch sets.
    None,
}

impl Durability {
    /// From a name.
    ///
    /// # Errors
    /// `Invalid` with the nearest known name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "flush" => Ok(Self::Flush),
            "call" => Ok(Self::Call),
            "none" => Ok(Self::None),
            _ => Err(Error::invalid(format!("unknown durability `{name}`"))
                .hint(suggest::hint(name, &["flush", "call", "none"]))),
        }
    }
}

/// Whether reads check what they hand out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// When this process first hands out a record; one bit a record remembers.
    #[default]
    First,
    /// Every time.
    Always,
    /// Never.
    Never,
}

impl Verify {
    /// From a name.
    ///
    /// # Errors
    /// `Invalid` with the nearest known name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "first" => Ok(Self::First),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => Err(Error::invalid(format!("unknown verify `{name}`"))
                .hint(suggest::hint(name, &["first", "always", "never"]))),
        }
    }
}

/// How payload bytes are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// Mapped on local file systems, read elsewhere.
    #[default]
    Auto,
    /// Mapped.
    Map,
    /// Read into pooled buffers: no map, so a file cut short by others is an error and not a signal.
    Read,
}

impl Io {
    /// From a name.
    ///
    /// # Errors
    /// `Invalid` with the nearest known name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            "map" | "mmap" => Ok(Self::Map),
            "read" => Ok(Self::Read),
            _ => Err(Error::invalid(format!("unknown io `{name}`"))
                .hint(suggest::hint(name, &["auto", "map", "read"]))),
        }
    }
}

/// How a set is made. Stored in its manifest, and in force for every later writer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Codec of new records.
    pub codec: CodecChoice,
    /// Compression level: deflate 1-9, zstd 1-19.
    pub level: i32,
    /// Train a zstd dictionary on the first 16 MiB and use it where it helps.
    pub dictionary: bool,
    /// Element type, for typed views; records are then arrays of it.
    pub dtype: Option<Dtype>,
    /// Shape of each record, for typed views; needs `dtype`.
    pub shape: Option<Vec<u64>>,
    /// A chunk is sealed when it would grow beyond this.
    pub chunk_bytes: u64,
    /// A chunk is sealed when it holds this many records, if set.
    pub chunk_records: Option<u64>,
    /// Payload addresses are multiples of this: 8, 64 or 4096.
    pub align: u32,
    /// Chunks written side by side, 1 to 16.
    pub writers: usize,
    /// I/O depth of cold reads.
    pub readers: usize,
    /// Background tasks for reclaiming.
    pub cleaners: usize,
    /// When an append is durable.
    pub durability: Durability,
    /// Free text of the user, kept in the manifest.
    pub user: BTreeMap<String, String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            codec: CodecChoice::None,
            level: 3,
            dictionary: false,
            dtype: None,
            shape: None,
            chunk_bytes: 1 << 30,
            chunk_records: None,
            align: 8,
            writers: 1,
            readers: 32,
            cleaners: 2,
            durability: Durability::Flush,
            user: BTreeMap::new(),
        }
    }
}

impl Options {
    /// Smallest and largest chunk.
    pub const CHUNK_BYTES: std::ops::RangeInclusive<u64> = (1 << 16)..=(8 << 30);

    /// Checks every field.
    ///
    /// # Errors
    /// `Invalid` with the accepted values.
    pub fn check(&self) -> Result<()> {
        let bad = |what: String, hint: &'static str| Err(Error::invalid(what).hint(hint));
        if !Self::CHUNK_BYTES.contains(&self.chunk_bytes) {
            return bad(
                format!(
                    "chunk_bytes of {} is out of range",
                    size::human(self.chunk_bytes)
                ),
                "use 64KiB to 8GiB; 1GiB is a good default",
            );
        }
        if self.chunk_records == Some(0) {
            return bad(
                "chunk_records of 0 leaves no room for a record".into(),
                "use at least 1, or leave it out",
            );
        }
        if ![8, 64, 4096].contains(&self.align) {
            return bad(
                format!("align of {} is not supported", self.align),
                "use 8, 64 or 4096",
            );
        }
        if !(1..=16).contains(&self.writers) {
            return bad(
                format!("writers of {} is out of range", self.writers),
                "use 1 to 16; 1 to 4 is recommended",
            );
        }
        if !(1..=1024).contains(&self.readers) || !(1..=64).contains(&self.cleaners) {
            return bad(
                "readers or cleaners is out of range".into(),
                "use 1 to 1024 readers and 1 to 64 cleaners",
            );
        }
        if !(1..=19).contains(&self.level) {
            return bad(
                format!("level of {} is out of range", self.level),
                "use 1 to 9 for deflate, 1 to 19 for zstd",
            );
        }
        if self.dictionary && !matches!(self.codec, CodecChoice::Zstd | CodecChoice::Auto) {
            return bad(
                "only zstd takes a dictionary".into(),
                "use codec=\"zstd\", or leave dictionary out",
            );
        }
        if self.shape.is_some() && self.dtype.is_none() {
            return bad(
                "shape needs a dtype".into(),
                "add for example dtype=\"f32\"",
            );
        }
        self.record_bytes().map(|_| ())
    }

    /// The exact size of each record where a shape fixes it, else `None`.
    ///
    /// # Errors
    /// `Invalid` when the product is not below 4 GiB.
    pub fn record_bytes(&self) -> Result<Option<u64>> {
        let (Some(dtype), Some(shape)) = (self.dtype, &self.shape) else {
            return Ok(None);
        };
        shape
            .iter()
            .try_fold(dtype.bytes() as u64, |product, side| {
                product.checked_mul(*side)
            })
            .filter(|bytes| *bytes <= crate::format::RECORD_BYTES_MAX)
            .map(Some)
            .ok_or_else(|| Error::invalid(format!("a record of shape {shape:?} has 4 GiB or more")))
    }

    /// Whether `len` bytes can be a record of this set.
    ///
    /// # Errors
    /// `Invalid` with what the set expects.
    #[inline]
    pub fn check_record(&self, len: usize) -> Result<()> {
        if len as u64 > crate::format::RECORD_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a record of {len} bytes does not fit: records are below 4 GiB"
            ))
            .hint("split it, or store it as a file of its own"));
        }
        if self.dtype.is_none() {
            Ok(())
        } else {
            self.check_typed(len)
        }
    }

    fn check_typed(&self, len: usize) -> Result<()> {
        let Some(dtype) = self.dtype else {
            return Ok(());
        };
        if let Some(bytes) = self.record_bytes()?
            && bytes != len as u64
        {
            return Err(Error::invalid(format!(
                "a record of {len} bytes does not fit: this set holds arrays of {} with shape {:?}, {bytes} bytes each",
                dtype.name(),
                self.shape.as_deref().unwrap_or_default()
            )));
        }
        if !len.is_multiple_of(dtype.bytes()) {
            return Err(Error::invalid(format!(
                "a record of {len} bytes does not fit: this set holds arrays of {}, {} bytes an element",
                dtype.name(),
                dtype.bytes()
            )));
        }
        Ok(())
    }

    /// The largest payload a chunk of the target size holds beside its header and footer.
    pub fn chunk_room(&self) -> u64 {
        self.chunk_bytes
            .saturating_sub(2 * ChunkHeader::BYTES as u64)
    }
}

/// How a set is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Refuse changes.
    pub read_only: bool,
    /// Open this generation, if its files are still there.
    pub generation: Option<u64>,
    /// Open this named snapshot.
    pub snapshot: Option<String>,
    /// Look for a newer generation before every call.
    pub follow: bool,
    /// How payloads are reached.
    pub io: Io,
    /// Whether reads check.
    pub verify: Verify,
    /// Follow external chunks anywhere, not only beside the set.
    pub external_anywhere: bool,
    /// Largest decompressed record that is accepted; protects against compression bombs.
    pub record_bytes_max: Option<u64>,
}
