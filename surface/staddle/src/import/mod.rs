//! One entry for everything that records can be imported from.
//!
//! The formats themselves are in [`staddle_record::import`]; [`parquet`] is here because it needs heavy dependencies.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use staddle_base::{Error, Result, suggest};
use staddle_record::adopt::Kind;
use staddle_record::adopt::source::{Found, find_all};
use staddle_record::import::{
    FilesReader, ForeignReader, JsonlOptions, JsonlReader, LmdbReader, Reader, lmdb,
};
use staddle_runtime::Runtime;

#[cfg(feature = "parquet")]
pub mod parquet;
pub mod several;

use several::{Part, Several};

/// What records can be imported from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A tree of files.
    Files,
    /// JSON Lines.
    Jsonl,
    /// Tar archives.
    Tar,
    /// TFRecord files.
    TfRecord,
    /// Megatron's `.bin` with its `.idx`.
    Megatron,
    /// An LMDB environment.
    Lmdb,
    /// A column of Parquet files.
    Parquet,
}

impl Format {
    /// Every format by its name.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("files", Self::Files),
        ("jsonl", Self::Jsonl),
        ("tar", Self::Tar),
        ("tfrecord", Self::TfRecord),
        ("megatron", Self::Megatron),
        ("lmdb", Self::Lmdb),
        ("parquet", Self::Parquet),
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

    /// The name.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, format)| *format == self)
            .map_or("", |(name, _)| name)
    }
}

/// What part of a source becomes records.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// JSON Lines: keep this field rather than the line.
    pub field: Option<String>,
    /// JSON Lines: take lines as they are, whatever they hold.
    pub unchecked: bool,
    /// Parquet: the column; needed where there are several of bytes or text.
    pub column: Option<String>,
    /// Parquet: the column that names the records.
    pub key: Option<String>,
    /// LMDB: the named database.
    pub database: Option<String>,
    /// Files: a file that cannot be read ends the import.
    pub strict: bool,
    /// Tar: pass over links and devices.
    pub skip_special: bool,
    /// Storage options for the sources.
    pub storage: BTreeMap<String, String>,
}

/// Opens `sources`: paths or URIs, for all formats but files with `*`, `?`, `[…]` and `{…}`. A tree of files leaves out
/// `destination`, should it lie within.
///
/// # Errors
/// `NotFound` for a source that names nothing, `Invalid` for several where one is expected; those of the format.
pub fn reader(
    runtime: &Runtime,
    format: Format,
    sources: &[OsString],
    destination: Option<&OsStr>,
    options: &SourceOptions,
) -> Result<Box<dyn Reader>> {
    let find = || {
        let names: Result<Vec<String>> = sources.iter().map(|source| utf8(source)).collect();
        find_all(runtime, &names?, &options.storage)
    };
    let foreign = |kind: Kind| -> Result<Box<dyn Reader>> {
        let reader = ForeignReader::new(find()?, kind, options.skip_special);
        Ok(Box::new(reader))
    };
    match format {
        Format::Files => trees(runtime, sources, destination, options),
        Format::Jsonl => {
            let lines = JsonlOptions {
                field: options.field.clone(),
                unchecked: options.unchecked,
            };
            Ok(Box::new(JsonlReader::new(find()?, lines)))
        }
        Format::Tar => foreign(Kind::Tar),
        Format::TfRecord => foreign(Kind::TfRecord),
        Format::Megatron => foreign(Kind::Megatron),
        Format::Lmdb => {
            let found = lmdb::find(runtime, &utf8(one(sources)?)?, &options.storage)?;
            let reader = LmdbReader::new(found, options.database.as_deref())?;
            Ok(Box::new(reader))
        }
        Format::Parquet => parquet_reader(find()?, options),
    }
}

#[cfg(feature = "parquet")]
fn parquet_reader(files: Vec<Found>, options: &SourceOptions) -> Result<Box<dyn Reader>> {
    let reader =
        parquet::ParquetReader::new(files, options.column.as_deref(), options.key.as_deref())?;
    Ok(Box::new(reader))
}

#[cfg(not(feature = "parquet"))]
fn parquet_reader(_: Vec<Found>, _: &SourceOptions) -> Result<Box<dyn Reader>> {
    Err(Error::unsupported("this build has no Parquet import").hint("build with feature `parquet`"))
}

/// One tree of files, or several one after the other: then each name begins with that of its tree.
fn trees(
    runtime: &Runtime,
    sources: &[OsString],
    destination: Option<&OsStr>,
    options: &SourceOptions,
) -> Result<Box<dyn Reader>> {
    if sources.len() < 2 {
        return files(runtime, one(sources)?, destination, options);
    }
    let mut parts = Vec::with_capacity(sources.len());
    for source in sources {
        let reader = files(runtime, source, destination, options)?;
        let name = path(source).file_name().unwrap_or(source);
        let prefix = [name.as_bytes(), b"/"].concat();
        parts.push(Part { prefix, reader });
    }
    Ok(Box::new(Several::new(parts)))
}

fn files(
    runtime: &Runtime,
    source: &OsStr,
    destination: Option<&OsStr>,
    options: &SourceOptions,
) -> Result<Box<dyn Reader>> {
    let is_remote = |name: &OsStr| {
        let text = name.to_str().unwrap_or_default();
        text.contains("://") && !text.starts_with("file://")
    };
    let reader = if is_remote(source) {
        let device = runtime.io().device(&utf8(source)?, &options.storage)?;
        FilesReader::on(device, options.strict)?
    } else {
        let leave_out = destination.filter(|name| !is_remote(name)).map(path);
        FilesReader::local(path(source), leave_out, options.strict)?
    };
    Ok(Box::new(reader))
}

/// A local path, of any bytes.
fn path(name: &OsStr) -> &Path {
    let bare = name.to_str().and_then(|text| text.strip_prefix("file://"));
    Path::new(bare.map_or(name, OsStr::new))
}

fn one(sources: &[OsString]) -> Result<&OsStr> {
    match sources {
        [one] => Ok(one),
        [] => Err(Error::invalid("no source was named")),
        _ => Err(Error::invalid("this format takes one source at a time")
            .hint("import the others with --append")),
    }
}

fn utf8(name: &OsStr) -> Result<String> {
    name.to_str().map(str::to_owned).ok_or_else(|| {
        Error::invalid("this source's name must be UTF-8")
            .with("source", Path::new(name).display())
            .hint("rename it; only `import files` takes names of any bytes")
    })
}

#[cfg(test)]
mod tests;
