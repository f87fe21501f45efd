//! The chunks of a generation: found by id, opened and mapped on first use.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use staddle_base::{Error, ErrorKind, Result};
use staddle_runtime::io::device::{Device, File, Map, Open};

use crate::format::{ChunkHeader, Entry, Uuid, names};
use crate::manifest::External;

/// Maps of one set stay below this share of the kernel's limit on maps (65,530 by default).
const MAPS_MAX: usize = 16_000;

/// What all chunks of a set share.
#[derive(Debug)]
pub struct Origin {
    /// The set's folder.
    pub device: Arc<dyn Device>,
    /// The set.
    pub uuid: Uuid,
    /// Whether payloads are mapped.
    pub map: bool,
    /// Whether the set was opened with leave to follow external chunks anywhere.
    pub external_anywhere: bool,
    /// Finds the device and name of an external chunk.
    pub runtime: staddle_runtime::Runtime,
    /// Maps in use.
    pub maps: AtomicUsize,
    /// Batches that are still assumed to be in memory, see [`super::cold`].
    pub trust: AtomicU32,
}

impl Origin {
    /// Whether further chunks are read instead of mapped.
    pub fn is_out_of_maps(&self) -> bool {
        self.maps.load(Ordering::Relaxed) >= MAPS_MAX
    }
}

/// One chunk. Shared by all generations that name it: only its published end moves, and only up.
#[derive(Debug)]
pub struct Chunk {
    id: u32,
    origin: Arc<Origin>,
    external: Option<External>,
    end: AtomicU64,
    readable: AtomicU64,
    /// How much address space a map of it takes: no published end goes beyond.
    extent: u64,
    map: OnceLock<Option<Map>>,
    file: OnceLock<Arc<dyn File>>,
}

impl Chunk {
    /// A chunk of the set itself that holds published bytes up to `end` and never grows beyond `extent`.
    pub fn own(origin: &Arc<Origin>, id: u32, end: u64, extent: u64) -> Self {
        Self::build(origin, id, None, end, extent)
    }

    /// A foreign file.
    pub fn external(origin: &Arc<Origin>, id: u32, external: External) -> Self {
        let size = external.size;
        Self::build(origin, id, Some(external), size, size)
    }

    fn build(
        origin: &Arc<Origin>,
        id: u32,
        external: Option<External>,
        end: u64,
        extent: u64,
    ) -> Self {
        Self {
            id,
            origin: Arc::clone(origin),
            external,
            end: AtomicU64::new(end),
            readable: AtomicU64::new(end),
            extent: extent.max(end),
            map: OnceLock::new(),
            file: OnceLock::new(),
        }
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What it is, when it is a foreign file.
    pub fn foreign(&self) -> Option<&External> {
        self.external.as_ref()
    }

    /// Bytes before this are published: they never change and are never cut off, so views of them may be handed out.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Bytes before this may be read. Those after [`Chunk::end`] were written and not flushed: this process reads copies
    /// of them, because the next writer cuts them off if this one stops.
    pub fn readable(&self) -> u64 {
        self.readable.load(Ordering::Acquire)
    }

    /// Raises the published end.
    pub fn publish(&self, end: u64) {
        self.expose(end);
        self.end.fetch_max(end, Ordering::AcqRel);
    }

    /// Raises the readable end.
    pub fn expose(&self, end: u64) {
        self.readable.fetch_max(end, Ordering::AcqRel);
    }

    /// Mapped bytes, if they are published and the chunk is mapped already. The hot path of every read.
    #[inline]
    pub fn mapped(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let map = self.map.get()?.as_ref()?;
        if offset.checked_add(len as u64)? > self.end() {
            return None;
        }
        map.bytes(offset, len)
    }

    /// Whether published bytes are in memory, as far as the map can tell; `None` when it is not mapped yet.
    pub fn is_resident(&self, offset: u64, len: usize) -> Option<bool> {
        self.map.get()?.as_ref()?.is_resident(offset, len)
    }

    /// Asks the kernel to read published bytes ahead.
    pub fn will_need(&self, offset: u64, len: usize) {
        if let Some(Some(map)) = self.map.get() {
            map.advise_willneed(offset, len);
        }
    }

    /// Maps the chunk if it is to be mapped; true when it is.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn ensure_mapped(&self) -> Result<bool> {
        if let Some(map) = self.map.get() {
            return Ok(map.is_some());
        }
        // Two threads may both map it, and one map is dropped: a lock here could be held by a thread that a fork leaves
        // behind.
        let map = if self.origin.map {
            self.try_map()?
        } else {
            None
        };
        Ok(self.map.get_or_init(|| map).is_some())
    }

    fn try_map(&self) -> Result<Option<Map>> {
        if self.origin.maps.fetch_add(1, Ordering::Relaxed) >= MAPS_MAX {
            self.origin.maps.fetch_sub(1, Ordering::Relaxed);
            return Ok(None);
        }
        let file = self.open()?;
        let extent = usize::try_from(self.extent)
            .map_err(|_| Error::unsupported("the chunk does not fit the address space"))?;
        match file.map(extent) {
            Ok(map) => Ok(Some(map)),
            // Out of maps or address space: read instead.
            Err(e) if matches!(e.kind(), ErrorKind::Exhausted | ErrorKind::Unsupported) => {
                self.origin.maps.fetch_sub(1, Ordering::Relaxed);
                Ok(None)
            }
            Err(e) => Err(self.locate(e)),
        }
    }

    /// The open file, for reads that do not go through a map.
    ///
    /// # Errors
    /// `Corrupt` when the chunk is missing, short or another set's; `Denied` for an external chunk elsewhere.
    pub fn file(&self) -> Result<&Arc<dyn File>> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = self.open()?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Opens and checks the file.
    fn open(&self) -> Result<Arc<dyn File>> {
        match &self.external {
            Some(external) => self.open_external(external),
            None => self.open_own(),
        }
    }

    fn open_own(&self) -> Result<Arc<dyn File>> {
        let file = self
            .origin
            .device
            .open(&names::chunk(self.id), Open::Read)
            .map_err(|e| match e.kind() {
                ErrorKind::NotFound => self.locate(
                    Error::corrupt("a chunk that the set names is missing")
                        .hint("restore it, or run `staddle verify` to list what it held"),
                ),
                _ => self.locate(e),
            })?;
        let size = file.len().map_err(|e| self.locate(e))?;
        if size < self.end() {
            return Err(self.locate(
                Error::corrupt("the chunk is shorter than what was published")
                    .with("size", size)
                    .with("published", self.end()),
            ));
        }
        let mut bytes = [0; ChunkHeader::BYTES];
        file.read_exact_at(&mut bytes, 0)
            .map_err(|e| self.locate(e))?;
        let header = ChunkHeader::decode(&bytes).map_err(|e| self.locate(e))?;
        if header.uuid != self.origin.uuid || header.id != self.id {
            return Err(self.locate(
                Error::corrupt("the file is a chunk of another set").with("found_id", header.id),
            ));
        }
        Ok(file)
    }

    fn open_external(&self, external: &External) -> Result<Arc<dyn File>> {
        let (device, name) =
            crate::adopt::locate::resolve(&self.origin, external).map_err(|e| self.locate(e))?;
        let changed = |what: &str, then: String, now: String| {
            self.locate(
                Error::corrupt(format!(
                    "the adopted file `{}` has changed since it was adopted",
                    external.uri
                ))
                .with("what", what)
                .with("then", then)
                .with("now", now)
                .hint("restore the file, or adopt it again"),
            )
        };
        let stat = device
            .stat(&name)
            .map_err(|e| self.locate(e))?
            .ok_or_else(|| {
                self.locate(Error::corrupt(format!(
                    "the adopted file `{}` is gone",
                    external.uri
                )))
            })?;
        if stat.len != external.size {
            return Err(changed(
                "size",
                external.size.to_string(),
                stat.len.to_string(),
            ));
        }
        if let (Some(then), Some(now)) = (&external.etag, &stat.etag)
            && then != now
        {
            return Err(changed("etag", then.clone(), now.clone()));
        }
        if external.mtime_ns != 0 && stat.mtime_ns != 0 && external.mtime_ns != stat.mtime_ns {
            return Err(changed(
                "mtime",
                external.mtime_ns.to_string(),
                stat.mtime_ns.to_string(),
            ));
        }
        device.open(&name, Open::Read).map_err(|e| self.locate(e))
    }

    /// The masked CRC32C that a foreign file carries after a record, where its format has one.
    ///
    /// # Errors
    /// Those of opening and reading it.
    pub fn foreign_crc(&self, entry: Entry) -> Result<Option<u32>> {
        if self.external.as_ref().is_none_or(|e| e.kind != "tfrecord") {
            return Ok(None);
        }
        let at = entry.offset() + u64::from(entry.physical_length());
        if let Some(crc) = self.mapped(at, 4).and_then(|bytes| bytes.first_chunk()) {
            return Ok(Some(u32::from_le_bytes(*crc)));
        }
        let mut crc = [0; 4];
        self.file()?.read_exact_at(&mut crc, at)?;
        Ok(Some(u32::from_le_bytes(crc)))
    }

    /// Adds which chunk of which set to an error.
    pub fn locate(&self, error: Error) -> Error {
        error
            .with("uri", self.origin.device.uri())
            .with("chunk", self.id)
    }
}

/// All chunks of a generation.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    list: Vec<Arc<Chunk>>,
    /// Position by id; sparse ids (after many compactions) fall back to a search.
    dense: Vec<u32>,
}

impl Chunks {
    const NONE: u32 = u32::MAX;

    /// From a list in order of id.
    pub fn new(list: Vec<Arc<Chunk>>) -> Self {
        let top = list.last().map_or(0, |chunk| chunk.id() as usize + 1);
        let mut dense = Vec::new();
        if top <= 16 * list.len() + 4096 {
            dense.resize(top, Self::NONE);
            for (position, chunk) in (0u32..).zip(&list) {
                dense[chunk.id() as usize] = position;
            }
        }
        Self { list, dense }
    }

    /// Where a chunk stands in the list.
    #[inline]
    pub fn position(&self, id: u32) -> Option<u32> {
        if self.dense.is_empty() {
            let found = self
                .list
                .binary_search_by_key(&id, |chunk| chunk.id())
                .ok()?;
            return u32::try_from(found).ok();
        }
        self.dense
            .get(id as usize)
            .copied()
            .filter(|position| *position != Self::NONE)
    }

    /// The chunk at a position.
    #[inline]
    pub fn at(&self, position: u32) -> Option<&Arc<Chunk>> {
        self.list.get(position as usize)
    }

    /// The chunk with this id.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&Arc<Chunk>> {
        self.at(self.position(id)?)
    }

    /// All chunks in order of id.
    pub fn list(&self) -> &[Arc<Chunk>] {
        &self.list
    }
}
