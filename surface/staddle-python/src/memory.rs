//! Memory that NumPy, DLPack and Arrow consumers share with Staddle: a buffer of the pool, counted by references.

use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::prelude::*;
use staddle_runtime::PoolBuffer;

/// A buffer of the pool that has been handed to Python: from here on it is only reached through `data`.
pub(crate) struct Shared {
    data: NonNull<u8>,
    len: usize,
    /// Goes back to the pool when the last user lets go.
    _buffer: PoolBuffer,
}

// SAFETY: the buffer itself is Send and Sync; `data` points into it and is only turned into NumPy, DLPack or Arrow
// views, whose users synchronise as they do for all memory of those libraries.
unsafe impl Send for Shared {}
// SAFETY: as above; the one method that reads through `data` is called with the interpreter lock held.
unsafe impl Sync for Shared {}

impl Shared {
    /// Gives up the buffer to Python.
    pub(crate) fn new(mut buffer: PoolBuffer) -> Arc<Self> {
        let len = buffer.len();
        // A pool buffer does not move while it lives, so the address stays right after the move below.
        let data = NonNull::new(buffer.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Arc::new(Self {
            data,
            len,
            _buffer: buffer,
        })
    }

    /// The first byte.
    pub(crate) fn data(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// Copies the bytes, with the interpreter lock held, into memory of the same size.
    pub(crate) fn copy_to(&self, target: &mut [u8]) {
        let len = self.len.min(target.len());
        // SAFETY: `data` points to `len` initialised bytes that this struct keeps; `target` is exclusive, so they do not
        // overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.data.as_ptr(), target.as_mut_ptr(), len) };
    }

    /// How many bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// What an array over shared memory names as its base.
#[pyclass(frozen, module = "staddle", name = "Memory")]
pub(crate) struct Memory {
    pub(crate) shared: Arc<Shared>,
}

#[pymethods]
impl Memory {
    fn __len__(&self) -> usize {
        self.shared.len()
    }

    fn __repr__(&self) -> String {
        format!("Memory({} bytes)", self.shared.len())
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Memory>()
}
