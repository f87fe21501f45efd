//! A window on one record that keeps the record's memory: what stands behind each memoryview that is handed out.

use std::ffi::{c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use staddle_record::Batch;

/// The bytes of one record, read-only, where the store keeps them.
///
/// The memory lives as long as this object, whatever happens to the batch, the set or its files.
#[pyclass(frozen, module = "staddle", name = "RecordView")]
pub(crate) struct RecordView {
    batch: Batch,
    position: usize,
}

impl RecordView {
    /// A memoryview of the record at a position of a batch; `None` where there is none.
    pub(crate) fn memoryview<'py>(
        py: Python<'py>,
        batch: &Batch,
        position: usize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !batch.is_present(position) {
            return Ok(None);
        }
        let view = Bound::new(
            py,
            Self {
                batch: batch.clone(),
                position,
            },
        )?;
        Ok(Some(PyMemoryView::from(view.as_any())?.into_any()))
    }

    fn bytes(&self) -> &[u8] {
        self.batch.get(self.position).unwrap_or_default()
    }
}

#[pymethods]
impl RecordView {
    fn __len__(&self) -> usize {
        self.bytes().len()
    }

    fn __repr__(&self) -> String {
        format!("RecordView({} bytes)", self.bytes().len())
    }

    /// Gives the buffer protocol its view.
    ///
    /// # Safety
    /// Called by Python with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err(
                "a record is read-only; take a copy with bytes() or np.array()",
            ));
        }
        let bytes = slf.get().bytes();
        let len = ffi::Py_ssize_t::try_from(bytes.len())
            .map_err(|_| PyBufferError::new_err("the record is too large for a view"))?;
        let start = bytes.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: Python gave us `view` to fill. FillInfo keeps a reference to this object in it, so the batch, which
        // owns the bytes and never changes them, outlives the view; readonly is set.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 1, flags) };
        if filled == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RecordView>()
}
