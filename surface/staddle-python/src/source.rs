//! Where a store was opened from and how: what a pickle carries, and what it leaves out.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyString};
use staddle::{Location, StorageOptions};
use staddle_record::{Io, OpenOptions, Verify};

use crate::errors::{OrRaise, invalid};

/// The option by which a user lets secrets travel in pickles.
const PICKLE_SECRETS: &str = "pickle_secrets";
/// Parts of option names whose values are secret.
const SECRET_PARTS: [&str; 7] = [
    "secret",
    "token",
    "password",
    "account_key",
    "sas",
    "credential",
    "private",
];

/// Reads a path or URI: `str`, `bytes` or anything with `__fspath__`, in whatever bytes the file system accepts.
pub(crate) fn location(object: &Bound<'_, PyAny>) -> PyResult<Location> {
    let py = object.py();
    if object.cast::<PyString>().is_err()
        && object.cast::<PyBytes>().is_err()
        && !object.hasattr("__fspath__")?
    {
        let name = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a uri is a str, bytes or path, not {name}"
        )));
    }
    let bytes = py.import("os")?.call_method1("fsencode", (object,))?;
    let bytes = bytes.cast_into::<PyBytes>()?.as_bytes().to_vec();
    if bytes.is_empty() {
        return Err(invalid(
            py,
            "the uri is empty".into(),
            "name a folder, or a URI such as s3://bucket/name",
        ));
    }
    if bytes.contains(&0) {
        return Err(invalid(
            py,
            "the uri has a NUL in it".into(),
            "no file system accepts that",
        ));
    }
    Ok(Location::new(OsString::from_vec(bytes)))
}

/// Options of the storage service as text; `None` values are left out.
pub(crate) fn storage(options: Option<&Bound<'_, PyDict>>) -> PyResult<(StorageOptions, bool)> {
    let mut storage = StorageOptions::new();
    let mut secrets = false;
    for (name, value) in options.into_iter().flatten() {
        let name = name.extract::<String>()?;
        if value.is_none() {
            continue;
        }
        if name == PICKLE_SECRETS {
            secrets = value.is_truthy()?;
            continue;
        }
        let text = match value.cast::<PyBool>() {
            Ok(yes) => if yes.is_true() { "true" } else { "false" }.to_owned(),
            Err(_) => value.str()?.to_string(),
        };
        storage.insert(name, text);
    }
    Ok((storage, secrets))
}

/// How a store was opened, complete enough to open it again.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) location: Location,
    pub(crate) how: OpenOptions,
    pub(crate) storage: StorageOptions,
    pub(crate) pickle_secrets: bool,
}

impl Source {
    /// The keyword arguments of `_reopen`, without what is at its default and without secrets.
    pub(crate) fn reduced<'py>(
        &self,
        py: Python<'py>,
        generation: Option<u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let place = self.location.absolute();
        match place.as_os_str().to_str() {
            Some(text) => dict.set_item("uri", text)?,
            None => dict.set_item("uri", PyBytes::new(py, place.as_os_str().as_bytes()))?,
        }
        let how = &self.how;
        if how.read_only {
            dict.set_item("mode", "r")?;
        }
        if let Some(name) = &how.snapshot {
            dict.set_item("snapshot", name)?;
        } else if how.follow {
            dict.set_item("follow", true)?;
        } else if let Some(generation) = how.generation {
            dict.set_item("generation", generation)?;
        } else if let Some(generation) = generation {
            dict.set_item("expect", generation)?;
        }
        match how.io {
            Io::Auto => {}
            Io::Map => dict.set_item("io", "map")?,
            Io::Read => dict.set_item("io", "read")?,
        }
        match how.verify {
            Verify::First => {}
            Verify::Always => dict.set_item("verify", "always")?,
            Verify::Never => dict.set_item("verify", "never")?,
        }
        if how.external_anywhere {
            dict.set_item("external", "any")?;
        }
        self.reduce_storage(&dict)?;
        Ok(dict)
    }

    fn reduce_storage(&self, dict: &Bound<'_, PyDict>) -> PyResult<()> {
        if self.storage.is_empty() {
            return Ok(());
        }
        let kept = PyDict::new(dict.py());
        let mut left_out = Vec::new();
        for (name, value) in &self.storage {
            if self.pickle_secrets || !is_secret(name) {
                kept.set_item(name, value)?;
            } else {
                left_out.push(name.as_str());
            }
        }
        if self.pickle_secrets {
            kept.set_item(PICKLE_SECRETS, true)?;
        }
        dict.set_item("storage_options", kept)?;
        if !left_out.is_empty() {
            dict.set_item("left_out", left_out)?;
        }
        Ok(())
    }
}

/// Whether the value of a storage option must not be shown or carried.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_PARTS.iter().any(|part| name.contains(part)) || name == "key"
}

/// Options of `open()` as Python gives them.
pub(crate) struct OpenArguments<'a> {
    pub(crate) mode: &'a str,
    pub(crate) generation: Option<u64>,
    pub(crate) snapshot: Option<String>,
    pub(crate) follow: bool,
    pub(crate) io: &'a str,
    pub(crate) verify: &'a str,
    pub(crate) external: &'a str,
}

impl OpenArguments<'_> {
    /// Checks every value.
    pub(crate) fn how(self, py: Python<'_>) -> PyResult<OpenOptions> {
        let read_only = match self.mode {
            "r" => true,
            "r+" => false,
            other => {
                let message = format!("unknown mode {other:?}");
                return Err(invalid(
                    py,
                    message,
                    "use \"r\" to read, or \"r+\" to read and change",
                ));
            }
        };
        let external_anywhere = match self.external {
            "beside" => false,
            "any" => true,
            other => {
                let message = format!("unknown external {other:?}");
                return Err(invalid(py, message, "use \"beside\" or \"any\""));
            }
        };
        if self.generation.is_some() && self.snapshot.is_some() {
            return Err(invalid(
                py,
                "generation and snapshot both name a state".into(),
                "give one of them",
            ));
        }
        Ok(OpenOptions {
            read_only,
            generation: self.generation,
            snapshot: self.snapshot,
            follow: self.follow,
            io: Io::parse(self.io).or_raise(py)?,
            verify: Verify::parse(self.verify).or_raise(py)?,
            external_anywhere,
            ..OpenOptions::default()
        })
    }
}
