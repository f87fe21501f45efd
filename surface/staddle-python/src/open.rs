//! Getting a store: `open`, `create`, and the way back from a pickle.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyDictMethods};
use staddle::Store;
use staddle_base::{Error, ErrorKind, size};
use staddle_record::adopt::AdoptOptions;
use staddle_record::aligned::Field;
use staddle_record::{Aligned, CodecChoice, Dtype, Durability, OpenOptions, Options};

use crate::errors::{OrRaise, detached, guard, raise};
use crate::records::PyRecords;
use crate::source::{OpenArguments, Source, location, storage};

/// Open the store at a path or URI.
#[pyfunction]
#[pyo3(signature = (
    uri, *, mode="r+", generation=None, snapshot=None, follow=false, io="auto", verify="first", external="beside",
    storage_options=None
))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of one Python call"
)]
fn open<'py>(
    py: Python<'py>,
    uri: &Bound<'py, PyAny>,
    mode: &str,
    generation: Option<u64>,
    snapshot: Option<String>,
    follow: bool,
    io: &str,
    verify: &str,
    external: &str,
    storage_options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let how = OpenArguments {
        mode,
        generation,
        snapshot,
        follow,
        io,
        verify,
        external,
    }
    .how(py)?;
    let (storage, pickle_secrets) = storage(storage_options)?;
    let source = Source {
        location: location(uri)?,
        how,
        storage,
        pickle_secrets,
    };
    let store = detached(py, || {
        let runtime = staddle::runtime()?;
        let store = staddle::open(
            &runtime,
            &source.location,
            source.how.clone(),
            &source.storage,
        )?;
        let folders = match &store {
            Store::Aligned(_) => {
                let device = source.location.device(&runtime, &source.storage)?;
                staddle_record::aligned::fields(device.as_ref())?
            }
            _ => Vec::new(),
        };
        Ok((store, folders))
    })?;
    match store {
        (Store::Records(records), _) => {
            Ok(Bound::new(py, PyRecords::new(py, records, source)?)?.into_any())
        }
        (Store::Aligned(aligned), folders) => side_by_side(py, &aligned, &folders, &source),
        (other, _) => {
            let error = Error::unsupported(format!(
                "this version of the Python package cannot open a store of {}",
                other.kind()
            ));
            Err(raise(py, &error))
        }
    }
}

/// Sets under one index, as the Python class that `zip()` makes too.
fn side_by_side<'py>(
    py: Python<'py>,
    aligned: &Aligned,
    folders: &[Field],
    source: &Source,
) -> PyResult<Bound<'py, PyAny>> {
    let sets = PyDict::new(py);
    for (name, records) in aligned.fields() {
        let folder = folders
            .iter()
            .find(|field| field.name == name)
            .map_or(name, |field| field.folder.as_str());
        let source = Source {
            location: source.location.join(folder),
            ..source.clone()
        };
        sets.set_item(
            name,
            Bound::new(py, PyRecords::new(py, records.clone(), source)?)?,
        )?;
    }
    py.import("staddle.records")?
        .call_method1("Zipped", (sets,))
}

/// Opens the record set that a source names.
fn open_source(py: Python<'_>, source: Source) -> PyResult<PyRecords> {
    let records = detached(py, || {
        let runtime = staddle::runtime()?;
        staddle::open(
            &runtime,
            &source.location,
            source.how.clone(),
            &source.storage,
        )?
        .into_records()
    })?;
    PyRecords::new(py, records, source)
}

/// Index files where they are, as the record set at a path.
#[pyfunction]
fn adopt(py: Python<'_>, sources: Vec<String>, uri: &Bound<'_, PyAny>) -> PyResult<()> {
    let place = location(uri)?;
    detached(py, || {
        let runtime = staddle::runtime()?;
        let options = AdoptOptions::default();
        let device = place.device(&runtime, &options.storage)?;
        staddle_record::adopt::adopt(&runtime, &sources, &device, &options, &mut |_| Ok(()))
            .map(|_| ())
    })
}

/// Opens a store again from what a pickle carries.
#[pyfunction]
fn _reopen(py: Python<'_>, arguments: &Bound<'_, PyDict>) -> PyResult<PyRecords> {
    let keywords = arguments.copy()?;
    let take = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        let value = keywords.get_item(name)?;
        if value.is_some() {
            keywords.del_item(name)?;
        }
        Ok(value)
    };
    let expected: Option<u64> = take("expect")?.map(|value| value.extract()).transpose()?;
    let left_out: Vec<String> = take("left_out")?
        .map(|value| value.extract())
        .transpose()?
        .unwrap_or_default();
    let module = py.import("staddle._native")?;
    let opened = module
        .getattr("open")?
        .call((), Some(&keywords))
        .map_err(|why| without_secrets(py, why, &left_out))?;
    let opened = opened.cast_into::<PyRecords>()?;
    let set = opened.get();
    let Some(expected) = expected.filter(|expected| *expected != set.records.generation()) else {
        return PyRecords::new(py, set.records.clone(), set.source.clone());
    };
    // The set has moved on since: read the state that was pickled, as long as something keeps it.
    let source = Source {
        how: OpenOptions {
            generation: Some(expected),
            ..set.source.how.clone()
        },
        ..set.source.clone()
    };
    open_source(py, source)
}

/// Adds to a failed reopen that secrets did not travel.
fn without_secrets(py: Python<'_>, why: PyErr, left_out: &[String]) -> PyErr {
    if left_out.is_empty() {
        return why;
    }
    let text = why.value(py).to_string();
    let error = Error::new(ErrorKind::Denied, text).hint(format!(
        "{} does not travel in a pickle: set it in the environment of this process, or open the store with \
         pickle_secrets=True",
        left_out.join(", ")
    ));
    raise(py, &error)
}

/// Make a new record set.
#[pyfunction]
#[pyo3(signature = (
    uri, *, codec, dtype, shape, chunk_bytes, chunk_records, align, level, dictionary, writers, readers, cleaners,
    durability, user, storage_options
))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of one Python call"
)]
fn create(
    py: Python<'_>,
    uri: &Bound<'_, PyAny>,
    codec: &str,
    dtype: Option<&Bound<'_, PyAny>>,
    shape: Option<Vec<u64>>,
    chunk_bytes: &str,
    chunk_records: Option<u64>,
    align: u32,
    level: i32,
    dictionary: bool,
    writers: usize,
    readers: usize,
    cleaners: usize,
    durability: &str,
    user: BTreeMap<String, String>,
    storage_options: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyRecords> {
    let parse = || -> staddle_base::Result<Options> {
        Ok(Options {
            codec: CodecChoice::parse(codec)?,
            level,
            dictionary,
            dtype: None,
            shape,
            chunk_bytes: size::parse(chunk_bytes)?,
            chunk_records,
            align,
            writers,
            readers,
            cleaners,
            durability: Durability::parse(durability)?,
            user,
        })
    };
    let mut options = guard(py, || parse().or_raise(py))?;
    options.dtype = dtype.map(|dtype| read_dtype(py, dtype)).transpose()?;
    let (storage, pickle_secrets) = storage(storage_options)?;
    let source = Source {
        location: location(uri)?,
        how: OpenOptions::default(),
        storage,
        pickle_secrets,
    };
    let records = detached(py, || {
        let runtime = staddle::runtime()?;
        staddle::create(&runtime, &source.location, options, &source.storage)
    })?;
    PyRecords::new(py, records, source)
}

/// A dtype by our name or NumPy's, or a NumPy dtype object or type.
fn read_dtype(py: Python<'_>, dtype: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    if let Ok(name) = dtype.extract::<String>() {
        return Dtype::parse(&name).or_raise(py);
    }
    let module = numpy::get_array_module(py)?;
    let known = module.call_method1("dtype", (dtype,))?;
    let name: String = known.getattr("name")?.extract()?;
    Dtype::parse(&name).or_raise(py)
}

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(open, module)?)?;
    module.add_function(wrap_pyfunction!(create, module)?)?;
    module.add_function(wrap_pyfunction!(adopt, module)?)?;
    module.add_function(wrap_pyfunction!(_reopen, module)?)
}
