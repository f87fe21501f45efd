//! How far a long job is, and the way to stop it.

use staddle_base::Result;

/// How far a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records done.
    pub records: u64,
    /// Bytes done.
    pub bytes: u64,
    /// Records in all, where known.
    pub records_total: Option<u64>,
    /// Bytes in all, where known.
    pub bytes_total: Option<u64>,
}

/// Hears how far a job is, several times a second; an error stops the job and is what the job returns.
pub type OnProgress<'a> = &'a mut dyn FnMut(&Progress) -> Result<()>;

/// A listener that does nothing.
///
/// # Errors
/// None.
pub fn silent(_: &Progress) -> Result<()> {
    Ok(())
}
