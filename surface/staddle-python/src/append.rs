//! Putting records in, changing and removing them: the bodies of `extend`, `update` and `delete`.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyRange, PyString};

use crate::errors::{detached, invalid};
use crate::index::{self, Index};
use crate::input::Input;
use crate::records::PyRecords;

/// Records and bytes that one call hands to the store; enough to compress in parallel and to write in large pieces.
const GROUP_RECORDS: usize = 4096;
const GROUP_BYTES: usize = 8 << 20;

/// Appends every record of an iterable in groups. What came before a failure stays.
pub(crate) fn extend<'py>(
    set: &PyRecords,
    py: Python<'py>,
    records: &Bound<'py, PyAny>,
    progress: bool,
) -> PyResult<Bound<'py, PyRange>> {
    if records.cast::<PyBytes>().is_ok() || records.cast::<PyString>().is_ok() {
        return Err(invalid(
            py,
            "extend takes many records, and this is one".into(),
            "use append(record), or extend([record])",
        ));
    }
    let start = set.length(py)?;
    let records = if progress {
        py.import("staddle._progress")?
            .call_method1("wrap", (records, "append"))?
    } else {
        records.clone()
    };
    let mut group = Vec::new();
    let mut bytes = 0;
    for record in records.try_iter()? {
        let input = record.and_then(|record| Input::read(&record, set.typed()));
        match input {
            Ok(input) => {
                bytes += input.as_ref().len();
                group.push(input);
            }
            Err(why) => {
                put(set, py, &mut group)?;
                return Err(why);
            }
        }
        if group.len() >= GROUP_RECORDS || bytes >= GROUP_BYTES {
            put(set, py, &mut group)?;
            bytes = 0;
            py.check_signals()?;
        }
    }
    put(set, py, &mut group)?;
    let end = set.length(py)?;
    PyRange::new(py, isize::try_from(start)?, isize::try_from(end)?)
}

fn put(set: &PyRecords, py: Python<'_>, group: &mut Vec<Input>) -> PyResult<()> {
    if !group.is_empty() {
        detached(py, || set.records.extend(group))?;
        group.clear();
    }
    Ok(())
}

/// Replaces one record, or several.
pub(crate) fn update(
    set: &PyRecords,
    py: Python<'_>,
    indices: &Bound<'_, PyAny>,
    records: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let places = match index::subscript(indices, set.length(py)?, set.records.uri())? {
        Index::One(place) => {
            let record = Input::read(records, set.typed())?;
            return detached(py, || set.records.update(place, record.as_ref()));
        }
        Index::Many(places) => places,
        Index::Slice(start, step, count) => (0..count.cast_signed())
            .map(|k| start.wrapping_add_signed(step.wrapping_mul(k)))
            .collect(),
    };
    let mut items = Vec::with_capacity(places.len());
    for (at, record) in records.try_iter()?.enumerate() {
        let Some(place) = places.get(at) else {
            return Err(unequal(py, places.len(), "more"));
        };
        items.push((*place, Input::read(&record?, set.typed())?));
    }
    if items.len() != places.len() {
        return Err(unequal(py, places.len(), "fewer"));
    }
    detached(py, || set.records.update_many(&items))
}

#[cold]
fn unequal(py: Python<'_>, indices: usize, more: &str) -> PyErr {
    let message = format!("there are {indices} indices and {more} records");
    invalid(py, message, "give one record for each index")
}

/// Removes one record or several; returns what moved.
pub(crate) fn delete<'py>(
    set: &PyRecords,
    py: Python<'py>,
    indices: &Bound<'py, PyAny>,
    keep_order: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let len = set.length(py)?;
    let (places, one) = match index::subscript(indices, len, set.records.uri())? {
        Index::One(place) => (vec![place], true),
        Index::Many(places) => (places, false),
        Index::Slice(..) => (index::positions(indices, len, set.records.uri())?, false),
    };
    if keep_order {
        detached(py, || {
            places
                .iter()
                .try_for_each(|place| set.records.tombstone(*place))
        })?;
        return Ok(py.None().into_bound(py));
    }
    let moved = detached(py, || set.records.delete_many(&places))?;
    if one {
        let moved = moved.first().copied().unwrap_or_default();
        return Ok(moved.into_pyobject(py)?.into_any());
    }
    Ok(PyArray1::from_vec(py, moved.into_iter().map(u64::cast_signed).collect()).into_any())
}
