//! The Python class of a loader: shuffled batches, gathered in Rust threads ahead of use, that resume exactly.

use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};
use staddle_base::{Error, ErrorKind, size, suggest};
use staddle_record::loader::Epoch;
use staddle_record::{Layout, Loader, LoaderOptions, LoaderState, Rows, Shuffle, Step, Uneven};

use crate::batch::{Give, Origin, PyBatch};
use crate::errors::{OrRaise, detached, guard, invalid, of_kind, raise};
use crate::json;
use crate::packed::PackedBatch;
use crate::records::PyRecords;

/// How often a wait for the next batch looks for signals.
const POLL: Duration = Duration::from_millis(50);

/// What `loader()` was given.
#[derive(Clone)]
pub(crate) struct LoaderArguments {
    pub(crate) batch_size: usize,
    pub(crate) shuffle: Shuffle,
    pub(crate) seed: u64,
    pub(crate) drop_last: bool,
    pub(crate) rank: Option<usize>,
    pub(crate) world_size: Option<usize>,
    pub(crate) prefetch: usize,
    pub(crate) uneven: String,
    pub(crate) layout: String,
    pub(crate) snapshot: Option<String>,
}

impl LoaderArguments {
    fn options(&self, py: Python<'_>) -> PyResult<LoaderOptions> {
        let rank = from_environment(py, self.rank, "RANK", 0)?;
        let world_size = from_environment(py, self.world_size, "WORLD_SIZE", 1)?;
        let layout = match self.layout.as_str() {
            "batch" => Layout::Batch,
            "packed" => Layout::Packed,
            other => {
                let error = Error::invalid(format!("unknown layout `{other}`"))
                    .hint(suggest::hint(other, &["batch", "packed"]));
                return Err(raise(py, &error));
            }
        };
        Ok(LoaderOptions {
            batch_size: self.batch_size,
            shuffle: self.shuffle,
            seed: self.seed,
            drop_last: self.drop_last,
            rank,
            world_size,
            prefetch: self.prefetch,
            uneven: Uneven::parse(&self.uneven).or_raise(py)?,
            layout,
            snapshot: self.snapshot.clone(),
            ..LoaderOptions::default()
        })
    }
}

/// What was passed, else the variable that torchrun sets, else the default.
fn from_environment(
    py: Python<'_>,
    given: Option<usize>,
    variable: &str,
    default: usize,
) -> PyResult<usize> {
    if let Some(given) = given {
        return Ok(given);
    }
    match std::env::var(variable) {
        Ok(text) if !text.is_empty() => text.trim().parse().map_err(|_| {
            invalid(
                py,
                format!("the variable {variable} is `{text}`, not a number"),
                "unset it, or pass rank= and world_size=",
            )
        }),
        _ => Ok(default),
    }
}

/// Reads `shuffle=`: `False`, `True` or `"block"`.
pub(crate) fn shuffle(py: Python<'_>, given: Option<&Bound<'_, PyAny>>) -> PyResult<Shuffle> {
    let Some(given) = given else {
        return Ok(Shuffle::None);
    };
    if let Ok(yes) = given.cast::<PyBool>() {
        return Ok(if yes.is_true() {
            Shuffle::Global
        } else {
            Shuffle::None
        });
    }
    if let Ok(text) = given.cast::<PyString>()
        && text.to_cow()? == "block"
    {
        return Ok(Shuffle::BLOCK);
    }
    let shown = given.repr()?;
    Err(invalid(
        py,
        format!("unknown shuffle {shown}"),
        "use False, True or \"block\"",
    ))
}

/// Batches of a record set, in an order that is a function of seed, epoch and length.
///
/// Iterating walks over one epoch; the next walk is the next epoch. ``state_dict()`` says where it is in a few numbers,
/// which a loader of the same set goes on from exactly, with any number of workers and ranks.
#[pyclass(frozen, module = "staddle", name = "Loader", weakref)]
pub(crate) struct PyLoader {
    set: Py<PyRecords>,
    loader: Loader,
    arguments: LoaderArguments,
}

impl PyLoader {
    pub(crate) fn new(set: Bound<'_, PyRecords>, arguments: LoaderArguments) -> PyResult<Self> {
        let py = set.py();
        let options = arguments.options(py)?;
        let records = set.get().records.clone();
        let loader = detached(py, || records.loader(options))?;
        Ok(Self {
            set: set.unbind(),
            loader,
            arguments,
        })
    }

    fn walk(&self, py: Python<'_>, epoch: Epoch) -> LoaderIter {
        LoaderIter {
            set: self.set.clone_ref(py),
            epoch: Mutex::new(Some(epoch)),
        }
    }
}

#[pymethods]
impl PyLoader {
    /// How many batches this rank gets in a whole epoch.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(usize::try_from(detached(py, || self.loader.len())?)?)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<LoaderIter> {
        let epoch = detached(py, || self.loader.iter())?;
        Ok(self.walk(py, epoch))
    }

    /// Walk over what worker `k` of `workers` takes: batches k, k + workers, … For processes that share a rank.
    fn worker(&self, py: Python<'_>, k: usize, workers: usize) -> PyResult<LoaderIter> {
        let epoch = detached(py, || self.loader.worker(k, workers))?;
        Ok(self.walk(py, epoch))
    }

    /// Where the loader is, as plain values; less than 500 bytes as JSON, and the same on every rank.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let state = detached(py, || self.loader.state())?;
        json::serialized(py, &state)
    }

    /// The state of a loader from which each rank has had `steps` batches more, for whoever counts on behalf of workers
    /// in other processes.
    #[pyo3(signature = (steps, *, epoch=None))]
    fn state_after<'py>(
        &self,
        py: Python<'py>,
        steps: u64,
        epoch: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let state = detached(py, || {
            let now = self.loader.state()?;
            let options = self.loader.options();
            let each = (options.batch_size as u64).saturating_mul(options.world_size as u64);
            let start = if epoch.is_none_or(|epoch| epoch == now.epoch) {
                now.consumed
            } else {
                0
            };
            let consumed = start
                .saturating_add(steps.saturating_mul(each))
                .min(now.fingerprint.length);
            self.loader.state_at(epoch.unwrap_or(now.epoch), consumed)
        })?;
        json::serialized(py, &state)
    }

    /// Go on exactly where a state was saved, on any number of ranks and workers.
    ///
    /// Raises:
    ///     ConflictError: the set has changed since in a way that matters; ``strict=False`` goes on in the same order
    ///         with what is there now.
    #[pyo3(signature = (state, strict=true))]
    fn load_state_dict(
        &self,
        py: Python<'_>,
        state: &Bound<'_, PyAny>,
        strict: bool,
    ) -> PyResult<()> {
        let state = read_state(py, state)?;
        detached(py, || self.loader.load_state(&state, strict))
    }

    /// Choose the epoch of the next walk, as scripts for distributed training do.
    fn set_epoch(&self, epoch: u64) {
        self.loader.set_epoch(epoch);
    }

    /// The epoch in progress, or the one to begin.
    #[getter]
    fn epoch(&self) -> u64 {
        self.loader.epoch()
    }

    /// The seed in force.
    #[getter]
    fn seed(&self) -> u64 {
        self.loader.seed()
    }

    /// Records a batch.
    #[getter]
    fn batch_size(&self) -> usize {
        self.loader.options().batch_size
    }

    /// Which of the ranks this is.
    #[getter]
    fn rank(&self) -> usize {
        self.loader.options().rank
    }

    /// How many ranks take turns.
    #[getter]
    fn world_size(&self) -> usize {
        self.loader.options().world_size
    }

    /// The set that is loaded.
    #[getter]
    fn records(&self, py: Python<'_>) -> Py<PyRecords> {
        self.set.clone_ref(py)
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let options = self.loader.options();
        let keywords = PyDict::new(py);
        keywords.set_item("batch_size", options.batch_size)?;
        match options.shuffle {
            Shuffle::None => {}
            Shuffle::Global => keywords.set_item("shuffle", true)?,
            Shuffle::Block { .. } => keywords.set_item("shuffle", "block")?,
        }
        keywords.set_item("seed", options.seed)?;
        keywords.set_item("drop_last", options.drop_last)?;
        keywords.set_item("rank", options.rank)?;
        keywords.set_item("world_size", options.world_size)?;
        keywords.set_item("prefetch", options.prefetch)?;
        keywords.set_item("uneven", &self.arguments.uneven)?;
        keywords.set_item("layout", &self.arguments.layout)?;
        keywords.set_item("snapshot", &options.snapshot)?;
        let reload = py.import("staddle._native")?.getattr("_reload")?;
        let state = self.state_dict(py)?;
        let parts = [self.set.bind(py).as_any(), keywords.as_any(), &state];
        Ok((reload, PyTuple::new(py, parts)?))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let options = self.loader.options();
        let set = self.set.get();
        let rows = size::thousands(set.records.glance().records);
        let order = match options.shuffle {
            Shuffle::None => "in order".to_owned(),
            Shuffle::Global => format!("shuffled with seed {}", self.loader.seed()),
            Shuffle::Block { .. } => format!("shuffled in blocks with seed {}", self.loader.seed()),
        };
        let _ = py;
        format!(
            "Loader({}, {rows} rows, {} a batch, {order}, rank {} of {}, epoch {})",
            set.records.uri(),
            options.batch_size,
            options.rank,
            options.world_size,
            self.loader.epoch()
        )
    }
}

fn read_state(py: Python<'_>, state: &Bound<'_, PyAny>) -> PyResult<LoaderState> {
    json::from_python(state)
        .and_then(|value| serde_json::from_value(value).ok())
        .ok_or_else(|| {
            invalid(
                py,
                "this is not the state of a loader".into(),
                "pass what state_dict() returned; it has format, kind, fingerprint, seed, epoch and consumed",
            )
        })
}

/// Makes a loader again from what a pickle carries.
#[pyfunction]
fn _reload<'py>(
    set: &Bound<'py, PyAny>,
    keywords: &Bound<'py, PyDict>,
    state: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let loader = set.getattr("loader")?.call((), Some(keywords))?;
    loader.call_method1("load_state_dict", (state,))?;
    Ok(loader)
}

/// One walk over an epoch. Waiting for a batch releases the interpreter lock and hears Ctrl-C.
#[pyclass(frozen, module = "staddle", name = "LoaderIterator")]
pub(crate) struct LoaderIter {
    set: Py<PyRecords>,
    /// Taken out while a thread waits in it: the lock is never held while waiting.
    epoch: Mutex<Option<Epoch>>,
}

impl LoaderIter {
    fn wait(py: Python<'_>, epoch: &mut Epoch) -> PyResult<Option<Step>> {
        while !guard(py, || Ok(py.detach(|| epoch.ready_within(POLL))))? {
            py.check_signals()?;
        }
        guard(py, || py.detach(|| epoch.next()).transpose().or_raise(py))
    }

    fn wrap<'py>(&self, py: Python<'py>, step: Step) -> PyResult<Bound<'py, PyAny>> {
        let typed = self.set.get().typed.clone();
        let origin = Origin {
            indices: step.indices.into(),
            valid: step.valid,
        };
        match step.rows {
            Rows::Batch(batch) => {
                Ok(Bound::new(py, PyBatch::new(batch, typed, Give::Views, origin))?.into_any())
            }
            Rows::Packed(packed) => {
                Ok(Bound::new(py, PackedBatch::new(py, packed, typed, origin)?)?.into_any())
            }
        }
    }
}

#[pymethods]
impl LoaderIter {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(mut epoch) = self.epoch.lock().take() else {
            return Err(of_kind(
                py,
                ErrorKind::Conflict,
                "another thread is waiting for a batch of this walk",
                "give each thread its own share: loader.worker(k, threads)",
            ));
        };
        let step = Self::wait(py, &mut epoch);
        *self.epoch.lock() = Some(epoch);
        step?.map(|step| self.wrap(py, step)).transpose()
    }

    /// Batches still to come.
    fn __length_hint__(&self) -> usize {
        let left = self.epoch.lock().as_ref().map_or(0, Epoch::remaining);
        usize::try_from(left).unwrap_or(usize::MAX)
    }
}

/// Adds the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyLoader>()?;
    module.add_class::<LoaderIter>()?;
    module.add_function(wrap_pyfunction!(_reload, module)?)
}
