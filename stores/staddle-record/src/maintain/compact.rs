//! Compact and rebalance: rewriting live records so that dead bytes go.
//!
//! *Compact* rewrites chunks of which less than 70 % is live, frames copied as they are. *Rebalance* rewrites all live
//! records in index order, compressed again with a dictionary of their own where the set uses one. Neither changes an
//! index. Both run under the writer lock; readers, here and elsewhere, go on in their generation. New chunks are full
//! before the one commit that names them and stops naming the old ones, so a crash or a full disk leaves the old set
//! and a few files that the next writer removes.
//!
//! Frames of a compacted chunk keep sequence and index, and markers that still matter are copied, so the index can be
//! rebuilt from chunks alone. A rebalanced set has no history: its frames carry their index of today under new, higher
//! sequences, and a rebase marker after them says that nothing before them counts any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use staddle_base::{Error, Result};

use crate::format::{Entry, Frame, Op, SEGMENT_SLOTS, names};
use crate::manifest::SegmentInfo;
use crate::reader::Generation;
use crate::reader::gather::{self, Context};
use crate::records::Records;
use crate::writer::Writer;
use crate::writer::commit::write_sums;
use crate::writer::create_file;
use crate::writer::lane::{Lane, Payload};

use super::scan::Scan;

/// Chunks below this share of live bytes are rewritten by `compact`.
const LIVE_MIN: f64 = 0.7;
/// Records gathered at a time.
const STEP: usize = 1024;

/// What a compact or rebalance did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompactReport {
    /// Chunks rewritten.
    pub chunks: usize,
    /// All chunks of the set.
    pub chunks_total: usize,
    /// Live records copied.
    pub records: u64,
    /// Chunk bytes before and after, for a dry run estimated.
    pub bytes_before: u64,
    /// See `bytes_before`.
    pub bytes_after: u64,
    /// Whether anything was done.
    pub dry_run: bool,
}

impl CompactReport {
    /// Bytes that go when no reader needs them any more.
    pub fn reclaimed(&self) -> u64 {
        self.bytes_before.saturating_sub(self.bytes_after)
    }
}

/// How much of a chunk is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The chunk.
    pub id: u32,
    /// Its bytes.
    pub bytes: u64,
    /// Records that entries point to.
    pub live_records: u64,
    /// Their payload bytes.
    pub live_bytes: u64,
    /// Whether it is a foreign file.
    pub external: bool,
}

impl Usage {
    /// Live bytes, frames included, over all bytes.
    pub fn share(&self) -> f64 {
        let used = self.live_bytes + self.live_records * Frame::BYTES as u64;
        if self.bytes == 0 {
            1.0
        } else {
            used as f64 / self.bytes as f64
        }
    }
}

/// Usage of every chunk of a view, by scanning its entries.
///
/// # Errors
/// Those of reading the table.
pub fn usage(view: &Generation) -> Result<Vec<Usage>> {
    let mut all: Vec<Usage> = view
        .chunks
        .list()
        .iter()
        .map(|chunk| Usage {
            id: chunk.id(),
            bytes: chunk.end(),
            external: chunk.foreign().is_some(),
            ..Usage::default()
        })
        .collect();
    for_entries(view, |_, entry| {
        if entry.is_present()
            && let Some(usage) = view
                .chunks
                .position(entry.chunk())
                .and_then(|at| all.get_mut(at as usize))
        {
            usage.live_records += 1;
            usage.live_bytes += u64::from(entry.physical_length());
        }
        Ok(())
    })?;
    Ok(all)
}

/// Calls `each` with every index and its entry.
///
/// # Errors
/// Those of reading the table, and of `each`.
pub fn for_entries(
    view: &Generation,
    mut each: impl FnMut(u64, Entry) -> Result<()>,
) -> Result<()> {
    let mut first = 0;
    while first < view.head.n {
        let count = (view.head.n - first).min(64 << 10);
        for (index, entry) in (first..).zip(view.entries(first, count as usize)?) {
            each(index, entry)?;
        }
        first += count;
    }
    Ok(())
}

impl Records {
    /// Rewrites chunks of which less than 70 % is live. No index changes. With `dry_run` only says what it would do.
    ///
    /// # Errors
    /// `Exhausted` when the disk is full and `Corrupt` for a damaged live record: the set is as before. `Cancelled` when
    /// `go_on` said so. Others as [`Records::flush`].
    pub fn compact(&self, dry_run: bool) -> Result<CompactReport> {
        self.compact_while(dry_run, || true)
    }

    /// [`Records::compact`] that asks `go_on` between steps.
    ///
    /// # Errors
    /// As [`Records::compact`].
    pub fn compact_while(
        &self,
        dry_run: bool,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<CompactReport> {
        self.rewrite(dry_run, &mut go_on, Kind::Compact)
    }

    /// Rewrites all live records in index order, adopted files left where they are. No index changes.
    ///
    /// # Errors
    /// As [`Records::compact`].
    pub fn rebalance(&self, dry_run: bool) -> Result<CompactReport> {
        self.rebalance_while(dry_run, false, || true)
    }

    /// [`Records::rebalance`] that asks `go_on` between steps, and with `external` copies adopted records in.
    ///
    /// # Errors
    /// As [`Records::compact`].
    pub fn rebalance_while(
        &self,
        dry_run: bool,
        external: bool,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<CompactReport> {
        self.rewrite(dry_run, &mut go_on, Kind::Rebalance { external })
    }

    fn rewrite(
        &self,
        dry_run: bool,
        go_on: &mut dyn FnMut() -> bool,
        kind: Kind,
    ) -> Result<CompactReport> {
        if dry_run {
            let view = self.current()?;
            let mut report = plan(&view, kind)?.report;
            report.dry_run = true;
            return Ok(report);
        }
        let mut report = CompactReport::default();
        let mut view = None;
        self.publish(|writer| {
            let (done, published) = writer.rewrite(go_on, kind)?;
            report = done;
            view = Some(Arc::clone(&published));
            Ok(published)
        })?;
        Ok(report)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Compact,
    Rebalance { external: bool },
}

struct Plan {
    /// Chunks to rewrite.
    chunks: BTreeSet<u32>,
    report: CompactReport,
}

fn plan(view: &Generation, kind: Kind) -> Result<Plan> {
    let all = usage(view)?;
    let rewritten: Vec<&Usage> = all
        .iter()
        .filter(|chunk| match kind {
            Kind::Compact => !chunk.external && chunk.share() < LIVE_MIN,
            Kind::Rebalance { external } => external || !chunk.external,
        })
        .collect();
    let total: u64 = all.iter().map(|chunk| chunk.bytes).sum();
    let gone: u64 = rewritten.iter().map(|chunk| chunk.bytes).sum();
    let kept: u64 = rewritten
        .iter()
        .map(|chunk| chunk.live_bytes + chunk.live_records * Frame::BYTES as u64)
        .sum();
    let report = CompactReport {
        chunks: rewritten.len(),
        chunks_total: all.len(),
        records: rewritten.iter().map(|chunk| chunk.live_records).sum(),
        bytes_before: total,
        bytes_after: total - gone + kept,
        dry_run: false,
    };
    Ok(Plan {
        chunks: rewritten.iter().map(|chunk| chunk.id).collect(),
        report,
    })
}

impl Writer {
    fn rewrite(
        &mut self,
        go_on: &mut dyn FnMut() -> bool,
        kind: Kind,
    ) -> Result<(CompactReport, Arc<Generation>)> {
        let view = self.flush()?;
        let Plan { chunks, mut report } = plan(&view, kind)?;
        if chunks.is_empty() {
            return Ok((report, view));
        }
        // Open chunks must not grow under the copy, and what is old must be durable before what is new replaces it.
        self.seal_chunks(&chunks)?;
        let view = self.flush()?;
        let mut made = Vec::new();
        let result = self.copy_and_commit(&view, &chunks, kind, go_on, &mut made);
        // A writer that has stopped may have written a HEAD that names them.
        if result.is_err() && !self.has_failed() {
            self.discard(&made);
        }
        let published =
            result.map_err(|e| self.unfinished("the set was not rewritten and is as before", e))?;
        report.bytes_after = published.head.total_bytes;
        Ok((report, published))
    }

    fn copy_and_commit(
        &mut self,
        view: &Arc<Generation>,
        chunks: &BTreeSet<u32>,
        kind: Kind,
        go_on: &mut dyn FnMut() -> bool,
        made: &mut Vec<String>,
    ) -> Result<Arc<Generation>> {
        let mut lane = self.new_lane();
        let copied = match kind {
            Kind::Compact => self.copy_frames(view, chunks, &mut lane, go_on),
            Kind::Rebalance { .. } => self.copy_records(view, chunks, &mut lane, go_on),
        };
        let sealed = copied.and_then(|entries| lane.seal().map(|()| entries));
        made.extend(lane.fresh.iter().map(|chunk| names::chunk(chunk.id())));
        let entries = sealed?;
        let segments = self.write_table(view, &entries, made)?;
        let fresh = std::mem::take(&mut lane.sealed);
        self.adopt_lane(lane);
        self.commit_table(segments, |writer| {
            writer
                .manifest
                .sealed
                .retain(|chunk| !chunks.contains(&chunk.id));
            writer.manifest.sealed.extend(fresh);
            if matches!(kind, Kind::Rebalance { .. }) {
                // Every record of the set's own was written with the dictionary in use.
                let in_use = writer.manifest.dictionary_in_use;
                writer
                    .manifest
                    .dictionaries
                    .retain(|known| known.slot == in_use);
            }
            writer.manifest.sealed.sort_by_key(|chunk| chunk.id);
        })
    }

    /// Copies frames of the chunks as they are: those that entries point to, and all markers.
    fn copy_frames(
        &mut self,
        view: &Arc<Generation>,
        chunks: &BTreeSet<u32>,
        lane: &mut Lane,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Redirects> {
        // Where each live frame of these chunks is pointed to from.
        let mut wanted: Vec<(u32, u64, u64)> = Vec::new();
        for_entries(view, |index, entry| {
            if entry.is_present() && chunks.contains(&entry.chunk()) {
                wanted.push((entry.chunk(), entry.offset(), index));
            }
            Ok(())
        })?;
        wanted.sort_unstable();
        // In order of their first sequence, so that no frame is older than the base of the chunk that it goes to.
        let mut sources = Vec::new();
        for chunk in chunks.iter().filter_map(|id| view.chunks.get(*id)) {
            let scan =
                Scan::new(Arc::clone(chunk.file()?), chunk.end()).map_err(|e| chunk.locate(e))?;
            sources.push((scan.header().base_sequence, chunk, scan));
        }
        sources.sort_by_key(|(base, ..)| *base);
        let mut redirects = Redirects::new();
        for (base, chunk, mut scan) in sources {
            let id = &chunk.id();
            let mut next = wanted.partition_point(|(chunk, ..)| chunk < id);
            let mut steps = 0usize;
            while let Some(found) = scan.next_frame().map_err(|e| chunk.locate(e))? {
                steps += 1;
                if steps.is_multiple_of(STEP) && !go_on() {
                    return Err(Error::cancelled("compacting was cancelled"));
                }
                let mut owners = Vec::new();
                while let Some((_, offset, index)) = wanted
                    .get(next)
                    .filter(|(chunk, offset, _)| chunk == id && *offset <= found.offset)
                {
                    if *offset < found.offset {
                        return Err(chunk.locate(
                            Error::corrupt("an entry points between frames").with("index", index),
                        ));
                    }
                    owners.push(*index);
                    next += 1;
                }
                if owners.is_empty() && found.frame.op == Op::Put {
                    continue;
                }
                let payload = Payload {
                    bytes: found.payload,
                    raw_length: found.frame.raw_length,
                    codec: found.frame.codec,
                    dictionary: found.frame.dictionary,
                    crc: None,
                };
                let sequence = base + u64::from(found.frame.sequence_delta);
                let entry =
                    self.push_to(lane, sequence, found.frame.index, found.frame.op, payload)?;
                redirects.extend(owners.into_iter().map(|index| (index, entry)));
            }
            if wanted.get(next).is_some_and(|(chunk, ..)| chunk == id) {
                return Err(chunk.locate(Error::corrupt("an entry points beyond the last frame")));
            }
        }
        redirects.sort_unstable_by_key(|(index, _)| *index);
        Ok(redirects)
    }

    /// Writes all live records of the chunks again, in index order, under their index of today.
    fn copy_records(
        &mut self,
        view: &Arc<Generation>,
        chunks: &BTreeSet<u32>,
        lane: &mut Lane,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Redirects> {
        let mut indices = Vec::new();
        let first_sequence = self.head.next_sequence;
        for_entries(view, |index, entry| {
            if entry.is_present() && chunks.contains(&entry.chunk()) {
                indices.push(index);
            }
            Ok(())
        })?;
        let mut redirects = Redirects::new();
        self.retrain(view, &indices)?;
        let runtime = self.runtime.clone();
        let client = runtime.memory().root().child("rebalance", None);
        let context = Context {
            generation: view,
            runtime: &runtime,
            client: &client,
        };
        for step in indices.chunks(STEP) {
            if !go_on() {
                return Err(Error::cancelled("rebalancing was cancelled"));
            }
            let batch = gather::gather(&context, step)?;
            let records: Vec<&[u8]> = batch.iter().map(Option::unwrap_or_default).collect();
            let entries = self.write_again(lane, step, &records)?;
            redirects.extend(step.iter().copied().zip(entries));
        }
        // Older chunks may outlive this for a snapshot's sake, so a rebuilt index must know that they no longer count; and
        // it must not know that before the copies are safe.
        lane.sync().map_err(|e| self.fail(e))?;
        self.origin
            .device
            .sync_dir("chunk")
            .map_err(|e| self.fail(e))?;
        let mut rebase = view.head.n.to_le_bytes().to_vec();
        rebase.extend_from_slice(&first_sequence.to_le_bytes());
        let sequence = self.take_sequences(1);
        self.push_to(lane, sequence, 0, Op::Rebase, Payload::marker(&rebase))?;
        Ok(redirects)
    }

    /// Writes a whole new table: the view's entries with some of them redirected.
    fn write_table(
        &mut self,
        view: &Generation,
        redirects: &Redirects,
        made: &mut Vec<String>,
    ) -> Result<Vec<SegmentInfo>> {
        let mut segments = Vec::new();
        let mut redirects = redirects.iter().peekable();
        for no in 0..view.head.n.div_ceil(SEGMENT_SLOTS) {
            let first = no * SEGMENT_SLOTS;
            let count = (view.head.n - first).min(SEGMENT_SLOTS) as usize;
            let mut bytes = Vec::new();
            for (index, old) in (first..).zip(view.entries(first, count)?) {
                let entry = redirects
                    .next_if(|(at, _)| *at == index)
                    .map_or(old, |(_, entry)| *entry);
                bytes.extend_from_slice(&entry.to_bytes());
            }
            let info = SegmentInfo {
                no,
                version: self.take_version(),
                summed: 0,
                sum: 0,
            };
            let path = names::segment(no, info.version);
            made.push(path.clone());
            let file = create_file(&self.origin.device, &path)?;
            file.write_at(&bytes, 0)?;
            self.unsynced.push(file);
            self.folders.insert("offset");
            let info = write_sums(&self.origin.device, &info, &bytes, &mut self.unsynced)?;
            made.push(names::sums(no, info.version, info.summed));
            segments.push(info);
        }
        Ok(segments)
    }
}

/// Indices whose record lies elsewhere now, in order.
type Redirects = Vec<(u64, Entry)>;
