//! Aligned sets: one set for each field, one index for all of them.
//!
//! ```text
//! photos.rec/
//!   aligned.json    which field is in which folder; ends in a checksum line
//!   jpg/  cls/  __key__/     record sets of the same length
//! ```
//!
//! Row i is record i of every field; a field that a row does not have is a hole. A set of names beside a set of contents
//! is how records get keys. Fields are read with the batch size and order of the others, so one list of indices gives
//! one batch for each field.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use staddle_base::{Error, ErrorKind, Result, suggest};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, FolderDevice, check_path, publish_file, read_file};

use crate::adopt::locate::ALIGNED;
use crate::format::names;
use crate::manifest::{open_json, seal_json};
use crate::options::OpenOptions;
use crate::reader::Batch;
use crate::records::Records;

/// The largest `aligned.json` that is read.
const BYTES_MAX: usize = 16 << 20;

/// The version of `aligned.json` that this build writes.
const VERSION: u32 = 1;

/// Which field is where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The folder of its set.
    pub folder: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    format: String,
    version: u32,
    fields: Vec<Field>,
}

/// Several sets under one index. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Aligned(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    uri: String,
    fields: Vec<(String, Records)>,
}

/// One row: each field with its record, `None` where the row does not have it.
pub type Row<'a> = Vec<(&'a str, Option<Vec<u8>>)>;

/// A folder name for each field: the field's own where that is a legal name, else a number.
pub fn folders<'a>(fields: impl IntoIterator<Item = &'a str>) -> Vec<Field> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    (0_usize..)
        .zip(fields)
        .map(|(position, name)| {
            let mut folder = name.to_owned();
            if names::check(name).is_err() || name == ALIGNED || taken.contains(name) {
                folder = format!("field-{position}");
                while taken.contains(&folder) {
                    folder.push('_');
                }
            }
            taken.insert(folder.clone());
            Field {
                name: name.to_owned(),
                folder,
            }
        })
        .collect()
}

/// The device of a field's set.
///
/// # Errors
/// `Denied` for a folder that leaves the device.
pub fn field_device(device: &Arc<dyn Device>, folder: &str) -> Result<Arc<dyn Device>> {
    Ok(Arc::new(FolderDevice::new(Arc::clone(device), folder)?))
}

/// Writes `aligned.json`: from now on the folder holds aligned sets.
///
/// # Errors
/// `Invalid` for a field twice; those of the device.
pub fn publish(device: &dyn Device, fields: &[Field]) -> Result<()> {
    publish_file(device, ALIGNED, &encode(fields)?)
}

/// The bytes of an `aligned.json`.
///
/// # Errors
/// `Invalid` for a field twice.
pub fn encode(fields: &[Field]) -> Result<Vec<u8>> {
    check_fields(fields).map_err(Error::invalid)?;
    seal_json(&File {
        format: "staddle-aligned".into(),
        version: VERSION,
        fields: fields.to_vec(),
    })
}

fn check_fields(fields: &[Field]) -> std::result::Result<(), String> {
    let (mut seen, mut folders) = (BTreeSet::new(), BTreeSet::new());
    for field in fields {
        if !seen.insert(&field.name) {
            return Err(format!(
                "the field `{}` is there twice",
                field.name.escape_debug()
            ));
        }
        let one_part = check_path(&field.folder).is_ok() && !field.folder.contains('/');
        if !one_part || field.folder.is_empty() || !folders.insert(&field.folder) {
            return Err(format!(
                "the folder `{}` of the field `{}` is impossible",
                field.folder.escape_debug(),
                field.name.escape_debug()
            ));
        }
    }
    if fields.is_empty() {
        return Err("there are no fields".into());
    }
    Ok(())
}

/// Reads `aligned.json`.
///
/// # Errors
/// `NotFound` when there is none, `Corrupt` for a damaged one, `Unsupported` for a newer one.
pub fn fields(device: &dyn Device) -> Result<Vec<Field>> {
    let locate = |e: Error| e.with("uri", device.uri()).with("path", ALIGNED);
    let bytes = read_file(device, ALIGNED, BYTES_MAX).map_err(|e| match e.kind() {
        ErrorKind::NotFound => locate(Error::not_found("this folder does not hold aligned sets")),
        _ => e,
    })?;
    decode(&bytes).map_err(locate)
}

/// Reads the bytes of an `aligned.json`.
///
/// # Errors
/// `Corrupt` when they are not what was written, `Unsupported` for a newer version.
pub fn decode(bytes: &[u8]) -> Result<Vec<Field>> {
    let file: File = open_json("aligned.json", bytes)?;
    if file.version > VERSION {
        return Err(Error::unsupported(format!(
            "aligned.json was written in format {}; this version reads up to {VERSION}",
            file.version
        ))
        .hint("upgrade staddle"));
    }
    if file.format != "staddle-aligned" {
        return Err(Error::corrupt(format!(
            "aligned.json: format is `{}`",
            file.format.escape_debug()
        )));
    }
    check_fields(&file.fields).map_err(|why| Error::corrupt(format!("aligned.json: {why}")))?;
    Ok(file.fields)
}

impl Aligned {
    /// Whether the device's root holds aligned sets.
    ///
    /// # Errors
    /// Those of the device.
    pub fn is_aligned(device: &dyn Device) -> Result<bool> {
        Ok(device.stat(ALIGNED)?.is_some_and(|stat| !stat.dir))
    }

    /// Opens every field of the sets in the device's root.
    ///
    /// # Errors
    /// `NotFound` when there are none, `Corrupt` when a field is missing or has another length; those of
    /// [`Records::open`].
    pub fn open(runtime: &Runtime, device: &Arc<dyn Device>, how: &OpenOptions) -> Result<Self> {
        let mut opened = Vec::new();
        for field in fields(device.as_ref())? {
            let folder = field_device(device, &field.folder)?;
            let records = Records::open(runtime, folder, how.clone()).map_err(|e| {
                let e = e.with("field", &field.name);
                match e.kind() {
                    ErrorKind::NotFound => e.kinded(ErrorKind::Corrupt),
                    _ => e,
                }
            })?;
            opened.push((field.name, records));
        }
        Self::build(device.uri().to_owned(), opened).map_err(|e| {
            e.kinded(ErrorKind::Corrupt).hint(
                "a field was changed without the others; open the fields one by one to repair it",
            )
        })
    }

    /// Puts sets that are open already side by side.
    ///
    /// # Errors
    /// `Invalid` when their lengths differ, a name is there twice, or there is none.
    pub fn zip(fields: Vec<(String, Records)>) -> Result<Self> {
        let uris: Vec<String> = fields
            .iter()
            .map(|(name, records)| format!("{name}={}", records.uri()))
            .collect();
        Self::build(format!("zip({})", uris.join(", ")), fields)
    }

    fn build(uri: String, fields: Vec<(String, Records)>) -> Result<Self> {
        let mut seen = BTreeSet::new();
        if let Some((twice, _)) = fields.iter().find(|(name, _)| !seen.insert(name)) {
            return Err(Error::invalid(format!(
                "the field `{twice}` is there twice"
            )));
        }
        let mut lengths = Vec::new();
        for (_, records) in &fields {
            lengths.push(records.len()?);
        }
        let Some(first) = lengths.first() else {
            return Err(Error::invalid("aligned sets need at least one field"));
        };
        if lengths.iter().any(|length| length != first) {
            let all: Vec<String> = fields
                .iter()
                .zip(&lengths)
                .map(|((name, _), length)| format!("{name}: {length}"))
                .collect();
            return Err(Error::invalid(format!(
                "aligned sets have the same length, these have {}",
                all.join(", ")
            ))
            .with("uri", uri));
        }
        Ok(Self(Arc::new(Inner { uri, fields })))
    }

    /// Where the sets are.
    pub fn uri(&self) -> &str {
        &self.0.uri
    }

    /// Number of rows.
    ///
    /// # Errors
    /// As [`Records::len`].
    pub fn len(&self) -> Result<u64> {
        let mut length = u64::MAX;
        for (_, records) in &self.0.fields {
            length = length.min(records.len()?);
        }
        Ok(length)
    }

    /// Whether there are no rows.
    ///
    /// # Errors
    /// As [`Aligned::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The fields in order, each with its set.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&str, &Records)> {
        self.0
            .fields
            .iter()
            .map(|(name, records)| (name.as_str(), records))
    }

    /// The set of a field.
    ///
    /// # Errors
    /// `KeyMissing` with the nearest name.
    pub fn field(&self, name: &str) -> Result<&Records> {
        self.fields()
            .find(|(known, _)| *known == name)
            .map(|(_, records)| records)
            .ok_or_else(|| {
                let known: Vec<&str> = self.fields().map(|(name, _)| name).collect();
                Error::key_missing(format!("there is no field `{}`", name.escape_debug()))
                    .with("uri", self.uri())
                    .hint(suggest::hint(name, &known))
            })
    }

    /// The same sets with only these fields, in this order.
    ///
    /// # Errors
    /// `KeyMissing` with the nearest name, `Invalid` for a field twice or none.
    pub fn select(&self, names: &[&str]) -> Result<Self> {
        let mut fields = Vec::new();
        for name in names {
            fields.push(((*name).to_owned(), self.field(name)?.clone()));
        }
        Self::build(self.0.uri.clone(), fields)
    }

    /// An index as a user writes it: negative ones count from the end.
    ///
    /// # Errors
    /// `OutOfRange` with the valid range.
    pub fn normalize(&self, index: i64) -> Result<u64> {
        let length = self.len()?;
        let absolute = match u64::try_from(index) {
            Ok(index) => Some(index),
            Err(_) => length.checked_sub(index.unsigned_abs()),
        };
        absolute
            .filter(|index| *index < length)
            .ok_or_else(|| Error::out_of_range(index, length).with("uri", self.uri()))
    }

    /// One batch for each field, in the order of the fields; rows in input order.
    ///
    /// # Errors
    /// `OutOfRange` before any byte moves, and as [`Records::gather`], with the field.
    pub fn gather(&self, indices: &[u64]) -> Result<Vec<(&str, Batch)>> {
        let length = self.len()?;
        if let Some(bad) = indices.iter().find(|index| **index >= length) {
            let bad = i64::try_from(*bad).unwrap_or(i64::MAX);
            return Err(Error::out_of_range(bad, length).with("uri", self.uri()));
        }
        self.fields()
            .map(|(name, records)| match records.gather(indices) {
                Ok(batch) => Ok((name, batch)),
                Err(e) => Err(e.with("field", name)),
            })
            .collect()
    }

    /// One row.
    ///
    /// # Errors
    /// As [`Aligned::gather`].
    pub fn get(&self, index: u64) -> Result<Row<'_>> {
        let batches = self.gather(&[index])?;
        Ok(batches
            .into_iter()
            .map(|(name, batch)| (name, batch.get(0).map(<[u8]>::to_vec)))
            .collect())
    }

    /// Closes every field.
    ///
    /// # Errors
    /// The first of [`Records::close`]; all are closed.
    pub fn close(&self) -> Result<()> {
        let results: Vec<Result<()>> = self.fields().map(|(_, records)| records.close()).collect();
        results.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
