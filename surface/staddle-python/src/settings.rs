//! What is not about one store: settings, metrics, the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;

use pyo3::prelude::*;

use crate::errors::{OrRaise, guard};
use crate::json;

/// Choose settings by name before the first store is opened.
#[pyfunction]
fn configure(py: Python<'_>, settings: BTreeMap<String, String>) -> PyResult<()> {
    guard(py, || {
        let flags = settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        staddle::settings::configure(flags).or_raise(py)
    })
}

/// Memory, engine and threads of this process.
#[pyfunction]
fn runtime_stats(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    guard(py, || {
        let runtime = staddle::runtime().or_raise(py)?;
        json::serialized(py, &runtime.stats())
    })
}

/// Every metric of this process in OpenMetrics text.
#[pyfunction]
fn metrics_text(py: Python<'_>) -> PyResult<String> {
    guard(py, || {
        let runtime = staddle::runtime().or_raise(py)?;
        Ok(runtime.metrics().text())
    })
}

/// Run one command line, program name first; returns its exit code. Ctrl-C ends the process with 130.
#[pyfunction]
fn cli(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<i32> {
    guard(py, || {
        Ok(py.detach(|| {
            let _interrupt = staddle_runtime::interrupt::exit_on_interrupt(130);
            staddle::cli::run(arguments)
        }))
    })
}

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(configure, module)?)?;
    module.add_function(wrap_pyfunction!(runtime_stats, module)?)?;
    module.add_function(wrap_pyfunction!(metrics_text, module)?)?;
    module.add_function(wrap_pyfunction!(cli, module)?)
}
