//! What a store offers to be driven.

use std::sync::Arc;

use staddle_base::{Result, Seed};
use staddle_runtime::io::device::Device;
use staddle_sim::{Call, SimDisk};

use super::model::{Answer, State};
use super::program::Op;

/// What a store may do when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Read.
    Read,
    /// Read and write.
    Write,
}

/// Whether an operation commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// A crash may leave nothing of it.
    No,
    /// It may have committed, if there was something to do.
    Perhaps,
    /// When it has returned, it and all before it are durable.
    Yes,
}

/// A store under test. A handle that is dropped without [`Store::close`] is a process that was killed.
pub trait Store: Sized {
    /// Its name on the command line.
    const NAME: &'static str;

    /// What recovery can find and do, as [`Store::recovery`] reports it; a long run must reach all of it.
    const PATHS: &'static [&'static str];

    /// Makes an empty set; its options are drawn from `seed`.
    ///
    /// # Errors
    /// Those of the store.
    fn create(device: Arc<dyn Device>, seed: Seed) -> Result<Self>;

    /// Opens a set.
    ///
    /// # Errors
    /// Those of the store.
    fn open(device: Arc<dyn Device>, mode: Mode) -> Result<Self>;

    /// Applies an operation other than `Reopen` and `Abandon`.
    ///
    /// # Errors
    /// Those of the store.
    fn apply(&self, op: &Op) -> Result<Answer>;

    /// Whether an operation that returned `Ok` is durable with all before it.
    fn commits(&self, op: &Op) -> Commit;

    /// Everything that is there.
    ///
    /// # Errors
    /// Those of the store.
    fn state(&self) -> Result<State>;

    /// Checks everything that can be checked.
    ///
    /// # Errors
    /// Those of the store, and the first damage.
    fn verify(&self) -> Result<()>;

    /// Commits and closes.
    ///
    /// # Errors
    /// Those of the store.
    fn close(self) -> Result<()>;

    /// Names what recovery found on `image` and did, given its calls; names come from [`Store::PATHS`].
    fn recovery(image: &SimDisk, calls: &[Call]) -> Vec<&'static str>;
}
