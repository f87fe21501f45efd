//! The offset table: segments of 2^20 entries, mapped back to back, so that the entry of index i is at `base + 16 i`.
//!
//! Segments below the published length never change, so look-ups need no lock. Each segment file has page checksums
//! for the slots that a seal or checkpoint covered; the slots after those were filled by appends, and their frames carry
//! the same index, so a flipped bit in an entry is noticed either way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use staddle_base::checksum::{crc32c, xxh3};
use staddle_base::{Error, ErrorKind, Result};
use staddle_runtime::io::device::{Device, File, Open, Region, prefetch, read_file};

use crate::format::{Entry, PAGE_SLOTS, SEGMENT_BYTES, SEGMENT_SLOTS, names};
use crate::manifest::SegmentInfo;

/// Address space reserved for a table: 4.3 billion records grow in place.
const REGION_BYTES: usize = 64 << 30;

const PAGE_BYTES: usize = PAGE_SLOTS as usize * Entry::BYTES;
const PAGES: usize = (SEGMENT_SLOTS / PAGE_SLOTS) as usize;

/// Which slots and pages of a segment this process has checked already.
#[derive(Debug, Default)]
struct Checked {
    slots: OnceLock<Vec<AtomicU64>>,
    pages: OnceLock<Vec<AtomicU64>>,
}

fn bits(cell: &OnceLock<Vec<AtomicU64>>, count: usize) -> &[AtomicU64] {
    cell.get_or_init(|| {
        std::iter::repeat_with(AtomicU64::default)
            .take(count.div_ceil(64))
            .collect()
    })
}

/// One segment.
#[derive(Debug)]
pub struct Segment {
    info: SegmentInfo,
    device: Arc<dyn Device>,
    file: OnceLock<Arc<dyn File>>,
    /// The whole segment, where the medium is remote.
    loaded: OnceLock<Vec<u8>>,
    sums: OnceLock<Vec<u8>>,
    checked: Arc<Checked>,
}

impl Segment {
    /// A segment that exists on the device.
    pub fn new(device: &Arc<dyn Device>, info: SegmentInfo) -> Self {
        Self {
            info,
            device: Arc::clone(device),
            file: OnceLock::new(),
            loaded: OnceLock::new(),
            sums: OnceLock::new(),
            checked: Arc::default(),
        }
    }

    /// The same bytes under a description that covers more slots with checksums.
    #[must_use]
    pub fn summed(&self, info: SegmentInfo) -> Self {
        Self {
            checked: Arc::clone(&self.checked),
            ..Self::new(&self.device, info)
        }
    }

    /// What the manifest says of it.
    pub fn info(&self) -> &SegmentInfo {
        &self.info
    }

    fn path(&self) -> String {
        names::segment(self.info.no, self.info.version)
    }

    fn locate(&self, error: Error) -> Error {
        error
            .with("uri", self.device.uri())
            .with("segment", self.path())
    }

    fn open(&self) -> Result<Arc<dyn File>> {
        self.device
            .open(&self.path(), Open::Read)
            .map_err(|e| match e.kind() {
                ErrorKind::NotFound => self.locate(
                    Error::corrupt("a segment of the offset table is missing")
                        .hint("run `staddle repair`, which rebuilds the table from the chunks"),
                ),
                _ => self.locate(e),
            })
    }

    fn file(&self) -> Result<&Arc<dyn File>> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = self.open()?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Reads entries of this segment through the device.
    fn read(&self, first: u64, count: usize, remote: bool) -> Result<Vec<u8>> {
        let (at, len) = (first as usize * Entry::BYTES, count * Entry::BYTES);
        if remote {
            let all = match self.loaded.get() {
                Some(all) => all,
                None => {
                    let bytes =
                        read_file(self.device.as_ref(), &self.path(), SEGMENT_BYTES as usize)
                            .map_err(|e| self.locate(e))?;
                    self.loaded.get_or_init(|| bytes)
                }
            };
            return all.get(at..at + len).map(<[u8]>::to_vec).ok_or_else(|| {
                self.locate(
                    Error::corrupt("the segment is shorter than what was published")
                        .with("size", all.len()),
                )
            });
        }
        let mut bytes = vec![0; len];
        self.file()?
            .read_exact_at(&mut bytes, at as u64)
            .map_err(|e| self.locate(e))?;
        Ok(bytes)
    }

    /// The CRC32C of each covered page, as little-endian bytes.
    fn sums(&self) -> Result<&[u8]> {
        if let Some(sums) = self.sums.get() {
            return Ok(sums);
        }
        let path = names::sums(self.info.no, self.info.version, self.info.summed);
        let bytes =
            read_file(self.device.as_ref(), &path, 4 * PAGES).map_err(|e| match e.kind() {
                ErrorKind::NotFound => self.locate(Error::corrupt(
                    "the page checksums of a segment are missing",
                )),
                _ => self.locate(e),
            })?;
        let pages = self.info.summed.div_ceil(PAGE_SLOTS) as usize;
        if bytes.len() != 4 * pages || xxh3(&bytes) != self.info.sum {
            return Err(self.locate(
                Error::corrupt("the page checksums of a segment are damaged").with("path", path),
            ));
        }
        Ok(self.sums.get_or_init(|| bytes))
    }
}

/// CRC32C of each page of `entries`, as the `.sum` file holds them.
pub fn page_sums(entries: &[u8]) -> Vec<u8> {
    entries
        .chunks(PAGE_BYTES)
        .flat_map(|page| crc32c(page).to_le_bytes())
        .collect()
}

/// The table of a generation.
#[derive(Clone, Debug)]
pub struct Table {
    segments: Vec<Arc<Segment>>,
    region: Option<Arc<Region>>,
    remote: bool,
}

impl Table {
    /// Opens and, where the medium allows it, maps all segments.
    ///
    /// # Errors
    /// `Corrupt` for a missing segment, and those of the device.
    pub fn open(device: &Arc<dyn Device>, infos: &[SegmentInfo], map: bool) -> Result<Self> {
        let segments: Vec<_> = infos
            .iter()
            .map(|info| Arc::new(Segment::new(device, info.clone())))
            .collect();
        let mut table = Self {
            segments: Vec::new(),
            region: None,
            remote: device.capabilities().remote,
        };
        if map && device.capabilities().map {
            let need = segments.len() * SEGMENT_BYTES as usize;
            // Where address space is limited, entries are read through the device instead.
            table.region = Region::reserve(REGION_BYTES.max(2 * need))
                .ok()
                .map(Arc::new);
        }
        for segment in segments {
            table.push(segment)?;
        }
        Ok(table)
    }

    /// Appends a segment; those already handed out do not move.
    ///
    /// # Errors
    /// Those of opening and mapping it.
    pub fn push(&mut self, segment: Arc<Segment>) -> Result<()> {
        if let Some(region) = &self.region {
            // A generation that shares the region may have mapped this segment already.
            let need = (self.segments.len() + 1) * SEGMENT_BYTES as usize;
            if region.mapped() < need {
                match segment.open()?.map_into(region, SEGMENT_BYTES as usize) {
                    Ok(()) => {}
                    Err(e) if matches!(e.kind(), ErrorKind::Exhausted | ErrorKind::Unsupported) => {
                        self.region = None
                    }
                    Err(e) => return Err(segment.locate(e)),
                }
            }
        }
        self.segments.push(segment);
        Ok(())
    }

    /// Replaces the description of a segment whose bytes are the same.
    pub fn describe(&mut self, info: SegmentInfo) {
        if let Some(segment) = self.segments.get_mut(info.no as usize) {
            *segment = Arc::new(segment.summed(info));
        }
    }

    /// The segments.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// Whether look-ups are memory accesses.
    pub fn is_mapped(&self) -> bool {
        self.region.is_some()
    }

    /// The first `slots` entries as mapped bytes. Slots at and above the published `base_len` must not be asked for:
    /// the file may end before them.
    #[inline]
    pub fn flat(&self, slots: u64) -> Option<&[u8]> {
        self.region
            .as_ref()?
            .bytes(0, usize::try_from(slots).ok()?.checked_mul(Entry::BYTES)?)
    }

    /// The entry of a slot below the published `base_len`.
    ///
    /// # Errors
    /// Those of reading, where the table is not mapped.
    #[inline]
    pub fn entry(&self, slot: u64) -> Result<Entry> {
        if let Some(region) = &self.region
            && let Some(bytes) = region.bytes(slot as usize * Entry::BYTES, Entry::BYTES)
            && let Ok(bytes) = bytes.try_into()
        {
            return Ok(Entry::from_bytes(bytes));
        }
        self.range(slot, 1)
            .map(|entries| entries.first().copied().unwrap_or_default())
    }

    /// Hints that a slot will be read soon.
    #[inline]
    pub fn prefetch(&self, slot: u64) {
        if let Some(region) = &self.region
            && let Some(bytes) = region.bytes(slot as usize * Entry::BYTES, Entry::BYTES)
        {
            prefetch(bytes);
        }
    }

    /// Entries of `count` slots from `first`, all below the published `base_len`.
    ///
    /// # Errors
    /// `Corrupt` when a segment is missing or short, and those of the device.
    pub fn range(&self, first: u64, count: usize) -> Result<Vec<Entry>> {
        let mut out = Vec::new();
        let (mut slot, end) = (first, first + count as u64);
        while slot < end {
            let (no, within) = (slot / SEGMENT_SLOTS, slot % SEGMENT_SLOTS);
            let take = (end - slot).min(SEGMENT_SLOTS - within);
            let mapped = self.region.as_ref().and_then(|region| {
                region.bytes(slot as usize * Entry::BYTES, take as usize * Entry::BYTES)
            });
            let read;
            let bytes = match mapped {
                Some(bytes) => bytes,
                None => {
                    read = self.segment(no)?.read(within, take as usize, self.remote)?;
                    &read
                }
            };
            let (entries, _) = bytes.as_chunks::<{ Entry::BYTES }>();
            out.extend(entries.iter().map(|bytes| Entry::from_bytes(*bytes)));
            slot += take;
        }
        Ok(out)
    }

    fn segment(&self, no: u64) -> Result<&Arc<Segment>> {
        self.segments.get(no as usize).ok_or_else(|| {
            Error::corrupt("the offset table has fewer segments than the set has records")
                .with("segment", no)
        })
    }

    /// Whether the record of a slot has been checked by this process.
    #[inline]
    pub fn is_verified(&self, slot: u64) -> bool {
        let within = (slot % SEGMENT_SLOTS) as usize;
        self.segments
            .get((slot / SEGMENT_SLOTS) as usize)
            .and_then(|segment| segment.checked.slots.get())
            .and_then(|words| words.get(within / 64))
            .is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (within % 64)) != 0)
    }

    /// Remembers that the record of a slot has been checked.
    pub fn set_verified(&self, slot: u64) {
        let within = (slot % SEGMENT_SLOTS) as usize;
        if let Some(segment) = self.segments.get((slot / SEGMENT_SLOTS) as usize) {
            bits(&segment.checked.slots, SEGMENT_SLOTS as usize)[within / 64]
                .fetch_or(1 << (within % 64), Ordering::Relaxed);
        }
    }

    /// Checks the entry of a slot itself: by its page's checksum where there is one, else by its frame, which must carry
    /// the index `frame_index` of the slot that an append filled.
    ///
    /// # Errors
    /// `Corrupt` when the entry is not what was written.
    pub fn check(&self, slot: u64, frame_index: Option<u64>) -> Result<()> {
        let segment = self.segment(slot / SEGMENT_SLOTS)?;
        let within = slot % SEGMENT_SLOTS;
        if within >= segment.info.summed {
            return match frame_index {
                Some(index) if index != slot => Err(segment.locate(
                    Error::corrupt("the offset entry points to the frame of another record")
                        .with("index", slot)
                        .with("frame_index", index),
                )),
                _ => Ok(()),
            };
        }
        let page = (within / PAGE_SLOTS) as usize;
        let words = bits(&segment.checked.pages, PAGES);
        if words[page / 64].load(Ordering::Relaxed) & (1 << (page % 64)) != 0 {
            return Ok(());
        }
        self.check_page(segment, page)?;
        words[page / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
        Ok(())
    }

    fn check_page(&self, segment: &Segment, page: usize) -> Result<()> {
        let first = page as u64 * PAGE_SLOTS;
        let count = PAGE_SLOTS.min(segment.info.summed - first);
        let entries = self.range(segment.info.no * SEGMENT_SLOTS + first, count as usize)?;
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_bytes()).collect();
        let stored = segment
            .sums()?
            .as_chunks::<4>()
            .0
            .get(page)
            .map(|sum| u32::from_le_bytes(*sum));
        if stored == Some(crc32c(&bytes)) {
            return Ok(());
        }
        Err(segment.locate(
            Error::corrupt("a page of the offset table is damaged")
                .with("offset", page * PAGE_BYTES)
                .hint("run `staddle repair`, which rebuilds the table from the chunks"),
        ))
    }

    /// Checks every covered page, for `verify`.
    ///
    /// # Errors
    /// None itself; each damaged page is reported with the slots that it covers.
    pub fn damaged_pages(&self) -> Vec<(std::ops::Range<u64>, Error)> {
        let mut damaged = Vec::new();
        for segment in &self.segments {
            let pages = segment.info.summed.div_ceil(PAGE_SLOTS) as usize;
            for page in 0..pages {
                if let Err(e) = self.check_page(segment, page) {
                    let first = segment.info.no * SEGMENT_SLOTS + page as u64 * PAGE_SLOTS;
                    damaged.push((first..first + PAGE_SLOTS, e));
                }
            }
        }
        damaged
    }
}
