//! Records whose bytes are not in the set: pieces of foreign files, and frames in chunks of other sets.
//!
//! A foreign file is a sealed chunk that the set neither writes nor removes. Its entries are appended like others, but
//! no frame of this set stands behind them, so only the manifest and the table know them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use staddle_base::{Error, Result};

use super::Writer;
use crate::format::{Entry, Frame};
use crate::manifest::{External, SealedChunk};
use crate::reader::chunks::Chunk;

impl Writer {
    /// Appends records that lie in a foreign file, as `(offset, length)` in it; `None` appends a hole. Nothing is copied.
    ///
    /// # Errors
    /// `Invalid` for a piece beyond the file or of 4 GiB or more, before anything changes.
    pub fn adopt(
        &mut self,
        external: External,
        pieces: &[Option<(u64, u64)>],
    ) -> Result<Range<u64>> {
        self.check()?;
        self.settle()?;
        self.check_room(pieces.len() as u64)?;
        for (offset, length) in pieces.iter().flatten() {
            let end = offset.checked_add(*length);
            if end.is_none_or(|end| end > external.size)
                || *length > u64::from(u32::MAX)
                || *offset > Entry::OFFSET_MAX
            {
                return Err(Error::invalid(
                    "a piece does not lie in the file, or has 4 GiB or more",
                )
                .with("file", &external.uri)
                .with("offset", offset)
                .with("length", length));
            }
            let length = usize::try_from(*length).unwrap_or(usize::MAX);
            self.manifest
                .options
                .check_record(length)
                .map_err(|e| e.with("file", &external.uri))?;
        }
        let id = self.add_foreign(external, pieces.len() as u64)?;
        self.append_entries(pieces.iter().map(|piece| {
            piece.map_or(Entry::MISSING, |(offset, length)| {
                Entry::external(id, offset, u32::try_from(length).unwrap_or(u32::MAX))
            })
        }))
    }

    /// Makes a foreign file a chunk of the set, of which `records` will be used; returns the chunk's id.
    ///
    /// # Errors
    /// `Exhausted` when the set has used all ids.
    pub(crate) fn add_foreign(&mut self, external: External, records: u64) -> Result<u32> {
        self.check()?;
        let id = self.next_chunk();
        let next = id
            .checked_add(1)
            .ok_or_else(|| Error::exhausted("the set has used all 2^32 chunk ids"))?;
        self.ids.0.store(next, Ordering::Relaxed);
        let chunk = Chunk::external(&self.origin, id, external.clone());
        if let Some(lane) = self.lanes.first_mut() {
            lane.fresh.push(Arc::new(chunk));
        }
        self.manifest.sealed.push(SealedChunk {
            id,
            bytes: external.size,
            records,
            digest: 0,
            external: Some(external),
        });
        self.manifest.sealed.sort_by_key(|chunk| chunk.id);
        self.manifest_changed = true;
        Ok(id)
    }

    /// Appends entries of chunks that [`Writer::add_foreign`] returned, and holes.
    ///
    /// # Errors
    /// `Invalid` for an entry of another chunk, or beyond it, before anything changes.
    pub(crate) fn link(&mut self, entries: &[Entry]) -> Result<Range<u64>> {
        self.check()?;
        self.settle()?;
        self.check_room(entries.len() as u64)?;
        for entry in entries.iter().filter(|entry| entry.is_present()) {
            let sealed = self
                .manifest
                .sealed
                .binary_search_by_key(&entry.chunk(), |chunk| chunk.id)
                .ok()
                .and_then(|at| self.manifest.sealed.get(at));
            let size = sealed.and_then(|chunk| chunk.external.as_ref().map(|e| e.size));
            let before = if entry.is_external() {
                0
            } else {
                Frame::BYTES as u64
            };
            let end = entry.offset() + u64::from(entry.physical_length());
            if size.is_none_or(|size| end > size) || entry.offset() < before {
                return Err(Error::invalid(
                    "a linked record does not lie in a foreign chunk of this set",
                )
                .with("chunk", entry.chunk())
                .with("offset", entry.offset()));
            }
            if entry.is_raw() {
                self.manifest
                    .options
                    .check_record(entry.physical_length() as usize)?;
            }
        }
        self.append_entries(entries.iter().copied())
    }

    fn append_entries(&mut self, entries: impl Iterator<Item = Entry>) -> Result<Range<u64>> {
        let start = self.head.n;
        for entry in entries {
            let sequence = self.head.next_sequence;
            self.head.next_sequence += 1;
            self.append_entry(sequence, entry)?;
            if !entry.is_present() {
                self.head.live -= 1;
            }
        }
        Ok(start..self.head.n)
    }
}
