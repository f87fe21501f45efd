//! Finding foreign files by the names that a user writes, and reading them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use staddle_base::{Error, Result};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, File, LocalDevice, Open, Stat};

use super::locate::{is_rooted, split};
use super::pattern::{braces, fits, is_wild};
use super::window::{Reach, Source};

/// A file on its device.
#[derive(Clone, Debug)]
pub struct Found {
    /// The folder it is in.
    pub device: Arc<dyn Device>,
    /// Its name there.
    pub name: String,
    /// Where it is, rooted: an absolute path without symbolic links, or a URI.
    pub uri: String,
    /// Size and version when it was found.
    pub stat: Stat,
}

/// An open foreign file.
#[derive(Clone, Debug)]
pub struct FileSource {
    file: Arc<dyn File>,
    size: u64,
}

impl Source for FileSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(into, offset)
    }
}

impl Found {
    /// Opens it for reading.
    ///
    /// # Errors
    /// Those of the device; `Conflict` when it has changed since it was found.
    pub fn open(&self) -> Result<FileSource> {
        let file = self.device.open(&self.name, Open::Read)?;
        self.check_unchanged()?;
        Ok(FileSource {
            file,
            size: self.stat.len,
        })
    }

    /// How a window should read it.
    pub fn reach(&self) -> Reach {
        if self.device.capabilities().remote {
            Reach::REMOTE
        } else {
            Reach::LOCAL
        }
    }

    /// Checks that it is the file that was found.
    ///
    /// # Errors
    /// `Conflict` when size, time or tag differ.
    pub fn check_unchanged(&self) -> Result<()> {
        let now = self.device.stat(&self.name)?;
        if now.as_ref() == Some(&self.stat) {
            return Ok(());
        }
        Err(Error::conflict("the file changed while it was read")
            .with("file", &self.uri)
            .with("then", format!("{} bytes", self.stat.len))
            .with(
                "now",
                now.map_or("gone".into(), |now| format!("{} bytes", now.len)),
            )
            .hint("wait until its writer has finished, then try again"))
    }

    /// The file with another name beside this one, if there is one.
    ///
    /// # Errors
    /// Those of the device.
    pub fn sibling(&self, name: &str) -> Result<Option<Self>> {
        let stat = self.device.stat(name)?.filter(|stat| !stat.dir);
        Ok(stat.map(|stat| Self {
            device: Arc::clone(&self.device),
            uri: format!("{}/{name}", split(&self.uri).0.trim_end_matches('/')),
            name: name.to_owned(),
            stat,
        }))
    }
}

/// Every file that the patterns name: in the order of the patterns, sorted within one.
///
/// # Errors
/// `NotFound` for a pattern that names nothing, `Invalid` for a folder; those of the device.
pub fn find_all(
    runtime: &Runtime,
    patterns: &[String],
    storage: &BTreeMap<String, String>,
) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    for pattern in patterns {
        for name in braces(pattern)? {
            let before = all.len();
            find_one(runtime, &name, storage, &mut all)?;
            if all.len() == before {
                return Err(Error::not_found("no file has this name")
                    .with("source", name.escape_debug())
                    .hint("check the path; `*`, `?`, `[…]` and `{…}` stand for many names"));
            }
        }
    }
    if all.is_empty() {
        return Err(Error::invalid("no source was named"));
    }
    Ok(all)
}

fn find_one(
    runtime: &Runtime,
    name: &str,
    storage: &BTreeMap<String, String>,
    out: &mut Vec<Found>,
) -> Result<()> {
    if let Some(found) = exactly(runtime, name, storage)? {
        out.push(found);
        return Ok(());
    }
    // Megatron's tools name a pair of files by what their names have in common.
    if let Some(found) = exactly(runtime, &format!("{name}.idx"), storage)? {
        out.push(found);
        return Ok(());
    }
    if !is_wild(name) {
        return Ok(());
    }
    // Go down from the folder before the first wildcard, one part at a time.
    let parts: Vec<&str> = name.split('/').collect();
    let wild = parts.iter().position(|part| is_wild(part)).unwrap_or(0);
    let (fixed, rest) = parts.split_at(wild);
    let start = match fixed {
        [] => ".".to_owned(),
        [""] => "/".to_owned(),
        fixed => fixed.join("/"),
    };
    let Some((root, uri)) = folder(runtime, &start, storage)? else {
        return Ok(());
    };
    let mut paths = vec![String::new()];
    for (position, part) in rest.iter().enumerate() {
        let last = position + 1 == rest.len();
        let mut next = Vec::new();
        for path in &paths {
            let names = if is_wild(part) {
                root.list(path)?
            } else {
                vec![(*part).to_owned()]
            };
            for name in names
                .iter()
                .filter(|name| !is_wild(part) || fits(part, name))
            {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}/{name}")
                };
                if let Some(stat) = root.stat(&path)?
                    && stat.dir != last
                {
                    next.push(path);
                }
            }
        }
        paths = next;
    }
    for path in paths {
        let full = format!("{}/{path}", uri.trim_end_matches('/'));
        out.extend(exactly(runtime, &full, storage)?);
    }
    Ok(())
}

/// The file of exactly this name.
fn exactly(
    runtime: &Runtime,
    name: &str,
    storage: &BTreeMap<String, String>,
) -> Result<Option<Found>> {
    let (device, last, uri): (Arc<dyn Device>, String, String) = match local(name) {
        Some(path) => {
            let Some(real) = real(&path)? else {
                return Ok(None);
            };
            let odd = || {
                Error::invalid("the path of an adopted file must be UTF-8")
                    .with("path", path.display())
                    .hint("rename it, or import it instead")
            };
            let text = real.to_str().ok_or_else(odd)?.to_owned();
            let (Some(parent), Some(last)) = (real.parent(), split_last(&text)) else {
                return Err(a_folder(name));
            };
            let device = LocalDevice::new(parent)?;
            (Arc::new(device), last, text)
        }
        None => {
            let (folder, last) = split(name);
            let device = runtime.io().device(folder, storage)?;
            (device, last.to_owned(), name.to_owned())
        }
    };
    match device.stat(&last)? {
        Some(stat) if stat.dir => Err(a_folder(name)),
        Some(stat) => Ok(Some(Found {
            device,
            name: last,
            uri,
            stat,
        })),
        None => Ok(None),
    }
}

fn split_last(path: &str) -> Option<String> {
    path.rsplit_once('/')
        .map(|(_, last)| last.to_owned())
        .filter(|last| !last.is_empty())
}

#[cold]
fn a_folder(name: &str) -> Error {
    Error::invalid("this is a folder, not a file")
        .with("source", name.escape_debug())
        .hint("name the files in it, for example with `/*.tar`")
}

fn folder(
    runtime: &Runtime,
    name: &str,
    storage: &BTreeMap<String, String>,
) -> Result<Option<(Arc<dyn Device>, String)>> {
    let (device, uri): (Arc<dyn Device>, String) = match local(name) {
        Some(path) => (Arc::new(LocalDevice::new(&path)?), name.to_owned()),
        None => (runtime.io().device(name, storage)?, name.to_owned()),
    };
    Ok(device.stat("")?.is_some().then_some((device, uri)))
}

/// The path that a name means on this machine, if it means one.
fn local(name: &str) -> Option<PathBuf> {
    match name.split_once("://") {
        None => Some(PathBuf::from(name)),
        Some(("file", path)) => Some(PathBuf::from(path)),
        Some(_) => None,
    }
}

/// A path without symbolic links; `None` when nothing is there.
pub(crate) fn real(path: &Path) -> Result<Option<PathBuf>> {
    match std::fs::canonicalize(path) {
        Ok(real) => Ok(Some(real)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("looking for a file", path.display(), error)),
    }
}

/// Where the folder that holds a new set is, rooted and without symbolic links.
pub(crate) fn home_of(device: &dyn Device) -> Result<String> {
    let uri = device.uri();
    if uri.contains("://") && !uri.starts_with("file://") {
        return Ok(split(uri).0.to_owned());
    }
    let absolute =
        std::path::absolute(uri).map_err(|error| Error::io("resolving a path", uri, error))?;
    let Some(parent) = absolute.parent() else {
        return Ok("/".into());
    };
    let parent = real(parent)?.unwrap_or_else(|| parent.to_owned());
    Ok(parent.to_string_lossy().into_owned())
}

/// Where a set itself is, rooted and without symbolic links.
pub(crate) fn place_of(device: &dyn Device) -> Result<String> {
    let uri = device.uri();
    let Some(path) = local(uri) else {
        return Ok(uri.to_owned());
    };
    let real = real(&path)?.ok_or_else(|| Error::not_found("the set is gone").with("uri", uri))?;
    Ok(real.to_string_lossy().into_owned())
}

/// The URI of a file that the set on `device` refers to, rooted.
pub(crate) fn rooted(device: &dyn Device, uri: &str) -> Result<String> {
    if is_rooted(uri) {
        return Ok(uri.to_owned());
    }
    let mut home = home_of(device)?;
    let mut name = uri;
    while let Some(rest) = name.strip_prefix("../") {
        home = split(&home).0.to_owned();
        name = rest;
    }
    Ok(format!("{}/{name}", home.trim_end_matches('/')))
}
