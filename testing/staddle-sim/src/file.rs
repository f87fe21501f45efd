//! An open file of a simulated disk.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use staddle_base::checksum::xxh3;
use staddle_base::{Error, Result};
use staddle_runtime::io::device::{File, LockKind, Map, Region};

use crate::call::Op;
use crate::content::SECTOR_BYTES;
use crate::fault::Fault;
use crate::state::{Shared, State};

#[derive(Debug)]
pub(crate) struct SimFile {
    shared: Arc<Shared>,
    inode: u64,
    /// Identifies this open file to the locks.
    owner: u64,
    path: String,
    writable: bool,
}

impl SimFile {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inode: u64,
        owner: u64,
        path: &str,
        writable: bool,
    ) -> Self {
        Self {
            shared,
            inode,
            owner,
            path: path.to_string(),
            writable,
        }
    }

    fn call<R>(
        &self,
        op: Op,
        range: (u64, u64),
        digest: u64,
        act: impl FnOnce(&mut State, Option<Fault>) -> Result<R>,
    ) -> Result<R> {
        if op.mutates() && op != Op::Sync && !self.writable {
            return Err(Error::denied("the file was opened for reading").with("path", &self.path));
        }
        self.shared.call(op, &self.path, range, digest, act)
    }

    fn fail(&self, op: Op, fault: Option<Fault>) -> Result<()> {
        fault
            .and_then(|fault| fault.error(op, &self.path))
            .map_or(Ok(()), Err)
    }

    fn no_space(&self, op: Op) -> Result<()> {
        self.fail(op, Some(Fault::NoSpace))
    }

    fn lock_call<R>(
        &self,
        op: Op,
        range: (u64, u64),
        act: impl FnOnce(&mut State) -> R,
    ) -> Result<R> {
        if !self.shared.traits.locks {
            return Err(
                Error::unsupported("this file system has no locks").with("path", &self.path)
            );
        }
        self.call(op, range, 0, |state, fault| {
            self.fail(op, fault)?;
            Ok(act(state))
        })
    }

    fn no_map(&self) -> Error {
        Error::unsupported("a simulated disk cannot be mapped").with("path", &self.path)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.locks.close(self.owner);
        if let Some(inode) = state.inodes.get_mut(&self.inode) {
            inode.handles = inode.handles.saturating_sub(1);
        }
    }
}

impl File for SimFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        self.call(Op::Len, (0, 0), 0, |state, fault| {
            self.fail(Op::Len, fault)?;
            Ok(state.inode(self.inode)?.live.len())
        })
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        self.call(Op::Read, (offset, into.len() as u64), 0, |state, fault| {
            self.fail(Op::Read, fault)?;
            let bit = state.rng.next_u64();
            let inode = state.inode(self.inode)?;
            let got = inode.live.read(into, offset);
            if fault == Some(Fault::ShortRead) {
                return Ok(got / 2);
            }
            if fault == Some(Fault::BitRot) && got > 0 {
                let at = usize::try_from(bit >> 3).unwrap_or(0) % got;
                into[at] ^= 1 << (bit % 8);
                let byte = into[at];
                inode.damage(|content| content.write(&[byte], offset + at as u64, |_, _| {}));
            }
            Ok(got)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.call(
            Op::Write,
            (offset, bytes.len() as u64),
            xxh3(bytes),
            |state, fault| {
                let wanted = bytes.len() as u64;
                let room =
                    state.take_space(self.inode, offset, wanted, self.shared.traits.capacity)?;
                let failed = self.fail(Op::Write, fault);
                let done = if failed.is_err() {
                    state.rng.below(wanted + 1).min(room)
                } else {
                    room
                };
                let call = state.calls;
                let to = match fault {
                    Some(Fault::Misdirect) => offset.saturating_add(SECTOR_BYTES as u64),
                    _ => offset,
                };
                let done_bytes = &bytes[..usize::try_from(done).unwrap_or(bytes.len())];
                state.inode(self.inode)?.write(done_bytes, to, call);
                failed?;
                if done < wanted {
                    self.no_space(Op::Write)
                } else {
                    Ok(())
                }
            },
        )
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.call(Op::Allocate, (offset, len), 0, |state, fault| {
            self.fail(Op::Allocate, fault)?;
            let room = state.take_space(self.inode, offset, len, self.shared.traits.capacity)?;
            if room < len {
                self.no_space(Op::Allocate)
            } else {
                Ok(())
            }
        })
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.call(Op::SetLen, (len, 0), 0, |state, fault| {
            self.fail(Op::SetLen, fault)?;
            let call = state.calls;
            state.inode(self.inode)?.set_len(len, call);
            Ok(())
        })
    }

    fn sync(&self) -> Result<()> {
        self.call(Op::Sync, (0, 0), 0, |state, fault| {
            let failed = self.fail(Op::Sync, fault);
            let State { inodes, rng, .. } = state;
            if let Some(inode) = inodes.get_mut(&self.inode) {
                match failed {
                    Ok(()) => inode.sync(),
                    Err(_) => inode.fail_sync(rng),
                }
            }
            failed
        })
    }

    fn map(&self, _len: usize) -> Result<Map> {
        Err(self.no_map())
    }

    fn map_into(&self, _region: &Region, _len: usize) -> Result<()> {
        Err(self.no_map())
    }

    fn try_lock(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        self.lock_call(Op::Lock, (offset, len), |state| {
            state.locks.take(self.inode, self.owner, offset, len, kind)
        })
    }

    fn unlock(&self, offset: u64, len: u64) -> Result<()> {
        self.lock_call(Op::Unlock, (offset, len), |state| {
            state.locks.give_up(self.inode, self.owner, offset, len)
        })
    }

    fn is_locked(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        self.lock_call(Op::IsLocked, (offset, len), |state| {
            state
                .locks
                .conflicts(self.inode, self.owner, offset, len, kind)
        })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
