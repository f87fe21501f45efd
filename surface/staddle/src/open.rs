//! From a path or URI to the store that lies there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use staddle_base::{Error, Result, suggest};
use staddle_record::{Aligned, OpenOptions, Options, Records};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, LocalDevice};

/// Options of a storage service, such as `region` or `endpoint`.
pub type StorageOptions = BTreeMap<String, String>;

/// The name of a store: a URI, or a path in whatever bytes the file system accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(OsString);

impl Location {
    /// From what a user wrote.
    pub fn new(name: impl Into<OsString>) -> Self {
        Self(name.into())
    }

    /// As the user wrote it.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// The path, where this is one; `None` for a URI with a scheme.
    pub fn local(&self) -> Option<PathBuf> {
        match self.0.to_str() {
            Some(text) => match text.split_once("://") {
                Some(("file", rest)) => Some(PathBuf::from(rest)),
                Some(_) => None,
                None => Some(PathBuf::from(text)),
            },
            None => Some(PathBuf::from(&self.0)),
        }
    }

    /// The same place under a name that does not depend on the current folder.
    #[must_use]
    pub fn absolute(&self) -> Self {
        match self.local().map(std::path::absolute) {
            Some(Ok(path)) => Self(path.into_os_string()),
            _ => self.clone(),
        }
    }

    /// The place called `name` below this one.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        let mut below = self.0.clone();
        if !below.as_bytes().ends_with(b"/") {
            below.push("/");
        }
        below.push(name);
        Self(below)
    }

    /// The device whose root this place is.
    ///
    /// # Errors
    /// `Invalid` for an unknown scheme or option.
    pub fn device(&self, runtime: &Runtime, storage: &StorageOptions) -> Result<Arc<dyn Device>> {
        match (self.0.to_str(), self.local()) {
            (Some(text), _) => runtime.io().device(text, storage),
            (None, Some(path)) => Ok(Arc::new(LocalDevice::new(&path)?)),
            (None, None) => {
                Err(Error::invalid("this is neither a path nor a URI").with("uri", self))
            }
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Path::new(&self.0).display())
    }
}

impl<T: Into<OsString>> From<T> for Location {
    fn from(name: T) -> Self {
        Self::new(name)
    }
}

/// A store of whatever kind lies at a location.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Store {
    /// Opaque records by index.
    Records(Records),
    /// Record sets side by side under one index.
    Aligned(Aligned),
}

impl Store {
    /// The name of the kind, as in `info`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Records(_) => "records",
            Self::Aligned(_) => "aligned records",
        }
    }

    /// The record set in it.
    ///
    /// # Errors
    /// `Invalid` when it is another kind of store, naming the sets that it is made of.
    pub fn into_records(self) -> Result<Records> {
        match self {
            Self::Records(records) => Ok(records),
            Self::Aligned(aligned) => {
                let names: Vec<&str> = aligned.fields().map(|(name, _)| name).collect();
                Err(Error::invalid(format!(
                    "these are {} record sets side by side, and one is needed",
                    names.len()
                ))
                .with("uri", aligned.uri())
                .hint(format!(
                    "name the folder of one of them: {}",
                    names.join(", ")
                )))
            }
        }
    }

    /// Every record set in it, with its name where it has one.
    pub fn sets(&self) -> Vec<(Option<&str>, &Records)> {
        match self {
            Self::Records(records) => vec![(None, records)],
            Self::Aligned(aligned) => aligned
                .fields()
                .map(|(name, records)| (Some(name), records))
                .collect(),
        }
    }
}

/// Opens the store at a location, finding out which kind it is.
///
/// # Errors
/// `NotFound` when nothing is there or it is no store, with a similar name beside it; `Corrupt`, `Unsupported` (a
/// newer format) and `Conflict` (a generation that is gone) as the store says; `Invalid` for a bad URI or option.
pub fn open(
    runtime: &Runtime,
    location: &Location,
    how: OpenOptions,
    storage: &StorageOptions,
) -> Result<Store> {
    let device = location.device(runtime, storage)?;
    if Records::is_set(device.as_ref())? {
        return Records::open(runtime, device, how).map(Store::Records);
    }
    if Aligned::is_aligned(device.as_ref())? {
        return Aligned::open(runtime, &device, &how).map(Store::Aligned);
    }
    Err(nothing(location))
}

/// Why there is no store at a location, and what to do about it.
#[cold]
fn nothing(location: &Location) -> Error {
    let Some(path) = location.local() else {
        return Error::not_found("there is no store here")
            .with("uri", location)
            .hint("check the bucket and the path");
    };
    match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => Error::not_found("this folder is not a store")
            .with("uri", location)
            .hint("a record set has a file HEAD in its folder; `staddle import files SRC DST` makes one from a folder of files"),
        Ok(_) => Error::not_found("this is a file, not a store")
            .with("uri", location)
            .hint(import_hint(&path)),
        Err(_) => {
            let error = Error::not_found("there is nothing at this path").with("uri", location);
            match neighbour(&path) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("check the path; sd.records.create() and `staddle import` make new stores"),
            }
        }
    }
}

fn import_hint(path: &Path) -> String {
    let extension = path
        .extension()
        .and_then(OsStr::to_str)
        .unwrap_or("")
        .to_ascii_lowercase();
    match extension.as_str() {
        "tar" => {
            "`staddle adopt` reads a tar in place, `staddle import tar SRC DST` copies it".into()
        }
        "tfrecord" | "tfrecords" => {
            "`staddle adopt` reads it in place, `staddle import tfrecord SRC DST` copies it".into()
        }
        "bin" | "idx" => "`staddle adopt` reads a Megatron .bin/.idx pair in place".into(),
        kind @ ("jsonl" | "parquet") => {
            format!("`staddle import {kind} SRC DST` makes a store from it")
        }
        "mdb" => "`staddle import lmdb SRC DST` makes a store from it".into(),
        _ => "`staddle import --help` lists what a store can be made from".into(),
    }
}

/// A name in the same folder that a typing mistake may have meant.
fn neighbour(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let names: Vec<String> = std::fs::read_dir(folder)
        .ok()?
        .take(10_000)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let near = suggest::nearest(name, names.iter().map(String::as_str))?;
    let shown = path.with_file_name(near);
    Some(shown.display().to_string())
}

/// Makes a new record set at a location.
///
/// # Errors
/// `Conflict` when something is there already; `Invalid` for options that cannot be; `Unsupported` where the medium
/// cannot be written.
pub fn create(
    runtime: &Runtime,
    location: &Location,
    options: Options,
    storage: &StorageOptions,
) -> Result<Records> {
    Records::create(runtime, location.device(runtime, storage)?, options)
}
