//! Counters and gauges that a dashboard can scrape, in OpenMetrics text.
//!
//! Names follow `staddle_<noun>_<unit>`; counters end in `_total`. Labels are bounded: never keys, never paths.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets the value.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Debug)]
enum Metric {
    Counter(Arc<Counter>),
    Gauge(Arc<Gauge>),
}

/// The metrics of one runtime.
#[derive(Debug, Default)]
pub struct Registry {
    metrics: Mutex<BTreeMap<(&'static str, String), Metric>>,
}

impl Registry {
    /// The counter `name{labels}`, made on first use. `labels` is `key="value"` pairs joined by commas, or empty.
    pub fn counter(&self, name: &'static str, labels: &str) -> Arc<Counter> {
        let mut metrics = self.metrics.lock();
        let entry = metrics
            .entry((name, labels.to_owned()))
            .or_insert_with(|| Metric::Counter(Arc::default()));
        match entry {
            Metric::Counter(counter) => Arc::clone(counter),
            Metric::Gauge(_) => Arc::default(),
        }
    }

    /// The gauge `name{labels}`, made on first use.
    pub fn gauge(&self, name: &'static str, labels: &str) -> Arc<Gauge> {
        let mut metrics = self.metrics.lock();
        let entry = metrics
            .entry((name, labels.to_owned()))
            .or_insert_with(|| Metric::Gauge(Arc::default()));
        match entry {
            Metric::Gauge(gauge) => Arc::clone(gauge),
            Metric::Counter(_) => Arc::default(),
        }
    }

    /// Every metric in OpenMetrics text.
    pub fn text(&self) -> String {
        let metrics = self.metrics.lock();
        let mut out = String::new();
        let mut last = "";
        for ((name, labels), metric) in metrics.iter() {
            let (kind, value) = match metric {
                Metric::Counter(counter) => ("counter", counter.get()),
                Metric::Gauge(gauge) => ("gauge", gauge.get()),
            };
            if *name != last {
                let _ = writeln!(out, "# TYPE {} {kind}", name.trim_end_matches("_total"));
                last = name;
            }
            let _ = if labels.is_empty() {
                writeln!(out, "{name} {value}")
            } else {
                writeln!(out, "{name}{{{labels}}} {value}")
            };
        }
        out.push_str("# EOF\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_openmetrics() {
        let registry = Registry::default();
        registry
            .counter("staddle_io_bytes_total", "dir=\"read\"")
            .add(5);
        registry
            .counter("staddle_io_bytes_total", "dir=\"read\"")
            .add(2);
        registry.gauge("staddle_pool_bytes", "").set(9);
        assert_eq!(
            registry.text(),
            "# TYPE staddle_io_bytes counter\nstaddle_io_bytes_total{dir=\"read\"} 7\n\
             # TYPE staddle_pool_bytes gauge\nstaddle_pool_bytes 9\n# EOF\n"
        );
    }
}
