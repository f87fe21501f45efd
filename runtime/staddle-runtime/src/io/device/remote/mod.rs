//! Files in an object store or behind a web server: read by ranges, many in flight, each checked to be of one version.
//!
//! A file is opened by asking for its size and entity tag. Every later request names that tag, so an object that was
//! replaced meanwhile is a `Conflict`, never a mix of two versions. Transport errors and refusals of a busy server are
//! retried until the option `deadline`, in seconds, is over.
//!
//! Stores cannot write here. Finished files are exported with [`RemoteDevice::put`] and [`RemoteDevice::upload`].

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStoreExt as _, ObjectStoreScheme};
use staddle_base::{Error, ErrorKind, Result};
use url::Url;

use super::{Capabilities, Device, File, LockKind, Map, Open, Range, Region, Stat, check_path};
use crate::io::net;
use crate::process::ProcessCell;

mod client;
mod get;
mod options;
mod put;

use client::{Client, Target};

pub use options::is_secret_option;

/// A folder in an object store, or on a web server.
#[derive(Clone)]
pub struct RemoteDevice {
    uri: String,
    prefix: String,
    link: Arc<Link>,
}

/// The connection, made on first use in each process.
struct Link {
    target: Target,
    client: ProcessCell<Client>,
}

impl Link {
    fn client(&self) -> Result<&Client> {
        match self.client.peek() {
            Some(client) => Ok(client),
            None => {
                let fresh = self.target.connect()?;
                Ok(self.client.get_or_init(|| fresh))
            }
        }
    }

    /// Runs a request in a free slot, within the deadline, while the caller waits.
    fn run<T: Send + 'static>(
        &self,
        action: &str,
        path: &str,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T> {
        let slots = Arc::clone(&self.client()?.slots);
        let deadline = self.target.options.deadline;
        let answer = net::wait(async move {
            let _slot = slots.acquire().await;
            tokio::time::timeout(deadline, request).await
        })?;
        match answer {
            Ok(result) => result.map_err(|error| self.target.error(action, path, &error)),
            Err(_) => Err(self.too_late(action, path)),
        }
    }

    #[cold]
    fn too_late(&self, action: &str, path: &str) -> Error {
        let deadline = self.target.options.deadline.as_secs_f64();
        Error::unavailable(format!("{action}: no answer within {deadline} s"))
            .with("uri", &self.target.uri)
            .with("path", path)
            .hint("try again later, or raise the storage option deadline")
    }
}

impl RemoteDevice {
    /// The folder that `uri` names, with at most `requests` in flight. Nothing is asked of the network yet.
    ///
    /// # Errors
    /// `Invalid` for a URI or option that cannot be right.
    pub fn new(uri: &str, options: &BTreeMap<String, String>, requests: usize) -> Result<Self> {
        let bad = |why: &'static str| Error::invalid(why).hint("write scheme://bucket/folder");
        // The URI is not quoted before it is known to hold no secret.
        let url = Url::parse(uri).map_err(|_| bad("the URI does not parse"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad(
                "credentials do not belong into a URI; give them as storage options",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad(
                "a URI with a query or fragment does not name a folder or file",
            ));
        }
        let (scheme, key) = ObjectStoreScheme::parse(&url)
            .map_err(|_| bad("the URI names no object store").with("uri", uri))?;
        let options = options::Options::new(&scheme, options).map_err(|e| e.with("uri", uri))?;
        Ok(Self {
            uri: uri.trim_end_matches('/').to_owned(),
            prefix: key.as_ref().to_owned(),
            link: Arc::new(Link {
                target: Target {
                    uri: uri.to_owned(),
                    url,
                    scheme,
                    options,
                    requests: requests.max(1),
                },
                client: ProcessCell::new(),
            }),
        })
    }

    fn key(&self, path: &str) -> Result<Key> {
        check_path(path)?;
        let full = match (self.prefix.is_empty(), path.is_empty()) {
            (true, _) => path.to_owned(),
            (false, true) => self.prefix.clone(),
            (false, false) => format!("{}/{path}", self.prefix),
        };
        Key::parse(full).map_err(|error| {
            Error::denied(format!("the name cannot be that of an object: {error}"))
                .with("uri", &self.uri)
                .with("path", path.escape_debug())
        })
    }

    fn head(&self, action: &str, path: &str) -> Result<ObjectMeta> {
        let key = self.key(path)?;
        let store = Arc::clone(&self.link.client()?.store);
        self.link
            .run(action, path, async move { store.head(&key).await })
    }

    /// Names of objects and folders directly below, or `None` when there are none.
    fn entries(&self, dir: &str) -> Result<Option<Vec<String>>> {
        let key = self.key(dir)?;
        let store = Arc::clone(&self.link.client()?.store);
        let found = self.link.run("listing a folder", dir, async move {
            let prefix = (!key.as_ref().is_empty()).then_some(&key);
            store.list_with_delimiter(prefix).await
        });
        let found = match found {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let objects = found.objects.iter().map(|object| &object.location);
        let mut names: Vec<String> = found
            .common_prefixes
            .iter()
            .chain(objects)
            .filter_map(|key| key.filename().map(str::to_owned))
            .collect();
        names.sort_unstable();
        names.dedup();
        Ok((!names.is_empty()).then_some(names))
    }

    #[cold]
    fn read_only(&self, action: &str) -> Error {
        Error::unsupported(format!("{action}: an object store can only be read"))
            .with("uri", &self.uri)
            .hint("write to a local folder, then export it here")
    }
}

impl Device for RemoteDevice {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            write: false,
            map: false,
            lock: false,
            remote: true,
        }
    }

    fn parent(&self) -> Option<Arc<dyn Device>> {
        if self.prefix.is_empty() {
            return None;
        }
        Some(Arc::new(Self {
            uri: super::parent(&self.uri).to_owned(),
            prefix: super::parent(&self.prefix).to_owned(),
            link: Arc::clone(&self.link),
        }))
    }

    fn open(&self, path: &str, how: Open) -> Result<Arc<dyn File>> {
        check_path(path)?;
        if how != Open::Read {
            return Err(self.read_only("opening a file to write"));
        }
        let meta = self.head("opening a file", path)?;
        Ok(Arc::new(RemoteFile {
            path: format!("{}/{path}", self.uri),
            key: meta.location.clone(),
            version: get::Version::of(&meta),
            link: Arc::clone(&self.link),
        }))
    }

    fn stat(&self, path: &str) -> Result<Option<Stat>> {
        let root = self.key(path)?.as_ref().is_empty();
        let found = if root {
            Err(Error::not_found("a bucket is not an object"))
        } else {
            self.head("looking at a file", path)
        };
        match found {
            Ok(meta) => Ok(Some(Stat {
                len: meta.size,
                mtime_ns: meta
                    .last_modified
                    .timestamp_nanos_opt()
                    .and_then(|ns| u64::try_from(ns).ok())
                    .unwrap_or(0),
                etag: meta.e_tag,
                dir: false,
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // A plain web server cannot list: then only files exist.
                let entries = match self.entries(path) {
                    Err(_) if self.link.target.scheme == ObjectStoreScheme::Http => None,
                    other => other?,
                };
                Ok(entries.map(|_| Stat {
                    dir: true,
                    ..Stat::default()
                }))
            }
            Err(error) => Err(error),
        }
    }

    fn list(&self, dir: &str) -> Result<Vec<String>> {
        self.entries(dir)?.ok_or_else(|| {
            Error::not_found("listing a folder: there is nothing in it")
                .with("uri", &self.uri)
                .with("path", dir)
                .hint("check the URI")
        })
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        check_path(dir)?;
        Err(self.read_only("making a folder"))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_path(from)?;
        check_path(to)?;
        Err(self.read_only("renaming a file"))
    }

    fn remove(&self, path: &str) -> Result<()> {
        check_path(path)?;
        Err(self.read_only("removing a file"))
    }

    fn remove_dir(&self, dir: &str) -> Result<()> {
        check_path(dir)?;
        Err(self.read_only("removing a folder"))
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        check_path(dir)?;
        Err(self.read_only("syncing a folder"))
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        check_path(from)?;
        check_path(to)?;
        Err(self.read_only("copying a file"))
    }
}

impl fmt::Debug for RemoteDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteDevice({})", self.uri)
    }
}

/// An object, at the version it had when it was opened.
struct RemoteFile {
    path: String,
    key: Key,
    version: get::Version,
    link: Arc<Link>,
}

impl RemoteFile {
    #[cold]
    fn read_only(&self, action: &str) -> Error {
        Error::unsupported(format!("{action}: an object store can only be read"))
            .with("path", &self.path)
    }
}

impl File for RemoteFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(self.version.len)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let there = self.version.len.saturating_sub(offset);
        let wanted = into.len().min(usize::try_from(there).unwrap_or(usize::MAX));
        let range = Range {
            offset,
            into: into.get_mut(..wanted).unwrap_or_default(),
        };
        self.get(&mut [range])?;
        Ok(wanted)
    }

    fn read_ranges(&self, ranges: &mut [Range<'_>]) -> Result<()> {
        for range in ranges.iter() {
            let end = range.offset.saturating_add(range.into.len() as u64);
            if end > self.version.len {
                let got = self.version.len.saturating_sub(range.offset);
                return Err(Error::corrupt(format!(
                    "the file ends after {got} of {} bytes",
                    range.into.len()
                ))
                .with("path", &self.path)
                .with("offset", range.offset)
                .with("size", self.version.len));
            }
        }
        self.get(ranges)
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> Result<()> {
        Err(self.read_only("writing a file"))
    }

    fn allocate(&self, _offset: u64, _len: u64) -> Result<()> {
        Err(self.read_only("reserving space"))
    }

    fn set_len(&self, _len: u64) -> Result<()> {
        Err(self.read_only("resizing a file"))
    }

    fn sync(&self) -> Result<()> {
        Err(self.read_only("syncing a file"))
    }

    fn map(&self, _len: usize) -> Result<Map> {
        Err(self.read_only("mapping a file"))
    }

    fn map_into(&self, _region: &Region, _len: usize) -> Result<()> {
        Err(self.read_only("mapping a file"))
    }

    fn try_lock(&self, _offset: u64, _len: u64, _kind: LockKind) -> Result<bool> {
        Err(self.read_only("locking a file"))
    }

    fn unlock(&self, _offset: u64, _len: u64) -> Result<()> {
        Err(self.read_only("unlocking a file"))
    }

    fn is_locked(&self, _offset: u64, _len: u64, _kind: LockKind) -> Result<bool> {
        Err(self.read_only("asking for a lock"))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteFile({})", self.path)
    }
}
