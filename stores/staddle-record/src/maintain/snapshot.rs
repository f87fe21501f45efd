//! Named snapshots: a commit under a name, kept until the name is dropped. Making one copies nothing.

use serde::{Deserialize, Serialize};
use staddle_base::{Error, ErrorKind, Result};
use staddle_runtime::io::device::{Device, publish_file, read_file};

use crate::format::{Head, names};
use crate::manifest::{open_json, seal_json};

/// The largest snapshot file that is read.
const BYTES_MAX: usize = 64 << 10;

/// A named commit.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The commit.
    pub head: Head,
}

/// The file: the HEAD slot as hex, and what people want to know.
#[derive(Debug, Serialize, Deserialize)]
struct File {
    format: String,
    name: String,
    generation: u64,
    length: u64,
    manifest: u64,
    log: u64,
    log_end: u64,
    head: String,
}

/// Writes a snapshot of `head`.
///
/// # Errors
/// `Invalid` for a bad name, `Conflict` when the name is taken.
pub fn add(device: &dyn Device, name: &str, head: &Head) -> Result<()> {
    names::check(name)?;
    let path = names::snapshot(name);
    if device.stat(&path)?.is_some() {
        return Err(
            Error::conflict(format!("there is a snapshot `{name}` already"))
                .with("uri", device.uri())
                .hint("drop it first, or choose another name"),
        );
    }
    let file = File {
        format: "staddle-record-snapshot".into(),
        name: name.to_owned(),
        generation: head.generation,
        length: head.n,
        manifest: head.manifest,
        log: head.log,
        log_end: head.log_end,
        head: head
            .encode()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    };
    publish_file(device, &path, &seal_json(&file)?)
}

/// Reads a snapshot's bytes.
///
/// # Errors
/// `Corrupt` when they are not what was written.
pub fn decode(bytes: &[u8]) -> Result<Snapshot> {
    let file: File = open_json("snapshot", bytes)?;
    names::check(&file.name).map_err(|e| e.kinded(ErrorKind::Corrupt))?;
    let text = file.head.as_bytes();
    let (pairs, rest) = text.as_chunks::<2>();
    let digits = |pair: &[u8; 2]| {
        std::str::from_utf8(pair)
            .ok()
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    let slot: Option<Vec<u8>> = pairs.iter().map(digits).collect();
    let slot = slot
        .filter(|_| rest.is_empty())
        .ok_or_else(|| Error::corrupt("snapshot: the head is not hexadecimal"))?;
    let head = Head::decode(&slot)?;
    Ok(Snapshot {
        name: file.name,
        head,
    })
}

/// Reads one snapshot.
///
/// # Errors
/// `NotFound` with the names that exist, `Corrupt` for a damaged one.
pub fn get(device: &dyn Device, name: &str) -> Result<Snapshot> {
    names::check(name)?;
    let path = names::snapshot(name);
    match read_file(device, &path, BYTES_MAX) {
        Ok(bytes) => decode(&bytes).map_err(|e| e.with("uri", device.uri()).with("path", path)),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let known = list(device)?;
            let known: Vec<&str> = known.iter().map(|s| s.name.as_str()).collect();
            Err(Error::not_found(format!("there is no snapshot `{name}`"))
                .with("uri", device.uri())
                .hint(staddle_base::suggest::hint(name, &known)))
        }
        Err(e) => Err(e),
    }
}

/// All snapshots, oldest commit first.
///
/// # Errors
/// `Corrupt` for a damaged one.
pub fn list(device: &dyn Device) -> Result<Vec<Snapshot>> {
    let found = match device.list("snap") {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let names = found.iter().filter_map(|file| file.strip_suffix(".json"));
    let mut all: Vec<Snapshot> = names
        .map(|name| {
            let path = names::snapshot(name);
            let bytes = read_file(device, &path, BYTES_MAX)?;
            decode(&bytes).map_err(|e| e.with("uri", device.uri()).with("path", path))
        })
        .collect::<Result<_>>()?;
    all.sort_by_key(|snapshot| snapshot.head.generation);
    Ok(all)
}

/// Drops a snapshot; its files go when nothing else names them.
///
/// # Errors
/// `NotFound` with the names that exist.
pub fn remove(device: &dyn Device, name: &str) -> Result<()> {
    get(device, name)?;
    device.remove(&names::snapshot(name))?;
    device.sync_dir("snap")
}
