//! The state behind a disk: every call passes through [`Shared::call`], where power, faults, log and hook sit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use staddle_base::hash::mix2;
use staddle_base::{Error, Result, Rng, Seed};

use crate::call::{Call, Op};
use crate::disk::SimDisk;
use crate::fault::{Fault, Faults};
use crate::folders::{Change, Folders, Node};
use crate::image::{self, Survivors};
use crate::inode::Inode;
use crate::lock::Locks;
use crate::ranges::{BLOCK_BYTES, Ranges};

/// What a hook is called with.
type Hook = Box<dyn FnMut(&Moment<'_>) + Send>;

/// What does not change while a disk lives.
#[derive(Clone, Debug)]
pub(crate) struct Traits {
    pub(crate) uri: Arc<str>,
    pub(crate) locks: bool,
    pub(crate) capacity: Option<u64>,
}

pub(crate) struct Shared {
    pub(crate) traits: Traits,
    pub(crate) state: Mutex<State>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimDisk").field(&self.traits.uri).finish()
    }
}

pub(crate) struct State {
    pub(crate) inodes: BTreeMap<u64, Inode>,
    pub(crate) folders: Folders,
    pub(crate) locks: Locks,
    pub(crate) faults: Faults,
    pub(crate) rng: Rng,
    /// Mutating calls so far.
    pub(crate) calls: u64,
    pub(crate) power_off_at: Option<u64>,
    pub(crate) off: bool,
    pub(crate) log: Option<Vec<Call>>,
    pub(crate) trace: u64,
    pub(crate) hook: Option<Hook>,
    next_id: u64,
}

/// The moment inside a mutating call at which the power could go: what the call changes is pending, what it syncs is
/// not durable yet.
#[derive(Debug)]
pub struct Moment<'a> {
    call: &'a Call,
    traits: &'a Traits,
    state: &'a State,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

impl Moment<'_> {
    /// The call under way.
    pub fn call(&self) -> &Call {
        self.call
    }

    /// A disk as the machine may find it if the power goes now; see [`SimDisk::crash_image`].
    pub fn image(&self, survivors: Survivors, seed: Seed) -> SimDisk {
        image::crash(self.traits, self.state, survivors, seed)
    }
}

impl State {
    pub(crate) fn new(folders: Folders, inodes: BTreeMap<u64, Inode>, seed: Seed) -> Self {
        let folder_ids = folders.live.keys().next_back().copied().unwrap_or(0);
        let file_ids = inodes.keys().next_back().copied().unwrap_or(0);
        Self {
            inodes,
            folders,
            locks: Locks::default(),
            faults: Faults::default(),
            rng: seed.stream("disk"),
            calls: 0,
            power_off_at: None,
            off: false,
            log: None,
            trace: 0,
            hook: None,
            next_id: folder_ids.max(file_ids) + 1,
        }
    }

    pub(crate) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn inode(&mut self, id: u64) -> Result<&mut Inode> {
        self.inodes
            .get_mut(&id)
            .ok_or_else(|| Error::internal("the simulated disk lost an open file"))
    }

    /// Gives a new name to a file or folder.
    pub(crate) fn link(&mut self, (folder, name): (u64, Arc<str>), node: Node) {
        self.folders
            .change(Change::Link { folder, name, node }, self.calls);
        if let Node::File(id) = node
            && let Some(inode) = self.inodes.get_mut(&id)
        {
            inode.links += 1;
        }
    }

    /// One name of a file is gone.
    pub(crate) fn unlinked(&mut self, node: Node) {
        if let Node::File(id) = node
            && let Some(inode) = self.inodes.get_mut(&id)
        {
            inode.links = inode.links.saturating_sub(1);
        }
    }

    /// Forgets files that nothing can reach any more.
    pub(crate) fn forget_unreachable(&mut self) {
        let reachable = self.folders.reachable();
        self.inodes
            .retain(|id, inode| inode.handles > 0 || reachable.contains(id));
    }

    /// Bytes of disk space in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        let in_use = self
            .inodes
            .values()
            .filter(|inode| inode.links > 0 || inode.handles > 0);
        in_use.map(|inode| inode.space.total()).sum::<u64>() * BLOCK_BYTES
    }

    /// Takes disk space for a range of a file, or as much of it as there is: returns the bytes that may be written.
    pub(crate) fn take_space(
        &mut self,
        id: u64,
        offset: u64,
        len: u64,
        capacity: Option<u64>,
    ) -> Result<u64> {
        let (start, mut end) = Ranges::blocks(offset, len);
        if let Some(capacity) = capacity {
            let free = capacity.saturating_sub(self.used_bytes()) / BLOCK_BYTES;
            let space = &self.inode(id)?.space;
            while space.missing(start, end) > free {
                end -= 1;
            }
        }
        self.inode(id)?.space.insert(start, end);
        Ok(len.min((end * BLOCK_BYTES).saturating_sub(offset)))
    }
}

impl Shared {
    fn power_lost(path: &str) -> Error {
        Error::unavailable("power lost")
            .with("path", path)
            .hint("this is a simulated crash: look at the crash image")
    }

    /// Runs one device call: counts and logs it, lets a fault strike, runs `act`, and for mutating calls lets the hook
    /// look and the power go. A sync acts after that moment, everything else before it.
    pub(crate) fn call<R>(
        &self,
        op: Op,
        path: &str,
        (offset, len): (u64, u64),
        digest: u64,
        act: impl FnOnce(&mut State, Option<Fault>) -> Result<R>,
    ) -> Result<R> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.off {
            return Err(Self::power_lost(path));
        }
        state.calls += u64::from(op.mutates());
        let call = Call {
            number: state.calls,
            op,
            path: path.into(),
            offset,
            len,
        };
        for part in [
            op as u64,
            staddle_base::checksum::xxh3(path.as_bytes()),
            offset,
            len,
            digest,
        ] {
            state.trace = mix2(state.trace, part);
        }
        if let Some(log) = &mut state.log {
            log.push(call.clone());
        }
        let fault = state.faults.strike(op, &mut state.rng);
        if !op.mutates() {
            return act(state, fault);
        }
        if matches!(op, Op::Sync | Op::SyncDir) {
            self.moment(state, &call)?;
            return act(state, fault);
        }
        let result = act(state, fault);
        let power = self.moment(state, &call);
        // A result may hold an open file, which takes the lock when it is dropped.
        drop(guard);
        power.and(result)
    }

    fn moment(&self, state: &mut State, call: &Call) -> Result<()> {
        if let Some(mut hook) = state.hook.take() {
            hook(&Moment {
                call,
                traits: &self.traits,
                state,
            });
            state.hook = Some(hook);
        }
        if state.power_off_at.is_some_and(|at| state.calls >= at) {
            state.off = true;
            return Err(Self::power_lost(&call.path));
        }
        Ok(())
    }
}
