//! One look at everything: what [`Runtime::stats`](crate::Runtime::stats) reports.

use serde::Serialize;

use crate::io::EngineReport;
use crate::memory::MemoryStats;

/// The figures of a runtime in this process. Forked children have their own; budgets of several processes add up.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// The process these figures are about.
    pub pid: u32,
    /// Memory.
    pub memory: MemoryStats,
    /// Which engine reads local files, and why; `None` before the first read that needed one.
    pub engine: Option<EngineReport>,
    /// Worker threads for computing.
    pub threads: usize,
    /// Background jobs that panicked.
    pub background_panics: u64,
}
