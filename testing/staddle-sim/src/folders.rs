//! Folders: names that are seen, names that are durable, and the changes between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use staddle_base::{Error, Result, Rng};

/// What a name points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Folder(u64),
    File(u64),
}

/// The names of one folder.
pub(crate) type Names = BTreeMap<Arc<str>, Node>;

/// The names of all folders.
pub(crate) type Tree = BTreeMap<u64, Arc<Names>>;

/// The folder that is always there.
pub(crate) const ROOT: u64 = 0;

/// A change of names.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Link {
        folder: u64,
        name: Arc<str>,
        node: Node,
    },
    Unlink {
        folder: u64,
        name: Arc<str>,
        node: Node,
    },
    /// Atomic: both names change, or neither.
    Move {
        from: (u64, Arc<str>),
        to: (u64, Arc<str>),
        node: Node,
    },
}

/// A change that is not durable yet.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// The mutating call that made it.
    pub(crate) call: u64,
    pub(crate) change: Change,
    /// Folders still to be synced before it is durable.
    waits: Vec<u64>,
    /// A sync of its folder failed: no later sync makes it durable.
    pub(crate) lost: bool,
}

/// All folders of a disk.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    pub(crate) live: Tree,
    pub(crate) durable: Tree,
    pub(crate) pending: Vec<Pending>,
}

/// Applies one change; a name that meanwhile points elsewhere is left alone.
pub(crate) fn apply(tree: &mut Tree, change: &Change) {
    let mut take = |(folder, name): (u64, &Arc<str>), node: Node| {
        let names = Arc::make_mut(tree.entry(folder).or_default());
        if names.get(name) == Some(&node) {
            names.remove(name);
        }
    };
    match change {
        Change::Unlink { folder, name, node } => take((*folder, name), *node),
        Change::Move { from, node, .. } => take((from.0, &from.1), *node),
        Change::Link { .. } => {}
    }
    let (folder, name, node) = match change {
        Change::Link { folder, name, node } => (*folder, name, *node),
        Change::Move { to, node, .. } => (to.0, &to.1, *node),
        Change::Unlink { .. } => return,
    };
    Arc::make_mut(tree.entry(folder).or_default()).insert(Arc::clone(name), node);
    if let Node::Folder(id) = node {
        tree.entry(id).or_default();
    }
}

impl Folders {
    /// Only the root.
    pub(crate) fn new() -> Self {
        Self::settled(BTreeMap::from([(ROOT, Arc::default())]))
    }

    /// What a crash left behind.
    pub(crate) fn settled(tree: Tree) -> Self {
        Self {
            live: tree.clone(),
            durable: tree,
            pending: Vec::new(),
        }
    }

    /// What `path` names now.
    pub(crate) fn find(&self, path: &str) -> Option<Node> {
        let mut node = Node::Folder(ROOT);
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let Node::Folder(id) = node else { return None };
            node = *self.live.get(&id)?.get(part)?;
        }
        Some(node)
    }

    /// The folder called `path`.
    pub(crate) fn folder(&self, path: &str) -> Result<u64> {
        match self.find(path) {
            Some(Node::Folder(id)) => Ok(id),
            _ => Err(Error::not_found("no such folder").with("path", path)),
        }
    }

    /// The folder that `path` lies in, and its last part.
    pub(crate) fn place(&self, path: &str) -> Result<(u64, Arc<str>)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name.is_empty() {
            return Err(Error::invalid("a file needs a name").with("path", path));
        }
        Ok((self.folder(folder)?, name.into()))
    }

    /// Makes a change that is seen now and durable after the folders it concerns were synced.
    pub(crate) fn change(&mut self, change: Change, call: u64) {
        apply(&mut self.live, &change);
        let waits = match &change {
            Change::Link { folder, .. } | Change::Unlink { folder, .. } => vec![*folder],
            Change::Move { from, to, .. } if from.0 == to.0 => vec![from.0],
            Change::Move { from, to, .. } => vec![from.0, to.0],
        };
        self.pending.push(Pending {
            call,
            change,
            waits,
            lost: false,
        });
    }

    /// Makes a folder's changes durable, in order.
    pub(crate) fn sync(&mut self, folder: u64) {
        let durable = &mut self.durable;
        self.pending.retain_mut(|pending| {
            if pending.lost {
                return true;
            }
            pending.waits.retain(|wait| *wait != folder);
            if pending.waits.is_empty() {
                apply(durable, &pending.change);
            }
            !pending.waits.is_empty()
        });
    }

    /// A sync that failed: some changes arrived, the others may or may not, and no later sync tells.
    pub(crate) fn fail_sync(&mut self, folder: u64, rng: &mut Rng) {
        let durable = &mut self.durable;
        self.pending.retain_mut(|pending| {
            if !pending.waits.contains(&folder) {
                return true;
            }
            pending.lost = true;
            let arrived = rng.chance(1, 2);
            if arrived {
                apply(durable, &pending.change);
            }
            !arrived
        });
    }

    /// Files that some name, now or after a crash, can still reach.
    pub(crate) fn reachable(&self) -> BTreeSet<u64> {
        let names = self
            .live
            .values()
            .chain(self.durable.values())
            .flat_map(|names| names.values());
        let pending = self.pending.iter().map(|pending| match &pending.change {
            Change::Link { node, .. } | Change::Unlink { node, .. } | Change::Move { node, .. } => {
                node
            }
        });
        names
            .chain(pending)
            .filter_map(|node| match node {
                Node::File(id) => Some(*id),
                Node::Folder(_) => None,
            })
            .collect()
    }
}
