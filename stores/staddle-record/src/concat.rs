//! Several sets behind one another in one, for producers that each wrote a set of their own.
//!
//! Sealed chunks of the sources are *linked*: they become foreign chunks of the target, and each record costs an entry
//! of 16 bytes. Frames keep their checksums, so linked records are checked like own ones. What cannot be linked is
//! copied: records of chunks that are not full yet, and those compressed with a dictionary, which is numbered by set. A
//! source must stay where it is and keep its chunks while the target links to it; `rebalance` with `external` moves
//! everything in.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use staddle_base::{Error, Result};

use crate::adopt::locate::refer;
use crate::adopt::source::{home_of, place_of, rooted};
use crate::format::{Entry, names};
use crate::manifest::External;
use crate::progress::{OnProgress, Progress};
use crate::reader::Generation;
use crate::records::Records;

/// Entries looked at together.
const STEP: u64 = 64 << 10;
/// Records, and about how many bytes of them, copied together.
const COPY: usize = 1024;
const COPY_BYTES: u64 = 32 << 20;

/// Figures of a concatenation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConcatReport {
    /// Sets appended.
    pub sets: u64,
    /// Records that stay in their chunks.
    pub linked: u64,
    /// Records copied.
    pub copied: u64,
    /// Holes.
    pub holes: u64,
    /// Chunks linked.
    pub chunks: u64,
}

/// Whether sealed chunks are linked or everything is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    /// Sealed chunks are linked.
    #[default]
    Link,
    /// Everything is copied, and the sources may go.
    Copy,
}

/// Appends all records of `sources`, in order, to `target`, and flushes it. Holes stay holes.
///
/// # Errors
/// `Invalid` when a source is the target, or holds other elements; those of reading and writing. Records before the
/// failure stay, unflushed.
pub fn concat(
    target: &Records,
    sources: &[Records],
    how: How,
    progress: OnProgress<'_>,
) -> Result<ConcatReport> {
    let mut total = 0;
    for source in sources {
        if source.uuid() == target.uuid() {
            return Err(
                Error::invalid("a set cannot be appended to itself").with("uri", source.uri())
            );
        }
        let (ours, theirs) = (target.options(), source.options());
        if ours.dtype != theirs.dtype || ours.shape != theirs.shape {
            return Err(
                Error::invalid("the sets hold elements of different types or shapes")
                    .with("uri", source.uri())
                    .with("target", target.uri()),
            );
        }
        total += source.len()?;
    }
    let mut report = ConcatReport::default();
    for source in sources {
        // A source that is being written here is taken as its last flush has it.
        source.flush()?;
        let view = source.current()?;
        let mut job = Job {
            target,
            source,
            view: &view,
            how,
            home: home_of(target.device().as_ref())?,
            chunks: BTreeMap::new(),
            report: &mut report,
        };
        job.run(total, progress)?;
        report.sets += 1;
    }
    target.flush()?;
    Ok(report)
}

struct Job<'a> {
    target: &'a Records,
    source: &'a Records,
    view: &'a Arc<Generation>,
    how: How,
    /// The folder that holds the target.
    home: String,
    /// What became of each chunk of the source: its number in the target, or nothing where records are copied.
    chunks: BTreeMap<u32, Option<u32>>,
    report: &'a mut ConcatReport,
}

impl Job<'_> {
    fn run(&mut self, total: u64, progress: OnProgress<'_>) -> Result<()> {
        let mut first = 0;
        while first < self.view.len() {
            let count = (self.view.len() - first).min(STEP);
            let entries = self
                .view
                .entries(first, usize::try_from(count).unwrap_or(0))?;
            self.step(first, &entries)?;
            first += count;
            progress(&Progress {
                records: self.report.linked + self.report.copied + self.report.holes,
                bytes: 0,
                records_total: Some(total),
                bytes_total: None,
            })?;
        }
        Ok(())
    }

    /// Appends some entries: runs that can be linked, and runs that must be copied.
    fn step(&mut self, first: u64, entries: &[Entry]) -> Result<()> {
        let (mut links, mut copies) = (Vec::new(), Vec::new());
        for (index, entry) in (first..).zip(entries) {
            match self.linked(*entry)? {
                Some(entry) => {
                    self.copy(&mut copies)?;
                    links.push(entry);
                }
                None => {
                    self.link(&mut links)?;
                    copies.push(index);
                }
            }
        }
        self.link(&mut links)?;
        self.copy(&mut copies)
    }

    /// The entry as the target would have it, if it can be linked.
    fn linked(&mut self, entry: Entry) -> Result<Option<Entry>> {
        if !entry.is_present() {
            return Ok(Some(Entry::MISSING));
        }
        if self.how == How::Copy || entry.dictionary() != 0 {
            return Ok(None);
        }
        let chunk = match self.chunks.get(&entry.chunk()) {
            Some(chunk) => *chunk,
            None => {
                let chunk = match self.describe(entry.chunk())? {
                    Some((external, records)) => {
                        self.report.chunks += 1;
                        Some(self.target.add_foreign(external, records)?)
                    }
                    None => None,
                };
                self.chunks.insert(entry.chunk(), chunk);
                chunk
            }
        };
        Ok(chunk.map(|chunk| entry.in_chunk(chunk)))
    }

    /// A chunk of the source as a foreign file; `None` for one that still grows.
    fn describe(&self, id: u32) -> Result<Option<(External, u64)>> {
        let Some(sealed) = self
            .view
            .manifest
            .sealed
            .iter()
            .find(|chunk| chunk.id == id)
        else {
            return Ok(None);
        };
        let device = self.source.device();
        if let Some(external) = &sealed.external {
            let uri = rooted(device.as_ref(), &external.uri)?;
            let external = External {
                uri: refer(&self.home, &uri),
                ..external.clone()
            };
            return Ok(Some((external, sealed.records)));
        }
        let path = names::chunk(id);
        let Some(stat) = device.stat(&path)? else {
            return Err(Error::corrupt("a chunk that the set names is missing")
                .with("uri", device.uri())
                .with("chunk", id));
        };
        let place = place_of(device.as_ref())?;
        let external = External {
            uri: refer(
                &self.home,
                &format!("{}/{path}", place.trim_end_matches('/')),
            ),
            kind: "chunk".to_owned(),
            size: stat.len,
            mtime_ns: stat.mtime_ns,
            etag: stat.etag,
            xxh3: None,
        };
        Ok(Some((external, sealed.records)))
    }

    fn link(&mut self, links: &mut Vec<Entry>) -> Result<()> {
        if links.is_empty() {
            return Ok(());
        }
        self.target.link(links)?;
        let present = links.iter().filter(|entry| entry.is_present()).count() as u64;
        self.report.linked += present;
        self.report.holes += links.len() as u64 - present;
        links.clear();
        Ok(())
    }

    fn copy(&mut self, copies: &mut Vec<u64>) -> Result<()> {
        let mut rest = copies.as_slice();
        while !rest.is_empty() {
            let some = &rest[..rest.len().min(COPY)];
            let mut bytes = 0;
            let lengths = self.source.lengths(some)?;
            let fitting = lengths.iter().take_while(|length| {
                bytes += **length;
                bytes <= COPY_BYTES
            });
            let (now, later) = rest.split_at(fitting.count().max(1));
            let batch = self.source.gather_in(self.view, now)?;
            let records: Vec<&[u8]> = batch.iter().map(Option::unwrap_or_default).collect();
            self.target.extend(&records)?;
            self.report.copied += now.len() as u64;
            rest = later;
        }
        copies.clear();
        Ok(())
    }
}
