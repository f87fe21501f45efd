//! Moving bytes between stores and where they live.
//!
//! | Folder or file | The question it answers |
//! |---|---|
//! | [`device`] | where do bytes live, and what can that medium do |
//! | [`engine`] | how are many ranges of local files read at once |
//! | [`uri`] | which device does a path or URI name |
//! | `batch` | what of a batch is cached, what goes through an engine |
//! | [`coalesce`] | which neighbouring ranges are read together |
//! | `net` | on which threads do network requests run
//! | [`probe`] | how deep a queue does a device want
//! | `residency` | how much of a file does the page cache hold |
//!
//! **Invariant**: only `device` opens data files.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use staddle_base::metrics::{Counter, Registry};
use staddle_base::{Error, Result};

mod batch;
pub mod coalesce;
pub mod device;
pub mod engine;
mod net;
pub mod probe;
mod residency;
pub mod uri;

use crate::options::{EngineChoice, Options};
use device::{Device, File, RemoteDevice};
use engine::{Engine, PreadEngine, UringEngine};

pub use engine::EngineReport;
pub(crate) use residency::works as cachestat_works;

/// Reads in flight on a ring, where neither a setting nor a probe says otherwise.
const DEPTH: u32 = 64;

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

/// The I/O of one process.
#[derive(Debug)]
pub struct Manager {
    choice: EngineChoice,
    depth: u32,
    remote_requests: usize,
    pread: Arc<PreadEngine>,
    chosen: OnceLock<(Arc<dyn Engine>, EngineReport)>,
    counters: Counters,
}

/// What [`Manager::read_many`] counts.
#[derive(Debug)]
pub(crate) struct Counters {
    cached_reads: Arc<Counter>,
    cold_reads: Arc<Counter>,
    local_bytes: Arc<Counter>,
    other_reads: Arc<Counter>,
    other_bytes: Arc<Counter>,
}

impl Counters {
    fn new(metrics: &Registry) -> Self {
        let reads =
            |how: &str| metrics.counter("staddle_io_reads_total", &format!("how=\"{how}\""));
        let bytes = |device: &str| {
            metrics.counter(
                "staddle_io_read_bytes_total",
                &format!("device=\"{device}\""),
            )
        };
        Self {
            cached_reads: reads("cached"),
            cold_reads: reads("disk"),
            local_bytes: bytes("local"),
            other_reads: reads("other"),
            other_bytes: bytes("other"),
        }
    }
}

impl Manager {
    pub(crate) fn new(options: &Options, metrics: &Registry) -> Self {
        Self {
            choice: options.engine,
            depth: options.io_depth,
            remote_requests: options.remote_requests,
            pread: Arc::new(PreadEngine::new(options.io_threads)),
            chosen: OnceLock::new(),
            counters: Counters::new(metrics),
        }
    }

    /// The device that a path or URI names.
    ///
    /// # Errors
    /// `Invalid` for an unknown scheme or option, with the nearest one that exists.
    pub fn device(&self, uri: &str, options: &BTreeMap<String, String>) -> Result<Arc<dyn Device>> {
        uri::device(uri, options, self.remote_requests)
    }

    /// The object store or web server that a URI names, for exports.
    ///
    /// # Errors
    /// As [`Manager::device`]; `Invalid` for what is not remote.
    pub fn remote(&self, uri: &str, options: &BTreeMap<String, String>) -> Result<RemoteDevice> {
        uri::remote(uri, options, self.remote_requests)
    }

    /// The engine that reads local files; set up on first use.
    pub fn engine(&self) -> &dyn Engine {
        &*self.chosen().0
    }

    /// Which engine that is, and why.
    pub fn engine_report(&self) -> EngineReport {
        self.chosen().1.clone()
    }

    /// The same, without setting one up.
    pub(crate) fn engine_in_use(&self) -> Option<EngineReport> {
        self.chosen.get().map(|(_, report)| report.clone())
    }

    fn chosen(&self) -> &(Arc<dyn Engine>, EngineReport) {
        self.chosen.get_or_init(|| {
            let uring = || UringEngine::new(self.depth(), Arc::clone(&self.pread));
            engine::choose(self.choice, &self.pread, uring)
        })
    }

    /// The depth setting, or what a probe found, or a depth that suits most devices.
    fn depth(&self) -> u32 {
        let probed = || probe::deepest(&probe::saved(&probe::folder()?));
        match self.depth {
            0 => probed().unwrap_or(DEPTH),
            depth => depth,
        }
    }

    /// Refuses to run without the ring where the user insists on it.
    pub(crate) fn check_choice(&self) -> Result<()> {
        let report = match self.choice {
            EngineChoice::Uring => self.engine_report(),
            EngineChoice::Auto | EngineChoice::Pread => return Ok(()),
        };
        if report.name == "uring" {
            return Ok(());
        }
        Err(
            Error::unsupported(format!("the engine `uring` cannot run: {}", report.why))
                .hint("use the engine `auto` or `pread`"),
        )
    }

    /// Reads every range exactly, many at once. Ranges may overlap and lie in any order; each `into` is its own.
    ///
    /// # Errors
    /// `Corrupt` when a file ends inside a range, otherwise what the devices report; which ranges were read then is
    /// unspecified.
    pub fn read_many(&self, reads: &mut [Read<'_>]) -> Result<()> {
        let mut local = Vec::with_capacity(reads.len());
        let mut others = Vec::new();
        for read in reads {
            // The file is borrowed for longer than this borrow of the read.
            let file = read.file;
            match file.fd() {
                Some(fd) => local.push((fd, read)),
                None => others.push(read),
            }
        }
        if !local.is_empty() {
            batch::read_local(local, || self.engine(), &self.pread, &self.counters)?;
        }
        if !others.is_empty() {
            batch::read_others(others, &self.pread, &self.counters)?;
        }
        Ok(())
    }

    /// The part of a range that the page cache holds, 0 to 1; `None` where the system does not say. Costs time in
    /// proportion to the cached pages of the range: ask about samples, not about whole large files.
    pub fn residency(&self, file: &dyn File, offset: u64, len: u64) -> Option<f64> {
        residency::residency(file, offset, len)
    }
}
