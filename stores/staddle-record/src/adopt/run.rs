//! Many foreign files become one set, or aligned sets, without copying a payload.
//!
//! Files are scanned in parallel, a few at a time, and adopted in the order in which they were named. Each file becomes
//! one chunk of the set. What is named last is what makes the result visible: `aligned.json` after all fields are
//! durable. A failure removes what was made.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use staddle_base::{Error, Result};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::Device;

use super::kind::Kind;
use super::locate::refer;
use super::samples::KEY_FIELD;
use super::scan::{self, FileScan, How, Layout};
use super::source::{Found, find_all, home_of};
use crate::aligned::{self, Aligned};
use crate::manifest::External;
use crate::options::{Dtype, OpenOptions, Options};
use crate::progress::{OnProgress, Progress};
use crate::records::Records;

/// Holes appended in one call.
const HOLES: usize = 1 << 20;

/// Whether tar archives become one set for each extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Yes, when all files are tar archives.
    #[default]
    Auto,
    /// Every member is a record of one set.
    Never,
}

/// How files are adopted.
#[derive(Clone, Debug, Default)]
pub struct AdoptOptions {
    /// Their format; found out by their first bytes if not given.
    pub kind: Option<Kind>,
    /// Whether tar archives become one set for each extension.
    pub split: Split,
    /// Pass over links, devices and pipes in tar archives, and count them.
    pub skip_special: bool,
    /// Check payload checksums now, where the format has them.
    pub verify: bool,
    /// Keep a hash of every file, which `verify` checks later.
    pub digest: bool,
    /// How the new sets are made; records appended later follow it.
    pub set: Options,
    /// Storage options for the sources.
    pub storage: BTreeMap<String, String>,
}

/// What became of the files.
#[derive(Clone, Debug)]
pub enum Adopted {
    /// One set.
    Set(Records),
    /// One set for each field.
    Aligned(Aligned),
}

/// Figures of an adoption.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AdoptReport {
    /// Files adopted.
    pub files: u64,
    /// Records, or samples, found.
    pub records: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Fields, with how many samples have each; empty for a plain set.
    pub fields: Vec<(String, u64)>,
    /// Members passed over: links and devices on request, names that are no part of a sample.
    pub skipped: u64,
    /// The first of them.
    pub first_skipped: Option<String>,
    /// Archives without an end marker: their writers may not have finished.
    pub unterminated: Vec<String>,
}

/// Makes a set in the root of `device` whose records lie in `sources`: paths or URIs, with `*`, `?`, `[…]` and `{…}`.
///
/// The sets that are returned may follow the files wherever they are; a later `open` follows files beside the set, and
/// others with `external_anywhere`.
///
/// # Errors
/// `NotFound` for a source that names nothing, `Conflict` when there is a set already or a file changes meanwhile,
/// `Unsupported` and `Corrupt` as the parsers say; nothing is left behind then.
pub fn adopt(
    runtime: &Runtime,
    sources: &[String],
    device: &Arc<dyn Device>,
    options: &AdoptOptions,
    progress: OnProgress<'_>,
) -> Result<(Adopted, AdoptReport)> {
    check_free(device.as_ref())?;
    let existed = device.stat("")?.is_some();
    let mut job = Job::new(runtime, sources, device, options)?;
    let result = job.run(progress).and_then(|()| job.finish());
    if result.is_err() {
        job.close();
        let _ = remove_all(device.as_ref(), "", existed);
    }
    let adopted = result?;
    Ok((adopted, job.report))
}

/// Checks that a new set can be made in the root of `device`.
///
/// # Errors
/// `Conflict` when there is one already.
pub fn check_free(device: &dyn Device) -> Result<()> {
    let taken = Records::is_set(device)? || Aligned::is_aligned(device)?;
    let other = || Ok::<_, Error>(device.stat("")?.is_some() && !device.list("")?.is_empty());
    if taken || other()? {
        let what = if taken { "a set" } else { "something else" };
        return Err(Error::conflict(format!("there is {what} here already"))
            .with("uri", device.uri())
            .hint("choose another destination, or remove this one first"));
    }
    Ok(())
}

/// Removes everything in a folder, and the folder itself unless `keep`.
///
/// # Errors
/// The first of the device; the rest is removed all the same.
pub fn remove_all(device: &dyn Device, dir: &str, keep: bool) -> Result<()> {
    let mut result = Ok(());
    if device.stat(dir)?.is_none() {
        return result;
    }
    for name in device.list(dir)? {
        let path = if dir.is_empty() {
            name
        } else {
            format!("{dir}/{name}")
        };
        let is_dir = device.stat(&path)?.is_some_and(|stat| stat.dir);
        let removed = if is_dir {
            remove_all(device, &path, false)
        } else {
            device.remove(&path)
        };
        result = result.and(removed);
    }
    if !keep {
        result = result.and(device.remove_dir(dir));
    }
    result
}

struct Job<'a> {
    runtime: &'a Runtime,
    device: &'a Arc<dyn Device>,
    options: &'a AdoptOptions,
    files: Vec<(Found, Kind)>,
    /// The folder that relative URIs start at.
    home: String,
    split: bool,
    dtype: Option<Dtype>,
    plain: Option<Records>,
    keys: Option<Records>,
    fields: Vec<Column>,
    report: AdoptReport,
}

/// One field of the samples.
struct Column {
    name: String,
    records: Records,
    /// Holes at its end that are not written yet.
    holes: u64,
    present: u64,
}

impl<'a> Job<'a> {
    fn new(
        runtime: &'a Runtime,
        sources: &[String],
        device: &'a Arc<dyn Device>,
        options: &'a AdoptOptions,
    ) -> Result<Self> {
        let found = find_all(runtime, sources, &options.storage)?;
        let kinds = runtime.workers().map("adopt", found, |found| {
            let kind = match options.kind {
                Some(kind) => Ok(kind),
                None => Kind::of(&found).map_err(|e| e.with("file", &found.uri)),
            };
            kind.map(|kind| (found, kind))
        })?;
        let files: Vec<(Found, Kind)> = kinds.into_iter().collect::<Result<_>>()?;
        let all_tar = files.iter().all(|(_, kind)| *kind == Kind::Tar);
        Ok(Self {
            runtime,
            device,
            options,
            files,
            home: home_of(device.as_ref())?,
            split: all_tar && options.split == Split::Auto,
            dtype: options.set.dtype,
            plain: None,
            keys: None,
            fields: Vec::new(),
            report: AdoptReport::default(),
        })
    }

    fn run(&mut self, progress: OnProgress<'_>) -> Result<()> {
        let how = How {
            split: self.split,
            skip_special: self.options.skip_special,
            verify: self.options.verify,
            digest: self.options.digest,
        };
        let bytes_total = self.files.iter().map(|(found, _)| found.stat.len).sum();
        let at_once = self.runtime.workers().threads().saturating_mul(2).max(1);
        let files = std::mem::take(&mut self.files);
        for group in files.chunks(at_once) {
            let scans = self
                .runtime
                .workers()
                .map("adopt", group.to_vec(), |(found, kind)| {
                    scan::scan(&found, kind, how)
                })?;
            for scan in scans {
                self.take(scan?)?;
                progress(&Progress {
                    records: self.report.records,
                    bytes: self.report.bytes,
                    records_total: None,
                    bytes_total: Some(bytes_total),
                })?;
            }
        }
        Ok(())
    }

    /// Adds one scanned file.
    fn take(&mut self, mut scan: FileScan) -> Result<()> {
        let uri = std::mem::take(&mut scan.external.uri);
        self.agree_on_dtype(&scan, &uri)?;
        let report = &mut self.report;
        report.files += 1;
        report.records += scan.len();
        report.bytes += scan.external.size;
        report.skipped += scan.scanned.skipped;
        if report.first_skipped.is_none() {
            report.first_skipped = scan.scanned.first_skipped.take();
        }
        if scan.scanned.unterminated {
            report.unterminated.push(uri.clone());
        }
        let mut reference = refer(&self.home, &uri);
        match &scan.layout {
            Layout::Plain(pieces) => {
                scan.external.uri = reference;
                let records = self.plain()?;
                if !pieces.is_empty() {
                    records.adopt_external(scan.external, pieces)?;
                }
            }
            Layout::Samples(samples) => {
                if reference != uri {
                    // A field's set lies one folder deeper.
                    reference.insert_str(0, "../");
                }
                scan.external.uri = reference;
                for name in samples.names() {
                    self.column(name, self.report.records - samples.len() as u64)?;
                }
                self.keys()?.extend(samples.keys())?;
                for column in &mut self.fields {
                    column.take(&scan.external, samples)?;
                }
            }
        }
        Ok(())
    }

    /// Files of one set have one element type.
    fn agree_on_dtype(&mut self, scan: &FileScan, uri: &str) -> Result<()> {
        match (self.dtype, scan.dtype) {
            (Some(ours), Some(theirs)) if ours != theirs => Err(Error::invalid(format!(
                "the set holds elements of {}, the file has {}",
                ours.name(),
                theirs.name()
            ))
            .with("file", uri)
            .hint("adopt files of different element types into sets of their own")),
            (None, Some(theirs)) => {
                if self.plain.is_some() {
                    return Err(Error::invalid(
                        "files with and without an element type cannot be one set",
                    )
                    .with("file", uri));
                }
                self.dtype = Some(theirs);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn plain(&mut self) -> Result<&Records> {
        if self.plain.is_none() {
            let options = Options {
                dtype: self.dtype,
                ..self.options.set.clone()
            };
            let records = Records::create(self.runtime, Arc::clone(self.device), options)?;
            self.plain = Some(records);
        }
        self.plain
            .as_ref()
            .ok_or_else(|| Error::internal("no set was made"))
    }

    fn keys(&mut self) -> Result<&Records> {
        if self.keys.is_none() {
            let device = aligned::field_device(self.device, KEY_FIELD)?;
            self.keys = Some(Records::create(self.runtime, device, Options::default())?);
        }
        self.keys
            .as_ref()
            .ok_or_else(|| Error::internal("no set was made for the keys"))
    }

    /// Makes the set of a field that was not seen before; `before` samples do not have it.
    fn column(&mut self, name: &str, before: u64) -> Result<()> {
        if self.fields.iter().any(|column| column.name == name) {
            return Ok(());
        }
        if self.fields.len() >= super::samples::FIELDS_MAX {
            return Err(Error::exhausted(format!(
                "the archives have more than {} different extensions",
                super::samples::FIELDS_MAX
            ))
            .hint("this does not look like WebDataset; adopt it with split=False"));
        }
        let known = self.fields.iter().map(|column| column.name.as_str());
        let folders = aligned::folders([KEY_FIELD].into_iter().chain(known).chain([name]));
        let folder = folders
            .last()
            .ok_or_else(|| Error::internal("a field has no folder"))?;
        let device = aligned::field_device(self.device, &folder.folder)?;
        let records = Records::create(self.runtime, device, self.options.set.clone())?;
        self.fields.push(Column {
            name: name.to_owned(),
            records,
            holes: before,
            present: 0,
        });
        Ok(())
    }

    /// Makes everything durable, names it, and opens it anew for reading.
    fn finish(&mut self) -> Result<Adopted> {
        let how = OpenOptions {
            external_anywhere: true,
            ..OpenOptions::default()
        };
        if !self.split {
            self.plain()?.close()?;
            let records = Records::open(self.runtime, Arc::clone(self.device), how)?;
            return Ok(Adopted::Set(records));
        }
        self.keys()?.close()?;
        for column in &mut self.fields {
            column.finish()?;
        }
        let names = self.fields.iter().map(|column| column.name.as_str());
        let folders = aligned::folders([KEY_FIELD].into_iter().chain(names));
        aligned::publish(self.device.as_ref(), &folders)?;
        self.report.fields = self
            .fields
            .iter()
            .map(|column| (column.name.clone(), column.present))
            .collect();
        Aligned::open(self.runtime, self.device, &how).map(Adopted::Aligned)
    }

    /// Gives up the writer locks after a failure.
    fn close(&mut self) {
        let sets = self.plain.iter().chain(&self.keys);
        for records in sets.chain(self.fields.iter().map(|column| &column.records)) {
            let _ = records.close();
        }
    }
}

impl Column {
    fn take(&mut self, external: &External, samples: &super::samples::Samples) -> Result<()> {
        let pieces = scan::pieces(&samples.column(&self.name));
        let present = pieces.iter().flatten().count() as u64;
        if present == 0 {
            self.holes += pieces.len() as u64;
            return Ok(());
        }
        self.write_holes(external)?;
        self.records.adopt_external(external.clone(), &pieces)?;
        self.present += present;
        Ok(())
    }

    /// Appends the holes so far; they need a file to be holes of.
    fn write_holes(&mut self, external: &External) -> Result<()> {
        while self.holes > 0 {
            let count = usize::try_from(self.holes).map_or(HOLES, |holes| holes.min(HOLES));
            self.records
                .adopt_external(external.clone(), &vec![None; count])?;
            self.holes -= count as u64;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let last = self
            .records
            .current()?
            .manifest
            .sealed
            .iter()
            .rev()
            .find_map(|chunk| chunk.external.clone());
        if let Some(external) = last {
            self.write_holes(&external)?;
        }
        self.records.close()
    }
}
