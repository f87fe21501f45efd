//! Moving bytes between stores and where they live.
//!
//! | Folder or file | The question it answers |
//! |---|---|
//! | [`device`] | where do bytes live, and what can that medium do |
//! | [`engine`] | how are many ranges of local files read at once |
//! | [`Manager`] | which device does a URI name, and who reads a batch |
//!
//! **Invariant**: only `device` opens data files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;
use staddle_base::{Error, Result, suggest};

pub mod device;
pub mod engine;

use device::{Device, File, LocalDevice, MemoryDevice, Range};
use engine::{Engine, Job, Part, PreadEngine};

/// One range to read.
#[derive(Debug)]
pub struct Read<'a> {
    /// From where.
    pub file: &'a dyn File,
    /// The first byte.
    pub offset: u64,
    /// Filled whole.
    pub into: &'a mut [u8],
}

/// Which engine reads local files, and why that one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineReport {
    /// `pread` or `uring`.
    pub name: &'static str,
    /// Why it was chosen, one sentence.
    pub why: String,
}

/// The I/O of one process.
#[derive(Debug)]
pub struct Manager {
    pread: PreadEngine,
    report: EngineReport,
}

impl Manager {
    pub(crate) fn new(io_threads: usize) -> Self {
        Self {
            pread: PreadEngine::new(io_threads),
            report: EngineReport {
                name: "pread",
                why: "blocking reads on threads".into(),
            },
        }
    }

    /// The device that a path or URI names: a path, `file://` or `memory://`.
    ///
    /// # Errors
    /// `Invalid` for an unknown scheme or option.
    pub fn device(&self, uri: &str, options: &BTreeMap<String, String>) -> Result<Arc<dyn Device>> {
        let scheme = uri.split_once("://").map(|(scheme, _)| scheme);
        let device: Arc<dyn Device> = match scheme {
            None => Arc::new(LocalDevice::new(Path::new(uri))?),
            Some("file") => Arc::new(LocalDevice::new(&file_path(uri)?)?),
            Some("memory") => Arc::new(MemoryDevice::new(uri)),
            Some(scheme) => {
                return Err(Error::invalid(format!("unknown scheme `{scheme}://`"))
                    .with("uri", uri)
                    .hint(suggest::hint(scheme, &["file", "memory"])));
            }
        };
        if let Some(name) = options.keys().next() {
            return Err(Error::invalid(format!("unknown storage option `{name}`"))
                .with("uri", uri)
                .hint("local files take no storage options"));
        }
        Ok(device)
    }

    /// The engine that reads local files.
    pub fn engine(&self) -> &dyn Engine {
        &self.pread
    }

    /// Which engine that is, and why.
    pub fn engine_report(&self) -> EngineReport {
        self.report.clone()
    }

    /// Reads every range exactly, many at once.
    ///
    /// # Errors
    /// `Corrupt` when a file ends inside a range, otherwise what the devices report; which ranges were read then is
    /// unspecified.
    pub fn read_many(&self, reads: &mut [Read<'_>]) -> Result<()> {
        let mut jobs = Vec::new();
        let mut others: Vec<(&dyn File, Vec<Range<'_>>)> = Vec::new();
        for read in reads {
            match read.file.fd() {
                Some(fd) => jobs.push(Job {
                    fd,
                    path: read.file.path(),
                    offset: read.offset,
                    parts: vec![Part::Into(read.into)],
                }),
                None => {
                    let range = Range {
                        offset: read.offset,
                        into: read.into,
                    };
                    let same = |(file, _): &&mut (&dyn File, Vec<Range<'_>>)| {
                        std::ptr::addr_eq(*file, read.file)
                    };
                    match others.iter_mut().find(same) {
                        Some((_, ranges)) => ranges.push(range),
                        None => others.push((read.file, vec![range])),
                    }
                }
            }
        }
        self.engine().read(&mut jobs)?;
        match self.pread.pool() {
            Some(pool) if others.len() > 1 => pool.install(|| {
                others
                    .par_iter_mut()
                    .with_max_len(1)
                    .try_for_each(|(file, ranges)| file.read_ranges(ranges))
            }),
            _ => others
                .iter_mut()
                .try_for_each(|(file, ranges)| file.read_ranges(ranges)),
        }
    }

    /// Which part of a range the page cache holds, 0 to 1, or `None` where the system does not say.
    pub fn residency(&self, file: &dyn File, offset: u64, len: u64) -> Option<f64> {
        residency(file, offset, len)
    }
}

/// The path that a `file://` URI names; its bytes need not be UTF-8.
fn file_path(uri: &str) -> Result<std::path::PathBuf> {
    let bad = || {
        Error::invalid("not a file URI")
            .with("uri", uri)
            .hint("write file:///absolute/path")
    };
    url::Url::parse(uri)
        .map_err(|_| bad())?
        .to_file_path()
        .map_err(|()| bad())
}

fn residency(file: &dyn File, offset: u64, len: u64) -> Option<f64> {
    use std::os::fd::AsRawFd;
    #[repr(C)]
    struct CacheRange {
        offset: u64,
        len: u64,
    }
    #[repr(C)]
    #[derive(Default)]
    struct CacheStat {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    /// The number of `cachestat(2)`, the same on every architecture.
    const SYS_CACHESTAT: libc::c_long = 451;
    let fd = file.fd()?;
    if len == 0 {
        return Some(1.0);
    }
    let range = CacheRange { offset, len };
    let mut stat = CacheStat::default();
    // SAFETY: the descriptor is open, and both structures have the layout of the kernel's and outlive the call.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            fd.as_raw_fd(),
            std::ptr::from_ref(&range),
            std::ptr::from_mut(&mut stat),
            0u32,
        )
    };
    if result != 0 {
        return None;
    }
    let page = crate::memory::limit::page_bytes() as u64;
    let last = offset.saturating_add(len - 1) / page;
    let pages = last - offset / page + 1;
    Some((stat.cached as f64 / pages as f64).min(1.0))
}
