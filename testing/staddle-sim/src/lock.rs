//! Byte-range locks with the semantics of open file descriptions: they belong to an open file and end with it.

use staddle_runtime::io::device::LockKind;

#[derive(Clone, Copy, Debug)]
struct Held {
    inode: u64,
    owner: u64,
    start: u64,
    end: u64,
    kind: LockKind,
}

/// All locks of a disk.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Vec<Held>,
}

impl Locks {
    /// Whether another owner's lock conflicts.
    pub(crate) fn conflicts(
        &self,
        inode: u64,
        owner: u64,
        offset: u64,
        len: u64,
        kind: LockKind,
    ) -> bool {
        let (start, end) = (offset, offset.saturating_add(len));
        self.held.iter().any(|lock| {
            lock.inode == inode
                && lock.owner != owner
                && lock.start < end
                && start < lock.end
                && (kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive)
        })
    }

    /// Takes the range, replacing what the owner held there; false when another holds a conflicting lock.
    pub(crate) fn take(
        &mut self,
        inode: u64,
        owner: u64,
        offset: u64,
        len: u64,
        kind: LockKind,
    ) -> bool {
        if self.conflicts(inode, owner, offset, len, kind) {
            return false;
        }
        self.give_up(inode, owner, offset, len);
        let end = offset.saturating_add(len);
        self.held.push(Held {
            inode,
            owner,
            start: offset,
            end,
            kind,
        });
        true
    }

    /// Gives up the range, splitting locks that reach beyond it.
    pub(crate) fn give_up(&mut self, inode: u64, owner: u64, offset: u64, len: u64) {
        let (start, end) = (offset, offset.saturating_add(len));
        let (mine, mut rest): (Vec<Held>, Vec<Held>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|lock| {
                lock.inode == inode && lock.owner == owner && lock.start < end && start < lock.end
            });
        for lock in mine {
            if lock.start < start {
                rest.push(Held { end: start, ..lock });
            }
            if end < lock.end {
                rest.push(Held { start: end, ..lock });
            }
        }
        self.held = rest;
    }

    /// The owner's file was closed.
    pub(crate) fn close(&mut self, owner: u64) {
        self.held.retain(|lock| lock.owner != owner);
    }
}
