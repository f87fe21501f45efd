//! One look at everything: what [`Runtime::stats`](crate::Runtime::stats) reports.

use serde::Serialize;
use staddle_base::metrics::Registry;

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

impl Stats {
    /// Writes the figures into `registry`, where scrapes find them. One caller at a time, or counters count twice.
    pub(crate) fn publish(&self, registry: &Registry) {
        let gauge = |name, labels: &str, value| registry.gauge(name, labels).set(value);
        let total = |name, labels: &str, value: u64| {
            let counter = registry.counter(name, labels);
            counter.add(value.saturating_sub(counter.get()));
        };
        let memory = &self.memory;
        gauge("staddle_memory_limit_bytes", "", memory.limit_bytes);
        gauge("staddle_memory_reserved_bytes", "", memory.reserved_bytes);
        gauge(
            "staddle_memory_peak_reserved_bytes",
            "",
            memory.peak_reserved_bytes,
        );
        gauge("staddle_pool_cached_bytes", "", memory.pool.cached_bytes);
        total("staddle_pool_taken_buffers_total", "", memory.pool.taken);
        total("staddle_pool_reused_buffers_total", "", memory.pool.reused);
        total(
            "staddle_pool_trimmed_bytes_total",
            "",
            memory.pool.trimmed_bytes,
        );
        total(
            "staddle_background_panics_total",
            "",
            self.background_panics,
        );
        for allocator in &memory.allocators {
            let labels = format!("allocator=\"{}\"", allocator.name);
            total(
                "staddle_allocator_num_allocs_total",
                &labels,
                allocator.num_allocs,
            );
            for (name, value) in [
                ("staddle_allocator_bytes_in_use", allocator.bytes_in_use),
                (
                    "staddle_allocator_peak_bytes_in_use",
                    allocator.peak_bytes_in_use,
                ),
                (
                    "staddle_allocator_largest_alloc_size",
                    allocator.largest_alloc_size,
                ),
                ("staddle_allocator_bytes_reserved", allocator.bytes_reserved),
                (
                    "staddle_allocator_peak_bytes_reserved",
                    allocator.peak_bytes_reserved,
                ),
            ] {
                gauge(name, &labels, value);
            }
        }
    }
}
