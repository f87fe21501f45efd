//! What may stand between the brackets: an int, a slice, a list or an array of ints, each negative or not.
//!
//! Every index is checked against the length *here*, before anything is read, so that an error names the index as the
//! user wrote it. An `int64` array is read straight from its memory: one pass that checks and converts. It is not
//! lent to the gather itself, because another thread may change the array while the interpreter lock is released.

use numpy::{PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PySlice, PyString, PyTuple};
use pyo3::{exceptions::PyOverflowError, ffi};
use staddle_base::Error;

use crate::errors::{invalid, raise};

const ACCEPTED: &str = "an index is an int, a slice, a list of ints, or a 1-D array of int8, int16, int32, int64, \
                        uint8, uint16, uint32 or uint64";

/// One subscript, checked against the length.
pub(crate) enum Index {
    /// One record.
    One(u64),
    /// `start`, `step` and how many.
    Slice(u64, i64, u64),
    /// These records, in this order.
    Many(Vec<u64>),
}

/// The place a signed index means in a store of `len` records.
#[inline]
pub(crate) fn place(index: i64, len: u64) -> Option<u64> {
    let at = match u64::try_from(index) {
        Ok(at) => at,
        Err(_) => len.checked_sub(index.unsigned_abs())?,
    };
    (at < len).then_some(at)
}

/// The value of a plain int, without the detour through `__index__`; `None` for everything else.
#[inline]
pub(crate) fn plain_int(object: &Bound<'_, PyAny>) -> Option<i64> {
    // SAFETY: the object is alive and its type is exactly `int`, checked right here; a value that does not fit gives
    // -1 with an error set, which is fetched away.
    unsafe {
        if ffi::Py_TYPE(object.as_ptr()) != &raw mut ffi::PyLong_Type {
            return None;
        }
        let value = ffi::PyLong_AsLongLong(object.as_ptr());
        if value == -1 && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(value)
    }
}

/// Reads any subscript.
///
/// # Errors
/// `IndexOutOfRange` with the valid range; `InvalidError` with what an index may be.
pub(crate) fn subscript(object: &Bound<'_, PyAny>, len: u64, uri: &str) -> PyResult<Index> {
    if let Some(index) = scalar(object)? {
        return one(object.py(), index, len, uri).map(Index::One);
    }
    if let Ok(slice) = object.cast::<PySlice>() {
        return slice_of(slice, len);
    }
    many(object, len, uri).map(Index::Many)
}

/// Reads any subscript as the list of places it means.
pub(crate) fn positions(object: &Bound<'_, PyAny>, len: u64, uri: &str) -> PyResult<Vec<u64>> {
    Ok(match subscript(object, len, uri)? {
        Index::One(place) => vec![place],
        Index::Many(places) => places,
        Index::Slice(start, step, count) => (0..count.cast_signed())
            .map(|k| start.wrapping_add_signed(step.wrapping_mul(k)))
            .collect(),
    })
}

/// Reads a slice the way a list does: ends beyond the store are cut.
pub(crate) fn slice_of(slice: &Bound<'_, PySlice>, len: u64) -> PyResult<Index> {
    let length = isize::try_from(len).unwrap_or(isize::MAX);
    let at = slice.indices(length)?;
    let start = u64::try_from(at.start).unwrap_or(0);
    let count = u64::try_from(at.slicelength).unwrap_or(0);
    let step = i64::try_from(at.step).unwrap_or(1);
    Ok(Index::Slice(start, step, count))
}

/// Reads one index.
pub(crate) fn single(object: &Bound<'_, PyAny>, len: u64, uri: &str) -> PyResult<u64> {
    match scalar(object)? {
        Some(index) => one(object.py(), index, len, uri),
        None => Err(refused(object)),
    }
}

/// Reads a list, tuple, range, array or anything that NumPy makes a 1-D array of ints of.
pub(crate) fn many(object: &Bound<'_, PyAny>, len: u64, uri: &str) -> PyResult<Vec<u64>> {
    let py = object.py();
    let check = |index: i64| place(index, len).ok_or_else(|| out_of_range(py, index, len, uri));
    if let Ok(list) = object.cast::<PyList>() {
        return list.iter().map(|item| check(element(&item)?)).collect();
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return tuple.iter().map(|item| check(element(&item)?)).collect();
    }
    if object.cast::<PySlice>().is_ok() || object.cast::<PyString>().is_ok() {
        return Err(refused(object));
    }
    let array = match object.cast::<PyUntypedArray>() {
        Ok(array) => array.clone(),
        Err(_) => as_array(object)?,
    };
    from_array(&array, len, uri)
}

fn from_array(array: &Bound<'_, PyUntypedArray>, len: u64, uri: &str) -> PyResult<Vec<u64>> {
    let py = array.py();
    let (kind, ndim) = (array.dtype().kind(), array.ndim());
    if ndim != 1 {
        let message = format!("an array of {ndim} dimensions is not an index");
        return Err(invalid(py, message, ACCEPTED));
    }
    if array.is_empty() && kind == b'f' {
        return Ok(Vec::new()); // np.array([]) is float64
    }
    if kind != b'i' && kind != b'u' {
        let message = format!("an array of {} is not an index", array.dtype().str()?);
        return Err(invalid(py, message, hint_for(kind)));
    }
    let wide = if array.dtype().is_equiv_to(&numpy::dtype::<i64>(py)) {
        array.clone().into_any()
    } else if kind == b'u' && array.dtype().itemsize() == 8 {
        return from_unsigned(array, len, uri);
    } else {
        array.call_method1("astype", ("int64",))?
    };
    let wide = wide.cast_into::<PyArray1<i64>>()?;
    let wide = wide.readonly();
    let check = |index: i64| place(index, len).ok_or_else(|| out_of_range(py, index, len, uri));
    match wide.as_slice() {
        Ok(slice) => {
            checked(slice, len).map_or_else(|| slice.iter().map(|i| check(*i)).collect(), Ok)
        }
        Err(_) => wide.as_array().iter().map(|index| check(*index)).collect(),
    }
}

/// The common case in one vectorisable pass: every index in `[0, len)`.
fn checked(slice: &[i64], len: u64) -> Option<Vec<u64>> {
    let indices: Vec<u64> = slice.iter().map(|index| index.cast_unsigned()).collect();
    let worst = indices.iter().copied().fold(0, u64::max);
    (indices.is_empty() || worst < len).then_some(indices)
}

fn from_unsigned(array: &Bound<'_, PyUntypedArray>, len: u64, uri: &str) -> PyResult<Vec<u64>> {
    let py = array.py();
    let native = array.call_method1("astype", ("uint64",))?;
    let native = native.cast_into::<PyArray1<u64>>()?;
    let native = native.readonly();
    native
        .as_array()
        .iter()
        .map(|index| {
            if *index < len {
                Ok(*index)
            } else {
                let shown = i64::try_from(*index).unwrap_or(i64::MAX);
                Err(out_of_range(py, shown, len, uri))
            }
        })
        .collect()
}

/// The value of an int, a NumPy integer or anything with `__index__`; `None` where it is no scalar at all.
fn scalar(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if let Some(value) = plain_int(object) {
        return Ok(Some(value));
    }
    if is_bool(object) || object.cast::<PyFloat>().is_ok() {
        return Err(refused(object));
    }
    if object
        .cast::<PyUntypedArray>()
        .is_ok_and(|array| array.ndim() > 0)
    {
        return Ok(None);
    }
    // SAFETY: the object is alive; PyIndex_Check only reads its type.
    if unsafe { ffi::PyIndex_Check(object.as_ptr()) } == 0 {
        return Ok(None);
    }
    match object.call_method0("__index__") {
        Ok(value) => value
            .extract::<i64>()
            .map(Some)
            .map_err(|why| too_large(object, why)),
        Err(why) if object.hasattr("shape").unwrap_or(false) => {
            // A tensor of several elements has `__index__` and refuses it.
            drop(why);
            Ok(None)
        }
        Err(why) => Err(why),
    }
}

fn element(item: &Bound<'_, PyAny>) -> PyResult<i64> {
    match plain_int(item) {
        Some(value) => Ok(value),
        None => scalar(item)?.ok_or_else(|| refused(item)),
    }
}

fn is_bool(object: &Bound<'_, PyAny>) -> bool {
    object.cast::<PyBool>().is_ok()
        || object
            .get_type()
            .name()
            .is_ok_and(|name| name == "bool_" || name == "bool")
}

fn as_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = object.py();
    let module = numpy::get_array_module(py)?;
    let array = module
        .getattr("asarray")
        .and_then(|make| make.call1((object,)))
        .map_err(|_| refused(object))?;
    Ok(array.cast_into::<PyUntypedArray>()?)
}

fn one(py: Python<'_>, index: i64, len: u64, uri: &str) -> PyResult<u64> {
    place(index, len).ok_or_else(|| out_of_range(py, index, len, uri))
}

#[cold]
pub(crate) fn out_of_range(py: Python<'_>, index: i64, len: u64, uri: &str) -> PyErr {
    raise(py, &Error::out_of_range(index, len).with("uri", uri))
}

#[cold]
fn too_large(object: &Bound<'_, PyAny>, why: PyErr) -> PyErr {
    if !why.is_instance_of::<PyOverflowError>(object.py()) {
        return why;
    }
    let error = Error::new(
        staddle_base::ErrorKind::OutOfRange,
        format!("index {object} is out of range"),
    )
    .hint("a store holds fewer than 2^40 records");
    raise(object.py(), &error)
}

#[cold]
fn refused(object: &Bound<'_, PyAny>) -> PyErr {
    let py = object.py();
    let name = object
        .get_type()
        .name()
        .map_or_else(|_| "this".to_owned(), |name| name.to_string());
    let kind = match name.as_str() {
        "bool" | "bool_" => b'b',
        "float" | "float64" | "float32" => b'f',
        _ => 0,
    };
    if object.cast::<PyInt>().is_ok() && kind == 0 {
        return raise(
            py,
            &Error::new(
                staddle_base::ErrorKind::OutOfRange,
                format!("index {object} is out of range"),
            )
            .hint("a store holds fewer than 2^40 records"),
        );
    }
    invalid(py, format!("a {name} is not an index"), hint_for(kind))
}

fn hint_for(kind: u8) -> &'static str {
    match kind {
        b'b' => {
            "a mask selects nothing here: use np.flatnonzero(mask); an index is an int, a slice, a list of ints, or a \
             1-D array of int8, int16, int32, int64, uint8, uint16, uint32 or uint64"
        }
        _ => ACCEPTED,
    }
}
