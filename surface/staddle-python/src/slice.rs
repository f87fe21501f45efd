//! A slice of a record set: lazy, nothing is read until a record of it is asked for.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::batch::{Give, PyBatch};
use crate::index::{self, Index};
use crate::iterate::RecordIter;
use crate::records::PyRecords;

/// Records `start`, `start + step`, … of a set; how many is fixed when the slice is made.
#[pyclass(frozen, sequence, module = "staddle", name = "RecordSlice")]
pub(crate) struct RecordSlice {
    records: Py<PyRecords>,
    start: u64,
    step: i64,
    len: u64,
}

impl RecordSlice {
    pub(crate) fn new(records: Py<PyRecords>, start: u64, step: i64, len: u64) -> Self {
        Self {
            records,
            start,
            step,
            len,
        }
    }

    fn place(&self, position: u64) -> u64 {
        let ahead = self.step.wrapping_mul(position.cast_signed());
        self.start.wrapping_add_signed(ahead)
    }

    fn places(&self, positions: &[u64]) -> Vec<u64> {
        positions
            .iter()
            .map(|position| self.place(*position))
            .collect()
    }

    fn all(&self) -> Vec<u64> {
        (0..self.len).map(|position| self.place(position)).collect()
    }

    fn gather_places(&self, py: Python<'_>, places: Vec<u64>, give: Give) -> PyResult<PyBatch> {
        self.records.get().gather_places(py, places, give)
    }
}

#[pymethods]
impl RecordSlice {
    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.len)?)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match index::subscript(index, self.len, "slice")? {
            Index::One(position) => self.records.get().item(py, self.place(position)),
            Index::Slice(start, step, len) => {
                let slice = Self {
                    records: self.records.clone_ref(py),
                    start: if len == 0 { 0 } else { self.place(start) },
                    step: self.step.wrapping_mul(step),
                    len,
                };
                Ok(Bound::new(py, slice)?.into_any())
            }
            Index::Many(positions) => {
                let batch = self.gather_places(py, self.places(&positions), Give::Views)?;
                Ok(Bound::new(py, batch)?.into_any())
            }
        }
    }

    fn __getitems__(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> PyResult<PyBatch> {
        let positions = index::many(indices, self.len, "slice")?;
        self.gather_places(py, self.places(&positions), Give::Values)
    }

    fn __iter__(&self, py: Python<'_>) -> RecordIter {
        RecordIter::new(self.records.clone_ref(py), self.start, self.step, self.len)
    }

    /// The records at these positions of the slice, in the order given; all of them when left out.
    #[pyo3(signature = (indices=None))]
    fn gather(&self, py: Python<'_>, indices: Option<&Bound<'_, PyAny>>) -> PyResult<PyBatch> {
        let places = match indices {
            Some(indices) => self.places(&index::positions(indices, self.len, "slice")?),
            None => self.all(),
        };
        self.gather_places(py, places, Give::Views)
    }

    /// All records of the slice as a list.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let iterator = self.__iter__(py);
        while let Some(item) = iterator.advance(py)? {
            list.append(item)?;
        }
        Ok(list)
    }

    /// The indices of the slice's records in the set, as ``int64``.
    #[getter]
    fn indices<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_vec(py, self.all().into_iter().map(u64::cast_signed).collect())
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let slice = py.get_type::<pyo3::types::PySlice>();
        let stop = i128::from(self.start) + i128::from(self.step) * i128::from(self.len);
        let stop = if stop < 0 {
            py.None()
        } else {
            stop.into_pyobject(py)?.into_any().unbind()
        };
        let slice = slice.call1((self.start, stop, self.step))?;
        let get = py.import("operator")?.getattr("getitem")?;
        Ok((
            get,
            PyTuple::new(py, [self.records.bind(py).as_any(), &slice])?,
        ))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let set = self.records.bind(py).repr()?;
        let len = staddle_base::size::thousands(self.len);
        Ok(format!(
            "RecordSlice({len} records from {}, step {}, of {set})",
            self.start, self.step
        ))
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RecordSlice>()
}
