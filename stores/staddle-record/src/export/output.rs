//! A file that is written from front to back and appears whole or not at all.

use std::io;
use std::sync::Arc;

use staddle_base::{Error, Result};
use staddle_runtime::io::device::{Device, File, Open, parent};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// A file being written under a temporary name. Dropped before [`Output::finish`], it leaves nothing.
#[derive(Debug)]
pub struct Output {
    device: Arc<dyn Device>,
    path: String,
    temporary: String,
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    at: u64,
    finished: bool,
}

impl Output {
    /// Begins the file `path`.
    ///
    /// # Errors
    /// `Conflict` when it exists already; those of the device.
    pub fn create(device: &Arc<dyn Device>, path: &str) -> Result<Self> {
        if device.stat(path)?.is_some() {
            return Err(Error::conflict("there is a file of this name already")
                .with("uri", device.uri())
                .with("path", path)
                .hint("choose another name, or remove it first"));
        }
        let temporary = format!("{path}.tmp");
        device.remove(&temporary)?;
        Ok(Self {
            file: device.open(&temporary, Open::Create)?,
            device: Arc::clone(device),
            path: path.to_owned(),
            temporary,
            buffer: Vec::new(),
            at: 0,
            finished: false,
        })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// Those of the device.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len().saturating_add(bytes.len()) > BUFFER_BYTES {
            self.drain()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            return self.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.write(&buffer);
        buffer.clear();
        self.buffer = buffer;
        result
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_at(bytes, self.at)?;
        self.at = self.at.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Makes it durable and gives it its name; returns the name.
    ///
    /// # Errors
    /// Those of the device; nothing is left then.
    pub fn finish(mut self) -> Result<String> {
        self.drain()?;
        self.file.sync()?;
        self.device.rename(&self.temporary, &self.path)?;
        self.finished = true;
        self.device.sync_dir(parent(&self.path))?;
        Ok(std::mem::take(&mut self.path))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.device.remove(&self.temporary);
        }
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The error inside one that went through `std::io`.
pub fn from_io(error: io::Error, action: &str, path: &str) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(other) => Error::io(action, path, other),
    }
}

/// `x.tar` as `x-000007.tar`.
pub fn shard_name(name: &str, shard: Option<u64>) -> String {
    let Some(shard) = shard else {
        return name.to_owned();
    };
    match name.rsplit_once('.') {
        Some((stem, end)) if !stem.is_empty() => format!("{stem}-{shard:06}.{end}"),
        _ => format!("{name}-{shard:06}"),
    }
}
