//! A batch: records in input order, nothing copied until it is asked for.

use std::sync::Arc;

use numpy::{PyArray1, PyArrayDescr};
use parking_lot::Mutex;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple, PyType};
use staddle_base::ErrorKind;
use staddle_record::Batch;

use crate::array;
use crate::errors::{OrRaise, guard, of_kind};
use crate::index::{self, Index};
use crate::packed::PackedBatch;
use crate::typed::{Typed, value};
use crate::view::RecordView;

/// What indexing a batch gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Give {
    /// Memoryviews of the memory that the batch holds; arrays where the set is typed.
    Views,
    /// What `ds[i]` gives: `bytes` or arrays.
    Values,
}

/// Which records a batch holds, and how many of them count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// The indices asked for.
    pub(crate) indices: Arc<[u64]>,
    /// How many records count; the rest pad the last batch of an epoch.
    pub(crate) valid: usize,
}

/// Records in the order they were asked for.
///
/// A batch is a sequence: `batch[i]` is a memoryview of the record where the store keeps it, or an array where the set
/// has a dtype, or ``None`` where the record was deleted. The memory lives as long as the batch or any view of it.
#[pyclass(frozen, sequence, module = "staddle", name = "Batch")]
pub(crate) struct PyBatch {
    held: Mutex<Option<Batch>>,
    typed: Option<Arc<Typed>>,
    give: Give,
    origin: Origin,
    len: usize,
}

impl PyBatch {
    pub(crate) fn new(batch: Batch, typed: Option<Arc<Typed>>, give: Give, origin: Origin) -> Self {
        let len = batch.len();
        Self {
            held: Mutex::new(Some(batch)),
            typed,
            give,
            origin,
            len,
        }
    }

    /// The batch, unless it was released.
    pub(crate) fn batch(&self, py: Python<'_>) -> PyResult<Batch> {
        self.held.lock().clone().ok_or_else(|| {
            of_kind(
                py,
                ErrorKind::Closed,
                "the batch was released",
                "views and arrays taken from it before stay valid; gather again for more",
            )
        })
    }

    fn item<'py>(
        &self,
        py: Python<'py>,
        batch: &Batch,
        position: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.give == Give::Views && self.typed.is_none() {
            let view = RecordView::memoryview(py, batch, position)?;
            return Ok(view.unwrap_or_else(|| py.None().into_bound(py)));
        }
        value(py, self.typed.as_deref(), batch.get(position))
    }

    /// The records as a list of `bytes`, arrays and `None`.
    pub(crate) fn list<'py>(
        py: Python<'py>,
        batch: &Batch,
        typed: Option<&Typed>,
    ) -> PyResult<Bound<'py, PyList>> {
        let len = ffi::Py_ssize_t::try_from(batch.len()).unwrap_or(ffi::Py_ssize_t::MAX);
        // SAFETY: a new list of `len` empty slots; each slot is filled below before anyone sees the list, and a list
        // that is dropped early may have empty slots. SetItem takes over the reference of its item.
        unsafe {
            let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(len))?
                .cast_into_unchecked::<PyList>();
            for (slot, bytes) in (0..len).zip(batch.iter()) {
                let item = value(py, typed, bytes)?;
                if ffi::PyList_SetItem(list.as_ptr(), slot, item.into_ptr()) != 0 {
                    return Err(PyErr::fetch(py));
                }
            }
            Ok(list)
        }
    }
}

#[pymethods]
impl PyBatch {
    fn __len__(&self) -> usize {
        self.len
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = self.batch(py)?;
        let len = self.len as u64;
        let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
        match index::subscript(index, len, "batch")? {
            Index::One(place) => self.item(py, &batch, at(place)),
            Index::Slice(start, step, count) => {
                let list = PyList::empty(py);
                for k in 0..i64::try_from(count).unwrap_or(0) {
                    let place = start.wrapping_add_signed(step * k);
                    list.append(self.item(py, &batch, at(place))?)?;
                }
                Ok(list.into_any())
            }
            Index::Many(places) => {
                let list = PyList::empty(py);
                for place in places {
                    list.append(self.item(py, &batch, at(place))?)?;
                }
                Ok(list.into_any())
            }
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> PyResult<BatchIter> {
        slf.get().batch(slf.py())?;
        Ok(BatchIter {
            batch: slf.unbind(),
            next: Mutex::new(0),
        })
    }

    /// The memoryview of one record; ``None`` where it was deleted.
    fn view<'py>(
        &self,
        py: Python<'py>,
        position: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let batch = self.batch(py)?;
        let place = index::single(position, self.len as u64, "batch")?;
        RecordView::memoryview(py, &batch, usize::try_from(place).unwrap_or(usize::MAX))
    }

    /// All records as a list: `bytes`, or arrays where the set has a dtype, or ``None`` where one was deleted.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let batch = self.batch(py)?;
        guard(py, || Self::list(py, &batch, self.typed.as_deref()))
    }

    /// All records one after the other in one private, writable buffer: ``data, offsets = batch.pack()``.
    fn pack(&self, py: Python<'_>) -> PyResult<PackedBatch> {
        let batch = self.batch(py)?;
        let packed = guard(py, || py.detach(|| batch.pack()).or_raise(py))?;
        PackedBatch::new(py, packed, self.typed.clone(), self.origin.clone())
    }

    /// The address of each record as ``uint64``, 0 where one was deleted. The array keeps the memory alive.
    fn pointers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let batch = self.batch(py)?;
        let addresses: Vec<u64> = batch.pointers().map(|address| address as u64).collect();
        let (data, len) = (addresses.as_ptr(), addresses.len());
        let owner = Bound::new(
            py,
            Addresses {
                addresses,
                _batch: batch,
            },
        )?
        .into_any();
        // SAFETY: `data` points to the heap of a vector that the owner keeps and never changes; read-only.
        unsafe {
            array::over(
                py,
                PyArrayDescr::of::<u64>(py),
                &[len],
                data.cast(),
                false,
                owner,
            )
        }
    }

    /// The size of each record in bytes as ``int64``, 0 where one was deleted.
    fn lengths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let batch = self.batch(py)?;
        let lengths = batch
            .lengths()
            .map(|len| i64::try_from(len).unwrap_or(i64::MAX))
            .collect();
        Ok(PyArray1::from_vec(py, lengths))
    }

    /// Which positions hold a record, as ``bool``.
    #[getter]
    fn present<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let batch = self.batch(py)?;
        let present = (0..batch.len())
            .map(|position| batch.is_present(position))
            .collect();
        Ok(PyArray1::from_vec(py, present))
    }

    /// The indices that were asked for, as ``int64``.
    #[getter]
    fn indices<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        indices_array(py, &self.origin)
    }

    /// How many of the records count: fewer than `len` only where the last batch of an epoch is padded.
    #[getter]
    fn valid(&self) -> usize {
        self.origin.valid
    }

    /// Why bytes had to be copied, or ``None`` when all of them are where the store keeps them.
    #[getter]
    fn copied(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        Ok(self.batch(py)?.copied())
    }

    /// Sum of all sizes.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.batch(py)?.bytes())
    }

    /// Give up the batch's own hold on its memory. Views taken before keep theirs.
    fn release(&self) {
        let held = self.held.lock().take();
        drop(held);
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(crate::errors::invalid(
                py,
                "a batch cannot become one array without copying".into(),
                "leave copy out, or use batch.view(i) for one record",
            ));
        }
        self.pack(py)?.as_array(py, dtype)
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        drop(stream);
        if copy == Some(false) {
            return Err(pyo3::exceptions::PyBufferError::new_err(
                "a batch cannot become one tensor without copying",
            ));
        }
        self.pack(py)?.dlpack(py, max_version, dl_device)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        drop(requested_schema);
        self.pack(py)?.arrow(py)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::arrow::schema(py)
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        // A batch that travels to another process arrives as a plain list of what it holds.
        let list = self.tolist(py)?;
        Ok((py.get_type::<PyList>(), PyTuple::new(py, [list])?))
    }

    fn __eq__<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mine = self.tolist(py)?;
        if let Ok(batch) = other.cast::<Self>() {
            let theirs = batch.get().tolist(py)?;
            return mine.rich_compare(theirs, pyo3::basic::CompareOp::Eq);
        }
        if other.cast::<PyList>().is_ok() {
            return mine.rich_compare(other, pyo3::basic::CompareOp::Eq);
        }
        Ok(py.NotImplemented().into_bound(py))
    }

    fn __repr__(&self) -> String {
        match self.held.lock().as_ref() {
            Some(batch) => {
                let size = staddle_base::size::human(batch.bytes());
                let copied = batch
                    .copied()
                    .map_or_else(|| "zero-copy".into(), |why| format!("copied: {why}"));
                format!("Batch({} records, {size}, {copied})", self.len)
            }
            None => format!("Batch({} records, released)", self.len),
        }
    }
}

/// What keeps the memory behind `pointers()`.
#[pyclass(frozen, module = "staddle", name = "Addresses")]
pub(crate) struct Addresses {
    addresses: Vec<u64>,
    _batch: Batch,
}

#[pymethods]
impl Addresses {
    fn __len__(&self) -> usize {
        self.addresses.len()
    }
}

/// Walks over the records of a batch.
#[pyclass(frozen, module = "staddle", name = "BatchIterator")]
pub(crate) struct BatchIter {
    batch: Py<PyBatch>,
    next: Mutex<usize>,
}

#[pymethods]
impl BatchIter {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let batch = self.batch.get();
        let position = {
            let mut next = self.next.lock();
            let position = *next;
            *next += 1;
            position
        };
        if position >= batch.len {
            return Ok(None);
        }
        let held = batch.batch(py)?;
        batch.item(py, &held, position).map(Some)
    }
}

/// The indices behind a batch as an array.
pub(crate) fn indices_array<'py>(py: Python<'py>, origin: &Origin) -> Bound<'py, PyArray1<i64>> {
    PyArray1::from_vec(
        py,
        origin
            .indices
            .iter()
            .map(|index| index.cast_signed())
            .collect(),
    )
}

/// Adds the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyBatch>()?;
    module.add_class::<BatchIter>()?;
    module.add_class::<Addresses>()
}
