//! How bytes move: engines that read many ranges of local files at once.
//!
//! A device says where bytes live, an engine how they get here. Engines talk to the kernel by descriptor; files without
//! one (in memory, remote, wrapped for a test) read for themselves.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use serde::Serialize;
use staddle_base::{Error, Result};

use crate::options::EngineChoice;

mod pread;
mod uring;

pub use pread::PreadEngine;
pub(crate) use pread::read_if_cached;
pub use uring::{UringEngine, why_not};

/// A contiguous range of one file, scattered into one or more buffers.
#[derive(Debug)]
pub struct Job<'a> {
    /// The file.
    pub fd: BorrowedFd<'a>,
    /// Its path, for messages.
    pub path: &'a str,
    /// Where the range begins.
    pub offset: u64,
    /// Where its bytes go, in order.
    pub parts: Vec<Part<'a>>,
}

/// A piece of a [`Job`].
#[derive(Debug)]
pub enum Part<'a> {
    /// Bytes that are wanted.
    Into(&'a mut [u8]),
    /// So many bytes that are not; reading them is cheaper than asking twice.
    Skip(usize),
}

impl Part<'_> {
    /// The bytes of this piece.
    pub fn len(&self) -> usize {
        match self {
            Self::Into(into) => into.len(),
            Self::Skip(bytes) => *bytes,
        }
    }

    /// Whether the piece has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Job<'_> {
    /// The bytes of the whole range.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Part::len).sum()
    }

    /// Whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The error for a file that ends inside the range.
    #[cold]
    pub(crate) fn short(&self, got: usize) -> Error {
        let size = rustix::fs::fstat(self.fd).map_or(0, |stat| stat.st_size);
        Error::corrupt(format!("the file ends after {got} of {} bytes", self.len()))
            .with("path", self.path)
            .with("offset", self.offset)
            .with("size", size)
    }

    #[cold]
    pub(crate) fn failed(&self, errno: rustix::io::Errno) -> Error {
        Error::io("reading a file", self.path, errno.into()).with("offset", self.offset)
    }
}

/// Reads many ranges of local files.
pub trait Engine: Send + Sync + Debug {
    /// `pread` or `uring`.
    fn name(&self) -> &'static str;

    /// Reads every job exactly.
    ///
    /// # Errors
    /// `Corrupt` when a file ends inside a range, `Unavailable` when its device fails; which jobs were read then is
    /// unspecified. No buffer is touched after this returns.
    fn read(&self, jobs: &mut [Job<'_>]) -> Result<()>;
}

/// Which engine reads local files, and why that one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineReport {
    /// `pread` or `uring`.
    pub name: &'static str,
    /// Why it was chosen, one sentence.
    pub why: String,
}

/// The engine for `choice`, which is pread wherever `uring` fails.
pub(crate) fn choose(
    choice: EngineChoice,
    pread: &Arc<PreadEngine>,
    uring: impl FnOnce() -> std::io::Result<UringEngine>,
) -> (Arc<dyn Engine>, EngineReport) {
    let (engine, why): (Arc<dyn Engine>, String) = if choice == EngineChoice::Pread {
        (
            Arc::<PreadEngine>::clone(pread),
            "chosen by the engine setting".into(),
        )
    } else {
        match uring() {
            Ok(engine) => (Arc::new(engine), "the kernel offers io_uring".into()),
            Err(error) => (Arc::<PreadEngine>::clone(pread), why_not(&error)),
        }
    };
    let name = engine.name();
    (engine, EngineReport { name, why })
}

#[cfg(test)]
mod tests;
