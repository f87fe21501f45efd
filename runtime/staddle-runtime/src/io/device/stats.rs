//! A device that counts: calls and bytes, for metrics and for tests that care how often a store reads.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use serde::Serialize;
use staddle_base::Result;
use staddle_base::metrics::{Counter, Registry};

use super::{Capabilities, Device, File, LockKind, Map, Open, Range, Region, Stat};

/// What a [`StatsDevice`] has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceCounters {
    /// Files opened or created.
    pub opens: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs of files and folders.
    pub syncs: u64,
}

#[derive(Debug)]
struct Counters {
    opens: Arc<Counter>,
    reads: Arc<Counter>,
    read_bytes: Arc<Counter>,
    writes: Arc<Counter>,
    written_bytes: Arc<Counter>,
    syncs: Arc<Counter>,
}

/// A device that counts what is done to it. Bytes read through maps are not seen.
#[derive(Debug)]
pub struct StatsDevice {
    inner: Arc<dyn Device>,
    counters: Arc<Counters>,
}

impl StatsDevice {
    /// Wraps `inner`, counting into `registry` under the label `device="name"`. Names are few and fixed, as `local` or
    /// `s3`: they become metric labels.
    pub fn wrap(inner: Arc<dyn Device>, registry: &Registry, name: &str) -> Arc<Self> {
        let ops = |op: &str| {
            registry.counter(
                "staddle_io_operations_total",
                &format!("device=\"{name}\",op=\"{op}\""),
            )
        };
        let bytes = |dir: &str| {
            registry.counter(
                "staddle_io_bytes_total",
                &format!("device=\"{name}\",dir=\"{dir}\""),
            )
        };
        let counters = Counters {
            opens: ops("open"),
            reads: ops("read"),
            read_bytes: bytes("read"),
            writes: ops("write"),
            written_bytes: bytes("write"),
            syncs: ops("sync"),
        };
        Arc::new(Self {
            inner,
            counters: Arc::new(counters),
        })
    }

    /// The counts now.
    pub fn counters(&self) -> DeviceCounters {
        DeviceCounters {
            opens: self.counters.opens.get(),
            reads: self.counters.reads.get(),
            read_bytes: self.counters.read_bytes.get(),
            writes: self.counters.writes.get(),
            written_bytes: self.counters.written_bytes.get(),
            syncs: self.counters.syncs.get(),
        }
    }
}

impl Device for StatsDevice {
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
        self.counters.opens.add(1);
        Ok(Arc::new(StatsFile {
            inner: self.inner.open(path, how)?,
            counters: Arc::clone(&self.counters),
        }))
    }

    fn stat(&self, path: &str) -> Result<Option<Stat>> {
        self.inner.stat(path)
    }

    fn list(&self, dir: &str) -> Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        self.inner.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &str) -> Result<()> {
        self.inner.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        self.counters.syncs.add(1);
        self.inner.sync_dir(dir)
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        self.inner.copy(from, to)
    }
}

struct StatsFile {
    inner: Arc<dyn File>,
    counters: Arc<Counters>,
}

impl File for StatsFile {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let got = self.inner.read_at(into, offset)?;
        self.counters.reads.add(1);
        self.counters.read_bytes.add(got as u64);
        Ok(got)
    }

    fn read_ranges(&self, ranges: &mut [Range<'_>]) -> Result<()> {
        self.inner.read_ranges(ranges)?;
        self.counters.reads.add(ranges.len() as u64);
        let bytes: usize = ranges.iter().map(|range| range.into.len()).sum();
        self.counters.read_bytes.add(bytes as u64);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(bytes, offset)?;
        self.counters.writes.add(1);
        self.counters.written_bytes.add(bytes.len() as u64);
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.allocate(offset, len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn sync(&self) -> Result<()> {
        self.counters.syncs.add(1);
        self.inner.sync()
    }

    fn map(&self, len: usize) -> Result<Map> {
        self.inner.map(len)
    }

    fn map_into(&self, region: &Region, len: usize) -> Result<()> {
        self.inner.map_into(region, len)
    }

    fn try_lock(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        self.inner.try_lock(offset, len, kind)
    }

    fn unlock(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.unlock(offset, len)
    }

    fn is_locked(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        self.inner.is_locked(offset, len, kind)
    }

    /// None: an engine must call [`File::read_ranges`], where the counters are.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl fmt::Debug for StatsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatsFile({:?})", self.inner)
    }
}
