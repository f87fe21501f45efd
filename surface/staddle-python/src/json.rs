//! `serde_json` values as Python objects, for `info()`, `stats()` and loader states.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyNone, PyString};
use serde_json::{Map, Number, Value};

/// The Python object with the same content: dict, list, str, int, float, bool or `None`.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => PyNone::get(py).to_owned().into_any(),
        Value::Bool(yes) => PyBool::new(py, *yes).to_owned().into_any(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(whole), _) => whole.into_pyobject(py)?.into_any(),
            (None, Some(whole)) => whole.into_pyobject(py)?.into_any(),
            (None, None) => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(items) => {
            let dict = PyDict::new(py);
            for (key, item) in items {
                dict.set_item(key, to_python(py, item)?)?;
            }
            dict.into_any()
        }
    })
}

/// The JSON value with the same content; anything that JSON cannot say is `None`.
pub(crate) fn from_python(object: &Bound<'_, PyAny>) -> Option<Value> {
    if object.is_none() {
        return Some(Value::Null);
    }
    if let Ok(yes) = object.cast::<PyBool>() {
        return Some(Value::Bool(yes.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        let whole = object.extract::<u64>().map(Number::from);
        return whole
            .or_else(|_| object.extract::<i64>().map(Number::from))
            .map(Value::Number)
            .ok();
    }
    if let Ok(real) = object.cast::<PyFloat>() {
        return Number::from_f64(real.value()).map(Value::Number);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Some(Value::String(text.to_cow().ok()?.into_owned()));
    }
    if let Ok(list) = object.cast::<PyList>() {
        return list
            .iter()
            .map(|item| from_python(&item))
            .collect::<Option<Vec<_>>>()
            .map(Value::Array);
    }
    let dict = object.cast::<PyDict>().ok()?;
    let mut map = Map::new();
    for (key, item) in dict.iter() {
        map.insert(key.extract::<String>().ok()?, from_python(&item)?);
    }
    Some(Value::Object(map))
}

/// Anything that serialises, as Python objects.
pub(crate) fn serialized<'py>(
    py: Python<'py>,
    value: &impl serde::Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let value = serde_json::to_value(value).map_err(|e| {
        let error = staddle_base::Error::internal("the result cannot be written as JSON").source(e);
        crate::errors::raise(py, &error)
    })?;
    to_python(py, &value)
}
