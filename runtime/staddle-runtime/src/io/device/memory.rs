//! Files that live in this process's memory: `memory://name`.
//!
//! A name means the same files in the whole process, so a store can be closed and opened again; the files end with the
//! process. They cannot be mapped. A forked child sees the files as they were at the fork.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use staddle_base::{Error, Result};

use super::{Capabilities, Device, File, LockKind, Map, Open, Region, Stat, check_path, parent};
use crate::process::{AppendList, OwnerProcess};

/// How long a forked child waits for a lock that a thread of its parent may have held at the fork.
const INHERITED_WAIT: Duration = Duration::from_secs(1);

static SPACES: AppendList<(String, Arc<Space>)> = AppendList::new();

/// A folder in memory.
#[derive(Clone)]
pub struct MemoryDevice {
    uri: String,
    prefix: String,
    space: Arc<Space>,
}

/// The files behind one name.
struct Space {
    owner: OwnerProcess,
    tree: RwLock<Tree>,
    locks: Mutex<Vec<Lock>>,
    next_handle: AtomicU64,
    changes: AtomicU64,
}

#[derive(Default)]
struct Tree {
    files: BTreeMap<String, Arc<Contents>>,
    dirs: BTreeSet<String>,
}

struct Contents {
    bytes: RwLock<Vec<u8>>,
    changed: AtomicU64,
}

struct Lock {
    file: *const Contents,
    handle: u64,
    offset: u64,
    end: u64,
    kind: LockKind,
}

// SAFETY: the pointer is compared, never followed.
unsafe impl Send for Lock {}

impl Space {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            owner: OwnerProcess::here(),
            tree: RwLock::default(),
            locks: Mutex::default(),
            next_handle: AtomicU64::new(0),
            changes: AtomicU64::new(0),
        })
    }

    fn read(&self) -> Result<RwLockReadGuard<'_, Tree>> {
        if self.owner.is_here() {
            return Ok(self.tree.read());
        }
        self.tree.try_read_for(INHERITED_WAIT).ok_or_else(stuck)
    }

    fn write(&self) -> Result<RwLockWriteGuard<'_, Tree>> {
        if self.owner.is_here() {
            return Ok(self.tree.write());
        }
        self.tree.try_write_for(INHERITED_WAIT).ok_or_else(stuck)
    }

    fn bytes<'c>(&self, contents: &'c Contents) -> Result<RwLockReadGuard<'c, Vec<u8>>> {
        if self.owner.is_here() {
            return Ok(contents.bytes.read());
        }
        contents
            .bytes
            .try_read_for(INHERITED_WAIT)
            .ok_or_else(stuck)
    }

    fn locks(&self) -> Result<MutexGuard<'_, Vec<Lock>>> {
        if self.owner.is_here() {
            return Ok(self.locks.lock());
        }
        self.locks.try_lock_for(INHERITED_WAIT).ok_or_else(stuck)
    }
}

#[cold]
fn stuck() -> Error {
    Error::unavailable("a memory:// store was being changed while this process was forked")
        .hint("fork while no thread writes to it, or keep it in files")
}

impl MemoryDevice {
    /// The files called `memory://name`; everything after the name is a folder in it. An empty name is a space of its
    /// own that nobody else sees.
    pub fn new(uri: &str) -> Self {
        let rest = uri.strip_prefix("memory://").unwrap_or(uri);
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let space = if name.is_empty() {
            Space::new()
        } else {
            let fresh = (name.to_owned(), Space::new());
            let known = SPACES.iter().find(|(known, _)| known == name);
            let entry = known.unwrap_or_else(|| {
                match SPACES.push_unless(fresh, |(known, _)| known == name) {
                    Ok(entry) | Err(entry) => entry,
                }
            });
            Arc::clone(&entry.1)
        };
        Self {
            uri: uri.to_owned(),
            prefix: prefix.trim_matches('/').to_owned(),
            space,
        }
    }

    fn full(&self, path: &str) -> Result<String> {
        check_path(path)?;
        Ok(match (self.prefix.is_empty(), path.is_empty()) {
            (true, _) => path.to_owned(),
            (false, true) => self.prefix.clone(),
            (false, false) => format!("{}/{path}", self.prefix),
        })
    }

    fn missing(&self, action: &str, path: &str) -> Error {
        Error::not_found(format!("{action}: there is no such file"))
            .with("path", self.name(path))
            .hint("check the path")
    }

    fn name(&self, path: &str) -> String {
        format!("{}/{path}", self.uri.trim_end_matches('/'))
    }

    fn handle(&self, path: &str, contents: Arc<Contents>, writable: bool) -> Arc<dyn File> {
        Arc::new(MemoryFile {
            path: self.name(path),
            contents,
            writable,
            handle: self.space.next_handle.fetch_add(1, Ordering::Relaxed),
            space: Arc::clone(&self.space),
        })
    }
}

impl Tree {
    fn is_dir(&self, path: &str) -> bool {
        path.is_empty() || self.dirs.contains(path)
    }

    fn has_children(&self, dir: &str) -> bool {
        let under = format!("{dir}/");
        let inside =
            |name: &String| !name.is_empty() && (dir.is_empty() || name.starts_with(&under));
        self.files.keys().chain(&self.dirs).any(inside)
    }
}

impl Device for MemoryDevice {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            write: true,
            map: false,
            lock: true,
            remote: false,
        }
    }

    fn parent(&self) -> Option<Arc<dyn Device>> {
        if self.prefix.is_empty() {
            return None;
        }
        let uri = self.uri.trim_end_matches('/');
        Some(Arc::new(Self {
            uri: parent(uri).to_owned(),
            prefix: parent(&self.prefix).to_owned(),
            space: Arc::clone(&self.space),
        }))
    }

    fn open(&self, path: &str, how: Open) -> Result<Arc<dyn File>> {
        let full = self.full(path)?;
        if how != Open::Create {
            let tree = self.space.read()?;
            if tree.is_dir(&full) {
                return Err(Error::denied("opening a file: it is not a regular file")
                    .with("path", self.name(path)));
            }
            let contents = tree.files.get(&full).map(Arc::clone);
            let contents = contents.ok_or_else(|| self.missing("opening a file", path))?;
            return Ok(self.handle(path, contents, how == Open::Write));
        }
        let mut tree = self.space.write()?;
        if !tree.is_dir(parent(&full)) {
            return Err(self.missing("creating a file", parent(path)));
        }
        if tree.is_dir(&full) || tree.files.contains_key(&full) {
            return Err(
                Error::conflict("creating a file: it exists already").with("path", self.name(path))
            );
        }
        let contents = Arc::new(Contents {
            bytes: RwLock::default(),
            changed: AtomicU64::new(self.space.changes.fetch_add(1, Ordering::Relaxed) + 1),
        });
        tree.files.insert(full, Arc::clone(&contents));
        Ok(self.handle(path, contents, true))
    }

    fn stat(&self, path: &str) -> Result<Option<Stat>> {
        let full = self.full(path)?;
        let tree = self.space.read()?;
        if let Some(contents) = tree.files.get(&full) {
            return Ok(Some(Stat {
                len: self.space.bytes(contents)?.len() as u64,
                mtime_ns: contents.changed.load(Ordering::Relaxed),
                etag: None,
                dir: false,
            }));
        }
        let exists = tree.dirs.contains(&full) || full.is_empty() && tree.has_children("");
        Ok(exists.then(|| Stat {
            dir: true,
            ..Stat::default()
        }))
    }

    fn list(&self, dir: &str) -> Result<Vec<String>> {
        let full = self.full(dir)?;
        let tree = self.space.read()?;
        if !tree.is_dir(&full) {
            return Err(self.missing("listing a folder", dir));
        }
        let inside = |name: &String| {
            let rest = if full.is_empty() {
                Some(name.as_str())
            } else {
                name.strip_prefix(&full)
                    .and_then(|rest| rest.strip_prefix('/'))
            };
            rest.filter(|rest| !rest.is_empty() && !rest.contains('/'))
                .map(str::to_owned)
        };
        let mut names: Vec<String> = tree
            .files
            .keys()
            .chain(&tree.dirs)
            .filter_map(inside)
            .collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        let full = self.full(dir)?;
        let mut tree = self.space.write()?;
        let mut made = String::new();
        if full.is_empty() {
            tree.dirs.insert(String::new());
        }
        for part in full.split('/').filter(|part| !part.is_empty()) {
            if !made.is_empty() {
                made.push('/');
            }
            made.push_str(part);
            if tree.files.contains_key(&made) {
                return Err(Error::conflict("making a folder: a file has this name")
                    .with("path", self.name(dir)));
            }
            tree.dirs.insert(made.clone());
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (source, target) = (self.full(from)?, self.full(to)?);
        let mut tree = self.space.write()?;
        if !tree.is_dir(parent(&target)) {
            return Err(self.missing("renaming a file", parent(to)));
        }
        if tree.is_dir(&target) {
            return Err(Error::conflict("renaming a file: the target is a folder")
                .with("path", self.name(to)));
        }
        let contents = tree
            .files
            .remove(&source)
            .ok_or_else(|| self.missing("renaming a file", from))?;
        tree.files.insert(target, contents);
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        let full = self.full(path)?;
        self.space.write()?.files.remove(&full);
        Ok(())
    }

    fn remove_dir(&self, dir: &str) -> Result<()> {
        let full = self.full(dir)?;
        let mut tree = self.space.write()?;
        if tree.has_children(&full) {
            return Err(
                Error::conflict("removing a folder: it is not empty").with("path", self.name(dir))
            );
        }
        tree.dirs.remove(&full);
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        let full = self.full(dir)?;
        if self.space.read()?.is_dir(&full) {
            return Ok(());
        }
        Err(self.missing("syncing a folder", dir))
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        let source = self.open(from, Open::Read)?;
        let mut bytes = vec![0; usize::try_from(source.len()?).unwrap_or(0)];
        source.read_exact_at(&mut bytes, 0)?;
        self.open(to, Open::Create)?.write_at(&bytes, 0)
    }
}

impl fmt::Debug for MemoryDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryDevice({})", self.uri)
    }
}

/// An open file in memory.
struct MemoryFile {
    path: String,
    contents: Arc<Contents>,
    writable: bool,
    handle: u64,
    space: Arc<Space>,
}

impl MemoryFile {
    fn read(&self) -> Result<RwLockReadGuard<'_, Vec<u8>>> {
        self.space.bytes(&self.contents)
    }

    fn write(&self, action: &str) -> Result<RwLockWriteGuard<'_, Vec<u8>>> {
        if !self.writable {
            return Err(
                Error::denied(format!("{action}: the file is open for reading"))
                    .with("path", &self.path),
            );
        }
        let guard = if self.space.owner.is_here() {
            self.contents.bytes.write()
        } else {
            let guard = self.contents.bytes.try_write_for(INHERITED_WAIT);
            guard.ok_or_else(stuck)?
        };
        let now = self.space.changes.fetch_add(1, Ordering::Relaxed) + 1;
        self.contents.changed.store(now, Ordering::Relaxed);
        Ok(guard)
    }

    fn clashes(&self, lock: &Lock, offset: u64, end: u64, kind: LockKind) -> bool {
        std::ptr::eq(lock.file, Arc::as_ptr(&self.contents))
            && lock.handle != self.handle
            && lock.offset < end
            && offset < lock.end
            && (kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive)
    }
}

impl File for MemoryFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(self.read()?.len() as u64)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let bytes = self.read()?;
        let from = usize::try_from(offset)
            .ok()
            .and_then(|at| bytes.get(at..))
            .unwrap_or(&[]);
        let got = from.len().min(into.len());
        if let (Some(into), Some(from)) = (into.get_mut(..got), from.get(..got)) {
            into.copy_from_slice(from);
        }
        Ok(got)
    }

    fn write_at(&self, new: &[u8], offset: u64) -> Result<()> {
        let mut bytes = self.write("writing a file")?;
        if new.is_empty() {
            return Ok(());
        }
        let too_large = || Error::exhausted("writing a file: it would not fit into memory");
        let at = usize::try_from(offset).map_err(|_| too_large())?;
        let end = at.checked_add(new.len()).ok_or_else(too_large)?;
        if end > bytes.len() {
            let more = end - bytes.len();
            bytes.try_reserve(more).map_err(|_| too_large())?;
            bytes.resize(end, 0);
        }
        if let Some(into) = bytes.get_mut(at..end) {
            into.copy_from_slice(new);
        }
        Ok(())
    }

    fn allocate(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut bytes = self.write("resizing a file")?;
        let too_large = || Error::exhausted("resizing a file: it would not fit into memory");
        let len = usize::try_from(len).map_err(|_| too_large())?;
        let more = len.saturating_sub(bytes.len());
        bytes.try_reserve(more).map_err(|_| too_large())?;
        bytes.resize(len, 0);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn map(&self, _len: usize) -> Result<Map> {
        Err(Error::unsupported("a file in memory cannot be mapped").with("path", &self.path))
    }

    fn map_into(&self, _region: &Region, _len: usize) -> Result<()> {
        Err(Error::unsupported("a file in memory cannot be mapped").with("path", &self.path))
    }

    fn try_lock(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        self.space.owner.check()?;
        let end = lock_end(offset, len);
        let mut locks = self.space.locks()?;
        if locks
            .iter()
            .any(|lock| self.clashes(lock, offset, end, kind))
        {
            return Ok(false);
        }
        drop_range(&mut locks, self, offset, end);
        locks.push(Lock {
            file: Arc::as_ptr(&self.contents),
            handle: self.handle,
            offset,
            end,
            kind,
        });
        Ok(true)
    }

    fn unlock(&self, offset: u64, len: u64) -> Result<()> {
        if self.space.owner.is_here() {
            drop_range(
                &mut *self.space.locks()?,
                self,
                offset,
                lock_end(offset, len),
            );
        }
        Ok(())
    }

    fn is_locked(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        let end = lock_end(offset, len);
        let locks = self.space.locks()?;
        Ok(locks
            .iter()
            .any(|lock| self.clashes(lock, offset, end, kind)))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The end of a lock; a length of 0 reaches to the end of the file however far it grows, as with `fcntl`.
fn lock_end(offset: u64, len: u64) -> u64 {
    if len == 0 {
        u64::MAX
    } else {
        offset.saturating_add(len)
    }
}

/// Takes `offset..end` out of what `file`'s handle has locked, splitting locks that reach beyond it.
fn drop_range(locks: &mut Vec<Lock>, file: &MemoryFile, offset: u64, end: u64) {
    let mut kept = Vec::with_capacity(locks.len());
    for lock in locks.drain(..) {
        let ours =
            lock.handle == file.handle && std::ptr::eq(lock.file, Arc::as_ptr(&file.contents));
        if !ours || lock.end <= offset || lock.offset >= end {
            kept.push(lock);
            continue;
        }
        if lock.offset < offset {
            kept.push(Lock {
                end: offset,
                ..lock
            });
        }
        if lock.end > end {
            kept.push(Lock {
                offset: end,
                ..lock
            });
        }
    }
    *locks = kept;
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if self.space.owner.is_here() {
            let handle = self.handle;
            self.space.locks.lock().retain(|lock| lock.handle != handle);
        }
    }
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryFile({})", self.path)
    }
}
