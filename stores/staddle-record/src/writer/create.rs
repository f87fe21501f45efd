//! Making an empty set: everything it needs first, HEAD last, so a half-made one is not a set.

use std::sync::Arc;

use staddle_base::checksum::xxh3;
use staddle_base::hash::mix2;
use staddle_base::{Error, Result};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, publish_file};

use crate::format::{Head, Uuid, names};
use crate::manifest::Manifest;
use crate::options::Options;

/// Makes an empty set in the device's root.
///
/// # Errors
/// `Invalid` for bad options, `Conflict` when there is a set already, `Unsupported` on a read-only medium.
pub fn create(runtime: &Runtime, device: &Arc<dyn Device>, options: Options) -> Result<()> {
    let uuid = new_uuid(runtime, device.as_ref());
    create_as(runtime, device, options, uuid)
}

/// [`create`] with a uuid that the caller chose.
///
/// # Errors
/// As [`create`].
pub fn create_as(
    runtime: &Runtime,
    device: &Arc<dyn Device>,
    options: Options,
    uuid: Uuid,
) -> Result<()> {
    options.check()?;
    if !device.capabilities().write {
        return Err(
            Error::unsupported("a record set is written on a local file system first")
                .with("uri", device.uri())
                .hint("create it locally and export it: `staddle export SRC URI`"),
        );
    }
    if device.stat(names::HEAD)?.is_some() {
        return Err(Error::conflict("there is a record set here already")
            .with("uri", device.uri())
            .hint("open it with mode=\"r+\" to add to it, or choose another path"));
    }
    device.create_dir("")?;
    let _lock = super::lock(device)?;
    // Someone may have been faster.
    if device.stat(names::HEAD)?.is_some() {
        return Err(Error::conflict("there is a record set here already").with("uri", device.uri()));
    }
    for dir in names::DIRS {
        device.create_dir(dir)?;
    }
    let manifest = Manifest::new(&uuid, options);
    publish_file(
        device.as_ref(),
        &names::manifest(manifest.number),
        &manifest.encode()?,
    )?;
    device.sync_dir("")?;
    let head = Head {
        uuid,
        generation: 1,
        n: 0,
        live: 0,
        base_len: 0,
        manifest: manifest.number,
        log: 1,
        log_end: 0,
        next_sequence: 0,
        changed_generation: 0,
        moved_generation: 0,
        live_bytes: 0,
        total_bytes: 0,
        time_ns: runtime.clock().wall_ns(),
        open: Vec::new(),
    };
    let mut slots = vec![0; crate::format::head::SLOT_BYTES];
    slots.extend(head.encode());
    publish_file(device.as_ref(), names::META, &manifest.for_people(&head)?)?;
    publish_file(device.as_ref(), names::HEAD, &slots)
}

/// A uuid from the run's seed, the time, the process and the place: unique without asking for entropy, and the same
/// again when a simulated run is replayed.
fn new_uuid(runtime: &Runtime, device: &dyn Device) -> Uuid {
    let place = xxh3(device.uri().as_bytes());
    let clock = runtime.clock();
    let moment = mix2(clock.wall_ns(), clock.steady_ns());
    let root = mix2(
        runtime.seed().stream("record set").next_u64(),
        u64::from(std::process::id()),
    );
    let mut uuid = [0; 16];
    let (left, right) = uuid.split_at_mut(8);
    left.copy_from_slice(&mix2(root, moment).to_le_bytes());
    right.copy_from_slice(&mix2(place, mix2(moment, root)).to_le_bytes());
    uuid
}
