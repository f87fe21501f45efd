//! How a Rust error becomes a Python exception, and why a panic never does.
//!
//! The classes live in `staddle/errors.py`, because each has two bases; here they are looked up once per process and
//! get the facts of the error as attributes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use staddle_base::{Error, ErrorKind};

/// The attributes that hold integers; all others hold text.
const NUMBERS: [&str; 3] = ["chunk", "offset", "index"];
/// The attributes an error may have.
const ATTRIBUTES: [&str; 5] = ["uri", "chunk", "offset", "index", "key"];

/// The class in `staddle.errors` for a kind.
fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::KeyMissing => "KeyMissingError",
        ErrorKind::OutOfRange => "IndexOutOfRange",
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::Exhausted => "ExhaustedError",
        ErrorKind::Unavailable => "UnavailableError",
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::Deadline => "DeadlineError",
        ErrorKind::Denied => "DeniedError",
        ErrorKind::Cancelled => "CancelledError",
        _ => "InternalError",
    }
}

/// The exception that says the same as `error`.
#[cold]
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    build(py, error).unwrap_or_else(|why| why)
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("staddle.errors").map(Bound::unbind))?;
    let class = module
        .bind(py)
        .getattr(class_name(error.kind()))?
        .cast_into::<PyType>()?;
    let value = class.call1((error.to_string(),))?;
    for name in ATTRIBUTES {
        let Some(text) = error.get(name) else {
            continue;
        };
        match text.parse::<i64>() {
            Ok(number) if NUMBERS.contains(&name) => value.setattr(name, number)?,
            _ => value.setattr(name, text)?,
        }
    }
    if let Some(hint) = error.hint_text() {
        value.setattr("hint", hint)?;
    }
    Ok(PyErr::from_value(value))
}

/// Converts the error of a Staddle call where a `Python` token is at hand.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception that says why there is none.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for staddle_base::Result<T> {
    #[inline]
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(raise(py, &error)),
        }
    }
}

/// Runs a method's body; a panic in it becomes `InternalError`, and the process goes on.
#[inline]
pub(crate) fn guard<T>(py: Python<'_>, body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => Err(panicked(py, payload.as_ref())),
    }
}

/// Runs `work` without the interpreter lock, for everything that may wait; errors and panics come back as exceptions.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> staddle_base::Result<T> + Send,
) -> PyResult<T> {
    guard(py, || py.detach(work).or_raise(py))
}

#[cold]
fn panicked(py: Python<'_>, payload: &(dyn Any + Send)) -> PyErr {
    let what = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    let error = Error::internal(format!("a bug in Staddle: {what}")).hint(
        "the process can go on, but reopen the store first; please report this with what you were doing",
    );
    raise(py, &error)
}

/// An exception for a wrong argument, without a detour through a store.
#[cold]
pub(crate) fn invalid(py: Python<'_>, message: String, hint: &'static str) -> PyErr {
    raise(py, &Error::invalid(message).hint(hint))
}

/// An exception of `kind`.
#[cold]
pub(crate) fn of_kind(
    py: Python<'_>,
    kind: ErrorKind,
    message: &'static str,
    hint: &'static str,
) -> PyErr {
    raise(py, &Error::new(kind, message).hint(hint))
}

/// The exception for something NumPy's C interface could not do and did not say why.
pub(crate) fn numpy_failed(py: Python<'_>) -> PyErr {
    PyErr::take(py).unwrap_or_else(|| PyRuntimeError::new_err("NumPy could not make an array"))
}
