//! Exporting: records out of a set, into formats that others read; or the set itself, to another place.
//!
//! | Module | The question it answers |
//! |---|---|
//! | [`sinks`] | what does a record look like as a file, a line, a tar member, a TFRecord |
//! | [`output`] | how does a file appear whole or not at all |
//! | [`clone`](mod@clone) | how does a set get to another folder or an object store |
//!
//! Rows are read in index order, a portion at a time. Holes are left out and counted. A file of records appears under
//! its name only when it is complete and durable; a tree of files is written file by file.

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic
)]

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use staddle_base::{Error, Result, suggest};
use staddle_runtime::io::device::Device;

use crate::adopt::samples::KEY_FIELD;
use crate::aligned::Aligned;
use crate::import::{DATA_FIELD, PORTION_BYTES};
use crate::progress::{OnProgress, Progress};
use crate::records::Records;

pub mod clone;
pub mod output;
pub mod sinks;

pub use clone::{CloneReport, Target, clone_aligned, clone_set};
pub use sinks::JsonlAs;

use sinks::{FilesSink, JsonlSink, Sink, TarSink, TfRecordSink};

/// Rows looked at together.
const ROWS: u64 = 1024;

/// What records are exported to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A file for each record.
    Files,
    /// JSON Lines.
    Jsonl,
    /// A tar archive; of aligned sets a WebDataset.
    Tar,
    /// TFRecords.
    TfRecord,
}

impl Format {
    /// Every format by its name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("files", Self::Files),
        ("jsonl", Self::Jsonl),
        ("tar", Self::Tar),
        ("tfrecord", Self::TfRecord),
    ];

    /// From a name.
    ///
    /// # Errors
    /// `Invalid` with the nearest known name.
    pub fn parse(name: &str) -> Result<Self> {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, format)| *format)
            .ok_or_else(|| {
                let known: Vec<&str> = Self::NAMES.iter().map(|(name, _)| *name).collect();
                Error::invalid(format!("unknown format `{}`", name.escape_debug()))
                    .hint(suggest::hint(name, &known))
            })
    }
}

/// How records are exported.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// What files and members are called after their index, where records have no names.
    pub extension: String,
    /// What a line of JSON Lines holds.
    pub jsonl: JsonlAs,
    /// Begin another file when one has this many bytes of records; not for trees of files.
    pub shard_bytes: Option<u64>,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            extension: "bin".into(),
            jsonl: JsonlAs::Json,
            shard_bytes: None,
        }
    }
}

/// Figures of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    /// Rows with at least one record.
    pub records: u64,
    /// Rows without any, left out.
    pub holes: u64,
    /// Bytes of the records.
    pub bytes: u64,
    /// Files written; for trees of files, none.
    pub files: Vec<String>,
}

/// What is exported: a set, or the fields of aligned sets.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Names of the fields, and their sets.
    fields: Vec<(String, Records)>,
    keys: Option<Records>,
    length: u64,
}

/// One row on its way out.
#[derive(Debug)]
pub struct Row<'a> {
    /// Its index.
    pub index: u64,
    /// What it is called.
    pub key: Cow<'a, [u8]>,
    /// Its fields; a plain set has one without a name.
    pub fields: Vec<(&'a str, Option<&'a [u8]>)>,
    /// The key is the whole name: no field's name is added.
    pub named: bool,
}

impl Rows {
    /// Of one set.
    ///
    /// # Errors
    /// As [`Records::len`].
    pub fn of(records: &Records) -> Result<Self> {
        Ok(Self {
            length: records.len()?,
            fields: vec![(String::new(), records.clone())],
            keys: None,
        })
    }

    /// Of aligned sets; the field `__key__` names the rows.
    ///
    /// # Errors
    /// As [`Aligned::len`]; `Invalid` when there is no field but the keys.
    pub fn of_aligned(aligned: &Aligned) -> Result<Self> {
        let mut rows = Self {
            length: aligned.len()?,
            fields: Vec::new(),
            keys: None,
        };
        for (name, records) in aligned.fields() {
            if name == KEY_FIELD {
                rows.keys = Some(records.clone());
            } else {
                rows.fields.push((name.to_owned(), records.clone()));
            }
        }
        if rows.fields.is_empty() {
            return Err(
                Error::invalid("there is no field to export besides the keys")
                    .with("uri", aligned.uri()),
            );
        }
        Ok(rows)
    }

    /// Only one field.
    ///
    /// # Errors
    /// `KeyMissing` with the nearest name.
    pub fn only(mut self, field: &str) -> Result<Self> {
        let known: Vec<String> = self.fields.iter().map(|(name, _)| name.clone()).collect();
        self.fields.retain(|(name, _)| name == field);
        if self.fields.is_empty() {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            return Err(Error::key_missing(format!(
                "there is no field `{}`",
                field.escape_debug()
            ))
            .hint(suggest::hint(field, &known)));
        }
        Ok(self)
    }

    /// How many rows there are.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Formats without names for their records take one field.
    fn check_one_field(&self) -> Result<()> {
        if let [_] = self.fields.as_slice() {
            return Ok(());
        }
        let names: Vec<&str> = self.fields.iter().map(|(name, _)| name.as_str()).collect();
        Err(
            Error::invalid("this format holds one record a row, but there are several fields")
                .hint(format!("choose one of {}", names.join(", "))),
        )
    }

    /// How many rows from `first` make a portion.
    fn portion(&self, first: u64) -> Result<Vec<u64>> {
        let all: Vec<u64> = (first..self.length.min(first.saturating_add(ROWS))).collect();
        let mut bytes = vec![0_u64; all.len()];
        for (_, records) in &self.fields {
            for (sum, length) in bytes.iter_mut().zip(records.lengths(&all)?) {
                *sum += length;
            }
        }
        let mut total = 0;
        let fitting = bytes.iter().take_while(|bytes| {
            total += **bytes;
            total <= PORTION_BYTES
        });
        let count = fitting.count().max(1);
        Ok(all.into_iter().take(count).collect())
    }
}

/// Exports rows. A tree of files is written into `device`, which must be empty; other formats write the file `name`
/// there, or with shards `name-000000`, `name-000001`, ... before the extension.
///
/// # Errors
/// `Conflict` when something is there already, `Invalid` where a row does not fit the format, `Denied` for a name that
/// leaves the folder, and those of reading and writing.
pub fn export(
    rows: &Rows,
    format: Format,
    device: &Arc<dyn Device>,
    name: &str,
    options: &ExportOptions,
    progress: OnProgress<'_>,
) -> Result<ExportReport> {
    if matches!(format, Format::Jsonl | Format::TfRecord) {
        rows.check_one_field()?;
    }
    if format == Format::Files && device.stat("")?.is_some() && !device.list("")?.is_empty() {
        return Err(Error::conflict("there is something here already")
            .with("uri", device.uri())
            .hint("export to a folder that is empty or does not exist"));
    }
    device.create_dir("")?;
    let open = |shard: Option<u64>| -> Result<Box<dyn Sink>> {
        let name = output::shard_name(name, shard);
        Ok(match format {
            Format::Files => Box::new(FilesSink::new(Arc::clone(device))),
            Format::Jsonl => Box::new(JsonlSink::new(device, &name, options.jsonl)?),
            Format::Tar => Box::new(TarSink::new(device, &name)?),
            Format::TfRecord => Box::new(TfRecordSink::new(device, &name)?),
        })
    };
    let shard_bytes = options.shard_bytes.filter(|_| format != Format::Files);
    let mut job = Job {
        rows,
        options,
        shard: shard_bytes.map(|_| 0),
        shard_bytes: shard_bytes.unwrap_or(u64::MAX),
        in_shard: 0,
        sink: None,
        report: ExportReport::default(),
    };
    job.run(&open, progress)?;
    Ok(job.report)
}

type OpenSink<'a> = &'a dyn Fn(Option<u64>) -> Result<Box<dyn Sink>>;

struct Job<'a> {
    rows: &'a Rows,
    options: &'a ExportOptions,
    shard: Option<u64>,
    shard_bytes: u64,
    /// Bytes in the shard at hand.
    in_shard: u64,
    sink: Option<Box<dyn Sink>>,
    report: ExportReport,
}

impl Job<'_> {
    fn run(&mut self, open: OpenSink<'_>, progress: OnProgress<'_>) -> Result<()> {
        let mut first = 0;
        while first < self.rows.length {
            let indices = self.rows.portion(first)?;
            first += indices.len() as u64;
            self.write(&indices, open)?;
            progress(&Progress {
                records: first,
                bytes: self.report.bytes,
                records_total: Some(self.rows.length),
                bytes_total: None,
            })?;
        }
        // A set without records is a file without records.
        let sink = match self.sink.take() {
            Some(sink) => sink,
            None => open(self.shard)?,
        };
        self.report.files.extend(sink.finish()?);
        Ok(())
    }

    fn write(&mut self, indices: &[u64], open: OpenSink<'_>) -> Result<()> {
        let keys = match &self.rows.keys {
            Some(keys) => Some(keys.gather(indices)?),
            None => None,
        };
        let mut batches = Vec::new();
        for (name, records) in &self.rows.fields {
            batches.push((name.as_str(), records.gather(indices)?));
        }
        let width = self.rows.length.saturating_sub(1).to_string().len();
        let named = keys.is_some()
            && matches!(self.rows.fields.as_slice(), [(name, _)] if name == DATA_FIELD);
        for (position, index) in indices.iter().enumerate() {
            let key = keys.as_ref().and_then(|keys| keys.get(position));
            let row = Row {
                index: *index,
                key: key.map_or_else(
                    || Cow::Owned(format!("{index:0width$}").into_bytes()),
                    Cow::Borrowed,
                ),
                fields: batches
                    .iter()
                    .map(|(name, batch)| {
                        let name = if name.is_empty() {
                            self.options.extension.as_str()
                        } else {
                            name
                        };
                        (name, batch.get(position))
                    })
                    .collect(),
                named: named && key.is_some(),
            };
            let bytes: u64 = row
                .fields
                .iter()
                .filter_map(|(_, record)| record.map(|record| record.len() as u64))
                .sum();
            if row.fields.iter().all(|(_, record)| record.is_none()) {
                self.report.holes += 1;
                continue;
            }
            if self.in_shard > 0 && self.in_shard.saturating_add(bytes) > self.shard_bytes {
                self.next_shard()?;
            }
            let sink = match &mut self.sink {
                Some(sink) => sink,
                none => none.insert(open(self.shard)?),
            };
            sink.put(&row).map_err(|e| e.with("index", index))?;
            self.report.records += 1;
            self.report.bytes += bytes;
            self.in_shard += bytes;
        }
        Ok(())
    }

    fn next_shard(&mut self) -> Result<()> {
        if let Some(sink) = self.sink.take() {
            self.report.files.extend(sink.finish()?);
        }
        self.shard = self.shard.map(|shard| shard + 1);
        self.in_shard = 0;
        Ok(())
    }
}
