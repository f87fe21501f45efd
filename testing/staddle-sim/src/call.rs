//! The log of device calls: what a replay prints and what determinism is checked against.

use std::fmt;
use std::sync::Arc;

/// A call of the device or file interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `Device::open` of an existing file.
    Open,
    /// `Device::open` with `Open::Create`.
    Create,
    /// `Device::stat`.
    Stat,
    /// `Device::list`.
    List,
    /// `Device::create_dir`.
    CreateDir,
    /// `Device::rename`.
    Rename,
    /// `Device::remove`.
    Remove,
    /// `Device::remove_dir`.
    RemoveDir,
    /// `Device::sync_dir`.
    SyncDir,
    /// `Device::copy`.
    Copy,
    /// `File::len`.
    Len,
    /// `File::read_at`.
    Read,
    /// `File::write_at`.
    Write,
    /// `File::allocate`.
    Allocate,
    /// `File::set_len`.
    SetLen,
    /// `File::sync`.
    Sync,
    /// `File::try_lock`.
    Lock,
    /// `File::unlock`.
    Unlock,
    /// `File::is_locked`.
    IsLocked,
}

impl Op {
    /// Whether the call can change what a crash leaves behind. These calls are counted as crash points.
    pub fn mutates(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::CreateDir
                | Self::Rename
                | Self::Remove
                | Self::RemoveDir
                | Self::SyncDir
                | Self::Copy
                | Self::Write
                | Self::Allocate
                | Self::SetLen
                | Self::Sync
        )
    }
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Counts mutating calls, from 1; for other calls the number of the last mutating one.
    pub number: u64,
    /// What was called.
    pub op: Op,
    /// The file or folder.
    pub path: Arc<str>,
    /// First byte, where the call has one; the new length of `SetLen`.
    pub offset: u64,
    /// How many bytes, where the call has a length.
    pub len: u64,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            op,
            path,
            offset,
            len,
        } = self;
        write!(f, "{number:>6} {op:?} {path}")?;
        match op {
            Op::Read | Op::Write | Op::Allocate | Op::Lock | Op::Unlock | Op::IsLocked => {
                write!(f, " [{offset}..{}]", offset.saturating_add(*len))
            }
            Op::SetLen => write!(f, " to {offset}"),
            _ => Ok(()),
        }
    }
}
