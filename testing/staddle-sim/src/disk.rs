//! The device: folders and names, and the controls a test turns.

use std::sync::Arc;

use parking_lot::Mutex;
use staddle_base::{Error, Result, Seed};
use staddle_runtime::io::device::{Capabilities, Device, File, Open, Stat, check_path};

use crate::call::{Call, Op};
use crate::content::Content;
use crate::fault::{Fault, Rule};
use crate::file::SimFile;
use crate::folders::{Change, Folders, Node};
use crate::image::{self, Survivors};
use crate::inode::Inode;
use crate::state::{Moment, Shared, State, Traits};

/// A disk in memory that knows what is durable. Clones share one disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    shared: Arc<Shared>,
}

impl SimDisk {
    /// An empty disk; its faults and images are drawn from `seed`.
    pub fn new(seed: Seed) -> Self {
        Self::with(seed, true, None)
    }

    /// An empty disk of so many bytes: `allocate`, writes and copies beyond them meet ENOSPC.
    pub fn with_capacity(seed: Seed, bytes: u64) -> Self {
        Self::with(seed, true, Some(bytes))
    }

    /// An empty disk whose file system knows no locks.
    pub fn without_locks(seed: Seed) -> Self {
        Self::with(seed, false, None)
    }

    fn with(seed: Seed, locks: bool, capacity: Option<u64>) -> Self {
        let traits = Traits {
            uri: "sim://disk".into(),
            locks,
            capacity,
        };
        let state = State::new(Folders::new(), std::collections::BTreeMap::new(), seed);
        Self::from_shared(Shared {
            traits,
            state: Mutex::new(state),
        })
    }

    pub(crate) fn from_shared(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Mutating calls so far: the number of crash points a program has passed.
    pub fn calls(&self) -> u64 {
        self.shared.state.lock().calls
    }

    /// Cuts the power inside the mutating call with this number (counted from 1): what it changes is pending, what it
    /// syncs is not durable, and it and all later calls fail with `Unavailable`.
    pub fn power_off_at(&self, call: u64) {
        self.shared.state.lock().power_off_at = Some(call);
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.shared.state.lock().off
    }

    /// The disk as a machine may find it after losing power now. The image is on, empty of faults and independent.
    pub fn crash_image(&self, survivors: Survivors, seed: Seed) -> Self {
        image::crash(
            &self.shared.traits,
            &self.shared.state.lock(),
            survivors,
            seed,
        )
    }

    /// Calls `hook` inside every mutating call. The hook must not call this disk; images it makes are other disks.
    pub fn watch(&self, hook: impl FnMut(&Moment<'_>) + Send + 'static) {
        self.shared.state.lock().hook = Some(Box::new(hook));
    }

    /// Ends [`SimDisk::watch`].
    pub fn unwatch(&self) {
        self.shared.state.lock().hook = None;
    }

    /// Adds a fault.
    pub fn inject(&self, rule: Rule) {
        self.shared.state.lock().faults.add(rule);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.shared.state.lock().faults.clear();
    }

    /// How often a fault struck.
    pub fn faults_struck(&self) -> u64 {
        self.shared.state.lock().faults.struck
    }

    /// Begins to keep a log of calls.
    pub fn keep_log(&self) {
        self.shared.state.lock().log.get_or_insert_default();
    }

    /// The calls since [`SimDisk::keep_log`].
    pub fn log(&self) -> Vec<Call> {
        self.shared.state.lock().log.clone().unwrap_or_default()
    }

    /// A hash of every call and of the bytes written: equal traces mean equal runs.
    pub fn trace(&self) -> u64 {
        self.shared.state.lock().trace
    }

    /// Bytes of disk space in use, in blocks of 4096.
    pub fn used_bytes(&self) -> u64 {
        self.shared.state.lock().used_bytes()
    }

    /// Every file with its length, sorted by path.
    pub fn files(&self) -> Vec<(String, u64)> {
        let state = self.shared.state.lock();
        let mut out = Vec::new();
        let mut open = vec![(String::new(), crate::folders::ROOT)];
        while let Some((prefix, folder)) = open.pop() {
            for (name, node) in state
                .folders
                .live
                .get(&folder)
                .into_iter()
                .flat_map(|names| names.iter())
            {
                match node {
                    Node::Folder(id) => open.push((format!("{prefix}{name}/"), *id)),
                    Node::File(id) => {
                        let len = state.inodes.get(id).map_or(0, |inode| inode.live.len());
                        out.push((format!("{prefix}{name}"), len));
                    }
                }
            }
        }
        out.sort();
        out
    }

    /// The bytes of a file as programs see them, past all faults.
    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.shared.state.lock();
        match state.folders.find(path)? {
            Node::File(id) => state.inodes.get(&id).map(|inode| inode.live.to_vec()),
            Node::Folder(_) => None,
        }
    }

    /// Flips one bit on the medium; false when the file does not have it.
    pub fn flip_bit(&self, path: &str, bit: u64) -> bool {
        self.damage(path, |content| {
            let mut byte = [0];
            let found = content.read(&mut byte, bit / 8) == 1;
            if found {
                content.write(&[byte[0] ^ (1 << (bit % 8))], bit / 8, |_, _| {});
            }
            found
        })
    }

    /// Overwrites bytes on the medium; false when there is no such file.
    pub fn scribble(&self, path: &str, bytes: &[u8], offset: u64) -> bool {
        self.damage(path, |content| {
            content.write(bytes, offset, |_, _| {});
            true
        })
    }

    /// Cuts a file on the medium; false when there is no such file.
    pub fn truncate(&self, path: &str, len: u64) -> bool {
        self.damage(path, |content| {
            content.set_len(len, |_, _| {});
            true
        })
    }

    fn damage(&self, path: &str, change: impl Fn(&mut Content) -> bool) -> bool {
        let mut state = self.shared.state.lock();
        let Some(Node::File(id)) = state.folders.find(path) else {
            return false;
        };
        let Some(inode) = state.inodes.get_mut(&id) else {
            return false;
        };
        let done = std::cell::Cell::new(false);
        inode.damage(|content| done.set(change(content)));
        done.get()
    }

    fn act<R>(&self, op: Op, path: &str, act: impl FnOnce(&mut State) -> Result<R>) -> Result<R> {
        check_path(path)?;
        self.shared.call(op, path, (0, 0), 0, |state, fault| {
            match fault.and_then(|fault| fault.error(op, path)) {
                Some(error) => Err(error),
                None => act(state)
                    .map_err(|e| e.with("uri", &self.shared.traits.uri).with("path", path)),
            }
        })
    }

    fn open_file(&self, path: &str, writable: bool) -> Result<Arc<dyn File>> {
        self.act(Op::Open, path, |state| match state.folders.find(path) {
            Some(Node::File(id)) => self.handle(state, id, path, writable),
            Some(Node::Folder(_)) => Err(Error::denied("this is a folder, not a file")),
            None => Err(Error::not_found("no such file")),
        })
    }

    fn create_file(&self, path: &str) -> Result<Arc<dyn File>> {
        self.act(Op::Create, path, |state| {
            let place = state.folders.place(path)?;
            if state.folders.find(path).is_some() {
                return Err(Error::conflict("the file exists already"));
            }
            let id = state.new_id();
            state.inodes.insert(id, Inode::made_by(state.calls));
            state.link(place, Node::File(id));
            self.handle(state, id, path, true)
        })
    }

    fn handle(
        &self,
        state: &mut State,
        id: u64,
        path: &str,
        writable: bool,
    ) -> Result<Arc<dyn File>> {
        state.inode(id)?.handles += 1;
        let owner = state.new_id();
        Ok(Arc::new(SimFile::new(
            Arc::clone(&self.shared),
            id,
            owner,
            path,
            writable,
        )))
    }
}

impl Device for SimDisk {
    fn uri(&self) -> &str {
        &self.shared.traits.uri
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            write: true,
            map: false,
            lock: self.shared.traits.locks,
            remote: false,
        }
    }

    fn open(&self, path: &str, how: Open) -> Result<Arc<dyn File>> {
        match how {
            Open::Read => self.open_file(path, false),
            Open::Write => self.open_file(path, true),
            Open::Create => self.create_file(path),
        }
    }

    fn stat(&self, path: &str) -> Result<Option<Stat>> {
        self.act(Op::Stat, path, |state| {
            Ok(state.folders.find(path).map(|node| match node {
                Node::Folder(_) => Stat {
                    dir: true,
                    ..Stat::default()
                },
                Node::File(id) => state
                    .inodes
                    .get(&id)
                    .map_or_else(Stat::default, |inode| Stat {
                        len: inode.live.len(),
                        mtime_ns: inode.mtime_ns,
                        ..Stat::default()
                    }),
            }))
        })
    }

    fn list(&self, dir: &str) -> Result<Vec<String>> {
        self.act(Op::List, dir, |state| {
            let id = state.folders.folder(dir)?;
            let names = state.folders.live.get(&id);
            Ok(names
                .into_iter()
                .flat_map(|names| names.keys())
                .map(ToString::to_string)
                .collect())
        })
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        self.act(Op::CreateDir, dir, |state| {
            let mut made = String::new();
            for part in dir.split('/').filter(|part| !part.is_empty()) {
                if !made.is_empty() {
                    made.push('/');
                }
                made.push_str(part);
                match state.folders.find(&made) {
                    Some(Node::Folder(_)) => {}
                    Some(Node::File(_)) => return Err(Error::conflict("a file has this name")),
                    None => {
                        let place = state.folders.place(&made)?;
                        let id = state.new_id();
                        state.folders.live.insert(id, Arc::default());
                        state.link(place, Node::Folder(id));
                    }
                }
            }
            Ok(())
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_path(to)?;
        self.act(Op::Rename, from, |state| {
            let node = state
                .folders
                .find(from)
                .ok_or_else(|| Error::not_found("no such file"))?;
            let (source, target) = (state.folders.place(from)?, state.folders.place(to)?);
            match (node, state.folders.find(to)) {
                (_, Some(same)) if same == node => return Ok(()),
                (_, Some(Node::Folder(_))) => {
                    return Err(Error::conflict("a folder has the new name"));
                }
                (Node::Folder(_), Some(_)) => {
                    return Err(Error::conflict("a file has the new name"));
                }
                (_, Some(replaced)) => state.unlinked(replaced),
                (_, None) => {}
            }
            let call = state.calls;
            state.folders.change(
                Change::Move {
                    from: source,
                    to: target,
                    node,
                },
                call,
            );
            Ok(())
        })
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.act(Op::Remove, path, |state| {
            let node = match state.folders.find(path) {
                None => return Ok(()),
                Some(Node::Folder(_)) => {
                    return Err(Error::denied("this is a folder, not a file"));
                }
                Some(node) => node,
            };
            let (folder, name) = state.folders.place(path)?;
            let call = state.calls;
            state
                .folders
                .change(Change::Unlink { folder, name, node }, call);
            state.unlinked(node);
            Ok(())
        })
    }

    fn remove_dir(&self, dir: &str) -> Result<()> {
        self.act(Op::RemoveDir, dir, |state| {
            let id = match state.folders.find(dir) {
                None => return Ok(()),
                Some(Node::File(_)) => return Err(Error::invalid("this is a file, not a folder")),
                Some(Node::Folder(id)) => id,
            };
            if state
                .folders
                .live
                .get(&id)
                .is_some_and(|names| !names.is_empty())
            {
                return Err(Error::conflict("the folder is not empty"));
            }
            let (folder, name) = state.folders.place(dir)?;
            let call = state.calls;
            state.folders.change(
                Change::Unlink {
                    folder,
                    name,
                    node: Node::Folder(id),
                },
                call,
            );
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        check_path(dir)?;
        self.shared
            .call(Op::SyncDir, dir, (0, 0), 0, |state, fault| {
                let folder = state.folders.folder(dir)?;
                if let Some(error) = fault.and_then(|fault| fault.error(Op::SyncDir, dir)) {
                    let State { folders, rng, .. } = state;
                    folders.fail_sync(folder, rng);
                    return Err(error);
                }
                state.folders.sync(folder);
                state.forget_unreachable();
                Ok(())
            })
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        check_path(to)?;
        let capacity = self.shared.traits.capacity;
        self.act(Op::Copy, from, |state| {
            let Some(Node::File(source)) = state.folders.find(from) else {
                return Err(Error::not_found("no such file"));
            };
            let place = state.folders.place(to)?;
            if state.folders.find(to).is_some() {
                return Err(Error::conflict("the new name is taken").with("to", to));
            }
            let content = Arc::clone(&state.inode(source)?.live);
            let (id, call) = (state.new_id(), state.calls);
            state.inodes.insert(id, Inode::default());
            if state.take_space(id, 0, content.len(), capacity)? < content.len() {
                state.inodes.remove(&id);
                return Fault::NoSpace.error(Op::Copy, to).map_or(Ok(()), Err);
            }
            state.inode(id)?.copy_from(content, call);
            state.link(place, Node::File(id));
            Ok(())
        })
    }
}
