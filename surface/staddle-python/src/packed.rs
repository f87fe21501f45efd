//! A packed batch: records one after the other in one private, writable buffer of the pool.

use std::sync::Arc;

use numpy::{PyArray1, PyArrayDescr};
use parking_lot::Mutex;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};
use staddle_base::ErrorKind;
use staddle_record::Packed;
use staddle_record::options::Dtype;

use crate::batch::{Origin, indices_array};
use crate::dlpack::Export;
use crate::errors::{OrRaise, invalid, of_kind};
use crate::memory::{Memory, Shared};
use crate::typed::Typed;
use crate::{array, arrow, index};

/// Records one after the other in one buffer that nobody else can see.
///
/// ``data, offsets = packed``: record k is ``data[offsets[k]:offsets[k + 1]]``. Where the set has a dtype and a shape,
/// ``packed.array`` is the whole batch as one array, and DLPack hands it to torch without copying.
#[pyclass(frozen, module = "staddle", name = "PackedBatch")]
pub(crate) struct PackedBatch {
    parts: Mutex<Option<Arc<Parts>>>,
    typed: Option<Arc<Typed>>,
    origin: Origin,
    len: usize,
}

struct Parts {
    memory: Py<Memory>,
    shared: Arc<Shared>,
    data: Py<PyAny>,
    offsets: Vec<i64>,
    offsets_array: Py<PyArray1<i64>>,
    present: Option<Vec<bool>>,
}

impl PackedBatch {
    pub(crate) fn new(
        py: Python<'_>,
        packed: Packed,
        typed: Option<Arc<Typed>>,
        origin: Origin,
    ) -> PyResult<Self> {
        let len = packed.len();
        let Packed {
            data,
            offsets,
            present,
        } = packed;
        let shared = Shared::new(data);
        let memory = Bound::new(
            py,
            Memory {
                shared: Arc::clone(&shared),
            },
        )?;
        let owner = memory.clone().into_any();
        let bytes = usize::try_from(offsets.last().copied().unwrap_or(0))
            .unwrap_or(0)
            .min(shared.len());
        // SAFETY: `shared` owns at least `bytes` initialised bytes and never reads or writes them again itself;
        // `owner` holds it.
        let data = unsafe {
            array::over(
                py,
                PyArrayDescr::of::<u8>(py),
                &[bytes],
                shared.data(),
                true,
                owner,
            )?
        };
        let parts = Parts {
            memory: memory.unbind(),
            shared,
            data: data.unbind(),
            offsets_array: PyArray1::from_vec(py, offsets.clone()).unbind(),
            offsets,
            present,
        };
        Ok(Self {
            parts: Mutex::new(Some(Arc::new(parts))),
            typed,
            origin,
            len,
        })
    }

    fn parts(&self, py: Python<'_>) -> PyResult<Arc<Parts>> {
        self.parts.lock().clone().ok_or_else(|| {
            of_kind(
                py,
                ErrorKind::Closed,
                "the batch was released",
                "arrays taken from it before stay valid; gather again for more",
            )
        })
    }

    /// The dtype and the sides of the batch as one array.
    fn fixed(&self, py: Python<'_>, parts: &Parts) -> PyResult<(Dtype, Vec<usize>)> {
        let Some(typed) = &self.typed else {
            return Err(invalid(
                py,
                "records of bytes are no one array".into(),
                "use .data and .offsets, or create the set with dtype= and shape=",
            ));
        };
        let Some(shape) = &typed.shape else {
            return Err(invalid(
                py,
                format!("records of {} may differ in length", typed.name()),
                "use .data and .offsets, or create the set with shape=",
            ));
        };
        if parts.present.is_some() {
            return Err(invalid(
                py,
                "some records of this batch were deleted".into(),
                "see .present; select the others first",
            ));
        }
        let mut sides = vec![self.len];
        sides.extend_from_slice(shape);
        Ok((typed.dtype, sides))
    }

    /// The batch as one array, converted to `dtype` where one is asked for.
    pub(crate) fn as_array<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let whole = self.array(py)?;
        match dtype {
            Some(dtype) if !dtype.is_none() => whole.call_method1("astype", (dtype,)),
            _ => Ok(whole),
        }
    }

    /// The DLPack capsule.
    pub(crate) fn dlpack<'py>(
        &self,
        py: Python<'py>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if dl_device.is_some_and(|device| device != (1, 0)) {
            return Err(PyBufferError::new_err(
                "the memory is on the CPU, device (1, 0)",
            ));
        }
        let parts = self.parts(py)?;
        let (dtype, shape) = self.fixed(py, &parts)?;
        Export {
            memory: &parts.shared,
            dtype,
            shape: &shape,
        }
        .capsule(py, max_version)
    }

    /// The same records in memory of their own.
    fn copied(&self, py: Python<'_>) -> PyResult<Self> {
        let parts = self.parts(py)?;
        let pool = || -> staddle_base::Result<_> {
            let runtime = staddle::runtime()?;
            let memory = runtime.memory();
            memory.pool().take(memory.root(), parts.shared.len())
        };
        let mut data = pool().or_raise(py)?;
        parts.shared.copy_to(&mut data);
        let packed = Packed {
            data,
            offsets: parts.offsets.clone(),
            present: parts.present.clone(),
        };
        Self::new(py, packed, self.typed.clone(), self.origin.clone())
    }

    /// The Arrow capsules.
    pub(crate) fn arrow<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let parts = self.parts(py)?;
        let whole = arrow::array(
            py,
            &parts.shared,
            parts.offsets.clone(),
            parts.present.as_deref(),
        )?;
        Ok((arrow::schema(py)?, whole))
    }
}

#[pymethods]
impl PackedBatch {
    fn __len__(&self) -> usize {
        self.len
    }

    /// Unpacks as ``data, offsets``.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let parts = self.parts(py)?;
        let pair = PyTuple::new(
            py,
            [
                parts.data.bind(py).as_any(),
                parts.offsets_array.bind(py).as_any(),
            ],
        )?;
        Ok(pair.try_iter()?.into_any())
    }

    /// One record: a writable window on `data`, shaped where the set has a dtype; ``None`` where it was deleted.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let parts = self.parts(py)?;
        let place = index::single(index, self.len as u64, "batch")?;
        let at = usize::try_from(place).unwrap_or(usize::MAX);
        if parts
            .present
            .as_ref()
            .is_some_and(|present| present.get(at) == Some(&false))
        {
            return Ok(None);
        }
        let (Some(from), Some(to)) = (parts.offsets.get(at), parts.offsets.get(at + 1)) else {
            return Ok(None);
        };
        let (from, to) = (isize::try_from(*from)?, isize::try_from(*to)?);
        let window = parts
            .data
            .bind(py)
            .get_item(PySlice::new(py, from, to, 1))?;
        let Some(typed) = &self.typed else {
            return Ok(Some(window));
        };
        let shape = typed.shape_of(usize::try_from(to - from)?);
        let array = window.call_method1("view", (typed.descr(py),))?;
        array
            .call_method1("reshape", (PyTuple::new(py, shape)?,))
            .map(Some)
    }

    /// All bytes, one record after the other: a writable ``uint8`` array.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.parts(py)?.data.bind(py).clone())
    }

    /// Where each record begins, and where the last one ends: ``int64``, one more than there are records.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        Ok(self.parts(py)?.offsets_array.bind(py).clone())
    }

    /// Which positions hold a record, as ``bool``.
    #[getter]
    fn present<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let parts = self.parts(py)?;
        let present = parts
            .present
            .clone()
            .unwrap_or_else(|| vec![true; self.len]);
        Ok(PyArray1::from_vec(py, present))
    }

    /// The whole batch as one writable array, for sets with a dtype and a shape.
    #[getter]
    fn array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let parts = self.parts(py)?;
        let (_, shape) = self.fixed(py, &parts)?;
        let Some(typed) = &self.typed else {
            return Ok(parts.data.bind(py).clone());
        };
        let bytes = shape.iter().product::<usize>() * typed.itemsize(py);
        if bytes > parts.shared.len() {
            return Err(invalid(
                py,
                "the records are shorter than their shape".into(),
                "verify the set",
            ));
        }
        let owner = parts.memory.bind(py).clone().into_any();
        // SAFETY: the memory has at least as many bytes as the shape says, checked above; `owner` keeps it, and pool
        // buffers are aligned for every dtype.
        unsafe {
            array::over(
                py,
                typed.descr(py),
                &shape,
                parts.shared.data(),
                true,
                owner,
            )
        }
    }

    /// All elements, one record after the other: ``data`` in the dtype of the set, for sets with one.
    #[getter]
    fn elements<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let parts = self.parts(py)?;
        let data = parts.data.bind(py);
        match &self.typed {
            Some(typed) => data.call_method1("view", (typed.descr(py),)),
            None => Ok(data.clone()),
        }
    }

    /// The element type of a typed set, as in ``"f32"``; ``None`` for bytes.
    #[getter]
    fn dtype(&self) -> Option<&'static str> {
        self.typed.as_ref().map(|typed| typed.dtype.name())
    }

    /// The shape of each record of a typed set, if it is fixed.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.typed
            .as_ref()
            .and_then(|typed| typed.shape.as_ref())
            .map(|shape| PyTuple::new(py, shape))
            .transpose()
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

    /// Sum of all sizes.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.parts(py)?.offsets.last().copied().unwrap_or(0))
    }

    /// Give up the batch's own hold on its memory. Arrays taken before keep theirs.
    fn release(&self) {
        let held = self.parts.lock().take();
        drop(held);
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let whole = self.as_array(py, dtype)?;
        if copy == Some(true) {
            whole.call_method0("copy")
        } else {
            Ok(whole)
        }
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
        drop(stream); // CPU memory has none
        if copy == Some(true) {
            return self.copied(py)?.dlpack(py, max_version, dl_device);
        }
        self.dlpack(py, max_version, dl_device)
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
        drop(requested_schema); // best effort: there is one layout
        self.arrow(py)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        arrow::schema(py)
    }

    fn __repr__(&self) -> String {
        match self.parts.lock().as_ref() {
            Some(parts) => {
                let bytes = u64::try_from(parts.offsets.last().copied().unwrap_or(0)).unwrap_or(0);
                format!(
                    "PackedBatch({} records, {})",
                    self.len,
                    staddle_base::size::human(bytes)
                )
            }
            None => format!("PackedBatch({} records, released)", self.len),
        }
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PackedBatch>()
}
