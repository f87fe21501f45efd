//! The native module behind the Python package: one file per class, thin over `staddle-record`.
//!
//! | File | What Python sees |
//! |---|---|
//! | `open` | `open`, `create`, `adopt`, `concat` |
//! | `records`, `append`, `maintain` | `Records` |
//! | `slice`, `iterate` | `RecordSlice`, iteration |
//! | `batch`, `view` | `Batch`, memoryviews of records |
//! | `packed`, `memory`, `dlpack`, `arrow` | `PackedBatch`, and how others share its memory |
//! | `loader` | `Loader` |
//! | `index`, `input`, `typed`, `array`, `json` | what goes in, what comes out |
//! | `errors`, `wait` | exceptions, and waiting with an ear for Ctrl-C |
//! | `settings` | settings, metrics, the command line |
//!
//! **Invariants**: no lock is held across a call into Python; every call that may wait releases the interpreter lock,
//! but for `ds[i]` of a record in mapped memory; a panic becomes `InternalError`; every view owns its memory.

use pyo3::prelude::*;

mod append;
mod array;
mod arrow;
mod batch;
mod dlpack;
mod errors;
mod index;
mod input;
mod iterate;
mod json;
mod loader;

mod maintain;
mod memory;
mod open;
mod packed;
mod records;
mod settings;
mod slice;
mod source;
mod typed;
mod view;
mod wait;

/// The native half of the package `staddle`; import that instead.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    open::register(module)?;
    records::register(module)?;
    slice::register(module)?;
    iterate::register(module)?;
    batch::register(module)?;
    view::register(module)?;
    memory::register(module)?;
    packed::register(module)?;
    loader::register(module)?;
    settings::register(module)
}
