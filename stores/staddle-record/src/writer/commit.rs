//! Commit: from the working state to a generation that every process sees and no crash takes back.
//!
//! 1. Lanes, tail entries and log are written; a manifest if its content changed.
//! 2. All files with new bytes are synced, then the folders with new names.
//! 3. The *older* slot of HEAD is written with the next generation, and synced.
//!
//! Bytes below a published end never change (I1), HEAD is written after all it names is durable (I2), and it overwrites
//! the older slot (I3): so whatever stops the writer, a reopen finds this generation or the one before, whole.
//!
//! A failed write leaves everything as it was; a failed sync ends the writer, because the kernel may have dropped the
//! bytes and will not say so again.

use std::collections::BTreeSet;
use std::sync::Arc;

use staddle_base::checksum::xxh3;
use staddle_base::{Error, Result};
use staddle_runtime::io::device::{Device, File, Open, publish_file};

use super::Writer;
use crate::format::{Head, SEGMENT_SLOTS, names};
use crate::manifest::SegmentInfo;
use crate::options::Durability;
use crate::reader::chunks::Chunks;
use crate::reader::generation::Generation;
use crate::reader::table::page_sums;

/// More redirects than this are folded into the table at the next commit.
const OVERLAY_MIN: u64 = 1 << 20;
const OVERLAY_MAX: u64 = 4 << 20;

/// Writes the page checksums of a segment's first entries, and returns its new description.
///
/// # Errors
/// Those of the device.
pub(crate) fn write_sums(
    device: &Arc<dyn Device>,
    info: &SegmentInfo,
    entries: &[u8],
    unsynced: &mut Vec<Arc<dyn File>>,
) -> Result<SegmentInfo> {
    let sums = page_sums(entries);
    let summed = (entries.len() / crate::format::Entry::BYTES) as u64;
    debug_assert!(summed <= SEGMENT_SLOTS);
    let path = names::sums(info.no, info.version, summed);
    let file = super::create_file(device, &path)?;
    file.write_at(&sums, 0)?;
    unsynced.push(file);
    Ok(SegmentInfo {
        summed,
        sum: xxh3(&sums),
        ..info.clone()
    })
}

impl Writer {
    /// Makes everything up to now durable and visible to others.
    ///
    /// # Errors
    /// `Exhausted` when the disk is full: flushed records are intact and a later flush may succeed. `Unavailable` when
    /// a write or sync failed: this writer is done, a reopen goes back to the last flush.
    pub fn flush(&mut self) -> Result<Arc<Generation>> {
        self.check()?;
        self.settle()?;
        self.expose()?;
        if self.base.overlay.len() as u64 > (self.head.n / 32).clamp(OVERLAY_MIN, OVERLAY_MAX) {
            return self.checkpoint();
        }
        self.commit()
    }

    /// Whether a commit would change anything.
    fn is_dirty(&self) -> bool {
        self.manifest_changes()
            || self.head.n != self.published.n
            || self.head.next_sequence != self.published.next_sequence
            || self.head.log != self.published.log
    }

    /// Steps 1 to 3. The state must have been exposed.
    pub(crate) fn commit(&mut self) -> Result<Arc<Generation>> {
        if !self.is_dirty() {
            return Ok(Arc::clone(&self.base));
        }
        let durable = self.manifest.options.durability != Durability::None;
        self.write_log().map_err(|e| self.note(e))?;
        let head = self.next_head();
        let manifest_rewritten = self.write_manifest(&head).map_err(|e| self.note(e))?;
        if durable {
            // Not `note`: a disk that is full at a sync has lost bytes, too.
            self.sync_all().map_err(|e| self.fail(e))?;
        }
        let device = Arc::clone(&self.origin.device);
        let file = device
            .open(names::HEAD, Open::Write)
            .map_err(|e| self.note(e))?;
        // From here on nobody knows what HEAD says until it is written and synced: not `note`.
        file.write_at(&head.encode(), head.slot_offset())
            .map_err(|e| self.fail(e))?;
        if durable {
            file.sync().map_err(|e| self.fail(e))?;
        }
        self.published = head.clone();
        self.head = head;
        self.manifest_changed = false;
        self.changed = false;
        self.moved = false;
        for lane in &mut self.lanes {
            lane.committed();
        }
        self.unsynced.clear();
        self.folders.clear();
        let generation = self.published.generation;
        // Without a pin a reader of this process may find a file gone later, which is an error and never wrong bytes.
        let pin = self.pins.pin(generation).ok().flatten();
        self.base = Arc::new(self.view(generation, pin));
        self.top.clear();
        for chunk in self.base.chunks.list() {
            chunk.publish(chunk.readable());
        }
        if manifest_rewritten {
            self.refresh_meta();
        }
        Ok(Arc::clone(&self.base))
    }

    /// HEAD as the commit will write it.
    fn next_head(&self) -> Head {
        let mut head = self.head.clone();
        head.generation = self.published.generation + 1;
        head.manifest = if self.manifest_changes() {
            self.manifest.number + 1
        } else {
            self.manifest.number
        };
        head.log = self.log.number;
        head.log_end = self.log.end;
        head.open = self
            .lanes
            .iter()
            .filter_map(super::lane::Lane::open_chunk)
            .collect();
        head.total_bytes = self
            .manifest
            .sealed
            .iter()
            .map(|chunk| chunk.bytes)
            .sum::<u64>()
            + self
                .lanes
                .iter()
                .flat_map(|lane| &lane.sealed)
                .map(|chunk| chunk.bytes)
                .sum::<u64>()
            + head.open.iter().map(|chunk| chunk.end).sum::<u64>();
        if self.changed {
            head.changed_generation = head.generation;
        }
        if self.moved {
            head.moved_generation = head.generation;
        }
        head.time_ns = self.runtime.clock().wall_ns();
        head
    }

    fn manifest_changes(&self) -> bool {
        self.manifest_changed
            || self
                .lanes
                .iter()
                .any(|lane| lane.made_file || !lane.sealed.is_empty())
    }

    /// Writes the next manifest if its content changed.
    fn write_manifest(&mut self, head: &Head) -> Result<bool> {
        if !self.manifest_changes() {
            return Ok(false);
        }
        let mut manifest = self.manifest.clone();
        manifest.number = head.manifest;
        manifest.generation = head.generation;
        manifest.next_chunk = self.next_chunk();
        manifest.sealed.extend(
            self.lanes
                .iter()
                .flat_map(|lane| lane.sealed.iter().cloned()),
        );
        manifest.sealed.sort_by_key(|chunk| chunk.id);
        let path = names::manifest(manifest.number);
        let device = &self.origin.device;
        let file = super::create_file(device, &path)?;
        file.write_at(&manifest.encode()?, 0)?;
        self.unsynced.push(file);
        self.folders.insert("manifest");
        if self.lanes.iter().any(|lane| lane.made_file) {
            self.folders.insert("chunk");
        }
        for lane in &mut self.lanes {
            lane.sealed.clear();
        }
        self.manifest = manifest;
        self.manifest_changed = true;
        Ok(true)
    }

    /// Syncs files, then folders; each group side by side.
    fn sync_all(&mut self) -> Result<()> {
        let files: Vec<Arc<dyn File>> = self
            .unsynced
            .iter()
            .cloned()
            .chain(self.lanes.iter().flat_map(super::lane::Lane::unsynced))
            .collect();
        let workers = self.runtime.workers();
        workers
            .map("sync", files, |file: Arc<dyn File>| file.sync())?
            .into_iter()
            .collect::<Result<()>>()?;
        let device = &self.origin.device;
        let folders: Vec<&'static str> = self.folders.iter().copied().collect();
        workers
            .map("sync folders", folders, |folder| device.sync_dir(folder))?
            .into_iter()
            .collect()
    }

    /// Refreshes the copy for people. The engine never reads it, so a failure costs nothing.
    fn refresh_meta(&self) {
        let done = self
            .manifest
            .for_people(&self.head)
            .and_then(|text| publish_file(self.origin.device.as_ref(), names::META, &text));
        if let Err(e) = done {
            tracing::debug!(error = %e, "meta.json was not refreshed");
        }
    }

    /// Flushes and frees reserved space.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub fn close(&mut self) -> Result<()> {
        self.flush()?;
        for lane in &mut self.lanes {
            lane.trim();
        }
        self.refresh_meta();
        self.surplus = true;
        Ok(())
    }

    /// Starts the commit of a new set of segments with an empty log: checkpoint, compact and rebalance end here.
    /// `entries` are the table's new segments; redirects so far are in them. On failure the state is as before.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub(crate) fn commit_table(
        &mut self,
        segments: Vec<SegmentInfo>,
        edit: impl FnOnce(&mut Self),
    ) -> Result<Arc<Generation>> {
        let sealed: Vec<_> = self
            .lanes
            .iter()
            .flat_map(|lane| lane.sealed.clone())
            .collect();
        let before = (self.head.clone(), self.manifest.clone(), self.table.clone());
        let number = self.published.log.max(self.log.number) + 1;
        let log = std::mem::replace(
            &mut self.log,
            super::Log {
                number,
                end: 0,
                file: None,
                pending: Vec::new(),
            },
        );
        self.manifest.segments = segments;
        self.manifest_changed = true;
        self.head.base_len = self.head.n;
        edit(self);
        let base = Arc::clone(&self.base);
        let opened = crate::reader::table::Table::open(
            &self.origin.device,
            &self.manifest.segments,
            self.origin.map,
        );
        let result = opened.and_then(|table| {
            self.table = table;
            // The redirects are in the new segments.
            let mut bare = self.view(base.head.generation, base.pin.clone());
            bare.overlay = Arc::default();
            bare.chunks = Arc::new(self.named_chunks(&bare.chunks));
            self.base = Arc::new(bare);
            self.tail_start = self.head.n;
            self.tail_file = None;
            self.commit()
        });
        self.surplus |= result.is_ok();
        if result.is_err() && !self.has_failed() {
            (self.head, self.manifest, self.table) = before;
            // Chunks that lanes had sealed may have gone into the manifest that failed.
            let waiting = self.lanes.iter().flat_map(|lane| &lane.sealed);
            let known: BTreeSet<u32> = self
                .manifest
                .sealed
                .iter()
                .chain(waiting)
                .map(|chunk| chunk.id)
                .collect();
            self.manifest.sealed.extend(
                sealed
                    .into_iter()
                    .filter(|chunk| !known.contains(&chunk.id)),
            );
            self.manifest.sealed.sort_by_key(|chunk| chunk.id);
            self.manifest_changed = true;
            self.log = log;
            self.tail_start = self.head.base_len;
            self.tail_file = None;
            self.base = base;
        }
        result
    }

    /// Those of `chunks` that the working state still names.
    fn named_chunks(&self, chunks: &Chunks) -> Chunks {
        let sealed = self
            .manifest
            .sealed
            .iter()
            .chain(self.lanes.iter().flat_map(|lane| &lane.sealed));
        let open = self.lanes.iter().filter_map(super::lane::Lane::open_chunk);
        let named: BTreeSet<u32> = sealed
            .map(|chunk| chunk.id)
            .chain(open.map(|chunk| chunk.id))
            .collect();
        Chunks::new(
            chunks
                .list()
                .iter()
                .filter(|chunk| named.contains(&chunk.id()))
                .cloned()
                .collect(),
        )
    }

    /// An error that says a step of maintenance could not finish.
    pub(crate) fn unfinished(&self, what: &'static str, error: Error) -> Error {
        error.context(what).with("uri", self.origin.device.uri())
    }
}
