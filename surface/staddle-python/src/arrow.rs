//! Arrow's C data interface by hand: a packed batch as one `large_binary` array, without copying the bytes.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::memory::Shared;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const LARGE_BINARY: &CStr = c"Z";
const NAME: &CStr = c"record";
const NULLABLE: i64 = 2;

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

const _: () = assert!(size_of::<ArrowSchema>() == 72);
const _: () = assert!(size_of::<ArrowArray>() == 80);

/// What the array points to.
struct Owned {
    _memory: Arc<Shared>,
    _offsets: Vec<i64>,
    _validity: Option<Vec<u8>>,
    buffers: [*const c_void; 3],
}

/// The capsule that says what the array is.
pub(crate) fn schema(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let schema = Box::new(ArrowSchema {
        format: LARGE_BINARY.as_ptr(),
        name: NAME.as_ptr(),
        metadata: null(),
        flags: NULLABLE,
        n_children: 0,
        children: null_mut(),
        dictionary: null_mut(),
        release: Some(release_schema),
        private_data: null_mut(),
    });
    let raw = Box::into_raw(schema);
    // SAFETY: the pointer is a live box, the name is static, and the destructor frees exactly this box.
    unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyCapsule_New(raw.cast(), SCHEMA.as_ptr(), Some(drop_schema)),
        )
    }
    .inspect_err(|_| {
        // SAFETY: no capsule was made, so this is the only owner.
        drop(unsafe { Box::from_raw(raw) });
    })
}

/// The capsule of the array itself. Every offset must lie in the memory, in ascending order.
pub(crate) fn array<'py>(
    py: Python<'py>,
    memory: &Arc<Shared>,
    offsets: Vec<i64>,
    present: Option<&[bool]>,
) -> PyResult<Bound<'py, PyAny>> {
    let records = offsets.len().saturating_sub(1);
    let validity = present.map(bitmap);
    let nulls = present.map_or(0, |present| present.iter().filter(|there| !**there).count());
    let mut owned = Box::new(Owned {
        buffers: [
            validity
                .as_ref()
                .map_or(null(), |bits| bits.as_ptr().cast()),
            offsets.as_ptr().cast(),
            memory.data().cast_const().cast(),
        ],
        _memory: Arc::clone(memory),
        _offsets: offsets,
        _validity: validity,
    });
    let array = Box::new(ArrowArray {
        length: i64::try_from(records).unwrap_or(i64::MAX),
        null_count: i64::try_from(nulls).unwrap_or(i64::MAX),
        offset: 0,
        n_buffers: 3,
        n_children: 0,
        buffers: owned.buffers.as_mut_ptr(),
        children: null_mut(),
        dictionary: null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(owned).cast(),
    });
    let raw = Box::into_raw(array);
    // SAFETY: the pointer is a live box, the name is static, and the destructor frees exactly this box.
    unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyCapsule_New(raw.cast(), ARRAY.as_ptr(), Some(drop_array)),
        )
    }
    .inspect_err(|_| {
        // SAFETY: no capsule was made, so this is the only owner.
        unsafe {
            release_array(raw);
            drop(Box::from_raw(raw));
        }
    })
}

fn bitmap(present: &[bool]) -> Vec<u8> {
    let mut bits = vec![0_u8; present.len().div_ceil(8)];
    for (at, there) in present.iter().enumerate() {
        if *there {
            bits[at / 8] |= 1 << (at % 8);
        }
    }
    bits
}

/// Consumers call this on the struct, which they may have moved; it marks it as released.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    if !schema.is_null() {
        // SAFETY: the consumer passes a live struct; all it points to is static.
        unsafe { (*schema).release = None };
    }
}

/// Consumers call this on the struct, which they may have moved; it frees what the struct points to.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    if array.is_null() {
        return;
    }
    // SAFETY: the consumer passes a live struct; a set `release` says that `private_data` is still the `Owned` of
    // `array()`, and it is cleared right after.
    unsafe {
        if (*array).release.is_some() {
            (*array).release = None;
            drop(Box::from_raw((*array).private_data.cast::<Owned>()));
        }
    }
}

unsafe extern "C" fn drop_schema(capsule: *mut ffi::PyObject) {
    // SAFETY: Python passes the capsule that is being freed; its pointer is the box of `schema()`, which consumers move
    // out of but never free.
    unsafe {
        let raw = ffi::PyCapsule_GetPointer(capsule, SCHEMA.as_ptr()).cast::<ArrowSchema>();
        if !raw.is_null() {
            drop(Box::from_raw(raw));
        }
    }
}

unsafe extern "C" fn drop_array(capsule: *mut ffi::PyObject) {
    // SAFETY: Python passes the capsule that is being freed; its pointer is the box of `array()`. A consumer that moved
    // the struct out has cleared `release`, so nothing is freed twice.
    unsafe {
        let raw = ffi::PyCapsule_GetPointer(capsule, ARRAY.as_ptr()).cast::<ArrowArray>();
        if !raw.is_null() {
            release_array(raw);
            drop(Box::from_raw(raw));
        }
    }
}
