//! A folder of a device, as a device of its own: how a store that holds other stores opens them.

use std::sync::Arc;

use staddle_base::{Error, Result};

use super::{Capabilities, Device, File, Open, Stat, check_path};

/// A folder of another device.
#[derive(Clone, Debug)]
pub struct FolderDevice {
    inner: Arc<dyn Device>,
    path: String,
    uri: String,
}

impl FolderDevice {
    /// The folder `path` of `inner`; it need not exist yet.
    ///
    /// # Errors
    /// `Denied` for a path that leaves the device, `Invalid` for an empty one.
    pub fn new(inner: Arc<dyn Device>, path: &str) -> Result<Self> {
        check_path(path)?;
        if path.is_empty() {
            return Err(
                Error::invalid("a folder of a device needs a name").with("uri", inner.uri())
            );
        }
        Ok(Self {
            uri: format!("{}/{path}", inner.uri().trim_end_matches('/')),
            path: path.to_owned(),
            inner,
        })
    }

    fn full(&self, path: &str) -> Result<String> {
        check_path(path)?;
        Ok(if path.is_empty() {
            self.path.clone()
        } else {
            format!("{}/{path}", self.path)
        })
    }
}

impl Device for FolderDevice {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn parent(&self) -> Option<Arc<dyn Device>> {
        match self.path.rsplit_once('/') {
            None => Some(Arc::clone(&self.inner)),
            Some((above, _)) => {
                let above = Self::new(Arc::clone(&self.inner), above).ok()?;
                Some(Arc::new(above))
            }
        }
    }

    fn open(&self, path: &str, how: Open) -> Result<Arc<dyn File>> {
        self.inner.open(&self.full(path)?, how)
    }

    fn stat(&self, path: &str) -> Result<Option<Stat>> {
        self.inner.stat(&self.full(path)?)
    }

    fn list(&self, dir: &str) -> Result<Vec<String>> {
        self.inner.list(&self.full(dir)?)
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        self.inner.create_dir(&self.full(dir)?)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(&self.full(from)?, &self.full(to)?)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(&self.full(path)?)
    }

    fn remove_dir(&self, dir: &str) -> Result<()> {
        self.inner.remove_dir(&self.full(dir)?)
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        self.inner.sync_dir(&self.full(dir)?)
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        self.inner.copy(&self.full(from)?, &self.full(to)?)
    }
}
