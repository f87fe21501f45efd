//! Reclaiming: removing files that no generation in use names.
//!
//! A file stays while either HEAD slot, a named snapshot or a pinned generation may name it. Pins are locks that the
//! kernel drops with the process; where the medium has no locks, unnamed files stay for a grace period instead. Files
//! are unlinked, never cut short, so open files and maps of readers go on working.

use std::collections::BTreeSet;
use std::sync::Arc;

use staddle_base::Result;
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, read_file};

use crate::format::{Head, head, names};
use crate::manifest::Manifest;
use crate::reader::chunks::Origin;
use crate::reader::generation::read_manifest;
use crate::reader::pin;

/// How long unnamed files stay where readers cannot pin.
const GRACE_NS: u64 = 15 * 60 * 1_000_000_000;

/// Every file that a commit names.
pub(crate) fn named_by(head: &Head, manifest: &Manifest, out: &mut BTreeSet<String>) {
    out.insert(names::manifest(head.manifest));
    out.insert(names::log(head.log));
    for segment in &manifest.segments {
        out.insert(names::segment(segment.no, segment.version));
        out.insert(names::sums(segment.no, segment.version, segment.summed));
    }
    for chunk in &manifest.sealed {
        out.insert(names::chunk(chunk.id));
    }
    for chunk in &head.open {
        out.insert(names::chunk(chunk.id));
    }
    for dictionary in &manifest.dictionaries {
        out.insert(names::dictionary(dictionary.slot));
    }
}

/// Files that either HEAD slot or a snapshot names.
///
/// # Errors
/// Those of the device; a damaged snapshot or manifest is an error, because what it names must not go.
fn named(device: &Arc<dyn Device>) -> Result<(u64, BTreeSet<String>)> {
    let bytes = read_file(device.as_ref(), names::HEAD, head::FILE_BYTES)?;
    let newest = Head::newest(&bytes)?;
    let mut out = BTreeSet::new();
    let slots = bytes
        .chunks(head::SLOT_BYTES)
        .filter_map(|slot| Head::decode(slot).ok());
    for head in slots {
        match read_manifest(device.as_ref(), head.manifest) {
            Ok(manifest) => named_by(&head, &manifest, &mut out),
            // The older slot of a set that was repaired or exported may name what is gone.
            Err(_) if head.generation < newest.generation => {}
            Err(e) => return Err(e),
        }
    }
    for snapshot in super::snapshot::list(device.as_ref())? {
        let manifest = read_manifest(device.as_ref(), snapshot.head.manifest)?;
        named_by(&snapshot.head, &manifest, &mut out);
        out.insert(names::snapshot(&snapshot.name));
    }
    Ok((newest.generation, out))
}

/// Removes what nothing names, apart from `kept`: files that a writer has begun and not committed yet. Only a writer calls
/// this.
///
/// # Errors
/// Those of the device.
pub(crate) fn run(
    runtime: &Runtime,
    origin: &Origin,
    cleaners: usize,
    kept: &BTreeSet<String>,
) -> Result<()> {
    let device = &origin.device;
    let (generation, named) = named(device)?;
    let mut surplus = Vec::new();
    for dir in names::DIRS {
        for name in device.list(dir)? {
            let path = format!("{dir}/{name}");
            if !named.contains(&path) && !kept.contains(&path) {
                surplus.push(path);
            }
        }
    }
    if surplus.is_empty() {
        return Ok(());
    }
    if device.capabilities().lock {
        if pin::older_is_pinned(device.as_ref(), generation)? {
            return Ok(());
        }
    } else {
        let now = runtime.clock().wall_ns();
        surplus.retain(|path| {
            let stat = device.stat(path).ok().flatten();
            stat.is_some_and(|stat| now.saturating_sub(stat.mtime_ns) > GRACE_NS)
        });
    }
    let share = surplus.len().div_ceil(cleaners.max(1)).max(1);
    let groups: Vec<&[String]> = surplus.chunks(share).collect();
    let removed = runtime
        .workers()
        .map("unlink", groups, |group: &[String]| {
            group.iter().try_for_each(|path| device.remove(path))
        })?;
    removed.into_iter().collect()
}
