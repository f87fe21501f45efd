//! The manifest: what a generation is made of, apart from what changes with every append.
//!
//! `manifest/N.json` is immutable JSON followed by a line `crc32c:xxxxxxxx`. A commit that seals a chunk, starts a
//! segment, adds a dictionary or checkpoints writes the next number; other commits name the one in force.

use serde::{Deserialize, Serialize};
use serde_json::json;
use staddle_base::checksum::crc32c;
use staddle_base::{Error, Result};

use crate::format::{Head, Uuid, VERSION, uuid_text};
use crate::options::Options;

/// The largest manifest that is read.
pub const BYTES_MAX: usize = 256 << 20;

/// A segment of the offset table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
    /// Position in the table.
    pub no: u64,
    /// Rewrites get a new version; bytes of a version never change once published.
    pub version: u64,
    /// Slots covered by the page checksums; the ones after are checked against their frames.
    pub summed: u64,
    /// XXH3 of the `.sum` file, when `summed` is not 0.
    #[serde(with = "hex64")]
    pub sum: u64,
}

/// A foreign file that serves as a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// Path or URI; relative paths start at the folder that holds the set.
    pub uri: String,
    /// `tar`, `tfrecord`, `megatron` or `chunk` (a chunk of another set).
    pub kind: String,
    /// Its size when adopted.
    pub size: u64,
    /// Its change time when adopted, nanoseconds since 1970; 0 where unknown.
    pub mtime_ns: u64,
    /// Its entity tag when adopted, where there is one.
    pub etag: Option<String>,
    /// XXH3 of all its bytes, where the user asked for it.
    pub xxh3: Option<String>,
}

/// A chunk that will not grow any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedChunk {
    /// Its id.
    pub id: u32,
    /// Bytes before the footer; for foreign files their size.
    pub bytes: u64,
    /// Frames; for foreign files records.
    pub records: u64,
    /// Digest of the frames.
    #[serde(with = "hex64")]
    pub digest: u64,
    /// Set for foreign files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
}

/// A zstd dictionary of the set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DictionaryInfo {
    /// Its slot.
    pub slot: u8,
    /// Its size.
    pub bytes: u64,
    /// XXH3 of its bytes.
    #[serde(with = "hex64")]
    pub xxh3: u64,
}

/// Everything a generation names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `staddle-record`.
    pub format: String,
    /// Format version.
    pub version: u32,
    /// The set, 32 hex digits.
    pub uuid: String,
    /// This manifest's number.
    pub number: u64,
    /// The first generation that names it.
    pub generation: u64,
    /// How the set was made.
    pub options: Options,
    /// The offset table.
    pub segments: Vec<SegmentInfo>,
    /// Sealed and foreign chunks, by id.
    pub sealed: Vec<SealedChunk>,
    /// Dictionaries, by slot.
    pub dictionaries: Vec<DictionaryInfo>,
    /// The slot that new records use; 0 for none.
    pub dictionary_in_use: u8,
    /// The codec that `auto` settled on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec_decided: Option<String>,
    /// The next chunk id.
    pub next_chunk: u32,
    /// The next segment version.
    pub next_version: u64,
}

impl Manifest {
    /// The manifest of an empty set.
    pub fn new(uuid: &Uuid, options: Options) -> Self {
        Self {
            format: "staddle-record".into(),
            version: VERSION,
            uuid: uuid_text(uuid),
            number: 1,
            generation: 1,
            options,
            segments: Vec::new(),
            sealed: Vec::new(),
            dictionaries: Vec::new(),
            dictionary_in_use: 0,
            codec_decided: None,
            next_chunk: 0,
            next_version: 1,
        }
    }

    /// As on disk.
    ///
    /// # Errors
    /// `Internal` when it cannot be serialised.
    pub fn encode(&self) -> Result<Vec<u8>> {
        seal_json(self)
    }

    /// From disk, with every field checked that a reader relies on.
    ///
    /// # Errors
    /// `Corrupt` for a wrong checksum or a contradiction, `Unsupported` for a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let manifest: Self = open_json("manifest", bytes)?;
        if manifest.version > VERSION {
            return Err(Error::unsupported(format!(
                "the manifest was written in format {}; this version reads up to {VERSION}",
                manifest.version
            ))
            .hint("upgrade staddle"));
        }
        manifest
            .check()
            .map_err(|why| Error::corrupt(format!("manifest: {why}")))?;
        Ok(manifest)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.format != "staddle-record" {
            return Err(format!("format is `{}`", self.format.escape_debug()));
        }
        self.options.check().map_err(|e| e.to_string())?;
        let mut version_max = 0;
        for (position, segment) in (0u64..).zip(&self.segments) {
            if segment.no != position || segment.summed > crate::format::SEGMENT_SLOTS {
                return Err(format!(
                    "segment {} does not stand in its place",
                    segment.no
                ));
            }
            version_max = version_max.max(segment.version);
        }
        if version_max >= self.next_version {
            return Err("a segment's version is not below the next one".into());
        }
        if let Some(pair) = self
            .sealed
            .windows(2)
            .find(|w| matches!(w, [a, b] if a.id >= b.id))
        {
            return Err(format!(
                "chunks are not in order at {}",
                pair.first().map_or(0, |c| c.id)
            ));
        }
        if self
            .sealed
            .last()
            .is_some_and(|chunk| chunk.id >= self.next_chunk)
        {
            return Err("a chunk's id is not below the next one".into());
        }
        let mut slots = std::collections::BTreeSet::new();
        if self
            .dictionaries
            .iter()
            .any(|d| d.slot == 0 || d.bytes > 64 << 20 || !slots.insert(d.slot))
        {
            return Err("the dictionaries are impossible".into());
        }
        if self.dictionary_in_use != 0 && !slots.contains(&self.dictionary_in_use) {
            return Err("the dictionary in use does not exist".into());
        }
        Ok(())
    }

    /// `meta.json`: the same for people, with the founding document's keys. The engine never reads it.
    ///
    /// # Errors
    /// `Internal` when it cannot be serialised.
    pub fn for_people(&self, head: &Head) -> Result<Vec<u8>> {
        let unfull: Vec<_> = head
            .open
            .iter()
            .map(|c| json!({"id": c.id, "write_pos": c.end, "record_count": c.records}))
            .collect();
        let meta = json!({
            "note": "for people; the engine reads HEAD and manifest/ and never this file",
            "length": head.n,
            "chunks": {
                "num": self.sealed.len() + head.open.len(),
                "size": self.options.chunk_bytes,
                "unfull": unfull,
            },
            "dtype": self.options.dtype.map_or("bytes", crate::options::Dtype::name),
            "compress": self.options.codec,
            "generation": head.generation,
            "live": head.live,
            "manifest": self,
        });
        let mut text = serde_json::to_vec_pretty(&meta)
            .map_err(|e| Error::internal(format!("meta.json: {e}")))?;
        text.push(b'\n');
        Ok(text)
    }
}

/// JSON with a checksum line after it.
///
/// # Errors
/// `Internal` when the value cannot be serialised.
pub fn seal_json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::internal(format!("cannot write JSON: {e}")))?;
    bytes.push(b'\n');
    let line = format!("crc32c:{:08x}\n", crc32c(&bytes));
    bytes.extend_from_slice(line.as_bytes());
    Ok(bytes)
}

/// Reads what [`seal_json`] wrote.
///
/// # Errors
/// `Corrupt` when the checksum line is missing or wrong, or the JSON is not what it should be.
pub fn open_json<T: for<'a> Deserialize<'a>>(what: &'static str, bytes: &[u8]) -> Result<T> {
    const LINE: usize = "crc32c:00000000\n".len();
    let corrupt = |why: String| Error::corrupt(format!("{what}: {why}"));
    let (body, line) = bytes
        .len()
        .checked_sub(LINE)
        .and_then(|at| bytes.split_at_checked(at))
        .ok_or_else(|| corrupt("the checksum line is missing".into()))?;
    if line != format!("crc32c:{:08x}\n", crc32c(body)).as_bytes() {
        return Err(corrupt("checksum mismatch".into()));
    }
    serde_json::from_slice(body).map_err(|e| corrupt(format!("not what a {what} should be: {e}")))
}

/// 64-bit hashes as 16 hex digits: JSON numbers lose bits in other tools.
pub mod hex64 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    /// Writes 16 hex digits.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value:016x}"))
    }

    /// Reads hex digits.
    ///
    /// # Errors
    /// Those of the deserializer, or not a hexadecimal number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}
