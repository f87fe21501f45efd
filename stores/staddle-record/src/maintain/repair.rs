//! Repair: rebuilding the index from chunks alone.
//!
//! Every chunk says which set it belongs to, and every frame which operation it was: a put at an index, a swap-delete or
//! a tombstone. Replayed in order of sequence they give the table. Records that were written and never flushed may
//! appear. A surviving manifest lends options, dictionaries and the places of adopted files; without one, options are
//! the defaults and adopted records are lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use staddle_base::checksum::xxh3;
use staddle_base::{Error, ErrorKind, Result};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, Open, publish_file, read_file};

use super::scan::Scan;
use crate::format::chunk::fold;
use crate::format::{
    ChunkFooter, Entry, Head, Op, RECORDS_MAX, SEGMENT_SLOTS, Uuid, head, names, uuid_text,
};
use crate::manifest::{BYTES_MAX, DictionaryInfo, Manifest, SealedChunk, SegmentInfo};
use crate::options::Options;
use crate::reader::table::page_sums;
use crate::writer::{create_file, lock};

/// Slots beyond 64 for each frame that a rebuilt table may have: a forged index must not fill the memory.
const SLACK: u64 = 1 << 24;

/// What a repair found and made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RepairReport {
    /// Chunks read.
    pub chunks: usize,
    /// Frames replayed.
    pub frames: u64,
    /// Records in the rebuilt set, holes included.
    pub records: u64,
    /// Live ones.
    pub live: u64,
    /// What could not be used, and why.
    pub warnings: Vec<String>,
}

/// One frame to replay.
struct Event {
    sequence: u64,
    op: Op,
    index: u64,
    /// Where the payload lies.
    entry: Entry,
    /// The payload of a marker: the old last index of a swap-delete; length and first sequence of a rebase.
    words: [u64; 2],
}

struct Harvest {
    uuid: Option<Uuid>,
    events: Vec<Event>,
    sealed: Vec<SealedChunk>,
    generation: u64,
    report: RepairReport,
}

/// Rebuilds HEAD, manifest and table of the set in the device's root.
///
/// # Errors
/// `Conflict` when a writer has the set, `NotFound` when there are no chunks, `Corrupt` when chunks of two sets are mixed.
pub fn repair(runtime: &Runtime, device: Arc<dyn Device>) -> Result<RepairReport> {
    let listed = |dir: &str| match device.list(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    };
    let files = listed("chunk")?;
    let old = newest_manifest(device.as_ref(), &listed("manifest")?);
    if files.is_empty() && old.is_none() {
        return Err(
            Error::not_found("there are no chunks here to rebuild a set from")
                .with("uri", device.uri()),
        );
    }
    let _lock = lock(&device)?;
    let mut harvest = Harvest {
        uuid: None,
        events: Vec::new(),
        sealed: Vec::new(),
        generation: old.as_ref().map_or(0, |manifest| manifest.generation),
        report: RepairReport::default(),
    };
    for file in &files {
        if let Some(id) = file.strip_suffix(".zr").and_then(|id| id.parse().ok()) {
            harvest.chunk(&device, id)?;
        }
    }
    if let Ok(bytes) = read_file(device.as_ref(), names::HEAD, head::FILE_BYTES) {
        let slots = bytes
            .chunks(head::SLOT_BYTES)
            .filter_map(|slot| Head::decode(slot).ok());
        harvest.generation = slots
            .map(|head| head.generation)
            .fold(harvest.generation, u64::max);
    }
    let uuid = match (&harvest.uuid, &old) {
        (Some(uuid), _) => *uuid,
        (None, Some(old)) => parse_uuid(&old.uuid)?,
        (None, None) => {
            return Err(Error::not_found("no chunk here is readable").with("uri", device.uri()));
        }
    };
    let old = old.filter(|manifest| manifest.uuid == uuid_text(&uuid));
    // A compacted frame may be there twice, in the old chunk and in the new one, and a swap must not be done twice.
    harvest
        .events
        .sort_by_key(|event| (event.sequence, std::cmp::Reverse(event.entry.chunk())));
    harvest.events.dedup_by_key(|event| event.sequence);
    let foreign = old
        .iter()
        .flat_map(|old| &old.sealed)
        .filter(|chunk| chunk.external.is_some());
    let limit = foreign
        .map(|chunk| chunk.records)
        .fold(SLACK, u64::saturating_add);
    let mut table = replay(&harvest.events, limit)?;
    if let Some(old) = &old {
        adopted(device.as_ref(), old, &mut table, &mut harvest);
    }
    rebuild(runtime, &device, uuid, old, table, harvest)
}

fn parse_uuid(text: &str) -> Result<Uuid> {
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let digits = |pair: &[u8; 2]| {
        std::str::from_utf8(pair)
            .ok()
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    let bytes: Option<Vec<u8>> = pairs.iter().map(digits).collect();
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| Error::corrupt("the manifest's uuid is not one"))
}

/// The manifest with the highest number that can be read.
fn newest_manifest(device: &dyn Device, files: &[String]) -> Option<Manifest> {
    let mut numbers: Vec<u64> = files
        .iter()
        .filter_map(|file| file.strip_suffix(".json")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers.into_iter().rev().find_map(|number| {
        let bytes = read_file(device, &names::manifest(number), BYTES_MAX).ok()?;
        Manifest::decode(&bytes).ok()
    })
}

impl Harvest {
    fn warn(&mut self, id: u32, error: &Error) {
        self.report.warnings.push(format!("chunk {id}: {error}"));
    }

    /// Reads all frames of a chunk up to the first that is damaged.
    fn chunk(&mut self, device: &Arc<dyn Device>, id: u32) -> Result<()> {
        let file = device.open(&names::chunk(id), Open::Read)?;
        let size = file.len()?;
        let mut bytes = [0; ChunkFooter::BYTES];
        let footer_at = size.saturating_sub(ChunkFooter::BYTES as u64);
        let footer = file
            .read_exact_at(&mut bytes, footer_at)
            .and_then(|()| ChunkFooter::decode(&bytes))
            .ok()
            .filter(|footer| footer.bytes == footer_at);
        let end = footer.map_or(size, |footer| footer.bytes);
        let mut scan = match Scan::new(file, end) {
            Ok(scan) => scan,
            Err(e) => {
                self.warn(id, &e);
                return Ok(());
            }
        };
        let header = scan.header().clone();
        if header.id != id || *self.uuid.get_or_insert(header.uuid) != header.uuid {
            return Err(
                Error::corrupt("the chunks in this folder belong to more than one set")
                    .with("uri", device.uri())
                    .with("chunk", id)
                    .hint("move the foreign ones away and repair again"),
            );
        }
        self.generation = self.generation.max(header.generation);
        let (mut records, mut digest) = (0, 0);
        loop {
            match scan.next_frame() {
                Ok(Some(found)) => {
                    let frame = found.frame;
                    let (words, _) = found.payload.as_chunks::<8>();
                    let word =
                        |at: usize| words.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
                    digest = fold(digest, found.crc);
                    records += 1;
                    self.events.push(Event {
                        sequence: header.base_sequence + u64::from(frame.sequence_delta),
                        op: frame.op,
                        index: frame.index,
                        entry: Entry::new(
                            id,
                            found.offset,
                            frame.physical_length,
                            frame.codec,
                            frame.dictionary,
                        ),
                        words: [word(0), word(1)],
                    });
                }
                Ok(None) => break,
                Err(e) => {
                    // The tail of a chunk that was being written ends in bytes that were never published.
                    let found = scan.resync()?;
                    if footer.is_some() || found {
                        self.warn(id, &e);
                    }
                    if !found {
                        break;
                    }
                }
            }
        }
        self.sealed.push(match footer {
            Some(footer) => SealedChunk {
                id,
                bytes: end,
                records: footer.frames,
                digest: footer.digest,
                external: None,
            },
            None => {
                let bytes = scan.position();
                if bytes < size {
                    device
                        .open(&names::chunk(id), Open::Write)?
                        .set_len(bytes)?;
                }
                SealedChunk {
                    id,
                    bytes,
                    records,
                    digest,
                    external: None,
                }
            }
        });
        self.report.chunks += 1;
        self.report.frames += records;
        Ok(())
    }
}

/// The table that the operations, in order, give.
fn replay(events: &[Event], slack: u64) -> Result<Vec<Entry>> {
    let limit = slack.saturating_add(64 * events.len() as u64);
    let mut table: Vec<Entry> = Vec::new();
    let mut events = events;
    if let Some(rebase) = events.iter().rev().find(|event| event.op == Op::Rebase) {
        let [length, first] = rebase.words;
        events = &events[events.partition_point(|event| event.sequence < first)..];
        if length != 0 {
            grow(&mut table, length - 1, limit)?;
        }
    }
    for event in events {
        match event.op {
            Op::Put => {
                let at = grow(&mut table, event.index, limit)?;
                table[at] = event.entry;
            }
            Op::Tombstone => {
                let at = grow(&mut table, event.index, limit)?;
                table[at] = Entry::MISSING;
            }
            Op::SwapDelete => {
                let [last, _] = event.words;
                let from = grow(&mut table, last.max(event.index), limit)?;
                table[event.index as usize] = table[from];
                table.truncate(last as usize);
            }
            Op::Rebase => {}
        }
    }
    Ok(table)
}

/// Makes the table long enough for a slot.
fn grow(table: &mut Vec<Entry>, index: u64, limit: u64) -> Result<usize> {
    let at = usize::try_from(index)
        .ok()
        .filter(|_| index < limit.min(RECORDS_MAX))
        .ok_or_else(|| {
            Error::corrupt("a frame has an index far beyond what this set can have")
                .with("index", index)
        })?;
    if at >= table.len() {
        let more = at + 1 - table.len();
        table.try_reserve(more).map_err(|_| {
            Error::exhausted("there is no memory for the rebuilt table")
                .with("index", index)
                .with("bytes", more as u64 * 16)
        })?;
        table.resize(at + 1, Entry::MISSING);
    }
    Ok(at)
}

/// Fills in records of adopted files and linked chunks from the old table, whose frames are nowhere in the set.
fn adopted(device: &dyn Device, old: &Manifest, table: &mut Vec<Entry>, harvest: &mut Harvest) {
    let foreign: BTreeMap<u32, u64> = old
        .sealed
        .iter()
        .filter(|chunk| chunk.external.is_some())
        .map(|chunk| (chunk.id, chunk.bytes))
        .collect();
    if foreign.is_empty() {
        return;
    }
    for segment in &old.segments {
        let path = names::segment(segment.no, segment.version);
        let bytes = match read_file(device, &path, crate::format::SEGMENT_BYTES as usize) {
            Ok(bytes) => bytes,
            Err(e) => {
                harvest.report.warnings.push(format!("{path}: {e}"));
                continue;
            }
        };
        for (within, bytes) in (0u64..).zip(bytes.as_chunks::<{ Entry::BYTES }>().0) {
            let entry = Entry::from_bytes(*bytes);
            let end = entry.offset() + u64::from(entry.physical_length());
            let ours = foreign.get(&entry.chunk()).is_some_and(|size| end <= *size);
            if !ours {
                continue;
            }
            let at = (segment.no * SEGMENT_SLOTS + within) as usize;
            if at >= table.len() {
                table.resize(at + 1, Entry::MISSING);
            }
            if !table[at].is_present() {
                table[at] = entry;
            }
        }
    }
    harvest.sealed.extend(
        old.sealed
            .iter()
            .filter(|chunk| chunk.external.is_some())
            .cloned(),
    );
}

/// Writes table, manifest and HEAD.
fn rebuild(
    runtime: &Runtime,
    device: &Arc<dyn Device>,
    uuid: Uuid,
    old: Option<Manifest>,
    table: Vec<Entry>,
    harvest: Harvest,
) -> Result<RepairReport> {
    for dir in names::DIRS {
        device.create_dir(dir)?;
    }
    let highest = |dir: &str| -> Result<u64> {
        let numbers = device.list(dir)?;
        Ok(numbers
            .iter()
            .filter_map(|name| name.split('.').next()?.parse().ok())
            .max()
            .unwrap_or(0))
    };
    let version = device
        .list("offset")?
        .iter()
        .filter_map(|name| name.split('.').nth(1)?.parse::<u64>().ok())
        .max()
        .unwrap_or(0)
        .max(old.as_ref().map_or(0, |old| old.next_version))
        + 1;
    let mut segments = Vec::new();
    for (no, entries) in (0u64..).zip(table.chunks(SEGMENT_SLOTS as usize)) {
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_bytes()).collect();
        let sums = page_sums(&bytes);
        let summed = entries.len() as u64;
        for (path, bytes) in [
            (names::segment(no, version), &bytes),
            (names::sums(no, version, summed), &sums),
        ] {
            let file = create_file(device, &path)?;
            file.write_at(bytes, 0)?;
            file.sync()?;
        }
        segments.push(SegmentInfo {
            no,
            version,
            summed,
            sum: xxh3(&sums),
        });
    }
    let Harvest {
        mut sealed,
        mut report,
        events,
        generation,
        ..
    } = harvest;
    sealed.sort_by_key(|chunk| chunk.id);
    let mut manifest = match old {
        Some(old) => old,
        None => {
            report
                .warnings
                .push("no manifest survived: options are the defaults".into());
            Manifest::new(&uuid, Options::default())
        }
    };
    let generation = generation + 2;
    manifest.dictionaries = dictionaries(device.as_ref())?;
    if !manifest
        .dictionaries
        .iter()
        .any(|known| known.slot == manifest.dictionary_in_use)
    {
        manifest.dictionary_in_use = 0;
    }
    manifest.number = highest("manifest")?.max(manifest.number) + 1;
    manifest.generation = generation;
    manifest.segments = segments;
    manifest.next_version = version + 1;
    manifest.next_chunk = sealed
        .last()
        .map_or(0, |chunk| chunk.id + 1)
        .max(manifest.next_chunk);
    let live = table.iter().filter(|entry| entry.is_present());
    let head = Head {
        uuid,
        generation,
        n: table.len() as u64,
        live: live.clone().count() as u64,
        base_len: table.len() as u64,
        manifest: manifest.number,
        log: highest("log")? + 1,
        log_end: 0,
        next_sequence: events.last().map_or(0, |event| event.sequence + 1),
        changed_generation: generation,
        moved_generation: generation,
        live_bytes: live.map(|entry| u64::from(entry.physical_length())).sum(),
        total_bytes: sealed.iter().map(|chunk| chunk.bytes).sum(),
        time_ns: runtime.clock().wall_ns(),
        open: Vec::new(),
    };
    manifest.sealed = sealed;
    publish_file(
        device.as_ref(),
        &names::manifest(manifest.number),
        &manifest.encode()?,
    )?;
    for dir in names::DIRS {
        device.sync_dir(dir)?;
    }
    let mut slots = vec![0; head::FILE_BYTES];
    let at = usize::try_from(head.slot_offset()).unwrap_or(0);
    slots[at..at + head::SLOT_BYTES].copy_from_slice(&head.encode());
    publish_file(device.as_ref(), names::META, &manifest.for_people(&head)?)?;
    publish_file(device.as_ref(), names::HEAD, &slots)?;
    report.records = head.n;
    report.live = head.live;
    Ok(report)
}

/// The dictionaries that lie in the folder.
fn dictionaries(device: &dyn Device) -> Result<Vec<DictionaryInfo>> {
    let mut found = Vec::new();
    for name in device.list("dict")? {
        if let Some(slot) = name
            .strip_suffix(".zdict")
            .and_then(|slot| slot.parse().ok())
            .filter(|slot| *slot != 0)
        {
            let bytes = read_file(device, &names::dictionary(slot), 64 << 20)?;
            found.push(DictionaryInfo {
                slot,
                bytes: bytes.len() as u64,
                xxh3: xxh3(&bytes),
            });
        }
    }
    found.sort_by_key(|known| known.slot);
    Ok(found)
}
