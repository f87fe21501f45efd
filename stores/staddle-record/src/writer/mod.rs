//! Writing: one writer per set, one order of operations.
//!
//! Every mutation puts a frame into a lane, then changes the *working state*: the tail of the table for appends, the
//! overlay and the log for everything below `base_len`. [`commit`] makes the working state durable and publishes it;
//! [`Writer::expose`] only lets this process read it. A mutation that fails leaves the working state as it was.

pub mod commit;
pub mod create;
pub mod edit;
pub mod encode;
pub mod foreign;
pub mod lane;
pub mod train;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use staddle_base::{Error, ErrorKind, Result};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, File, LockKind, Open};
use staddle_runtime::process::OwnerProcess;

use self::encode::{Recipe, Workbench};
use self::lane::{ChunkIds, Lane};
use self::train::Staging;
use crate::codec::Codec;
use crate::format::{Entry, Head, LogHeader, SEGMENT_SLOTS, names};
use crate::maintain::reclaim;
use crate::manifest::Manifest;
use crate::options::OpenOptions;
use crate::reader::chunks::{Chunk, Chunks, Origin};
use crate::reader::generation::{Dictionaries, Generation, read_head};
use crate::reader::overlay::Overlay;
use crate::reader::pin::PinBoard;
use crate::reader::table::Table;

/// Entries gathered before they are written to the tail segment.
const TAIL_BYTES: usize = 1 << 20;

/// The log being written.
#[derive(Debug)]
struct Log {
    number: u64,
    /// Bytes in the file.
    end: u64,
    file: Option<Arc<dyn File>>,
    pending: Vec<u8>,
}

/// The one writer of a set.
pub struct Writer {
    pub(crate) runtime: Runtime,
    pub(crate) origin: Arc<Origin>,
    pins: PinBoard,
    /// Holds the writer lock while it is open.
    _lock: Arc<dyn File>,
    owner: OwnerProcess,
    /// The last state on disk.
    pub(crate) published: Head,
    /// The working state: counts as of the last operation.
    pub(crate) head: Head,
    pub(crate) manifest: Manifest,
    pub(crate) manifest_changed: bool,
    changed: bool,
    moved: bool,
    /// The last view handed out; redirects since then are in `top`.
    pub(crate) base: Arc<Generation>,
    top: BTreeMap<u64, Entry>,
    pub(crate) table: Table,
    /// Bytes of the entries from `tail_start` on, not in a segment file yet.
    tail: Vec<u8>,
    tail_start: u64,
    tail_file: Option<(u64, Arc<dyn File>)>,
    log: Log,
    lanes: Vec<Lane>,
    next_lane: usize,
    ids: Arc<ChunkIds>,
    /// Files and folders to sync before the next HEAD, besides those of the lanes.
    pub(crate) unsynced: Vec<Arc<dyn File>>,
    pub(crate) folders: BTreeSet<&'static str>,
    workbench: Workbench,
    staging: Option<Staging>,
    failed: Option<Error>,
    /// A commit has left files that nothing may name.
    pub(crate) surplus: bool,
}

/// Tries to take a set's writer lock.
///
/// # Errors
/// `Conflict` with the pid and host of the writer that has it.
pub(crate) fn lock(device: &Arc<dyn Device>) -> Result<Arc<dyn File>> {
    let file = match device.open(names::LOCK, Open::Write) {
        Err(e) if e.kind() == ErrorKind::NotFound => device.open(names::LOCK, Open::Create)?,
        other => other?,
    };
    if device.capabilities().lock && !file.try_lock(0, 1, LockKind::Exclusive)? {
        let mut holder = [0; 128];
        let len = file.read_at(&mut holder, 0).unwrap_or(0);
        let holder = String::from_utf8_lossy(&holder[..len]);
        return Err(Error::conflict(format!(
            "another writer has this set open: {}",
            holder.trim()
        ))
        .with("uri", device.uri())
        .hint("close it there, or open read-only with mode=\"r\""));
    }
    let line = format!(
        "{:<127}\n",
        format!(
            "pid {} on {}",
            std::process::id(),
            staddle_runtime::process::host_name()
        )
    );
    file.write_at(line.as_bytes(), 0)?;
    Ok(file)
}

/// Makes a file under a number that no commit names. A stopped writer may have left one there.
///
/// # Errors
/// Those of the device.
pub(crate) fn create_file(device: &Arc<dyn Device>, path: &str) -> Result<Arc<dyn File>> {
    device.remove(path)?;
    device.open(path, Open::Create)
}

/// Makes folders that are missing: a copy made through an archive or an object store may have lost the empty ones.
fn restore_folders(device: &dyn Device) -> Result<()> {
    let mut made = false;
    for dir in names::DIRS {
        if device.stat(dir)?.is_none() {
            device.create_dir(dir)?;
            made = true;
        }
    }
    if made {
        device.sync_dir("")?;
    }
    Ok(())
}

impl Writer {
    /// Takes the writer lock, cleans up what a stopped writer left, and goes on from the newest commit.
    ///
    /// # Errors
    /// `Conflict` when another writer has the set, `Unsupported` on a read-only medium, `Corrupt` for damaged files.
    pub fn open(
        runtime: &Runtime,
        origin: &Arc<Origin>,
        pins: &PinBoard,
        how: &OpenOptions,
    ) -> Result<Self> {
        let device = &origin.device;
        if !device.capabilities().write {
            return Err(Error::unsupported("this set cannot be changed where it is")
                .with("uri", device.uri())
                .hint("copy it to a local folder first, change it there, and export it again"));
        }
        let lock = lock(device)?;
        let head = read_head(device.as_ref())?;
        let pin = pins.pin(head.generation)?;
        let base = Arc::new(Generation::load(origin, head.clone(), pin, how, None)?);
        let manifest = Manifest::clone(&base.manifest);
        let ids = Arc::new(ChunkIds(AtomicU32::new(manifest.next_chunk)));
        let table = Table::clone(&base.table);
        let recipe = Self::recipe(&manifest, &base)?;
        let staging = Staging::wanted(&manifest, &head);
        let mut writer = Self {
            runtime: runtime.clone(),
            origin: Arc::clone(origin),
            pins: pins.clone(),
            _lock: lock,
            owner: OwnerProcess::here(),
            published: head.clone(),
            log: Log {
                number: head.log,
                end: head.log_end,
                file: None,
                pending: Vec::new(),
            },
            tail_start: head.base_len,
            head,
            manifest,
            manifest_changed: false,
            changed: false,
            moved: false,
            base,
            top: BTreeMap::new(),
            table,
            tail: Vec::new(),
            tail_file: None,
            lanes: Vec::new(),
            next_lane: 0,
            ids,
            unsynced: Vec::new(),
            folders: BTreeSet::new(),
            workbench: Workbench::new(recipe)?,
            staging,
            failed: None,
            surplus: true,
        };
        writer.recover()?;
        Ok(writer)
    }

    fn recipe(manifest: &Manifest, base: &Generation) -> Result<Recipe> {
        let decided = match manifest.codec_decided.as_deref() {
            Some("zstd") => Some(Codec::Zstd),
            Some(_) => Some(Codec::None),
            None => manifest.options.codec.codec(),
        };
        Ok(Recipe {
            codec: decided.unwrap_or(Codec::None),
            level: manifest.options.level,
            dictionary: base.dictionaries.get(manifest.dictionary_in_use)?.cloned(),
        })
    }

    /// Cuts off what a stopped writer left after published ends, removes files that nothing names, opens the lanes.
    fn recover(&mut self) -> Result<()> {
        let device = Arc::clone(&self.origin.device);
        restore_folders(device.as_ref())?;
        self.reclaim()?;
        if self.head.log_end > 0 {
            let file = device.open(&names::log(self.head.log), Open::Write)?;
            if file.len()? > self.head.log_end {
                file.set_len(self.head.log_end)?;
            }
            self.log.file = Some(file);
        }
        for open in self.head.open.clone() {
            let shared = self.base.chunks.get(open.id).cloned();
            let shared =
                shared.ok_or_else(|| Error::internal("an open chunk is not in its generation"))?;
            self.lanes
                .push(Lane::resume(&self.origin, &self.ids, &open, &shared)?);
        }
        while self.lanes.len() < self.manifest.options.writers {
            self.lanes.push(Lane::new(&self.origin, &self.ids));
        }
        Ok(())
    }

    /// Removes files that neither a commit, a snapshot, a pin nor the working state names. A chunk, segment or log begun
    /// since the last commit is named by nothing on disk yet. The caller has let go of its own older view: its pin would
    /// keep what that names.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn reclaim(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.surplus) {
            return Ok(());
        }
        let mut head = self.head.clone();
        head.manifest = self.manifest.number;
        head.log = self.log.number;
        head.open = self.lanes.iter().filter_map(Lane::open_chunk).collect();
        let mut manifest = self.manifest.clone();
        let sealed = self.lanes.iter().flat_map(|lane| &lane.sealed);
        manifest.sealed.extend(sealed.cloned());
        let mut kept = BTreeSet::new();
        reclaim::named_by(&head, &manifest, &mut kept);
        let cleaners = self.manifest.options.cleaners;
        reclaim::run(&self.runtime, &self.origin, cleaners, &kept)
    }

    /// The file of a segment that exists.
    fn segment_file(&mut self, no: u64) -> Result<Arc<dyn File>> {
        if let Some((known, file)) = &self.tail_file
            && *known == no
        {
            return Ok(Arc::clone(file));
        }
        let info = usize::try_from(no)
            .ok()
            .and_then(|no| self.manifest.segments.get(no));
        let info = info.ok_or_else(|| Error::internal("a segment is not in the manifest"))?;
        let file = self
            .origin
            .device
            .open(&names::segment(info.no, info.version), Open::Write)?;
        self.tail_file = Some((no, Arc::clone(&file)));
        Ok(file)
    }

    /// Whether this handle may still write.
    ///
    /// # Errors
    /// `Closed` in a forked child; the stored error after a device failed.
    pub fn check(&self) -> Result<()> {
        self.owner.check()?;
        match &self.failed {
            Some(e) => Err(e.duplicate()),
            None => Ok(()),
        }
    }

    /// Remembers an error that ends this writer, unless it is one that writing can go on after.
    fn note(&mut self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Exhausted
            | ErrorKind::Invalid
            | ErrorKind::OutOfRange
            | ErrorKind::Cancelled => error,
            _ => self.fail(error),
        }
    }

    /// Ends this writer: after a device failed once, nothing it says about later writes can be trusted.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        let error = error.kinded(ErrorKind::Unavailable).hint(
            "reads go on; close the set and open it again, which goes back to the last flushed state",
        );
        let kept = error
            .duplicate()
            .context("writing has stopped after an earlier failure");
        self.failed.get_or_insert(kept);
        error
    }

    /// Whether this writer has stopped for good.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The entry of a slot in the working state.
    fn entry(&self, slot: u64) -> Result<Entry> {
        if let Some(entry) = self.top.get(&slot) {
            return Ok(*entry);
        }
        if let Some((entry, _)) = self.base.overlay.get(slot) {
            return Ok(entry);
        }
        if let Some(ahead) = slot.checked_sub(self.tail_start) {
            let rows = self.tail.as_chunks::<{ Entry::BYTES }>().0;
            let row = usize::try_from(ahead).ok().and_then(|at| rows.get(at));
            return row
                .map(|bytes| Entry::from_bytes(*bytes))
                .ok_or_else(|| Error::internal("a slot has no entry"));
        }
        self.table.entry(slot)
    }

    /// Writes gathered entries to their segment files, making segments as needed.
    fn write_tail(&mut self) -> Result<()> {
        while !self.tail.is_empty() {
            let (no, within) = (
                self.tail_start / SEGMENT_SLOTS,
                self.tail_start % SEGMENT_SLOTS,
            );
            if no as usize >= self.manifest.segments.len() {
                self.start_segment(no)?;
            }
            let file = self.segment_file(no)?;
            let take = (self.tail.len() / Entry::BYTES).min((SEGMENT_SLOTS - within) as usize);
            let bytes = take * Entry::BYTES;
            file.write_at(&self.tail[..bytes], within * Entry::BYTES as u64)?;
            if !self
                .unsynced
                .iter()
                .any(|known| known.path() == file.path())
            {
                self.unsynced.push(file);
            }
            self.tail.drain(..bytes);
            self.tail_start += take as u64;
            if self.tail_start.is_multiple_of(SEGMENT_SLOTS) {
                self.seal_segment(no)?;
            }
        }
        Ok(())
    }

    fn start_segment(&mut self, no: u64) -> Result<()> {
        let info = crate::manifest::SegmentInfo {
            no,
            version: self.manifest.next_version,
            summed: 0,
            sum: 0,
        };
        let path = names::segment(no, info.version);
        let file = create_file(&self.origin.device, &path)?;
        let segment = crate::reader::table::Segment::new(&self.origin.device, info.clone());
        if let Err(e) = self.table.push(Arc::new(segment)) {
            let _ = self.origin.device.remove(&path);
            return Err(e);
        }
        self.manifest.next_version += 1;
        self.manifest.segments.push(info);
        self.manifest_changed = true;
        self.folders.insert("offset");
        self.tail_file = Some((no, file));
        Ok(())
    }

    /// Gives a full segment its page checksums.
    fn seal_segment(&mut self, no: u64) -> Result<()> {
        let entries = self
            .table
            .range(no * SEGMENT_SLOTS, SEGMENT_SLOTS as usize)?;
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_bytes()).collect();
        let Some(info) = self.manifest.segments.get(no as usize) else {
            return Err(Error::internal("a segment is not in the manifest"));
        };
        let info = commit::write_sums(&self.origin.device, info, &bytes, &mut self.unsynced)?;
        self.table.describe(info.clone());
        if let Some(slot) = self.manifest.segments.get_mut(no as usize) {
            *slot = info;
        }
        self.manifest_changed = true;
        self.folders.insert("offset");
        self.tail_file = None;
        Ok(())
    }

    /// Writes gathered log records.
    fn write_log(&mut self) -> Result<()> {
        if self.log.pending.is_empty() {
            return Ok(());
        }
        let file = match &self.log.file {
            Some(file) => Arc::clone(file),
            None => {
                let file = create_file(&self.origin.device, &names::log(self.log.number))?;
                let header = LogHeader {
                    uuid: self.origin.uuid,
                    number: self.log.number,
                    generation: self.published.generation + 1,
                };
                self.log.pending.splice(0..0, header.encode());
                self.folders.insert("log");
                self.log.file = Some(Arc::clone(&file));
                file
            }
        };
        file.write_at(&self.log.pending, self.log.end)?;
        self.log.end += self.log.pending.len() as u64;
        self.log.pending.clear();
        if !self
            .unsynced
            .iter()
            .any(|known| known.path() == file.path())
        {
            self.unsynced.push(file);
        }
        Ok(())
    }

    /// Lets this process read everything up to now; other processes see it after a commit.
    ///
    /// # Errors
    /// Those of the device.
    pub fn expose(&mut self) -> Result<Arc<Generation>> {
        self.check()?;
        self.settle()?;
        let result = self.expose_inner();
        result.map_err(|e| self.note(e))
    }

    fn expose_inner(&mut self) -> Result<Arc<Generation>> {
        for lane in &mut self.lanes {
            lane.expose()?;
        }
        self.write_tail()?;
        self.base = Arc::new(self.view(self.published.generation, self.base.pin.clone()));
        self.top.clear();
        Ok(Arc::clone(&self.base))
    }

    /// The working state as a view. Lanes must have been drained and the tail written.
    fn view(&mut self, generation: u64, pin: Option<Arc<crate::reader::pin::Pin>>) -> Generation {
        let fresh: Vec<Arc<Chunk>> = self
            .lanes
            .iter_mut()
            .flat_map(|lane| lane.fresh.drain(..))
            .collect();
        let chunks = if fresh.is_empty() {
            Arc::clone(&self.base.chunks)
        } else {
            let mut list = self.base.chunks.list().to_vec();
            list.extend(fresh);
            list.sort_by_key(|chunk| chunk.id());
            Arc::new(Chunks::new(list))
        };
        let dictionaries = if self.manifest.dictionaries == self.base.manifest.dictionaries {
            Arc::clone(&self.base.dictionaries)
        } else {
            let infos = &self.manifest.dictionaries;
            Arc::new(Dictionaries::new(
                &self.origin.device,
                infos,
                Some(&self.base.dictionaries),
            ))
        };
        let overlay = if self.top.is_empty() {
            Arc::clone(&self.base.overlay)
        } else {
            Arc::new(Overlay::with(&self.base.overlay, self.top.clone()))
        };
        let manifest = if self.manifest == *self.base.manifest {
            Arc::clone(&self.base.manifest)
        } else {
            Arc::new(self.manifest.clone())
        };
        let mut head = self.head.clone();
        head.generation = generation;
        Generation {
            head,
            manifest,
            table: Arc::new(self.table.clone()),
            overlay,
            chunks,
            dictionaries,
            pin,
            origin: Arc::clone(&self.origin),
            verify: self.base.verify,
            raw_bytes_max: self.base.raw_bytes_max,
        }
    }

    /// Seals the open chunks among `ids`.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn seal_chunks(&mut self, ids: &BTreeSet<u32>) -> Result<()> {
        for at in 0..self.lanes.len() {
            let lane = &mut self.lanes[at];
            if lane.open_chunk().is_some_and(|open| ids.contains(&open.id)) {
                lane.seal().map_err(|e| self.note(e))?;
            }
        }
        Ok(())
    }

    /// Forgets chunks of a rewrite that failed.
    pub(crate) fn forget_chunks(&mut self, made: &[String]) {
        for lane in &mut self.lanes {
            lane.fresh
                .retain(|chunk| !made.contains(&names::chunk(chunk.id())));
        }
    }

    /// A lane for a rewrite: its chunks are not part of the set until [`Writer::adopt_lane`].
    pub(crate) fn new_lane(&self) -> Lane {
        Lane::new(&self.origin, &self.ids)
    }

    /// Makes a rewrite's chunks known; its open chunk must have been sealed. The caller puts them into the manifest.
    pub(crate) fn adopt_lane(&mut self, mut lane: Lane) {
        self.unsynced.append(&mut lane.sealed_files);
        self.folders.insert("chunk");
        if let Some(first) = self.lanes.first_mut() {
            first.fresh.append(&mut lane.fresh);
        }
    }

    /// Puts a frame into a rewrite's lane.
    ///
    /// # Errors
    /// As [`Lane::push`].
    pub(crate) fn push_to(
        &mut self,
        lane: &mut Lane,
        sequence: u64,
        index: u64,
        op: crate::format::Op,
        payload: lane::Payload<'_>,
    ) -> Result<Entry> {
        lane.push(
            &self.manifest.options,
            self.published.generation,
            sequence,
            index,
            op,
            payload,
        )
        .map_err(|e| self.note(e))
    }

    /// The next `count` sequence numbers; none is ever used twice.
    pub(crate) fn take_sequences(&mut self, count: u64) -> u64 {
        let first = self.head.next_sequence;
        self.head.next_sequence += count;
        first
    }

    /// Writes records into a rewrite's lane, under indices that they have already.
    ///
    /// # Errors
    /// As [`Lane::push`], and those of the codec library.
    pub(crate) fn write_again(
        &mut self,
        lane: &mut Lane,
        indices: &[u64],
        records: &[&[u8]],
    ) -> Result<Vec<Entry>> {
        let encoded = self.workbench.many(&self.runtime, records)?;
        let share = records.len().div_ceil(encoded.len()).max(1);
        let first = self.take_sequences(records.len() as u64);
        let mut entries = Vec::with_capacity(records.len());
        for (k, (index, record)) in indices.iter().zip(records).enumerate() {
            let Some(group) = encoded.get(k / share) else {
                continue;
            };
            let payload = group.payload(k % share, record);
            entries.push(self.push_to(
                lane,
                first + k as u64,
                *index,
                crate::format::Op::Put,
                payload,
            )?);
        }
        Ok(entries)
    }

    /// Records in the working state, staged ones included.
    pub fn records(&self) -> u64 {
        self.head.n
            + self
                .staging
                .as_ref()
                .map_or(0, |staging| staging.count() as u64)
    }

    /// The last view handed out.
    pub fn base(&self) -> &Arc<Generation> {
        &self.base
    }

    /// The next chunk id, for the manifest.
    fn next_chunk(&self) -> u32 {
        self.ids.0.load(Ordering::Relaxed)
    }
}
