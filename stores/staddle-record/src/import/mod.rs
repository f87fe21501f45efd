//! Importing: records copied from elsewhere into a set of their own.
//!
//! A [`Reader`] yields records in an order that depends on the source alone; [`import`] writes them. Reading runs one
//! portion ahead on a background thread, so that disks and codecs work at the same time; memory for portions is reserved
//! before it is taken.
//!
//! | Module | One record is |
//! |---|---|
//! | [`files`] | a file of a tree, in order of the bytes of its path |
//! | [`jsonl`] | a line, or one field of it |
//! | [`foreign`] | a member of a tar archive, a TFRecord, a Megatron sequence |
//! | [`lmdb`] | a value of a database, in key order |
//!
//! The facade adds Parquet. With names kept, the result is two aligned sets, `__key__` and `data`.

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic
)]

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use staddle_base::{Error, Result};
use staddle_runtime::io::device::Device;
use staddle_runtime::{Reservation, Runtime};

use crate::adopt::run::{check_free, remove_all};
use crate::adopt::samples::KEY_FIELD;
use crate::aligned::{self, Aligned};
use crate::options::{OpenOptions, Options};
use crate::progress::{OnProgress, Progress};
use crate::records::Records;

pub mod files;
pub mod foreign;
pub mod jsonl;
pub mod lmdb;

pub use files::FilesReader;
pub use foreign::ForeignReader;
pub use jsonl::{JsonlOptions, JsonlReader};
pub use lmdb::LmdbReader;

/// The field that holds the records where names are kept beside them.
pub const DATA_FIELD: &str = "data";

/// About how many bytes a portion has.
pub const PORTION_BYTES: u64 = 32 << 20;
/// How many records a portion has at most.
pub const PORTION_RECORDS: usize = 4096;

/// How long an import waits for memory that others hold.
const PATIENCE: Duration = Duration::from_secs(60);
/// Reasons that a report keeps; the others are only counted.
const REASONS_MAX: usize = 20;

/// A record on its way in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incoming {
    /// What it is called where it comes from.
    pub name: Vec<u8>,
    /// The record.
    pub bytes: Vec<u8>,
    /// There is no record: its index becomes a hole.
    pub missing: bool,
}

impl Incoming {
    /// A record and its name.
    pub fn new(name: Vec<u8>, bytes: Vec<u8>) -> Self {
        Self {
            name,
            bytes,
            missing: false,
        }
    }

    /// A hole with a name.
    pub fn hole(name: Vec<u8>) -> Self {
        Self {
            name,
            bytes: Vec::new(),
            missing: true,
        }
    }
}

impl AsRef<[u8]> for Incoming {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Some records, in order.
#[derive(Debug, Default)]
pub struct Portion {
    /// The records; none at the end of the source.
    pub items: Vec<Incoming>,
    /// Bytes of the source that they stand for.
    pub source_bytes: u64,
    /// Their memory.
    pub held: Option<Held>,
}

/// What a source left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Records that could not be read, or cannot be records.
    pub unreadable: u64,
    /// Why, for the first of them.
    pub reasons: Vec<String>,
    /// Symbolic links.
    pub links: u64,
    /// Pipes, sockets, devices.
    pub special: u64,
    /// Empty lines.
    pub blank: u64,
}

impl Skipped {
    /// Counts a record that cannot be taken.
    pub fn add(&mut self, reason: &Error) {
        self.unreadable += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(reason.to_string());
        }
    }
}

/// Memory that is reserved until this is dropped.
#[derive(Debug)]
pub struct Held {
    reservation: Reservation,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.reservation.shrink(self.bytes);
    }
}

/// What a reader works with.
#[derive(Clone, Debug)]
pub struct Means {
    /// Workers and devices.
    pub runtime: Runtime,
    reservation: Reservation,
}

impl Means {
    /// Those of an import.
    pub fn new(runtime: &Runtime) -> Self {
        Self {
            runtime: runtime.clone(),
            reservation: runtime.memory().root().child("import", None),
        }
    }

    /// Reserves memory for a portion, waiting for others to give up theirs.
    ///
    /// # Errors
    /// `Exhausted` when there is not that much.
    pub fn hold(&self, bytes: u64) -> Result<Held> {
        self.reservation.grow(bytes, PATIENCE)?;
        Ok(Held {
            reservation: self.reservation.clone(),
            bytes,
        })
    }
}

/// A source of records.
pub trait Reader: Send {
    /// The next records; none at the end.
    ///
    /// # Errors
    /// `Corrupt` for a source that contradicts itself, `Exhausted` when there is no memory for a portion; those of the
    /// device.
    fn next(&mut self, means: &Means) -> Result<Portion>;

    /// Records and bytes of the source in all, where known.
    fn totals(&self) -> (Option<u64>, Option<u64>);

    /// What was left out so far.
    fn skipped(&self) -> Skipped {
        Skipped::default()
    }
}

/// How records are imported.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// How the new set is made.
    pub set: Options,
    /// Keep the records' names in an aligned set beside them.
    pub names: bool,
    /// Add to the set that is there rather than make one.
    pub append: bool,
}

/// What an import made.
#[derive(Clone, Debug)]
pub enum Imported {
    /// One set.
    Set(Records),
    /// The set and its names, aligned.
    Aligned(Aligned),
}

/// Figures of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// Records imported, holes included.
    pub records: u64,
    /// Holes: values that the source says it does not have.
    pub holes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was left out.
    pub skipped: Skipped,
}

/// Copies every record of `reader` into a set in the root of `device`, flushed when this returns.
///
/// # Errors
/// `Conflict` when there is something already (or, when appending, another writer), `NotFound` when there is nothing to
/// append to; those of the reader and of writing. A set that was made here is removed then; one that was there keeps
/// what was flushed before.
pub fn import(
    runtime: &Runtime,
    reader: Box<dyn Reader>,
    device: &Arc<dyn Device>,
    options: &ImportOptions,
    progress: OnProgress<'_>,
) -> Result<(Imported, ImportReport)> {
    if options.append {
        if options.names {
            return Err(
                Error::unsupported("records with names cannot be added to a set")
                    .hint("import without names, or into a new set"),
            );
        }
        let records = Records::open(runtime, Arc::clone(device), OpenOptions::default())?;
        let report = copy(reader, &records, None, progress)?;
        return Ok((Imported::Set(records), report));
    }
    check_free(device.as_ref())?;
    let existed = device.stat("")?.is_some();
    let made = make(runtime, reader, device, options, progress);
    if made.is_err() {
        let _ = remove_all(device.as_ref(), "", existed);
    }
    made
}

fn make(
    runtime: &Runtime,
    reader: Box<dyn Reader>,
    device: &Arc<dyn Device>,
    options: &ImportOptions,
    progress: OnProgress<'_>,
) -> Result<(Imported, ImportReport)> {
    if !options.names {
        let records = Records::create(runtime, Arc::clone(device), options.set.clone())?;
        let result = copy(reader, &records, None, progress);
        if result.is_err() {
            let _ = records.close();
        }
        return Ok((Imported::Set(records), result?));
    }
    let fields = aligned::folders([KEY_FIELD, DATA_FIELD]);
    let create = |folder: &str, options: Options| {
        let device = aligned::field_device(device, folder)?;
        Records::create(runtime, device, options)
    };
    let keys = create(KEY_FIELD, Options::default())?;
    let data = create(DATA_FIELD, options.set.clone())?;
    let result = copy(reader, &data, Some(&keys), progress);
    let closed = keys.close().and(data.close());
    let report = result?;
    closed?;
    aligned::publish(device.as_ref(), &fields)?;
    let all = Aligned::open(runtime, device, &OpenOptions::default())?;
    Ok((Imported::Aligned(all), report))
}

/// Copies every record of `reader` to the end of `records`, and their names to the end of `names`; flushes both.
///
/// # Errors
/// Those of the reader and of writing. What was written before stays, unflushed.
pub fn copy(
    reader: Box<dyn Reader>,
    records: &Records,
    names: Option<&Records>,
    progress: OnProgress<'_>,
) -> Result<ImportReport> {
    let (records_total, bytes_total) = reader.totals();
    let mut done = Progress {
        records_total,
        bytes_total,
        ..Progress::default()
    };
    let mut report = ImportReport::default();
    let mut take = |portion: &Portion| {
        let indices = records.extend(&portion.items)?;
        for (index, item) in indices.zip(&portion.items) {
            if item.missing {
                records.tombstone(index)?;
                report.holes += 1;
            }
        }
        if let Some(names) = names {
            let list: Vec<&[u8]> = portion.items.iter().map(|i| i.name.as_slice()).collect();
            names.extend(&list)?;
        }
        let bytes: u64 = portion.items.iter().map(|i| i.bytes.len() as u64).sum();
        report.records += portion.items.len() as u64;
        report.bytes += bytes;
        done.records = report.records;
        done.bytes += portion.source_bytes;
        progress(&done)
    };
    let means = Means::new(records.runtime());
    report.skipped = if means.runtime.options().deterministic {
        in_turns(reader, &means, &mut take)?
    } else {
        side_by_side(reader, means, &mut take)?
    };
    if let Some(names) = names {
        names.flush()?;
    }
    records.flush()?;
    Ok(report)
}

type Take<'a> = &'a mut dyn FnMut(&Portion) -> Result<()>;

/// Reads and writes in turns, for runs that must replay.
fn in_turns(mut reader: Box<dyn Reader>, means: &Means, take: Take<'_>) -> Result<Skipped> {
    loop {
        let portion = reader.next(means)?;
        if portion.items.is_empty() {
            return Ok(reader.skipped());
        }
        take(&portion)?;
    }
}

/// Reads on a background thread, one portion ahead.
fn side_by_side(mut reader: Box<dyn Reader>, means: Means, take: Take<'_>) -> Result<Skipped> {
    let (send, receive) = crossbeam_channel::bounded(1);
    let runtime = means.runtime.clone();
    runtime.workers().spawn("import", move || {
        loop {
            let portion = reader.next(&means);
            let last = !matches!(&portion, Ok(portion) if !portion.items.is_empty());
            let skipped = if last {
                reader.skipped()
            } else {
                Skipped::default()
            };
            // Nobody listens any more when writing failed.
            if send.send((portion, skipped)).is_err() || last {
                return;
            }
        }
    })?;
    loop {
        let (portion, skipped) = receive
            .recv()
            .map_err(|_| Error::internal("the thread that reads the source has stopped"))?;
        let portion = portion?;
        if portion.items.is_empty() {
            return Ok(skipped);
        }
        take(&portion)?;
    }
}

#[cfg(test)]
mod tests;
