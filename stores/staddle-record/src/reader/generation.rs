//! One consistent view of a set: its table, redirects, chunks and dictionaries at one commit.
//!
//! Nothing in it changes, so readers share it without a lock. A writer's own view of unflushed records is a generation
//! too; it carries the number of the commit that it builds on.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use staddle_base::checksum::{crc32c_mask, xxh3};
use staddle_base::{Error, ErrorKind, Result};
use staddle_runtime::io::device::{Device, Open, read_file};

use super::chunks::{Chunk, Chunks, Origin};
use super::overlay::{Overlay, Spot};
use super::pin::Pin;
use super::table::Table;
use crate::codec::Dictionary;
use crate::format::{Entry, Frame, Head, LogHeader, Op, head, log, names};
use crate::manifest::{BYTES_MAX, DictionaryInfo, Manifest};
use crate::options::{OpenOptions, Verify};

/// Decompressed records above this are refused unless the user raises it; the format's own limit is 4 GiB.
const RAW_BYTES_MAX: u64 = crate::format::RECORD_BYTES_MAX;

/// The dictionaries that a manifest names, loaded when first needed.
#[derive(Debug)]
pub struct Dictionaries {
    device: Arc<dyn Device>,
    known: BTreeMap<u8, (DictionaryInfo, OnceLock<Arc<Dictionary>>)>,
}

impl Dictionaries {
    /// From what a manifest says, keeping what `older` has loaded.
    pub fn new(device: &Arc<dyn Device>, infos: &[DictionaryInfo], older: Option<&Self>) -> Self {
        let known = infos
            .iter()
            .map(|info| {
                let cell = OnceLock::new();
                let loaded = older
                    .and_then(|o| o.known.get(&info.slot))
                    .and_then(|(_, cell)| cell.get());
                if let Some(dictionary) = loaded {
                    let _ = cell.set(Arc::clone(dictionary));
                }
                (info.slot, (info.clone(), cell))
            })
            .collect();
        Self {
            device: Arc::clone(device),
            known,
        }
    }

    /// The dictionary of a slot; slot 0 has none.
    ///
    /// # Errors
    /// `Corrupt` when it is not named, missing or damaged.
    pub fn get(&self, slot: u8) -> Result<Option<&Arc<Dictionary>>> {
        if slot == 0 {
            return Ok(None);
        }
        let bad = |why: &'static str| {
            Error::corrupt(why)
                .with("uri", self.device.uri())
                .with("dictionary", slot)
        };
        let (info, cell) = self
            .known
            .get(&slot)
            .ok_or_else(|| bad("a record names a dictionary that the set does not have"))?;
        if let Some(dictionary) = cell.get() {
            return Ok(Some(dictionary));
        }
        let bytes = read_file(self.device.as_ref(), &names::dictionary(slot), 64 << 20).map_err(
            |e| match e.kind() {
                ErrorKind::NotFound => bad("a dictionary is missing"),
                _ => e,
            },
        )?;
        if xxh3(&bytes) != info.xxh3 {
            return Err(bad("a dictionary is damaged"));
        }
        Ok(Some(
            cell.get_or_init(|| Arc::new(Dictionary::new(slot, bytes))),
        ))
    }
}

/// Where an entry was found, for the bit that remembers a check.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// In the table.
    Table,
    /// In the overlay.
    Overlay(Spot),
}

/// One consistent view of a set. Cloning is cheap: all parts are shared.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The commit, with the counts of this view.
    pub head: Head,
    /// The manifest in force.
    pub manifest: Arc<Manifest>,
    /// Entries by slot.
    pub table: Arc<Table>,
    /// Redirects over the table.
    pub overlay: Arc<Overlay>,
    /// Chunks by id.
    pub chunks: Arc<Chunks>,
    /// Dictionaries by slot.
    pub dictionaries: Arc<Dictionaries>,
    /// Keeps the files.
    pub pin: Option<Arc<Pin>>,
    /// What all views of the set share.
    pub origin: Arc<Origin>,
    /// Whether reads check.
    pub verify: Verify,
    /// Largest decompressed record.
    pub raw_bytes_max: u64,
}

/// Reads HEAD and picks the newest good slot.
///
/// # Errors
/// `NotFound` when there is no set here, `Corrupt` when both slots are bad, `Unsupported` for a newer format.
pub fn read_head(device: &dyn Device) -> Result<Head> {
    let bytes = match read_file(device, names::HEAD, head::FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(missing(device)),
        Err(e) => return Err(e),
    };
    Head::newest(&bytes).map_err(|e| e.with("uri", device.uri()).with("path", names::HEAD))
}

fn missing(device: &dyn Device) -> Error {
    match device.stat("") {
        Ok(Some(stat)) if stat.dir => Error::not_found("this folder is not a record set: it has no HEAD")
            .with("uri", device.uri())
            .hint("create one with `staddle import files SRC DST` or sd.records.create()"),
        Ok(Some(_)) => Error::not_found("this is a file, not a record set")
            .with("uri", device.uri())
            .hint("a record set is a folder; `staddle import` makes one from files, jsonl, tar and more"),
        _ => Error::not_found("there is nothing here").with("uri", device.uri()).hint("check the path"),
    }
}

/// Reads a manifest.
///
/// # Errors
/// `Corrupt` when it is missing or damaged.
pub fn read_manifest(device: &dyn Device, number: u64) -> Result<Manifest> {
    let path = names::manifest(number);
    let bytes = read_file(device, &path, BYTES_MAX).map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::corrupt("the manifest that HEAD names is missing")
            .with("uri", device.uri())
            .with("path", &path)
            .hint("run `staddle repair` on the set"),
        _ => e,
    })?;
    Manifest::decode(&bytes).map_err(|e| e.with("uri", device.uri()).with("path", path))
}

/// Reads the published part of the log that `head` names, as redirects.
///
/// # Errors
/// `Corrupt` when it is missing, short or damaged.
pub fn read_log(device: &dyn Device, head: &Head) -> Result<BTreeMap<u64, Entry>> {
    if head.log_end <= LogHeader::BYTES as u64 {
        return Ok(BTreeMap::new());
    }
    let path = names::log(head.log);
    let locate = |e: Error| e.with("uri", device.uri()).with("path", &path);
    let file = device.open(&path, Open::Read).map_err(|e| match e.kind() {
        ErrorKind::NotFound => locate(
            Error::corrupt("the log that HEAD names is missing")
                .hint("run `staddle repair` on the set"),
        ),
        _ => e,
    })?;
    let size = file.len()?;
    if size < head.log_end {
        return Err(locate(
            Error::corrupt("the log is shorter than what was published")
                .with("size", size)
                .with("published", head.log_end),
        ));
    }
    let mut bytes = vec![
        0;
        usize::try_from(head.log_end)
            .map_err(|_| locate(Error::corrupt("the log is too long")))?
    ];
    file.read_exact_at(&mut bytes, 0).map_err(locate)?;
    let (header, records) = bytes.split_at(LogHeader::BYTES);
    let header = LogHeader::decode(header).map_err(locate)?;
    if header.uuid != head.uuid || header.number != head.log {
        return Err(locate(Error::corrupt("the log belongs to another set")));
    }
    let records = log::decode_all(records).map_err(locate)?;
    if let Some(bad) = records.iter().find(|r| r.index >= head.base_len) {
        return Err(locate(
            Error::corrupt("the log redirects a slot that does not exist").with("index", bad.index),
        ));
    }
    Ok(records
        .into_iter()
        .map(|record| (record.index, record.entry))
        .collect())
}

impl Generation {
    /// Builds the view that `head` describes. `older` lends what has not changed.
    ///
    /// # Errors
    /// `Corrupt` for missing or damaged files, and those of the device.
    pub fn load(
        origin: &Arc<Origin>,
        head: Head,
        pin: Option<Arc<Pin>>,
        how: &OpenOptions,
        older: Option<&Self>,
    ) -> Result<Self> {
        let device = &origin.device;
        let manifest = match older {
            Some(older) if older.head.manifest == head.manifest => Arc::clone(&older.manifest),
            _ => Arc::new(read_manifest(device.as_ref(), head.manifest)?),
        };
        let slots = manifest.segments.len() as u64 * crate::format::SEGMENT_SLOTS;
        if head.base_len > slots {
            return Err(
                Error::corrupt("the manifest has fewer segments than HEAD has records")
                    .with("uri", device.uri())
                    .with("records", head.base_len)
                    .with("slots", slots),
            );
        }
        let table = Self::table(origin, &manifest, older)?;
        let overlay = Overlay::default().with(read_log(device.as_ref(), &head)?);
        let chunks = Self::chunks(origin, &manifest, &head, older);
        let dictionaries = Dictionaries::new(
            device,
            &manifest.dictionaries,
            older.map(|o| o.dictionaries.as_ref()),
        );
        Ok(Self {
            head,
            manifest,
            table: Arc::new(table),
            overlay: Arc::new(overlay),
            chunks: Arc::new(chunks),
            dictionaries: Arc::new(dictionaries),
            pin,
            origin: Arc::clone(origin),
            verify: how.verify,
            raw_bytes_max: how.record_bytes_max.unwrap_or(RAW_BYTES_MAX),
        })
    }

    fn table(origin: &Origin, manifest: &Manifest, older: Option<&Self>) -> Result<Table> {
        let infos = &manifest.segments;
        if let Some(older) = older {
            let known = older.table.segments();
            let same = known.len() <= infos.len()
                && known
                    .iter()
                    .zip(infos)
                    .all(|(a, b)| a.info().no == b.no && a.info().version == b.version);
            if same {
                let mut table = Table::clone(&older.table);
                for (segment, info) in known.iter().zip(infos) {
                    if segment.info() != info {
                        table.describe(info.clone());
                    }
                }
                for info in &infos[known.len()..] {
                    table.push(Arc::new(super::table::Segment::new(
                        &origin.device,
                        info.clone(),
                    )))?;
                }
                return Ok(table);
            }
        }
        Table::open(&origin.device, infos, origin.map)
    }

    fn chunks(
        origin: &Arc<Origin>,
        manifest: &Manifest,
        head: &Head,
        older: Option<&Self>,
    ) -> Chunks {
        let known = |id: u32| older.and_then(|o| o.chunks.get(id));
        let extent = chunk_extent(manifest.options.chunk_bytes);
        let mut list = Vec::new();
        for sealed in &manifest.sealed {
            list.push(match (known(sealed.id), &sealed.external) {
                (Some(chunk), _) => {
                    chunk.publish(sealed.bytes);
                    Arc::clone(chunk)
                }
                (None, Some(external)) => {
                    Arc::new(Chunk::external(origin, sealed.id, external.clone()))
                }
                (None, None) => Arc::new(Chunk::own(origin, sealed.id, sealed.bytes, sealed.bytes)),
            });
        }
        for open in &head.open {
            list.push(match known(open.id) {
                Some(chunk) => {
                    chunk.publish(open.end);
                    Arc::clone(chunk)
                }
                None => Arc::new(Chunk::own(origin, open.id, open.end, extent)),
            });
        }
        list.sort_by_key(|chunk| chunk.id());
        Chunks::new(list)
    }

    /// Number of records, holes included.
    #[inline]
    pub fn len(&self) -> u64 {
        self.head.n
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.head.n == 0
    }

    /// The entry of an index.
    ///
    /// # Errors
    /// `OutOfRange`, and those of reading the table where it is not mapped.
    #[inline]
    pub fn entry(&self, index: u64) -> Result<(Entry, Place)> {
        if index >= self.head.n {
            return Err(self.out_of_range(index));
        }
        if let Some((entry, spot)) = self.overlay.get(index) {
            return Ok((entry, Place::Overlay(spot)));
        }
        Ok((self.table.entry(index)?, Place::Table))
    }

    /// The error for an index that does not exist.
    #[cold]
    pub fn out_of_range(&self, index: u64) -> Error {
        Error::out_of_range(i64::try_from(index).unwrap_or(i64::MAX), self.head.n)
            .with("uri", self.origin.device.uri())
    }

    /// Entries of `count` slots from `first`, redirects applied.
    ///
    /// # Errors
    /// Those of reading the table.
    pub fn entries(&self, first: u64, count: usize) -> Result<Vec<Entry>> {
        let mut entries = self.table.range(first, count)?;
        if !self.overlay.is_empty() {
            for (slot, entry) in (first..).zip(entries.iter_mut()) {
                if let Some((newer, _)) = self.overlay.get(slot) {
                    *entry = newer;
                }
            }
        }
        Ok(entries)
    }

    /// Whether the record of an index must be checked before it is handed out.
    #[inline]
    pub fn must_check(&self, index: u64, place: Place) -> bool {
        match self.verify {
            Verify::Never => false,
            Verify::Always => true,
            Verify::First => match place {
                Place::Table => !self.table.is_verified(index),
                Place::Overlay(spot) => !self.overlay.is_verified(spot),
            },
        }
    }

    /// Checks that header, payload and entry belong together and are what was written, and remembers it.
    ///
    /// `payload_crc` is the CRC32C of the payload alone. A foreign file has no header.
    ///
    /// # Errors
    /// `Corrupt` with chunk, offset and index.
    pub fn check(
        &self,
        index: u64,
        place: Place,
        entry: Entry,
        header: Option<&[u8; Frame::BYTES]>,
        payload_crc: impl FnOnce() -> u32,
    ) -> Result<()> {
        let fail = |e: Error| self.locate(e, index, entry);
        let mut frame_index = None;
        if let Some(header) = header {
            if Frame::stored_crc(header) != Frame::crc_with(header, payload_crc()) {
                return Err(fail(
                    Error::corrupt(
                        "the record's bytes are not what was written: checksum mismatch",
                    )
                    .hint("other records are readable; `staddle verify` lists all damaged ones"),
                ));
            }
            let (frame, _) = Frame::decode(header).map_err(fail)?;
            let same = frame.op == Op::Put
                && frame.physical_length == entry.physical_length()
                && frame.codec == entry.codec().map_err(fail)?
                && frame.dictionary == entry.dictionary();
            if !same {
                return Err(fail(Error::corrupt(
                    "the offset entry does not match the frame that it points to",
                )));
            }
            // A frame of another set carries the index that it had there.
            let chunk = self.chunks.get(entry.chunk());
            if chunk.is_none_or(|chunk| chunk.foreign().is_none()) {
                frame_index = Some(frame.index);
            }
        } else if let Some(chunk) = self.chunks.get(entry.chunk())
            && let Some(stored) = chunk.foreign_crc(entry).map_err(fail)?
            && stored != crc32c_mask(payload_crc())
        {
            return Err(fail(Error::corrupt(
                "the record's bytes are not what the adopted file's own checksum says",
            )));
        }
        match place {
            Place::Table => {
                self.table.check(index, frame_index).map_err(fail)?;
                self.table.set_verified(index);
            }
            // The log record that made this redirect carried a checksum of its own.
            Place::Overlay(spot) => self.overlay.set_verified(spot),
        }
        Ok(())
    }

    /// Adds where a record lies to an error.
    #[cold]
    pub fn locate(&self, error: Error, index: u64, entry: Entry) -> Error {
        error
            .with("uri", self.origin.device.uri())
            .with("chunk", entry.chunk())
            .with("offset", entry.offset())
            .with("index", index)
    }
}

/// Address space for a chunk that may grow to `chunk_bytes`, with room for its footer.
pub fn chunk_extent(chunk_bytes: u64) -> u64 {
    chunk_bytes.saturating_add(4096)
}
