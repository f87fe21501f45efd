//! What may be stored: bytes-like objects, and for typed sets arrays of the dtype and shape.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::array;
use crate::errors::invalid;
use crate::typed::Typed;

/// The bytes of one record on their way in.
pub(crate) enum Input {
    /// A `bytes` object, which cannot change, read where it lies.
    Bytes(PinnedBytes),
    /// A copy of something that could change while it is written.
    Copy(Vec<u8>),
}

/// The content of a `bytes` object, and the reference that keeps it.
pub(crate) struct PinnedBytes {
    bytes: &'static [u8],
    _owner: Py<PyBytes>,
}

impl PinnedBytes {
    fn new(object: &Bound<'_, PyBytes>) -> Self {
        let bytes = object.as_bytes();
        // SAFETY: a `bytes` object never changes or moves, and `_owner` keeps it alive; the slice leaves this struct
        // only through `as_ref`, which borrows it.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        Self {
            bytes,
            _owner: object.clone().unbind(),
        }
    }
}

impl AsRef<[u8]> for Input {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Bytes(pinned) => pinned.bytes,
            Self::Copy(bytes) => bytes,
        }
    }
}

impl Input {
    /// Reads a record from what a user gave.
    ///
    /// # Errors
    /// `InvalidError` for anything that is not bytes-like, and for arrays whose dtype or shape does not fit a typed set.
    pub(crate) fn read(object: &Bound<'_, PyAny>, typed: Option<&Typed>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(PinnedBytes::new(bytes)));
        }
        if let Some(typed) = typed {
            return from_array(object, typed).map(Self::Copy);
        }
        let exported = Exported::read(object)?;
        Ok(Self::Copy(exported.bytes().to_vec()))
    }
}

fn from_array(object: &Bound<'_, PyAny>, typed: &Typed) -> PyResult<Vec<u8>> {
    let py = object.py();
    if object.cast::<PyString>().is_ok() {
        return Err(not_bytes(object));
    }
    let module = numpy::get_array_module(py)?;
    let array = module.call_method1("asarray", (object,))?;
    let array = array.cast_into::<PyUntypedArray>()?;
    let wanted = typed.descr(py);
    let given = array.dtype();
    let array = if given.is_equiv_to(&wanted) {
        array
    } else {
        // Numbers from a Python list come as int64 or float64: take what fits; an array says its dtype itself.
        let from_list = object.cast::<PyUntypedArray>().is_err() && !object.hasattr("dtype")?;
        let rule = if from_list { "same_kind" } else { "safe" };
        let fits: bool = module
            .call_method1("can_cast", (&given, &wanted, rule))?
            .extract()?;
        if !fits {
            let message = format!(
                "an array of {} does not fit: this set holds {}",
                given.str()?,
                typed.name()
            );
            return Err(invalid(py, message, "convert it with .astype() first"));
        }
        array
            .call_method1("astype", (&wanted,))?
            .cast_into::<PyUntypedArray>()?
    };
    if let Some(shape) = &typed.shape
        && array.shape() != shape.as_slice()
    {
        let message = format!(
            "an array of shape {:?} does not fit: this set holds {}",
            array.shape(),
            typed.name()
        );
        return Err(invalid(py, message, "reshape it first"));
    }
    let array = module.call_method1("ascontiguousarray", (array,))?;
    let array = array.cast_into::<PyUntypedArray>()?;
    let Some((data, len)) = array::contiguous(&array) else {
        return Err(invalid(
            py,
            "the array cannot be read in one piece".into(),
            "pass a plain ndarray",
        ));
    };
    // SAFETY: `contiguous` gave the start and size of a live array's elements; the interpreter lock is held while they
    // are copied.
    Ok(unsafe { std::slice::from_raw_parts(data, len) }.to_vec())
}

/// A view of an object's memory through the buffer protocol, given back when dropped.
pub(crate) struct Exported<'py> {
    view: Box<ffi::Py_buffer>,
    py: Python<'py>,
}

impl<'py> Exported<'py> {
    /// For reading.
    pub(crate) fn read(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::get(object, ffi::PyBUF_SIMPLE).map_err(|_| not_bytes(object))
    }

    /// For writing.
    pub(crate) fn write(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::get(object, ffi::PyBUF_WRITABLE).map_err(|_| {
            invalid(
                object.py(),
                format!(
                    "the output, a {}, cannot be written in one piece",
                    type_name(object)
                ),
                "pass a writable C-contiguous ndarray, bytearray or memoryview",
            )
        })
    }

    fn get(object: &Bound<'py, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(MaybeUninit::<ffi::Py_buffer>::uninit());
        // SAFETY: `view` is room for one Py_buffer, in a box because exporters may point into it.
        let got = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), flags) };
        if got != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: GetBuffer returned 0, so it filled the view.
        let view = unsafe { view.assume_init() };
        Ok(Self {
            view,
            py: object.py(),
        })
    }

    /// How many bytes.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.view.len).unwrap_or(0)
    }

    /// The bytes, while the interpreter lock is held.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: a view made without PyBUF_STRIDES is one piece of `len` bytes at `buf`, pinned until it is released.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast(), self.len()) }
    }

    /// The bytes, to be filled.
    ///
    /// # Safety
    /// The view was made for writing, and nobody reads or writes the memory while the slice lives. That last part is
    /// the user's promise, as with every NumPy function that takes `out=`.
    pub(crate) unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        if self.len() == 0 {
            return &mut [];
        }
        // SAFETY: as in `bytes`; the exporter agreed to writing.
        unsafe { std::slice::from_raw_parts_mut(self.view.buf.cast(), self.len()) }
    }
}

impl Drop for Exported<'_> {
    fn drop(&mut self) {
        let _attached = self.py;
        // SAFETY: the view was filled by GetBuffer and is released once, with the interpreter lock held.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.view) };
    }
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    object
        .get_type()
        .name()
        .map_or_else(|_| "thing".to_owned(), |name| name.to_string())
}

#[cold]
fn not_bytes(object: &Bound<'_, PyAny>) -> PyErr {
    let hint = if object.cast::<PyString>().is_ok() {
        "encode the text first: text.encode()"
    } else {
        "pass bytes, bytearray, memoryview or a C-contiguous array"
    };
    invalid(
        object.py(),
        format!("a record is bytes, not {}", type_name(object)),
        hint,
    )
}

/// Checks that a caller's `offsets` can take `records + 1` entries, and returns where they lie.
pub(crate) fn offsets_out(
    array: &Bound<'_, PyUntypedArray>,
    records: usize,
) -> PyResult<NonNull<[i64]>> {
    let py = array.py();
    let right = array.ndim() == 1
        && array.dtype().is_equiv_to(&numpy::dtype::<i64>(py))
        && array::writable(array);
    let place = array::contiguous(array)
        .filter(|(_, len)| right && *len == 8 * (records + 1))
        .and_then(|(data, _)| NonNull::new(data.cast::<i64>()))
        .filter(|data| data.is_aligned());
    match place {
        Some(data) => Ok(NonNull::slice_from_raw_parts(data, records + 1)),
        None => Err(invalid(
            py,
            format!(
                "offsets must be a writable int64 array of {} entries",
                records + 1
            ),
            "leave it out to get a new one",
        )),
    }
}
