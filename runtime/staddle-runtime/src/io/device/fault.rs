//! A device that fails on purpose: the Nth call of a kind, with the error a real one would give.
//!
//! Wrap any device, keep a clone of the [`FaultPlan`], and let a test run once per N until the plan says that fewer calls
//! than N were made. A failed sync poisons the file, as on a local device; a short write leaves half of its bytes.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use staddle_base::{Error, Result};

use super::{Capabilities, Device, File, LockKind, Map, Open, Region, Stat};

/// Kinds of calls on a device and its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Opening an existing file.
    Open,
    /// Creating a file.
    Create,
    /// `stat` of a device and `len` of a file.
    Stat,
    /// Listing a folder.
    List,
    /// Making or removing a folder.
    Dir,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Syncing a folder.
    SyncDir,
    /// Copying a file.
    Copy,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Reserving space.
    Allocate,
    /// Resizing.
    SetLen,
    /// Syncing a file.
    Sync,
    /// Mapping.
    Map,
    /// Locking, unlocking and asking.
    Lock,
}

impl Op {
    /// Every kind.
    pub const ALL: [Self; 16] = [
        Self::Open,
        Self::Create,
        Self::Stat,
        Self::List,
        Self::Dir,
        Self::Rename,
        Self::Remove,
        Self::SyncDir,
        Self::Copy,
        Self::Read,
        Self::Write,
        Self::Allocate,
        Self::SetLen,
        Self::Sync,
        Self::Map,
        Self::Lock,
    ];

    /// Whether the call changes what is stored.
    pub fn changes(self) -> bool {
        !matches!(
            self,
            Self::Open | Self::Stat | Self::List | Self::Read | Self::Map | Self::Lock
        )
    }
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error number of the operating system, as `EIO` or `ENOSPC`.
    Errno(i32),
    /// A read returns half of the bytes, a write stores half of them and then finds the disk full. Other calls fail with
    /// `EIO`.
    Short,
}

impl Fault {
    /// A device error.
    pub const IO: Self = Self::Errno(libc::EIO);
    /// No space left.
    pub const NO_SPACE: Self = Self::Errno(libc::ENOSPC);

    fn error(self, action: &str, path: &str) -> Error {
        let errno = match self {
            Self::Errno(errno) => errno,
            Self::Short => libc::EIO,
        };
        Error::io(action, path, std::io::Error::from_raw_os_error(errno))
    }
}

/// One thing that goes wrong.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which kind of call; `None` is any.
    pub op: Option<Op>,
    /// Only paths, relative to the device, that contain this text; empty is any.
    pub path_contains: String,
    /// Which matching call fails first, counting from 1.
    pub nth: u64,
    /// How many matching calls in a row fail.
    pub times: u64,
    /// How.
    pub fault: Fault,
}

/// What goes wrong and when; clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan(Arc<Plan>);

#[derive(Debug, Default)]
struct Plan {
    rules: Mutex<Vec<(Rule, u64)>>,
    calls: [AtomicU64; Op::ALL.len()],
    fired: AtomicU64,
}

impl FaultPlan {
    /// A plan in which nothing goes wrong.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule; its count begins now.
    pub fn add(&self, rule: Rule) {
        self.0.rules.lock().push((rule, 0));
    }

    /// Lets the `nth` call of a kind from now on fail, once.
    pub fn fail_nth(&self, op: Op, nth: u64, fault: Fault) {
        self.add(Rule {
            op: Some(op),
            path_contains: String::new(),
            nth,
            times: 1,
            fault,
        });
    }

    /// Lets every call of a kind fail from the `nth` from now on.
    pub fn fail_from(&self, op: Op, nth: u64, fault: Fault) {
        self.add(Rule {
            op: Some(op),
            path_contains: String::new(),
            nth,
            times: u64::MAX,
            fault,
        });
    }

    /// Lets the `nth` call of any kind from now on fail, once.
    pub fn fail_nth_call(&self, nth: u64, fault: Fault) {
        self.add(Rule {
            op: None,
            path_contains: String::new(),
            nth,
            times: 1,
            fault,
        });
    }

    /// Takes all rules back: the device is healthy again.
    pub fn clear(&self) {
        self.0.rules.lock().clear();
    }

    /// How many calls of a kind were made.
    pub fn calls(&self, op: Op) -> u64 {
        self.counter(op).map_or(0, |c| c.load(Ordering::Relaxed))
    }

    /// How many calls were made.
    pub fn total(&self) -> u64 {
        self.0.calls.iter().map(|c| c.load(Ordering::Relaxed)).sum()
    }

    /// How many calls failed on purpose.
    pub fn fired(&self) -> u64 {
        self.0.fired.load(Ordering::Relaxed)
    }

    fn counter(&self, op: Op) -> Option<&AtomicU64> {
        self.0.calls.get(op as usize)
    }

    /// Counts a call; the fault that strikes it, if one does.
    fn strike(&self, op: Op, path: &str) -> Option<Fault> {
        if let Some(counter) = self.counter(op) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let mut struck = None;
        for (rule, count) in self.0.rules.lock().iter_mut() {
            if rule.op.is_some_and(|only| only != op) || !path.contains(&rule.path_contains) {
                continue;
            }
            *count += 1;
            if *count >= rule.nth && *count - rule.nth < rule.times {
                struck = struck.or(Some(rule.fault));
            }
        }
        if struck.is_some() {
            self.0.fired.fetch_add(1, Ordering::Relaxed);
        }
        struck
    }

    fn pass(&self, op: Op, action: &str, path: &str) -> Result<()> {
        match self.strike(op, path) {
            Some(fault) => Err(fault.error(action, path)),
            None => Ok(()),
        }
    }
}

/// A device whose calls fail as its plan says.
#[derive(Debug)]
pub struct FaultDevice {
    inner: Arc<dyn Device>,
    plan: FaultPlan,
}

impl FaultDevice {
    /// Wraps `inner`.
    pub fn wrap(inner: Arc<dyn Device>, plan: FaultPlan) -> Arc<dyn Device> {
        Arc::new(Self { inner, plan })
    }
}

impl Device for FaultDevice {
    fn uri(&self) -> &str {
        self.inner.uri()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn parent(&self) -> Option<Arc<dyn Device>> {
        self.inner.parent()
    }

    fn open(&self, path: &str, how: Open) -> Result<Arc<dyn File>> {
        match how {
            Open::Create => self.plan.pass(Op::Create, "creating a file", path)?,
            Open::Read | Open::Write => self.plan.pass(Op::Open, "opening a file", path)?,
        }
        Ok(Arc::new(FaultFile {
            inner: self.inner.open(path, how)?,
            path: path.to_owned(),
            plan: self.plan.clone(),
            poisoned: AtomicBool::new(false),
        }))
    }

    fn stat(&self, path: &str) -> Result<Option<Stat>> {
        self.plan.pass(Op::Stat, "looking at a file", path)?;
        self.inner.stat(path)
    }

    fn list(&self, dir: &str) -> Result<Vec<String>> {
        self.plan.pass(Op::List, "listing a folder", dir)?;
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        self.plan.pass(Op::Dir, "making a folder", dir)?;
        self.inner.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.plan.pass(Op::Rename, "renaming a file", from)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.plan.pass(Op::Remove, "removing a file", path)?;
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &str) -> Result<()> {
        self.plan.pass(Op::Dir, "removing a folder", dir)?;
        self.inner.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        self.plan.pass(Op::SyncDir, "syncing a folder", dir)?;
        self.inner.sync_dir(dir)
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        self.plan.pass(Op::Copy, "copying a file", from)?;
        self.inner.copy(from, to)
    }
}

struct FaultFile {
    inner: Arc<dyn File>,
    /// As rules match it: relative to the device, whatever folder that lies in.
    path: String,
    plan: FaultPlan,
    poisoned: AtomicBool,
}

impl FaultFile {
    fn pass(&self, op: Op, action: &str) -> Result<()> {
        self.plan.pass(op, action, &self.path)
    }

    fn check_healthy(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(Error::unavailable("an earlier sync of this file failed")
                .with("path", self.inner.path())
                .hint(
                    "close the store and open it again: it recovers from its last durable point",
                ));
        }
        Ok(())
    }
}

impl File for FaultFile {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        self.pass(Op::Stat, "looking at a file")?;
        self.inner.len()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        match self.plan.strike(Op::Read, &self.path) {
            None => self.inner.read_at(into, offset),
            Some(Fault::Short) => {
                let half = into.len() / 2;
                self.inner
                    .read_at(into.get_mut(..half).unwrap_or_default(), offset)
            }
            Some(fault) => Err(fault.error("reading a file", self.inner.path())),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.check_healthy()?;
        match self.plan.strike(Op::Write, &self.path) {
            None => self.inner.write_at(bytes, offset),
            Some(Fault::Short) => {
                let half = bytes.len() / 2;
                self.inner
                    .write_at(bytes.get(..half).unwrap_or_default(), offset)?;
                Err(Fault::NO_SPACE.error("writing a file", self.inner.path()))
            }
            Some(fault) => Err(fault.error("writing a file", self.inner.path())),
        }
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.check_healthy()?;
        self.pass(Op::Allocate, "reserving disk space")?;
        self.inner.allocate(offset, len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_healthy()?;
        self.pass(Op::SetLen, "resizing a file")?;
        self.inner.set_len(len)
    }

    fn sync(&self) -> Result<()> {
        self.check_healthy()?;
        if let Err(error) = self.pass(Op::Sync, "syncing a file") {
            self.poisoned.store(true, Ordering::Release);
            return Err(error.kinded(staddle_base::ErrorKind::Unavailable));
        }
        self.inner.sync()
    }

    fn map(&self, len: usize) -> Result<Map> {
        self.pass(Op::Map, "mapping a file")?;
        self.inner.map(len)
    }

    fn map_into(&self, region: &Region, len: usize) -> Result<()> {
        self.pass(Op::Map, "mapping a file")?;
        self.inner.map_into(region, len)
    }

    fn try_lock(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        self.pass(Op::Lock, "locking a file")?;
        self.inner.try_lock(offset, len, kind)
    }

    fn unlock(&self, offset: u64, len: u64) -> Result<()> {
        self.pass(Op::Lock, "unlocking a file")?;
        self.inner.unlock(offset, len)
    }

    fn is_locked(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        self.pass(Op::Lock, "asking for a lock")?;
        self.inner.is_locked(offset, len, kind)
    }

    /// None: an engine must call [`File::read_at`], where the faults are.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl fmt::Debug for FaultFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultFile({:?})", self.inner)
    }
}
