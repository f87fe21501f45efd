//! NumPy arrays over memory that Staddle owns, and arrays of any dtype filled from bytes.

use std::ffi::{c_int, c_void};

use numpy::npyffi::{
    NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, PyArray_Descr, PyArrayObject, get_type_object,
};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use staddle_record::options::Dtype;

use crate::errors::numpy_failed;

/// The NumPy dtype for the elements of a set. NumPy has no bfloat16: `ml_dtypes` supplies one where it is installed,
/// else the bit patterns are handed out as `uint16`.
pub(crate) fn descr(py: Python<'_>, dtype: Dtype) -> PyResult<Bound<'_, PyArrayDescr>> {
    let name = match dtype {
        Dtype::Bool => "?",
        Dtype::U8 => "u1",
        Dtype::U16 => "<u2",
        Dtype::U32 => "<u4",
        Dtype::U64 => "<u8",
        Dtype::I8 => "i1",
        Dtype::I16 => "<i2",
        Dtype::I32 => "<i4",
        Dtype::I64 => "<i8",
        Dtype::F16 => "<f2",
        Dtype::F32 => "<f4",
        Dtype::F64 => "<f8",
        Dtype::Bf16 => {
            if let Ok(module) = py.import("ml_dtypes") {
                return PyArrayDescr::new(py, module.getattr("bfloat16")?);
            }
            "<u2"
        }
    };
    PyArrayDescr::new(py, name)
}

/// A new C-contiguous array of `shape` that holds a copy of `bytes`.
///
/// The caller has checked that `bytes` is as long as the shape says; what is missing would stay zero, what is too much
/// is left out.
pub(crate) fn filled<'py>(
    py: Python<'py>,
    descr: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
    bytes: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    let mut dims = dims(shape);
    // SAFETY: the dtype is a live object whose reference is handed over (NewFromDescr steals it); `dims` has as many
    // entries as `nd` says; without data NumPy allocates the memory itself.
    let array = unsafe {
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            descr.clone().into_dtype_ptr().cast::<PyArray_Descr>(),
            nd(shape),
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_opt(py, made).ok_or_else(|| numpy_failed(py))?
    };
    let room = shape.iter().product::<usize>() * descr.itemsize();
    let len = bytes.len().min(room);
    // SAFETY: the array was made above, is not shared yet, and owns `room` bytes; `len` is at most that, and a fresh
    // allocation does not overlap `bytes`.
    unsafe {
        let data = (*array.as_ptr().cast::<PyArrayObject>()).fields.data;
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast::<u8>(), len);
        std::ptr::write_bytes(data.cast::<u8>().add(len), 0, room - len);
    }
    Ok(array)
}

/// An array over `data`, which `owner` keeps alive.
///
/// # Safety
/// `data` must point to `shape × itemsize` initialised bytes, aligned for the dtype, which stay in place while `owner`
/// lives; with `writable` nothing else may hold a Rust reference to them.
pub(crate) unsafe fn over<'py>(
    py: Python<'py>,
    descr: Bound<'py, PyArrayDescr>,
    shape: &[usize],
    data: *const u8,
    writable: bool,
    owner: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut dims = dims(shape);
    let flags = if writable { NPY_ARRAY_WRITEABLE } else { 0 };
    // SAFETY: NewFromDescr steals the dtype's reference and copies `dims`; the caller vouches for `data`;
    // SetBaseObject steals the owner's reference, also when it fails.
    unsafe {
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            descr.into_dtype_ptr().cast::<PyArray_Descr>(),
            nd(shape),
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            data.cast_mut().cast::<c_void>(),
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_opt(py, made).ok_or_else(|| numpy_failed(py))?;
        let set = PY_ARRAY_API.PyArray_SetBaseObject(
            py,
            array.as_ptr().cast::<PyArrayObject>(),
            owner.into_ptr(),
        );
        if set == 0 {
            Ok(array)
        } else {
            Err(numpy_failed(py))
        }
    }
}

/// Where the elements of a C-contiguous array lie and how many bytes they take; `None` for any other layout.
pub(crate) fn contiguous(array: &Bound<'_, PyUntypedArray>) -> Option<(*mut u8, usize)> {
    if !array.is_c_contiguous() {
        return None;
    }
    let bytes = array.shape().iter().product::<usize>() * array.dtype().itemsize();
    // SAFETY: a `PyUntypedArray` is a `PyArrayObject`, and its `data` field may be read while the array lives.
    let data = unsafe { (*array.as_array_ptr()).fields.data };
    Some((data.cast::<u8>(), bytes))
}

/// Whether NumPy lets one write into the array.
pub(crate) fn writable(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: a `PyUntypedArray` is a `PyArrayObject`, and its `flags` field may be read while the array lives.
    let flags = unsafe { (*array.as_array_ptr()).fields.flags };
    flags & NPY_ARRAY_WRITEABLE != 0
}

fn nd(shape: &[usize]) -> c_int {
    c_int::try_from(shape.len()).unwrap_or(c_int::MAX)
}

fn dims(shape: &[usize]) -> Vec<isize> {
    shape
        .iter()
        .map(|side| isize::try_from(*side).unwrap_or(isize::MAX))
        .collect()
}
