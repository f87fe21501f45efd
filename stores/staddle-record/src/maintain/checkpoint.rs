//! Checkpoint: folding the overlay into new versions of the segments that it touches.
//!
//! Published segments never change, so a touched one is copied (sharing blocks where the file system can), its pages
//! rewritten, and its page checksums made anew. The new table is published with an empty log in one commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use staddle_base::Result;
use staddle_runtime::io::device::{File, Open};

use crate::format::{Entry, PAGE_SLOTS, SEGMENT_SLOTS, names};
use crate::manifest::SegmentInfo;
use crate::reader::Generation;
use crate::writer::commit::write_sums;
use crate::writer::{Writer, create_file};

impl Writer {
    /// Folds all redirects into the table and starts an empty log.
    ///
    /// # Errors
    /// As [`Writer::flush`]; on failure the set is as before.
    pub fn checkpoint(&mut self) -> Result<Arc<Generation>> {
        let view = self.expose()?;
        if view.overlay.is_empty() && view.head.base_len == view.head.n {
            return self.commit();
        }
        let mut made = Vec::new();
        let result = self
            .rewrite_segments(&view, &mut made)
            .and_then(|segments| self.commit_table(segments, |_| ()));
        // A writer that has stopped may have written a HEAD that names them.
        if result.is_err() && !self.has_failed() {
            self.discard(&made);
        }
        let view = result.map_err(|e| self.unfinished("the checkpoint did not finish", e))?;
        Ok(view)
    }

    /// Removes files of a maintenance step that failed. The next writer removes what this cannot.
    pub(crate) fn discard(&mut self, made: &[String]) {
        self.unsynced
            .retain(|file| !made.iter().any(|path| path == file.path()));
        self.forget_chunks(made);
        for path in made {
            let _ = self.origin.device.remove(path);
        }
    }

    fn rewrite_segments(
        &mut self,
        view: &Generation,
        made: &mut Vec<String>,
    ) -> Result<Vec<SegmentInfo>> {
        let mut touched: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (slot, _) in view.overlay.rows() {
            if slot < view.head.n {
                touched
                    .entry(slot / SEGMENT_SLOTS)
                    .or_default()
                    .push(slot % SEGMENT_SLOTS);
            }
        }
        let count = view.head.n.div_ceil(SEGMENT_SLOTS);
        let mut segments: Vec<SegmentInfo> = self
            .manifest
            .segments
            .iter()
            .take(count as usize)
            .cloned()
            .collect();
        // Slots above the new length stay in old versions: readers of older generations use them.
        if view.head.base_len != view.head.n && !view.head.n.is_multiple_of(SEGMENT_SLOTS) {
            touched.entry(view.head.n / SEGMENT_SLOTS).or_default();
        }
        for (no, slots) in touched {
            let Some(info) = segments.get_mut(no as usize) else {
                continue;
            };
            *info = self.rewrite_segment(view, info, &slots, made)?;
        }
        Ok(segments)
    }

    fn rewrite_segment(
        &mut self,
        view: &Generation,
        old: &SegmentInfo,
        slots: &[u64],
        made: &mut Vec<String>,
    ) -> Result<SegmentInfo> {
        let first = old.no * SEGMENT_SLOTS;
        let count = (view.head.n - first).min(SEGMENT_SLOTS) as usize;
        let entries = view.entries(first, count)?;
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_bytes()).collect();
        let info = SegmentInfo {
            no: old.no,
            version: self.take_version(),
            summed: 0,
            sum: 0,
        };
        let path = names::segment(info.no, info.version);
        made.push(path.clone());
        let mut pages: Vec<u64> = slots.iter().map(|slot| slot / PAGE_SLOTS).collect();
        pages.dedup();
        let few = pages.len() * 4 < count.div_ceil(PAGE_SLOTS as usize);
        let file = if few {
            self.patch(old, &path, &bytes, &pages)?
        } else {
            self.write_new(&path, &bytes)?
        };
        self.unsynced.push(file);
        self.folders.insert("offset");
        let info = write_sums(&self.origin.device, &info, &bytes, &mut self.unsynced)?;
        made.push(names::sums(info.no, info.version, info.summed));
        Ok(info)
    }

    fn write_new(&self, path: &str, bytes: &[u8]) -> Result<Arc<dyn File>> {
        let file = create_file(&self.origin.device, path)?;
        file.write_at(bytes, 0)?;
        Ok(file)
    }

    /// A copy of the old segment with only the touched pages rewritten.
    fn patch(
        &self,
        old: &SegmentInfo,
        path: &str,
        bytes: &[u8],
        pages: &[u64],
    ) -> Result<Arc<dyn File>> {
        let device = &self.origin.device;
        device.remove(path)?;
        device.copy(&names::segment(old.no, old.version), path)?;
        let file = device.open(path, Open::Write)?;
        let page_bytes = PAGE_SLOTS as usize * Entry::BYTES;
        for page in pages {
            let from = *page as usize * page_bytes;
            let to = (from + page_bytes).min(bytes.len());
            if let Some(page) = bytes.get(from..to) {
                file.write_at(page, from as u64)?;
            }
        }
        if file.len()? > bytes.len() as u64 {
            file.set_len(bytes.len() as u64)?;
        }
        Ok(file)
    }

    /// A segment version that no file has had.
    pub(crate) fn take_version(&mut self) -> u64 {
        let version = self.manifest.next_version;
        self.manifest.next_version += 1;
        version
    }
}
