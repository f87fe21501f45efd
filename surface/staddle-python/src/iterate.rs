//! Walking over a set record by record, gathered in the background of each step in batches.

use parking_lot::Mutex;
use pyo3::prelude::*;
use staddle_record::Batch;

use crate::records::PyRecords;
use crate::typed::value;

/// Records gathered at once; large enough to hide latency, small enough to stop early.
const STEP: u64 = 256;

/// Walks over records one by one; reads them in batches.
#[pyclass(frozen, module = "staddle", name = "RecordIterator")]
pub(crate) struct RecordIter {
    records: Py<PyRecords>,
    state: Mutex<State>,
}

struct State {
    next: u64,
    step: i64,
    left: u64,
    batch: Option<(Batch, usize)>,
}

impl RecordIter {
    pub(crate) fn new(records: Py<PyRecords>, start: u64, step: i64, len: u64) -> Self {
        Self {
            records,
            state: Mutex::new(State {
                next: start,
                step,
                left: len,
                batch: None,
            }),
        }
    }

    /// The next record, or `None` at the end.
    pub(crate) fn advance<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let records = self.records.get();
        let wanted = {
            let mut state = self.state.lock();
            match &mut state.batch {
                Some((batch, position)) if *position < batch.len() => {
                    *position += 1;
                    let (batch, position) = (batch.clone(), *position - 1);
                    drop(state);
                    return value(py, records.typed(), batch.get(position)).map(Some);
                }
                _ => {
                    let count = state.left.min(STEP);
                    let (start, step) = (state.next, state.step);
                    let places: Vec<u64> = (0..count.cast_signed())
                        .map(|k| start.wrapping_add_signed(step.wrapping_mul(k)))
                        .collect();
                    state.left -= count;
                    state.next = start.wrapping_add_signed(step.wrapping_mul(count.cast_signed()));
                    places
                }
            }
        };
        if wanted.is_empty() {
            self.state.lock().batch = None;
            return Ok(None);
        }
        // The lock is not held while this waits: another thread may take the interpreter.
        let batch = records.gather_batch(py, &wanted)?;
        let first = value(py, records.typed(), batch.get(0))?;
        self.state.lock().batch = Some((batch, 1));
        Ok(Some(first))
    }
}

#[pymethods]
impl RecordIter {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.advance(py)
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RecordIter>()
}
