//! LMDB environments: one record for each value of the main or a named database, in key order.
//!
//! The data file is read as it lies, by rules of its own (`page.rs`), without LMDB's code: a damaged file is an error and
//! not a crash, and both data formats (LMDB 0.9 and 1.0) are understood. No lock is taken, so nobody may write
//! meanwhile; a commit that comes between is noticed and is a `Conflict`.

use std::collections::BTreeMap;

use staddle_base::{Error, Result};
use staddle_runtime::Runtime;

use self::tree::{File, Item, Value, Walk, newest};
use super::{Incoming, Means, PORTION_BYTES, PORTION_RECORDS, Portion, Reader};
use crate::adopt::source::{FileSource, Found, find_all};
use crate::adopt::{Source, shown};

mod page;
mod tree;

/// Names that an error lists.
const NAMES_MAX: usize = 20;
/// Values that one worker reads at a time.
const GROUP: usize = 64;

/// Reads one database of an environment.
#[derive(Debug)]
pub struct LmdbReader {
    found: Found,
    source: FileSource,
    meta: page::Meta,
    walk: Walk,
    entries: u64,
}

/// The data file of an environment: `data.mdb` in a folder, or the file itself.
///
/// # Errors
/// `NotFound` when there is none.
pub fn find(runtime: &Runtime, name: &str, storage: &BTreeMap<String, String>) -> Result<Found> {
    let inside = format!("{}/data.mdb", name.trim_end_matches('/'));
    let found = find_all(runtime, &[inside], storage).or_else(|_| {
        find_all(runtime, &[name.to_owned()], storage)
            .map_err(|e| e.hint("an LMDB environment is a folder with a data.mdb, or one file"))
    })?;
    match <[Found; 1]>::try_from(found) {
        Ok([one]) => Ok(one),
        Err(several) => Err(Error::invalid(format!(
            "{} environments have such a name; import them one by one",
            several.len()
        ))),
    }
}

/// The named databases of an environment.
///
/// # Errors
/// `Corrupt` for a damaged file, `Unsupported` for another data format.
pub fn names(source: &dyn Source) -> Result<Vec<Vec<u8>>> {
    let file = File {
        meta: newest(source)?,
        source,
    };
    let mut walk = Walk::new(file.meta.main);
    let mut names = Vec::new();
    while let Some(item) = walk.next(&file)? {
        if let Value::Named(_) = item.value {
            names.push(plain(&item.key).to_vec());
        }
    }
    Ok(names)
}

/// Reads every value of a database without keeping any; for tests and fuzzing.
///
/// # Errors
/// As [`LmdbReader::new`].
pub fn check(source: &dyn Source, name: Option<&str>) -> Result<u64> {
    let meta = newest(source)?;
    let file = File { source, meta };
    let mut walk = Walk::new(database(&file, name)?);
    let mut bytes = 0_u64;
    while let Some(item) = walk.next(&file)? {
        bytes = bytes.saturating_add(item.value.len());
    }
    Ok(bytes)
}

/// A name without the NUL that LMDB 1.0 ends it with.
fn plain(name: &[u8]) -> &[u8] {
    name.strip_suffix(b"\0").unwrap_or(name)
}

/// The tree of the main database, or of a named one.
fn database(file: &File<'_>, name: Option<&str>) -> Result<page::TreeInfo> {
    let mut walk = Walk::new(file.meta.main);
    let Some(name) = name else {
        // Databases live among the values of the main one; where there is nothing else, one of them is meant.
        let mut known = Vec::new();
        while let Some(item) = walk.next(file)? {
            if !matches!(item.value, Value::Named(_)) {
                return Ok(file.meta.main);
            }
            if known.len() < NAMES_MAX {
                known.push(shown(plain(&item.key)));
            }
        }
        if known.is_empty() {
            return Ok(file.meta.main);
        }
        return Err(Error::invalid("the environment holds only named databases")
            .hint(format!("choose one of {}", known.join(", "))));
    };
    let mut known = Vec::new();
    while let Some(item) = walk.next(file)? {
        if let Value::Named(tree) = item.value {
            if plain(&item.key) == name.as_bytes() {
                return Ok(tree);
            }
            if known.len() < NAMES_MAX {
                known.push(shown(plain(&item.key)));
            }
        }
    }
    let hint = if known.is_empty() {
        "it has no named databases; leave the name out".to_owned()
    } else {
        format!("it has {}", known.join(", "))
    };
    Err(Error::key_missing(format!(
        "the environment has no database `{}`",
        name.escape_debug()
    ))
    .hint(hint))
}

impl LmdbReader {
    /// Reads the main database, or the one called `name`.
    ///
    /// # Errors
    /// `KeyMissing` when there is no such database, `Invalid` when there are only named ones, `Corrupt` for a damaged
    /// file, `Unsupported` for another data format.
    pub fn new(found: Found, name: Option<&str>) -> Result<Self> {
        let open = || {
            let source = found.open()?;
            let meta = newest(&source)?;
            let file = File {
                source: &source,
                meta,
            };
            let tree = database(&file, name)?;
            Ok((source, meta, tree))
        };
        let (source, meta, tree) = open().map_err(|e: Error| e.with("file", &found.uri))?;
        Ok(Self {
            found,
            source,
            meta,
            walk: Walk::new(tree),
            entries: tree.entries,
        })
    }

    /// Pages that a later commit freed may be written over: what was read is then worth nothing.
    fn check_unchanged(&self) -> Result<()> {
        if newest(&self.source)?.transaction == self.meta.transaction {
            return Ok(());
        }
        Err(
            Error::conflict("the environment was changed while it was read")
                .hint("stop its writers, then try again"),
        )
    }

    fn portion(&mut self, means: &Means) -> Result<Portion> {
        let file = File {
            source: &self.source,
            meta: self.meta,
        };
        let (mut items, mut bytes) = (Vec::new(), 0_u64);
        while items.len() < PORTION_RECORDS && bytes < PORTION_BYTES {
            let Some(item) = self.walk.next(&file)? else {
                break;
            };
            if !matches!(item.value, Value::Named(_)) {
                bytes = bytes.saturating_add(item.value.len());
                items.push(item);
            }
        }
        let held = means.hold(bytes)?;
        let source = &self.source;
        let groups: Vec<&[Item]> = items.chunks(GROUP).collect();
        let read = means.runtime.workers().map("import", groups, |group| {
            group
                .iter()
                .map(|item| read(source, item))
                .collect::<Result<Vec<_>>>()
        })?;
        let mut records = Vec::new();
        for group in read {
            records.extend(group?);
        }
        self.check_unchanged()?;
        Ok(Portion {
            items: records,
            source_bytes: bytes,
            held: Some(held),
        })
    }
}

fn read(source: &FileSource, item: &Item) -> Result<Incoming> {
    let bytes = match &item.value {
        Value::Here(bytes) => bytes.clone(),
        Value::There { offset, len } => {
            let len = usize::try_from(*len)
                .map_err(|_| Error::exhausted("a value does not fit the address space"))?;
            let mut bytes = vec![0; len];
            source.read(&mut bytes, *offset)?;
            bytes
        }
        Value::Named(_) => Vec::new(),
    };
    let name = item.key.clone();
    Ok(Incoming::new(name, bytes))
}

impl Reader for LmdbReader {
    fn next(&mut self, means: &Means) -> Result<Portion> {
        self.portion(means)
            .map_err(|e| e.with("file", &self.found.uri))
    }

    fn totals(&self) -> (Option<u64>, Option<u64>) {
        (Some(self.entries), None)
    }
}

#[cfg(test)]
mod tests;
