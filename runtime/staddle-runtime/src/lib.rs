//! One memory budget and one I/O scheduler: the handle that every store receives.
//!
//! A store never allocates large memory, opens a data file, starts a thread or reads a clock by itself; it asks its
//! [`Runtime`]. So one number bounds the memory of everything in the process, a test can make any call fail, a seed
//! replays a run, and a forked child works.
//!
//! ```text
//!   store ── Runtime ──┬── memory()   Reservation tree · Pool of warm buffers · allocators
//!                      ├── io()       Device: where bytes live (folder, memory, object store, faults)
//!                      │              Engine: how they move (pread threads, io_uring)
//!                      ├── workers()  threads that compute, threads that wait
//!                      └── clock() · seed() · metrics()
//! ```
//!
//! | File or folder | The question it answers |
//! |---|---|
//! | [`options`] | what may a user choose |
//! | [`process`] | which process is this, and what must a forked child build anew |
//! | [`memory`] | who may hold how many bytes, and where do they come from |
//! | [`io`] | which device does a URI name, and how are many ranges read at once |
//! | [`workers`] | on which thread does this run |
//! | [`interrupt`] | what does Ctrl-C do to a command line |
//! | [`stats`] | what do all the figures say |
//! | [`doctor`] | what does this machine allow, and what would help |
//! | [`lock`] | which mutex may a forked child use
//! | [`kernel`] | what does the kernel say |
//!
//! **What costs what.** Making a runtime starts no thread and opens no file: pools, rings and connections come up with
//! the first job that needs them. In a forked child everything with a thread behind it is built again on first use, from
//! the same options; the parent's is left alone.
//!
//! **Invariants**: only [`io::device`] opens data files. Nothing here knows a store.
//!
//! Why it is so, and what was given up for it: `rfcs/0002-runtime.md`.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use staddle_base::metrics::Registry;
use staddle_base::{Clock, Error, Result, Seed};

pub mod doctor;
pub mod interrupt;
pub mod io;
pub mod kernel;
pub mod lock;
pub mod memory;
pub mod options;
pub mod process;
pub mod stats;
pub mod workers;

pub use io::device::prefetch;
pub use lock::Lock;
pub use memory::{Memory, Pool, PoolBuffer, Reservation};
pub use options::{EngineChoice, Options};
pub use process::{OwnerProcess, PerProcess, ProcessCell, fork_generation};
pub use stats::Stats;
pub use workers::Workers;

/// The handle; clones are the same runtime.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    options: Options,
    limit_bytes: u64,
    here: ProcessCell<Here>,
}

/// What each process has of its own.
struct Here {
    memory: Memory,
    io: io::Manager,
    workers: Workers,
    metrics: Registry,
    /// Held while figures are written into `metrics`.
    publishing: Lock<()>,
}

/// The process-wide runtime; made once, never freed.
static GLOBAL: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

impl Runtime {
    /// A runtime of its own, with its own memory limit.
    ///
    /// # Errors
    /// `Invalid` for settings out of range, `Unsupported` when the engine `uring` is asked for and cannot run.
    pub fn new(options: Options) -> Result<Self> {
        options.check()?;
        let runtime = Self::build(options);
        runtime.io().check_choice()?;
        Ok(runtime)
    }

    fn build(options: Options) -> Self {
        let limit_bytes = options
            .memory
            .unwrap_or_else(memory::limit::default_limit_bytes);
        Self(Arc::new(Inner {
            options,
            limit_bytes,
            here: ProcessCell::new(),
        }))
    }

    /// The runtime that the process shares, made with default options unless [`Runtime::configure_global`] came first.
    pub fn global() -> Self {
        match global() {
            Some(runtime) => runtime.clone(),
            None => {
                install_global(Self::build(Options::default())).unwrap_or_else(|(_, other)| other)
            }
        }
    }

    /// Chooses the options of [`Runtime::global`], once, before its first use.
    ///
    /// # Errors
    /// `Conflict` when it is in use already, else as [`Runtime::new`].
    pub fn configure_global(options: Options) -> Result<()> {
        let late = || {
            Error::conflict("the runtime is in use already, so it cannot be configured any more")
                .hint("configure it before the first store is opened")
        };
        if global().is_some() {
            return Err(late());
        }
        install_global(Self::new(options)?)
            .map(drop)
            .map_err(|_| late())
    }

    /// Memory: reservations, the pool, allocators.
    pub fn memory(&self) -> &Memory {
        &self.here().memory
    }

    /// I/O: devices and engines.
    pub fn io(&self) -> &io::Manager {
        &self.here().io
    }

    /// Threads.
    pub fn workers(&self) -> &Workers {
        &self.here().workers
    }

    /// Time.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.options.clock
    }

    /// Randomness.
    pub fn seed(&self) -> Seed {
        self.0.options.seed
    }

    /// Counters and gauges of this process.
    pub fn metrics(&self) -> &Registry {
        &self.here().metrics
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// The figures of this process.
    pub fn stats(&self) -> Stats {
        let here = self.here();
        Stats {
            pid: std::process::id(),
            memory: here.memory.stats(),
            engine: here.io.engine_in_use(),
            threads: here.workers.threads(),
            background_panics: here.workers.panics(),
        }
    }

    /// Counters, gauges and the figures of [`Runtime::stats`] in OpenMetrics text, ready to be scraped.
    pub fn metrics_text(&self) -> String {
        let here = self.here();
        let _one_at_a_time = here.publishing.lock();
        self.stats().publish(&here.metrics);
        here.metrics.text()
    }

    /// What this machine allows, and what would help.
    pub fn doctor(&self) -> doctor::Report {
        doctor::Report::new(self.0.limit_bytes, self.io().engine_report())
    }

    fn here(&self) -> &Here {
        let inner = &*self.0;
        inner
            .here
            .get_or_init(|| Here::new(&inner.options, inner.limit_bytes))
    }
}

impl Here {
    fn new(options: &Options, limit_bytes: u64) -> Self {
        let metrics = Registry::default();
        Self {
            memory: Memory::new(limit_bytes, Arc::clone(&options.clock)),
            io: io::Manager::new(options, &metrics),
            workers: Workers::new(options.threads, options.deterministic),
            metrics,
            publishing: Lock::new(()),
        }
    }
}

fn global() -> Option<&'static Runtime> {
    // SAFETY: a non-null pointer came from `Box::into_raw` in `install_global` and is never freed.
    unsafe { GLOBAL.load(Ordering::Acquire).as_ref() }
}

/// Installs the process-wide runtime; gives back the new one and the installed one when another was faster.
fn install_global(runtime: Runtime) -> Result<Runtime, (Runtime, Runtime)> {
    let fresh = Box::into_raw(Box::new(runtime.clone()));
    match GLOBAL.compare_exchange(
        std::ptr::null_mut(),
        fresh,
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        Ok(_) => Ok(runtime),
        Err(installed) => {
            // SAFETY: `fresh` was not installed, so this is its only owner; `installed` is never freed.
            let other = unsafe {
                drop(Box::from_raw(fresh));
                (*installed).clone()
            };
            Err((runtime, other))
        }
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("limit_bytes", &self.0.limit_bytes)
            .field("engine", &self.0.options.engine)
            .field("threads", &self.0.options.threads)
            .finish()
    }
}
