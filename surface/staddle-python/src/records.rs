//! The Python class of a record set.

use std::sync::Arc;

use numpy::{PyArray1, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyRange, PyTuple};
use staddle_record::{Batch, Records};

use crate::batch::{Give, Origin, PyBatch};
use crate::errors::{OrRaise, detached, guard};
use crate::index::{self, Index};
use crate::input::{Exported, Input, offsets_out};
use crate::iterate::RecordIter;
use crate::loader::{LoaderArguments, PyLoader};
use crate::slice::RecordSlice;
use crate::source::Source;
use crate::typed::{Typed, py_bytes, value};
use crate::view::RecordView;
use crate::{append, json, maintain};

/// Opaque records by index.
///
/// ``ds[i]`` is one record, ``ds[[3, 1, 99]]`` a batch in input order, ``ds[10:20]`` a lazy slice. Made by
/// ``staddle.open`` and ``staddle.records.create``.
#[pyclass(frozen, module = "staddle", name = "Records", weakref)]
pub(crate) struct PyRecords {
    pub(crate) records: Records,
    pub(crate) typed: Option<Arc<Typed>>,
    pub(crate) source: Source,
}

impl PyRecords {
    pub(crate) fn new(py: Python<'_>, records: Records, source: Source) -> PyResult<Self> {
        let typed = Typed::of(py, &records.options())?.map(Arc::new);
        Ok(Self {
            records,
            typed,
            source,
        })
    }

    pub(crate) fn typed(&self) -> Option<&Typed> {
        self.typed.as_deref()
    }

    /// The number of records, without waiting where the set does not follow others.
    pub(crate) fn length(&self, py: Python<'_>) -> PyResult<u64> {
        if self.source.how.follow {
            return detached(py, || self.records.len());
        }
        guard(py, || self.records.len().or_raise(py))
    }

    /// What `ds[place]` gives.
    #[inline]
    pub(crate) fn item<'py>(&self, py: Python<'py>, place: u64) -> PyResult<Bound<'py, PyAny>> {
        guard(py, || {
            self.records
                .with(place, |bytes| value(py, self.typed(), bytes))
                .or_raise(py)?
        })
    }

    /// Gathers without the interpreter lock.
    pub(crate) fn gather_batch(&self, py: Python<'_>, places: &[u64]) -> PyResult<Batch> {
        detached(py, || self.records.gather(places))
    }

    /// Gathers and wraps.
    pub(crate) fn gather_places(
        &self,
        py: Python<'_>,
        places: Vec<u64>,
        give: Give,
    ) -> PyResult<PyBatch> {
        let batch = self.gather_batch(py, &places)?;
        let origin = Origin {
            valid: places.len(),
            indices: places.into(),
        };
        Ok(PyBatch::new(batch, self.typed.clone(), give, origin))
    }

    fn positions(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        index::positions(indices, self.length(py)?, self.records.uri())
    }

    fn single(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<u64> {
        index::single(index, self.length(py)?, self.records.uri())
    }
}

#[pymethods]
impl PyRecords {
    // ---- reading ----

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(usize::try_from(self.length(py)?)?)
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if let Some(place) = index::plain_int(index).and_then(|index| u64::try_from(index).ok())
            && this.typed.is_none()
            && let Ok(Ok(item)) = this.records.with(place, |bytes| match bytes {
                Some(bytes) => py_bytes(py, bytes),
                None => Ok(py.None().into_bound(py)),
            })
        {
            return Ok(item);
        }
        let len = this.length(py)?;
        match index::subscript(index, len, this.records.uri())? {
            Index::One(place) => this.item(py, place),
            Index::Slice(start, step, count) => {
                let slice = RecordSlice::new(slf.clone().unbind(), start, step, count);
                Ok(Bound::new(py, slice)?.into_any())
            }
            Index::Many(places) => {
                let batch = this.gather_places(py, places, Give::Views)?;
                Ok(Bound::new(py, batch)?.into_any())
            }
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> PyResult<RecordIter> {
        let len = slf.get().length(slf.py())?;
        Ok(RecordIter::new(slf.unbind(), 0, 1, len))
    }

    /// The records at these indices, in one call: what torch's DataLoader asks for. The batch's items are what
    /// ``ds[i]`` gives.
    fn __getitems__(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> PyResult<PyBatch> {
        let places = index::many(indices, self.length(py)?, self.records.uri())?;
        self.gather_places(py, places, Give::Values)
    }

    /// The records at these indices as one batch, in the order given; repeated and negative indices are fine.
    fn gather(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> PyResult<PyBatch> {
        let places = self.positions(py, indices)?;
        self.gather_places(py, places, Give::Views)
    }

    /// Copy records one after the other into `out`; returns where each begins and where the last one ends.
    ///
    /// `out` is any writable buffer of one piece; an error says how many bytes are needed. `offsets` takes an `int64`
    /// array with one entry more than there are indices.
    #[pyo3(signature = (indices, out, offsets=None))]
    fn gather_into<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        out: &Bound<'py, PyAny>,
        offsets: Option<Bound<'py, PyUntypedArray>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let places = self.positions(py, indices)?;
        let mut out = Exported::write(out)?;
        // SAFETY: the view is for writing; that nobody else uses the memory meanwhile is what the caller of `out=`
        // promises.
        let bytes = unsafe { out.bytes_mut() };
        if let Some(array) = offsets {
            let mut borders = offsets_out(&array, places.len())?;
            // SAFETY: a live, writable, aligned int64 array of the right length, checked just now; that nobody else uses
            // it meanwhile is what the caller of `offsets=` promises.
            let borders = unsafe { borders.as_mut() };
            detached(py, || self.records.gather_into(&places, bytes, borders))?;
            return Ok(array.into_any());
        }
        let mut borders = vec![0_i64; places.len() + 1];
        detached(py, || {
            self.records.gather_into(&places, bytes, &mut borders)
        })?;
        Ok(PyArray1::from_vec(py, borders).into_any())
    }

    /// One record as a read-only memoryview of where the store keeps it; ``None`` where it was deleted.
    fn view<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let place = self.single(py, index)?;
        let batch = self.gather_batch(py, &[place])?;
        RecordView::memoryview(py, &batch, 0)
    }

    /// Sizes in bytes, decompressed, as ``int64``; 0 where a record was deleted. All records when left out.
    #[pyo3(signature = (indices=None))]
    fn lengths<'py>(
        &self,
        py: Python<'py>,
        indices: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let places = match indices {
            Some(indices) => self.positions(py, indices)?,
            None => (0..self.length(py)?).collect(),
        };
        let lengths = detached(py, || self.records.lengths(&places))?;
        Ok(PyArray1::from_vec(
            py,
            lengths.into_iter().map(u64::cast_signed).collect(),
        ))
    }

    /// Ask the system to bring these records into memory; returns at once.
    fn prefetch(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> PyResult<()> {
        let places = self.positions(py, indices)?;
        detached(py, || self.records.prefetch(&places))
    }

    /// The first `n` records as a list.
    #[pyo3(signature = (n=5))]
    fn head<'py>(&self, py: Python<'py>, n: u64) -> PyResult<Bound<'py, PyList>> {
        let places: Vec<u64> = (0..n.min(self.length(py)?)).collect();
        let batch = self.gather_batch(py, &places)?;
        PyBatch::list(py, &batch, self.typed())
    }

    /// Move to the newest flushed state; true when there was a newer one.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.records.refresh())
    }

    // ---- writing ----

    /// Append one record; returns its index. It is durable when ``flush()`` or ``close()`` has returned.
    fn append(&self, py: Python<'_>, record: &Bound<'_, PyAny>) -> PyResult<u64> {
        let record = Input::read(record, self.typed())?;
        detached(py, || self.records.append(record.as_ref()))
    }

    /// Append every record of an iterable; returns their indices as a range. Records before one that fails stay.
    #[pyo3(signature = (records, *, progress=false))]
    fn extend<'py>(
        &self,
        py: Python<'py>,
        records: &Bound<'py, PyAny>,
        progress: bool,
    ) -> PyResult<Bound<'py, PyRange>> {
        append::extend(self, py, records, progress)
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        index: &Bound<'_, PyAny>,
        record: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let place = self.single(py, index)?;
        let record = Input::read(record, self.typed())?;
        detached(py, || self.records.update(place, record.as_ref()))
    }

    /// Replace one record, or several: ``update(7, b"…")``, ``update([3, 9], [b"…", b"…"])``.
    fn update(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        records: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        append::update(self, py, indices, records)
    }

    /// Remove one record or several.
    ///
    /// The last record takes the place of a removed one; its old index is returned, or an ``int64`` array of them in
    /// the order of the input. Indices mean the set before the call. With ``keep_order`` every other record keeps its
    /// index, the removed ones read as ``None``, and nothing is returned.
    #[pyo3(signature = (indices, *, keep_order=false))]
    fn delete<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        keep_order: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        append::delete(self, py, indices, keep_order)
    }

    fn __delitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<()> {
        let place = self.single(py, index)?;
        detached(py, || self.records.delete(place))?;
        Ok(())
    }

    /// Make everything so far durable and visible to other processes.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.records.flush())
    }

    /// Flush and give up the writer lock. Batches, views and arrays stay valid.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.records.close())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exc))]
    fn __exit__(&self, py: Python<'_>, _exc: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    // ---- states ----

    /// Keep the current state under a name; copies nothing. ``staddle.open(uri, snapshot=name)`` opens it.
    fn snapshot(&self, py: Python<'_>, name: String) -> PyResult<()> {
        detached(py, || self.records.snapshot(&name))
    }

    /// The named states, oldest first.
    fn snapshots<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let snapshots = detached(py, || self.records.snapshots())?;
        let snapshots: Vec<_> = snapshots.iter().map(staddle::describe::snapshot).collect();
        json::serialized(py, &snapshots)
    }

    /// Forget a named state; what only it kept is freed.
    fn drop_snapshot(&self, py: Python<'_>, name: String) -> PyResult<()> {
        detached(py, || self.records.drop_snapshot(&name))
    }

    // ---- upkeep ----

    /// Compare every record with its checksum. Returns what was checked.
    ///
    /// Raises:
    ///     CorruptError: some are damaged; the message lists them, the others stay readable.
    #[pyo3(signature = (*, progress=false))]
    fn verify<'py>(&self, py: Python<'py>, progress: bool) -> PyResult<Bound<'py, PyAny>> {
        maintain::verify(self, py, progress)
    }

    /// Rewrite chunks of which little is live. Returns what was, or would be, done.
    #[pyo3(signature = (dry_run=false))]
    fn compact<'py>(&self, py: Python<'py>, dry_run: bool) -> PyResult<Bound<'py, PyAny>> {
        maintain::compact(self, py, dry_run)
    }

    /// Rewrite all live records in index order. Returns what was, or would be, done. Indices do not change.
    #[pyo3(signature = (dry_run=false))]
    fn rebalance<'py>(&self, py: Python<'py>, dry_run: bool) -> PyResult<Bound<'py, PyAny>> {
        maintain::rebalance(self, py, dry_run)
    }

    /// Fold all changes since the last checkpoint into the table.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.records.checkpoint())
    }

    // ---- loading ----

    /// Batches of the set, shuffled or not, gathered in Rust threads ahead of use.
    ///
    /// The order depends on seed, epoch and length only, so ``state_dict()`` is a few numbers and a resume is exact on
    /// any number of workers. ``rank`` and ``world_size`` default to ``RANK`` and ``WORLD_SIZE``.
    #[pyo3(signature = (
        batch_size, shuffle=None, seed=0, drop_last=false, *, rank=None, world_size=None, prefetch=2,
        uneven="wrap", layout="batch", snapshot=None
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of one Python call"
    )]
    fn loader(
        slf: Bound<'_, Self>,
        batch_size: usize,
        shuffle: Option<&Bound<'_, PyAny>>,
        seed: u64,
        drop_last: bool,
        rank: Option<usize>,
        world_size: Option<usize>,
        prefetch: usize,
        uneven: &str,
        layout: &str,
        snapshot: Option<String>,
    ) -> PyResult<PyLoader> {
        let arguments = LoaderArguments {
            batch_size,
            shuffle: crate::loader::shuffle(slf.py(), shuffle)?,
            seed,
            drop_last,
            rank,
            world_size,
            prefetch,
            uneven: uneven.to_owned(),
            layout: layout.to_owned(),
            snapshot,
        };
        PyLoader::new(slf, arguments)
    }

    /// The loader as a torch dataset of tensors: ``DataLoader(ds.torch(256, shuffle=True), batch_size=None)``.
    #[pyo3(signature = (batch_size, **options))]
    fn torch<'py>(
        slf: &Bound<'py, Self>,
        batch_size: usize,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let module = slf.py().import("staddle.torch")?;
        module.getattr("dataset")?.call((slf, batch_size), options)
    }

    // ---- facts ----

    /// The path or URI, as it was opened.
    #[getter]
    fn uri(&self) -> &str {
        self.records.uri()
    }

    /// How many records are there, deleted ones left out.
    #[getter]
    fn live(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.records.live())
    }

    /// The number of the flushed state that is being read.
    #[getter]
    fn generation(&self) -> u64 {
        self.records.generation()
    }

    /// Bytes of live records over bytes of all chunks.
    #[getter]
    fn utilization(&self, py: Python<'_>) -> PyResult<f64> {
        detached(py, || self.records.utilization())
    }

    /// What a record is: ``{"record": "bytes"}``, or its dtype and shape as in ``{"record": "f32[3, 224]"}``.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item(
            "record",
            self.typed().map_or_else(|| "bytes".to_owned(), Typed::name),
        )?;
        Ok(dict)
    }

    /// The element type of a typed set, as in ``"f32"``; ``None`` for bytes.
    #[getter]
    fn dtype(&self) -> Option<&'static str> {
        self.typed().map(|typed| typed.dtype.name())
    }

    /// The shape of each record of a typed set, if it is fixed.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.typed()
            .and_then(|typed| typed.shape.as_ref())
            .map(|shape| PyTuple::new(py, shape))
            .transpose()
    }

    /// What the set is: counts, sizes, options.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        maintain::info(self, py)
    }

    /// How full the set is, chunk by chunk.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = detached(py, || self.records.stats())?;
        json::serialized(py, &stats)
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let arguments = self.source.reduced(py, Some(self.records.generation()))?;
        let reopen = py.import("staddle._native")?.getattr("_reopen")?;
        Ok((reopen, PyTuple::new(py, [arguments])?))
    }

    fn __repr__(&self) -> String {
        maintain::one_line(self)
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("staddle._repr")?
            .call_method1("records", (slf,))
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyRecords>()
}
