//! What a set says about itself: [`Info`] at a glance, [`Stats`] chunk by chunk.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use staddle_base::Result;
use staddle_runtime::io::device::{Device, LockKind, Open};

use crate::format::{Entry, Frame, SEGMENT_SLOTS, names, uuid_text};
use crate::maintain::compact::usage;
use crate::manifest::External;
use crate::options::{CodecChoice, Dtype, Durability, Io};
use crate::reader::Generation;
use crate::records::Records;

/// Records whose frames are looked at for the compression ratio.
const SAMPLES: u64 = 4096;

/// A set at a glance. Reads no record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Where it is.
    pub uri: String,
    /// Which set it is.
    pub uuid: String,
    /// Format version of the manifest in force.
    pub format: u32,
    /// The commit in view.
    pub generation: u64,
    /// When it was made, nanoseconds since 1970.
    pub committed_ns: u64,
    /// Records, holes included.
    pub records: u64,
    /// Records that are not holes.
    pub live: u64,
    /// Bytes of all chunks, adopted files included.
    pub total_bytes: u64,
    /// Payload bytes of live records, as stored.
    pub live_bytes: u64,
    /// The second over the first.
    pub utilization: f64,
    /// Number of chunks.
    pub chunks: usize,
    /// Codec of new records: as chosen, with `auto` replaced by what it decided on.
    pub codec: CodecChoice,
    /// Its level.
    pub level: i32,
    /// Number of dictionaries.
    pub dictionaries: usize,
    /// Element type, where records are arrays.
    pub dtype: Option<Dtype>,
    /// Their shape, where it is fixed.
    pub shape: Option<Vec<u64>>,
    /// A chunk is sealed when it would grow beyond this.
    pub chunk_bytes: u64,
    /// Payload addresses are multiples of this.
    pub align: u32,
    /// When an append is durable.
    pub durability: Durability,
    /// `mapped` or `read`: how payloads are reached.
    pub io: &'static str,
    /// Why.
    pub io_why: &'static str,
    /// What reads files that are not mapped.
    pub engine: String,
    /// Why.
    pub engine_why: String,
    /// Named snapshots.
    pub snapshots: Vec<String>,
    /// Who has the set open for writing: pid and host.
    pub writer: Option<String>,
    /// What the user wrote into the manifest.
    pub user: BTreeMap<String, String>,
}

/// A set in detail. The table is scanned, and a sample of frames is read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stats {
    /// The commit in view.
    pub generation: u64,
    /// Records, holes included.
    pub records: u64,
    /// Records that are not holes.
    pub live: u64,
    /// Bytes of all chunks, adopted files included.
    pub total_bytes: u64,
    /// Payload bytes of live records, as stored.
    pub live_bytes: u64,
    /// The second over the first.
    pub utilization: f64,
    /// Segments of the offset table.
    pub segments: usize,
    /// Bytes of the table's entries.
    pub table_bytes: u64,
    /// Redirects since the last checkpoint, held in memory by every reader.
    pub overlay: usize,
    /// Bytes of their log.
    pub log_bytes: u64,
    /// Dictionaries.
    pub dictionaries: Vec<DictionaryStats>,
    /// How much smaller records are as stored; `None` where nothing is compressed or asking would be slow.
    pub compression: Option<Compression>,
    /// Every chunk.
    pub chunks: Vec<ChunkStats>,
}

/// One chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChunkStats {
    /// Its id.
    pub id: u32,
    /// `open`, `sealed` or `external`.
    pub state: &'static str,
    /// Its bytes, header included.
    pub bytes: u64,
    /// Frames in it, markers and replaced records included; `None` before it is flushed the first time.
    pub frames: Option<u64>,
    /// Records that the table points to.
    pub live_records: u64,
    /// Their payload bytes, as stored.
    pub live_bytes: u64,
    /// Live bytes over bytes.
    pub utilization: f64,
    /// The foreign file that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
}

/// One dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DictionaryStats {
    /// Its slot.
    pub slot: u8,
    /// Its size.
    pub bytes: u64,
    /// Whether new records use it.
    pub in_use: bool,
}

/// Records before and after compression.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compression {
    /// Records looked at, spread evenly over the set.
    pub records: u64,
    /// Whether these are all.
    pub exact: bool,
    /// Their bytes before compression.
    pub raw_bytes: u64,
    /// Their bytes as stored.
    pub stored_bytes: u64,
    /// The first over the second.
    pub ratio: f64,
}

/// Part over whole; nothing is all of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        1.0
    } else {
        part as f64 / whole as f64
    }
}

impl Records {
    /// The set at a glance.
    ///
    /// # Errors
    /// `Closed`, `Corrupt` for a damaged snapshot, and those of the device.
    pub fn info(&self) -> Result<Info> {
        let view = self.current()?;
        let (head, manifest) = (&view.head, &view.manifest);
        let options = manifest.options.clone();
        let (io, io_why) = self.access(&view);
        let engine = self.runtime().io().engine_report();
        let decided = manifest.codec_decided.as_deref().map(CodecChoice::parse);
        Ok(Info {
            uri: self.uri().to_owned(),
            uuid: uuid_text(&head.uuid),
            format: manifest.version,
            generation: head.generation,
            committed_ns: head.time_ns,
            records: head.n,
            live: head.live,
            total_bytes: head.total_bytes,
            live_bytes: head.live_bytes,
            utilization: share(head.live_bytes, head.total_bytes),
            chunks: view.chunks.list().len(),
            codec: decided.transpose()?.unwrap_or(options.codec),
            level: options.level,
            dictionaries: manifest.dictionaries.len(),
            dtype: options.dtype,
            shape: options.shape,
            chunk_bytes: options.chunk_bytes,
            align: options.align,
            durability: options.durability,
            io,
            io_why,
            engine: engine.name.to_string(),
            engine_why: engine.why.to_string(),
            snapshots: self
                .snapshots()?
                .into_iter()
                .map(|kept| kept.name)
                .collect(),
            writer: writer_of(self.device().as_ref())?,
            user: options.user,
        })
    }

    /// How payloads are reached, and why.
    fn access(&self, view: &Generation) -> (&'static str, &'static str) {
        if !view.origin.map {
            let why = if self.how().io == Io::Read {
                "asked for with io=\"read\""
            } else {
                "files here cannot be mapped"
            };
            return ("read", why);
        }
        let why = if !view.table.is_mapped() && !view.table.segments().is_empty() {
            "payloads are; the table is read, because address space is limited"
        } else if view.origin.is_out_of_maps() {
            "the first chunks are; the others are read, because the system limits maps"
        } else if self.how().io == Io::Map {
            "asked for with io=\"map\""
        } else {
            "files are local"
        };
        ("mapped", why)
    }

    /// The set in detail.
    ///
    /// # Errors
    /// `Closed`, `Corrupt` for a damaged table, and those of the device.
    pub fn stats(&self) -> Result<Stats> {
        let view = self.current()?;
        let (head, manifest) = (&view.head, &view.manifest);
        let frames: BTreeMap<u32, (&'static str, u64)> = manifest
            .sealed
            .iter()
            .map(|chunk| (chunk.id, ("sealed", chunk.records)))
            .chain(
                head.open
                    .iter()
                    .map(|chunk| (chunk.id, ("open", chunk.records))),
            )
            .collect();
        let chunks: Vec<ChunkStats> = usage(&view)?
            .into_iter()
            .map(|used| {
                let known = frames.get(&used.id);
                let external = view
                    .chunks
                    .get(used.id)
                    .and_then(|chunk| chunk.foreign().cloned());
                ChunkStats {
                    id: used.id,
                    state: match &external {
                        Some(_) => "external",
                        None => known.map_or("open", |(state, _)| *state),
                    },
                    bytes: used.bytes,
                    frames: known.map(|(_, frames)| *frames),
                    live_records: used.live_records,
                    live_bytes: used.live_bytes,
                    utilization: share(used.live_bytes, used.bytes),
                    external,
                }
            })
            .collect();
        let live_bytes = chunks.iter().map(|chunk| chunk.live_bytes).sum();
        let total_bytes = chunks.iter().map(|chunk| chunk.bytes).sum();
        Ok(Stats {
            generation: head.generation,
            records: head.n,
            live: chunks.iter().map(|chunk| chunk.live_records).sum(),
            total_bytes,
            live_bytes,
            utilization: share(live_bytes, total_bytes),
            segments: head.n.div_ceil(SEGMENT_SLOTS) as usize,
            table_bytes: head.base_len * Entry::BYTES as u64,
            overlay: view.overlay.rows().len(),
            log_bytes: head.log_end,
            dictionaries: manifest
                .dictionaries
                .iter()
                .map(|known| DictionaryStats {
                    slot: known.slot,
                    bytes: known.bytes,
                    in_use: known.slot == manifest.dictionary_in_use,
                })
                .collect(),
            compression: self.compression(&view)?,
            chunks,
        })
    }

    /// Compares lengths in the frames of up to [`SAMPLES`] records.
    fn compression(&self, view: &Arc<Generation>) -> Result<Option<Compression>> {
        let plain = view.manifest.options.codec == CodecChoice::None;
        if plain || view.head.live == 0 || self.device().capabilities().remote {
            return Ok(None);
        }
        let step = view.head.n.div_ceil(SAMPLES).max(1);
        let mut sum = Compression {
            records: 0,
            exact: step == 1,
            raw_bytes: 0,
            stored_bytes: 0,
            ratio: 1.0,
        };
        let mut index = 0;
        while index < view.head.n {
            let (entry, _) = view.entry(index)?;
            if entry.is_present() {
                sum.records += 1;
                sum.raw_bytes += raw_length(view, index, entry)?;
                sum.stored_bytes += u64::from(entry.physical_length());
            }
            index += step;
        }
        sum.ratio = share(sum.raw_bytes, sum.stored_bytes);
        Ok((sum.records > 0).then_some(sum))
    }
}

/// The length of a record before compression, from its frame.
fn raw_length(view: &Generation, index: u64, entry: Entry) -> Result<u64> {
    if entry.is_raw() {
        return Ok(u64::from(entry.physical_length()));
    }
    let fail = |e| view.locate(e, index, entry);
    let corrupt = |why| fail(staddle_base::Error::corrupt(why));
    let chunk = view
        .chunks
        .get(entry.chunk())
        .ok_or_else(|| corrupt("the offset entry names a chunk that the set does not have"))?;
    let at = entry
        .offset()
        .checked_sub(Frame::BYTES as u64)
        .ok_or_else(|| corrupt("the offset entry points into the chunk's header"))?;
    let mut header = [0; Frame::BYTES];
    match chunk.mapped(at, Frame::BYTES) {
        Some(bytes) => header.copy_from_slice(bytes),
        None => chunk.file()?.read_exact_at(&mut header, at).map_err(fail)?,
    }
    let (frame, _) = Frame::decode(&header).map_err(fail)?;
    Ok(u64::from(frame.raw_length))
}

/// Who holds the writer lock, in this process or another.
fn writer_of(device: &dyn Device) -> Result<Option<String>> {
    if !device.capabilities().lock {
        return Ok(None);
    }
    // A descriptor of its own: the kernel does not report a lock to the open file that holds it.
    let Ok(file) = device.open(names::LOCK, Open::Read) else {
        return Ok(None);
    };
    if !file.is_locked(0, 1, LockKind::Shared)? {
        return Ok(None);
    }
    let mut holder = [0; 128];
    let len = file.read_at(&mut holder, 0)?;
    let text = String::from_utf8_lossy(&holder[..len]).trim().to_owned();
    Ok(Some(text))
}
