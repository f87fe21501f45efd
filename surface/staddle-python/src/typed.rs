//! What one record looks like in Python: `bytes`, or an array where the set has a dtype.

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyNone;
use staddle_record::options::{Dtype, Options};

use crate::array;

/// The dtype and shape of a typed set, ready for NumPy.
pub(crate) struct Typed {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Option<Vec<usize>>,
    descr: Py<PyArrayDescr>,
}

impl Typed {
    /// From the options of a set; `None` for a set of bytes, so that NumPy is only imported where it is needed.
    pub(crate) fn of(py: Python<'_>, options: &Options) -> PyResult<Option<Self>> {
        let Some(dtype) = options.dtype else {
            return Ok(None);
        };
        let shape = options.shape.as_ref().map(|sides| {
            sides
                .iter()
                .map(|side| usize::try_from(*side).unwrap_or(usize::MAX))
                .collect()
        });
        let descr = array::descr(py, dtype)?.unbind();
        Ok(Some(Self {
            dtype,
            shape,
            descr,
        }))
    }

    /// The NumPy dtype.
    pub(crate) fn descr<'py>(&self, py: Python<'py>) -> Bound<'py, PyArrayDescr> {
        self.descr.bind(py).clone()
    }

    /// The shape of a record of `bytes` bytes.
    pub(crate) fn shape_of(&self, bytes: usize) -> Vec<usize> {
        match &self.shape {
            Some(shape) => shape.clone(),
            None => vec![bytes / self.dtype.bytes()],
        }
    }

    /// One record as an array of its own.
    pub(crate) fn item<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        array::filled(py, self.descr.bind(py), &self.shape_of(bytes.len()), bytes)
    }

    /// As in `f32[3, 224]`.
    pub(crate) fn name(&self) -> String {
        match &self.shape {
            Some(shape) => format!("{}{shape:?}", self.dtype.name()),
            None => format!("{}[]", self.dtype.name()),
        }
    }

    /// What NumPy calls the elements.
    pub(crate) fn numpy_name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.descr.bind(py).str()?.to_string())
    }

    /// Bytes of one element.
    pub(crate) fn itemsize(&self, py: Python<'_>) -> usize {
        self.descr.bind(py).itemsize()
    }
}

/// A new `bytes` object with a copy of `bytes`: one allocation, one copy.
#[inline]
pub(crate) fn py_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let len = ffi::Py_ssize_t::try_from(bytes.len()).unwrap_or(ffi::Py_ssize_t::MAX);
    // SAFETY: the pointer and length come from a live slice; the result is a new reference, or null with an error set.
    unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), len),
        )
    }
}

/// What `ds[i]` gives for these bytes: `bytes`, an array, or `None` where the record is missing.
#[inline]
pub(crate) fn value<'py>(
    py: Python<'py>,
    typed: Option<&Typed>,
    bytes: Option<&[u8]>,
) -> PyResult<Bound<'py, PyAny>> {
    match (bytes, typed) {
        (Some(bytes), None) => py_bytes(py, bytes),
        (Some(bytes), Some(typed)) => typed.item(py, bytes),
        (None, _) => Ok(PyNone::get(py).to_owned().into_any()),
    }
}
