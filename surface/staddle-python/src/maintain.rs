//! Upkeep and facts: the bodies of `verify`, `compact`, `rebalance`, `export`, `info` and `repr`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use staddle_base::{Error, size};

use crate::errors::{OrRaise, raise};
use crate::json;
use crate::records::PyRecords;
use crate::typed::Typed;
use crate::wait::interruptible;

/// Damaged records that an error message lists; the rest is counted.
const LISTED: usize = 10;

/// Checks every record; raises where some are damaged.
pub(crate) fn verify<'py>(
    set: &PyRecords,
    py: Python<'py>,
    progress: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let records = set.records.clone();
    let runtime = records.runtime().clone();
    let clock = std::sync::Arc::clone(runtime.clock());
    let mut last = clock.steady_ns();
    let report = interruptible(py, &runtime, "verify", move |stop| {
        records.verify_while(|done, total| {
            if progress && clock.steady_ns().saturating_sub(last) > 10_000_000_000 {
                last = clock.steady_ns();
                say(done, total);
            }
            !stop.wanted()
        })
    })?;
    if report.bad.is_empty() {
        return json::serialized(py, &report);
    }
    let mut listed: Vec<String> = report
        .bad
        .iter()
        .take(LISTED)
        .map(staddle::describe::damage)
        .collect();
    if report.bad.len() > LISTED {
        listed.push(format!("and {} more", report.bad.len() - LISTED));
    }
    let message = format!(
        "{} of {} records are damaged: {}",
        report.bad.len(),
        report.records,
        listed.join("; ")
    );
    let error = Error::corrupt(message)
        .with("uri", set.records.uri())
        .hint("the others are readable; restore these with update(), or drop them with delete()");
    let exception = raise(py, &error);
    exception
        .value(py)
        .setattr("bad", json::serialized(py, &report.bad)?)?;
    Err(exception)
}

#[expect(
    clippy::print_stderr,
    reason = "the caller asked for progress with progress=True"
)]
fn say(done: u64, total: u64) {
    eprintln!(
        "verify: {} of {} records",
        size::thousands(done),
        size::thousands(total)
    );
}

/// Rewrites chunks of which little is live.
pub(crate) fn compact<'py>(
    set: &PyRecords,
    py: Python<'py>,
    dry_run: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let records = set.records.clone();
    let runtime = records.runtime().clone();
    let report = interruptible(py, &runtime, "compact", move |stop| {
        records.compact_while(dry_run, || !stop.wanted())
    })?;
    json::serialized(py, &report)
}

/// Rewrites all live records in index order.
pub(crate) fn rebalance<'py>(
    set: &PyRecords,
    py: Python<'py>,
    dry_run: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let records = set.records.clone();
    let runtime = records.runtime().clone();
    let report = interruptible(py, &runtime, "rebalance", move |stop| {
        records.rebalance_while(dry_run, false, || !stop.wanted())
    })?;
    json::serialized(py, &report)
}

/// What the set is, with what only Python knows.
pub(crate) fn info<'py>(set: &PyRecords, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let info = py.detach(|| set.records.info()).or_raise(py)?;
    let dict = json::serialized(py, &info)?.cast_into::<PyDict>()?;
    dict.set_item("kind", "records")?;
    if let Some(typed) = set.typed() {
        let name = typed.numpy_name(py)?;
        let note = if typed.dtype == staddle_record::Dtype::Bf16 && name == "uint16" {
            "uint16 (bfloat16 bit patterns; install ml_dtypes for a dtype of that name)".to_owned()
        } else {
            name
        };
        dict.set_item("numpy", note)?;
    }
    Ok(dict)
}

/// One line about the set: no I/O, and whatever happens, no error.
pub(crate) fn one_line(set: &PyRecords) -> String {
    let uri = set.records.uri();
    let shown = catch_unwind(AssertUnwindSafe(|| {
        let glance = set.records.glance();
        if glance.closed {
            return format!("Records({uri}, closed)");
        }
        let typed = set
            .typed()
            .map(|typed| format!(" of {}", Typed::name(typed)))
            .unwrap_or_default();
        let live = if glance.total_bytes == 0 {
            1.0
        } else {
            glance.live_bytes as f64 / glance.total_bytes as f64
        };
        format!(
            "Records({uri}, {} rows{typed}, {}, {} chunks, {:.1} % live)",
            size::thousands(glance.records),
            size::human(glance.total_bytes),
            size::thousands(glance.chunks as u64),
            100.0 * live
        )
    }));
    shown.unwrap_or_else(|_| format!("Records({uri})"))
}
