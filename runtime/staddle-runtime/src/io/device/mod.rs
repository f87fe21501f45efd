//! Where bytes live: the only door to a data file.
//!
//! A [`Device`] is a folder of files on some medium; a [`File`] is one of them, open. Everything a store does to
//! durable bytes goes through these two traits, so a test can cut the power, fail the Nth call or fill the disk between
//! any two of them. How bytes *move* (threads, a ring, a network) is the business of [`crate::io::engine`].
//!
//! Paths are relative to the device's root, UTF-8, with `/` between parts; `..`, empty parts and absolute paths are
//! refused. The root itself may be any path the system accepts.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use staddle_base::{Error, Result};

pub mod conformance;
mod fault;
mod folder;
mod local;
mod map;
mod memory;
mod remote;
mod stats;
pub mod tree;

pub use fault::{Fault, FaultDevice, FaultPlan, Op, Rule};
pub use folder::FolderDevice;
pub use local::LocalDevice;
pub(crate) use local::is_network;
pub use map::{Map, Region, prefetch};
pub use memory::MemoryDevice;
pub use remote::{RemoteDevice, is_secret_option};
pub use stats::{DeviceCounters, StatsDevice};

pub(crate) use map::map_huge;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A new file, for reading and writing; `Conflict` if it exists.
    Create,
}

/// What a medium can do. A store asks once and picks its path; it never probes by failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Files can be written.
    pub write: bool,
    /// Files can be mapped, and later growth shows through a map.
    pub map: bool,
    /// Byte-range locks are seen by other processes.
    pub lock: bool,
    /// Reading costs a network round trip: read large, keep what was read.
    pub remote: bool,
}

/// Size and version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Stat {
    /// Length in bytes.
    pub len: u64,
    /// Last change, nanoseconds since 1970; 0 where unknown.
    pub mtime_ns: u64,
    /// The object store's entity tag, where there is one.
    pub etag: Option<String>,
    /// Whether it is a folder.
    pub dir: bool,
}

/// Shared or exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Many holders.
    Shared,
    /// One holder.
    Exclusive,
}

/// A folder of files on some medium.
pub trait Device: Send + Sync + Debug {
    /// The URI or path that a user would write, for messages; never holds a secret.
    fn uri(&self) -> &str;

    /// What this medium can do.
    fn capabilities(&self) -> Capabilities;

    /// The folder that holds this device's root, where there is one: what lies beside a store is found through it.
    fn parent(&self) -> Option<Arc<dyn Device>> {
        None
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` (create of what exists), `Denied`, `Unsupported` (write on a read-only device),
    /// `Unavailable`.
    fn open(&self, path: &str, how: Open) -> Result<Arc<dyn File>>;

    /// Size and version, or `None` when nothing has this name. `""` is the root.
    fn stat(&self, path: &str) -> Result<Option<Stat>>;

    /// The names in a folder, sorted; `NotFound` when it does not exist.
    fn list(&self, dir: &str) -> Result<Vec<String>>;

    /// Makes a folder and its parents; fine if it exists. `""` makes the root, durably where this device can.
    fn create_dir(&self, dir: &str) -> Result<()>;

    /// Renames a file, replacing the target. Durable after [`Device::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file; fine if it is gone. Bytes stay readable through open files and maps.
    fn remove(&self, path: &str) -> Result<()>;

    /// Removes an empty folder; fine if it is gone.
    fn remove_dir(&self, dir: &str) -> Result<()>;

    /// Makes creations, renames and removals in a folder durable.
    fn sync_dir(&self, dir: &str) -> Result<()>;

    /// A copy of `from` at the new name `to`, sharing blocks where the file system can.
    fn copy(&self, from: &str, to: &str) -> Result<()>;
}

/// One range of a file to read, and where to.
#[derive(Debug)]
pub struct Range<'a> {
    /// Where it begins in the file.
    pub offset: u64,
    /// Filled whole.
    pub into: &'a mut [u8],
}

/// An open file.
pub trait File: Send + Sync + Debug {
    /// Its path on the device, for messages.
    fn path(&self) -> &str;

    /// Its length in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether it holds no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads into `into` from `offset`; returns how many bytes there were. Fewer than asked only at the end of the file.
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes all of `bytes` at `offset`, growing the file.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Reserves disk space for `offset..offset + len` without changing the length, so that a later write cannot run out
    /// of space. A medium without this answers `Ok`.
    fn allocate(&self, offset: u64, len: u64) -> Result<()>;

    /// Cuts or extends to `len` bytes. Never called so that a published byte is cut off.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Makes the bytes and the length durable. After a failure the file must be closed and never synced again.
    fn sync(&self) -> Result<()>;

    /// A read-only map of the first `len` bytes of address space; may reach past the end, where later growth appears.
    ///
    /// # Errors
    /// `Unsupported` where the medium cannot map.
    fn map(&self, len: usize) -> Result<Map>;

    /// Appends a read-only map of the first `len` bytes of address space to `region`.
    ///
    /// # Errors
    /// `Unsupported` where the medium cannot map, `Exhausted` when the region is full.
    fn map_into(&self, region: &Region, len: usize) -> Result<()>;

    /// Tries to lock `len` bytes at `offset` for this open file; false when another holds a conflicting lock.
    /// The lock ends with [`File::unlock`], with this open file, or with the process.
    fn try_lock(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool>;

    /// Gives up a lock.
    fn unlock(&self, offset: u64, len: u64) -> Result<()>;

    /// Whether any *other* open file holds a lock that conflicts with `kind` on this range.
    fn is_locked(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool>;

    /// The descriptor, where there is one; engines that talk to the kernel want it.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Reads many ranges exactly; a medium that gains from it has several in flight at once.
    ///
    /// # Errors
    /// As [`File::read_exact_at`]; which ranges were read then is unspecified.
    fn read_ranges(&self, ranges: &mut [Range<'_>]) -> Result<()> {
        ranges
            .iter_mut()
            .try_for_each(|range| self.read_exact_at(range.into, range.offset))
    }

    /// Reads exactly `into.len()` bytes at `offset`.
    ///
    /// # Errors
    /// `Corrupt` with the expected and actual size when the file is shorter.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let got = self.read_at(into, offset)?;
        if got == into.len() {
            return Ok(());
        }
        Err(
            Error::corrupt(format!("the file ends after {got} of {} bytes", into.len()))
                .with("path", self.path())
                .with("offset", offset)
                .with("size", self.len().unwrap_or(0)),
        )
    }
}

/// Reads a whole small file, refusing more than `limit` bytes.
///
/// # Errors
/// Those of [`Device::open`]; `Exhausted` when it is larger than `limit`.
pub fn read_file(device: &dyn Device, path: &str, limit: usize) -> Result<Vec<u8>> {
    let file = device.open(path, Open::Read)?;
    let len = file.len()?;
    let len = usize::try_from(len)
        .ok()
        .filter(|len| *len <= limit)
        .ok_or_else(|| {
            Error::exhausted(format!(
                "the file has {len} bytes, more than the limit of {limit}"
            ))
            .with("uri", device.uri())
            .with("path", path)
        })?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|e| e.with("uri", device.uri()))?;
    Ok(bytes)
}

/// Writes a small file so that it is there whole or not at all: temporary name, sync, rename, sync of the folder.
///
/// # Errors
/// Those of the calls it makes; the temporary file is removed.
pub fn publish_file(device: &dyn Device, path: &str, bytes: &[u8]) -> Result<()> {
    let temporary = format!("{path}.tmp");
    device.remove(&temporary)?;
    let write = || {
        let file = device.open(&temporary, Open::Create)?;
        file.write_at(bytes, 0)?;
        file.sync()?;
        device.rename(&temporary, path)?;
        device.sync_dir(parent(path))
    };
    write().inspect_err(|_| {
        let _ = device.remove(&temporary);
    })
}

/// The folder a path lies in; `""` for the root.
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Checks that a path stays on its device.
///
/// # Errors
/// `Denied` for absolute paths, empty parts, `.` and `..`, and NUL.
pub fn check_path(path: &str) -> Result<()> {
    let bad = path.starts_with('/')
        || path.contains('\0')
        || (!path.is_empty()
            && path
                .split('/')
                .any(|part| part.is_empty() || part == "." || part == ".."));
    if bad {
        return Err(Error::denied("a path inside a store must stay inside it")
            .with("path", path.escape_debug()));
    }
    Ok(())
}
