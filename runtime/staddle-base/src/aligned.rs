//! Heap memory with an alignment that direct I/O and SIMD loads accept.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::error::{Error, Result};

/// A zero-initialised buffer of fixed length, aligned to at least 64 bytes.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
    layout: Layout,
}

// SAFETY: the buffer is owned memory without interior mutability; `&self` only hands out shared slices.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// Zeroed bytes aligned to `align` (a power of two; at least 64 is used).
    ///
    /// # Errors
    /// `Exhausted` when the system has no memory, `Invalid` when `align` is not a power of two.
    pub fn new(len: usize, align: usize) -> Result<Self> {
        let layout = Layout::from_size_align(len.max(1), align.max(64)).map_err(|_| {
            Error::invalid(format!(
                "a buffer of {len} bytes aligned to {align} cannot exist"
            ))
        })?;
        // SAFETY: the layout has a non-zero size, see `max(1)` above.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or_else(|| {
            Error::exhausted(format!(
                "the system has no memory for a buffer of {len} bytes"
            ))
        })?;
        Ok(Self { start, len, layout })
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` owns at least `len` initialised (zeroed) bytes until drop.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout, and not freed before.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "AlignedBuf({} bytes, align {})",
            self.len,
            self.layout.align()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zeroed_aligned_and_writable() {
        let mut buf = AlignedBuf::new(4096, 4096).unwrap();
        assert_eq!(buf.as_ptr() as usize % 4096, 0);
        assert!(buf.iter().all(|b| *b == 0));
        buf[4095] = 7;
        assert_eq!(buf[4095], 7);
        assert!(AlignedBuf::new(1, 65).is_err());
        assert!(AlignedBuf::new(0, 64).unwrap().is_empty());
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        assert!(AlignedBuf::new(usize::MAX, 64).is_err());
    }
}
