//! Verify: reading everything and listing what is damaged.
//!
//! Every live record is read and checked against its frame's checksum, in the order in which it lies on the device; the
//! table's pages against theirs; chunk headers and footers; adopted files against what they carry themselves. One
//! damaged record hides no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use staddle_base::checksum::{Xxh3, crc32c_masked};
use staddle_base::{Error, ErrorKind, Result};

use crate::format::{ChunkFooter, ChunkHeader, Entry};
use crate::options::Verify;
use crate::reader::Generation;
use crate::reader::chunks::Chunk;
use crate::reader::gather::{self, Context};
use crate::records::Records;

use super::compact::for_entries;

/// Records read at a time.
const STEP: usize = 256;
/// Bytes of an adopted file hashed at a time.
const HASH_BYTES: usize = 1 << 20;

/// One thing that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The record that cannot be read, where it is one.
    pub index: Option<u64>,
    /// The chunk.
    pub chunk: Option<u32>,
    /// Where in the chunk.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// What `verify` found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Live records read.
    pub records: u64,
    /// Bytes of them, as stored.
    pub bytes: u64,
    /// Records that carry no checksum to check against: adopted tar and Megatron files.
    pub unchecked: u64,
    /// What is damaged, in order of index; damage of no record comes first.
    pub bad: Vec<Damage>,
}

impl Records {
    /// Reads everything in view. `progress` is told records done and records in all.
    ///
    /// # Errors
    /// Those that keep it from reading on; damage is in the report.
    pub fn verify(&self, mut progress: impl FnMut(u64, u64)) -> Result<VerifyReport> {
        self.verify_while(|done, total| {
            progress(done, total);
            true
        })
    }

    /// As [`Records::verify`], as long as `go_on`, which is told records done and records in all, says so.
    ///
    /// # Errors
    /// As [`Records::verify`], and `Cancelled`.
    pub fn verify_while(&self, mut go_on: impl FnMut(u64, u64) -> bool) -> Result<VerifyReport> {
        let view = self.current()?;
        let mut report = VerifyReport::default();
        let mut damaged = BTreeMap::new();
        for (slots, error) in view.table.damaged_pages() {
            for index in slots.start..slots.end.min(view.head.n) {
                if view.overlay.get(index).is_none() {
                    damaged.insert(index, damage(Some(index), None, &error));
                }
            }
        }
        for chunk in view.chunks.list() {
            if let Err(e) = check_chunk(&view, chunk) {
                report.bad.push(damage(None, Some(chunk.id()), &e));
            }
        }
        let mut live: Vec<(u32, u64, u64)> = Vec::new();
        for_entries(&view, |index, entry| {
            if entry.is_present() && !damaged.contains_key(&index) {
                live.push((entry.chunk(), entry.offset(), index));
            }
            Ok(())
        })?;
        live.sort_unstable();
        let strict = Arc::new(Generation {
            verify: Verify::Always,
            ..Generation::clone(&view)
        });
        let total = live.len() as u64;
        for step in live.chunks(STEP) {
            self.check_step(&strict, step, &mut report, &mut damaged)?;
            if !go_on(report.records, total) {
                return Err(Error::cancelled("verify was stopped").with("uri", self.uri()));
            }
        }
        report.bad.extend(damaged.into_values());
        Ok(report)
    }

    fn check_step(
        &self,
        view: &Arc<Generation>,
        step: &[(u32, u64, u64)],
        report: &mut VerifyReport,
        damaged: &mut BTreeMap<u64, Damage>,
    ) -> Result<()> {
        let indices: Vec<u64> = step.iter().map(|(.., index)| *index).collect();
        let whole = self.read_in(view, |context| gather::gather(context, &indices));
        for (_, _, index) in step {
            let (entry, _) = view.entry(*index)?;
            report.records += 1;
            report.bytes += u64::from(entry.physical_length());
            let result = match &whole {
                Ok(_) => Ok(()),
                // One of them is damaged, or more: which?
                Err(_) => self.read_in(view, |context| gather::one(context, *index, |_| ())),
            };
            let result = result.and_then(|()| {
                self.read_in(view, |context| {
                    check_foreign(context, *index, entry, report)
                })
            });
            match result {
                Ok(()) => {}
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::Denied
                    ) =>
                {
                    damaged.insert(*index, damage(Some(*index), Some(entry.chunk()), &e));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

fn damage(index: Option<u64>, chunk: Option<u32>, error: &Error) -> Damage {
    Damage {
        index,
        chunk,
        offset: error.get("offset").and_then(|text| text.parse().ok()),
        what: error.message().to_owned(),
    }
}

/// Header of a set's own chunk, and the footer of a sealed one.
fn check_chunk(view: &Generation, chunk: &Chunk) -> Result<()> {
    let file = chunk.file()?;
    if let Some(foreign) = chunk.foreign() {
        return match &foreign.xxh3 {
            Some(expected) => check_digest(chunk, expected),
            None => Ok(()),
        };
    }
    let mut bytes = [0; ChunkHeader::BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    ChunkHeader::decode(&bytes)?;
    let Some(sealed) = view
        .manifest
        .sealed
        .iter()
        .find(|sealed| sealed.id == chunk.id())
    else {
        return Ok(());
    };
    if file.len()? == sealed.bytes {
        // Rebuilt from chunks: it never had a footer.
        return Ok(());
    }
    let mut bytes = [0; ChunkFooter::BYTES];
    file.read_exact_at(&mut bytes, sealed.bytes)
        .map_err(|e| chunk.locate(e))?;
    let footer =
        ChunkFooter::decode(&bytes).map_err(|e| chunk.locate(e).with("offset", sealed.bytes))?;
    let same = footer.bytes == sealed.bytes
        && footer.frames == sealed.records
        && footer.digest == sealed.digest;
    if same {
        return Ok(());
    }
    Err(chunk.locate(
        Error::corrupt("the chunk's footer contradicts the manifest").with("offset", sealed.bytes),
    ))
}

/// The hash of a whole foreign file, where it was taken when the file was adopted.
fn check_digest(chunk: &Chunk, expected: &str) -> Result<()> {
    let file = chunk.file()?;
    let mut hash = Xxh3::default();
    let mut buffer = vec![0; HASH_BYTES];
    let mut at = 0;
    loop {
        let got = file.read_at(&mut buffer, at)?;
        hash.update(buffer.get(..got).unwrap_or_default());
        at += got as u64;
        if got < buffer.len() {
            break;
        }
    }
    if format!("{:016x}", hash.finish()) == expected {
        return Ok(());
    }
    Err(chunk.locate(Error::corrupt(
        "the adopted file's bytes are not those that were adopted",
    )))
}

/// What a foreign file carries of its own.
fn check_foreign(
    context: &Context<'_>,
    index: u64,
    entry: Entry,
    report: &mut VerifyReport,
) -> Result<()> {
    if !entry.is_external() {
        return Ok(());
    }
    let view = context.generation;
    let Some(chunk) = view.chunks.get(entry.chunk()) else {
        return Ok(());
    };
    if chunk
        .foreign()
        .is_none_or(|foreign| foreign.kind != "tfrecord")
    {
        report.unchecked += 1;
        return Ok(());
    }
    let mut stored = [0; 4];
    chunk.file()?.read_exact_at(
        &mut stored,
        entry.offset() + u64::from(entry.physical_length()),
    )?;
    gather::one(context, index, |payload| {
        let payload = payload.unwrap_or_default();
        if u32::from_le_bytes(stored) == crc32c_masked(payload) {
            Ok(())
        } else {
            Err(view.locate(
                Error::corrupt("the TFRecord's checksum does not match its bytes"),
                index,
                entry,
            ))
        }
    })?
}
