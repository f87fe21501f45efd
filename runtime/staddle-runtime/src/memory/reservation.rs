//! Reservations: a tree of named nodes that says who may hold how many bytes.
//!
//! A client asks for bytes before it takes them ([`Reservation::try_grow`]), and what it was granted cannot be taken away:
//! a buffer within the grant never fails for want of memory. What cannot be granted is first asked back from caches
//! ([`Reservation::on_reclaim`], cheapest first) and then waited for ([`Reservation::grow`], first come first served).
//!
//! Every node may be used from any thread. After a fork the child's copy of a tree keeps counting on its own; waiters
//! and reclaim callbacks of the parent are forgotten there.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Serialize;
use staddle_base::{Clock, Error, Result, size};

use super::account::{Account, give_back, grant};
use crate::lock::{Lock, Signal};
use crate::process::PerProcess;

/// How long a waiter sleeps at most before it looks again and at the clock.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Holders that an error about missing memory names.
const HOLDERS_NAMED: usize = 10;

/// A node of the reservation tree; clones are the same node.
#[derive(Clone)]
pub struct Reservation(Arc<Node>);

struct Node {
    name: String,
    account: Account,
    parent: Option<Reservation>,
    children: PerProcess<Lock<Vec<Weak<Node>>>>,
    tree: Arc<Tree>,
}

/// What all nodes of one tree share.
struct Tree {
    clock: Arc<dyn Clock>,
    waiting: AtomicUsize,
    line: PerProcess<Line>,
    reclaimers: PerProcess<Lock<Vec<Arc<Entry>>>>,
    next_id: AtomicU64,
}

#[derive(Default)]
struct Line {
    tickets: Lock<VecDeque<u64>>,
    moved: Signal,
}

struct Entry {
    id: u64,
    cost: u32,
    node: Weak<Node>,
    reclaim: Box<dyn Fn(u64) -> u64 + Send + Sync>,
}

/// Keeps a reclaim callback registered; dropping it takes the callback back.
pub struct Reclaimer {
    tree: Weak<Tree>,
    id: u64,
}

/// One node's figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReservationStats {
    /// Path of names from the root, joined by `/`.
    pub name: String,
    /// Reserved by the node and everything under it, bytes.
    pub reserved_bytes: u64,
    /// In use through the node itself, bytes.
    pub used_bytes: u64,
    /// The most that was ever reserved, bytes.
    pub peak_reserved_bytes: u64,
    /// The node's own limit, if it has one, bytes.
    pub limit_bytes: Option<u64>,
}

impl Reservation {
    /// A new tree. Stores do not call this: they take children of [`Memory::root`](super::Memory::root).
    pub fn root(name: &str, limit: u64, clock: Arc<dyn Clock>) -> Self {
        let tree = Arc::new(Tree {
            clock,
            waiting: AtomicUsize::new(0),
            line: PerProcess::new(Line::default),
            reclaimers: PerProcess::new(Lock::default),
            next_id: AtomicU64::new(0),
        });
        Self::node(name, Some(limit), None, tree)
    }

    fn node(name: &str, limit: Option<u64>, parent: Option<Self>, tree: Arc<Tree>) -> Self {
        Self(Arc::new(Node {
            name: name.to_owned(),
            account: Account::new(limit.unwrap_or(u64::MAX)),
            parent,
            children: PerProcess::new(Lock::default),
            tree,
        }))
    }

    /// A child node. Its bytes count on every level above it; `limit` bounds the child alone.
    #[must_use]
    pub fn child(&self, name: &str, limit: Option<u64>) -> Self {
        let child = Self::node(name, limit, Some(self.clone()), Arc::clone(&self.0.tree));
        let mut children = self.0.children.get().lock();
        if children.len() == children.capacity() {
            children.retain(|child| child.strong_count() > 0);
        }
        children.push(Arc::downgrade(&child.0));
        child
    }

    /// Reserves `bytes` more, now.
    ///
    /// # Errors
    /// `Exhausted` with the node whose limit refuses and the ten largest holders.
    pub fn try_grow(&self, bytes: u64) -> Result<()> {
        self.grant_or_reclaim(bytes)?;
        self.0.account.add_free(bytes);
        Ok(())
    }

    /// Reserves `bytes` more, waiting up to `patience` for others to give up theirs; waiters are served in order.
    ///
    /// # Errors
    /// `Exhausted` when the time is up, or at once when the bytes exceed a limit on their own.
    pub fn grow(&self, bytes: u64, patience: Duration) -> Result<()> {
        let least = self.levels().map(Account::limit).min().unwrap_or(u64::MAX);
        if bytes > least {
            return self.try_grow(bytes);
        }
        let tree = &*self.0.tree;
        let line = tree.line.get();
        if tree.waiting.load(Ordering::SeqCst) == 0 && self.grant(bytes).is_ok() {
            self.0.account.add_free(bytes);
            return Ok(());
        }
        let start = tree.clock.steady_ns();
        let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let ticket = tree.next_id.fetch_add(1, Ordering::Relaxed);
        let mut tickets = line.tickets.lock();
        tickets.push_back(ticket);
        tree.waiting.fetch_add(1, Ordering::SeqCst);
        let result = loop {
            if tickets.front() == Some(&ticket) {
                drop(tickets);
                let granted = self.grant_or_reclaim(bytes);
                tickets = line.tickets.lock();
                if granted.is_ok() || tree.clock.steady_ns().saturating_sub(start) >= patience_ns {
                    break granted;
                }
            }
            let before = tree.clock.steady_ns();
            if before.saturating_sub(start) >= patience_ns {
                break Err(self.refused(bytes, 0));
            }
            let (woken, timed_out) = line.moved.wait_for(tickets, LOOK_AGAIN);
            tickets = woken;
            if timed_out && tree.clock.steady_ns() == before {
                // A simulated clock stands still while threads wait: let the wait itself move it.
                tree.clock.sleep(LOOK_AGAIN);
            }
        };
        tickets.retain(|other| *other != ticket);
        tree.waiting.fetch_sub(1, Ordering::SeqCst);
        line.moved.notify_all();
        drop(tickets);
        result.inspect(|()| self.0.account.add_free(bytes))
    }

    /// Gives back up to `bytes` of what is reserved here and not in use.
    pub fn shrink(&self, bytes: u64) {
        let taken = self.0.account.take_free(bytes);
        self.give_back(taken);
    }

    /// Moves `bytes` of this node's unused reservation to `other` in the same tree, with no moment in which a third could
    /// take them.
    ///
    /// # Errors
    /// `Invalid` when this node has less unused, or `other` is in another tree; `Exhausted` when a limit on `other`'s
    /// own branch refuses.
    pub fn transfer_to(&self, other: &Self, bytes: u64) -> Result<()> {
        if !Arc::ptr_eq(&self.0.tree, &other.0.tree) {
            return Err(Error::invalid("a reservation cannot move to another tree"));
        }
        let taken = self.0.account.take_free(bytes);
        if taken < bytes {
            self.0.account.add_free(taken);
            return Err(Error::invalid(format!(
                "`{}` has {taken} unused bytes, not {bytes}",
                self.path()
            )));
        }
        // Above the lowest common ancestor nothing changes, so only the branches below it are counted.
        let above = self.common_levels(other);
        let target = other.levels();
        let below = other.depth() - above;
        if let Err(level) = grant(target.take(below), bytes) {
            self.0.account.add_free(bytes);
            return Err(other.refused(bytes, level));
        }
        give_back(self.levels().take(self.depth() - above), bytes);
        other.0.account.add_free(bytes);
        Ok(())
    }

    /// Registers a way to get bytes back when memory is short: `reclaim(bytes)` frees about that many by shrinking this
    /// node or its descendants, and returns how many. Cheap ones are asked first.
    #[must_use = "dropping the guard takes the callback back"]
    pub fn on_reclaim(
        &self,
        cost: u32,
        reclaim: impl Fn(u64) -> u64 + Send + Sync + 'static,
    ) -> Reclaimer {
        let tree = &self.0.tree;
        let id = tree.next_id.fetch_add(1, Ordering::Relaxed);
        let mut entries = tree.reclaimers.get().lock();
        let at = entries.partition_point(|entry| entry.cost <= cost);
        let entry = Entry {
            id,
            cost,
            node: Arc::downgrade(&self.0),
            reclaim: Box::new(reclaim),
        };
        entries.insert(at, Arc::new(entry));
        Reclaimer {
            tree: Arc::downgrade(tree),
            id,
        }
    }

    /// Bytes in use through this node itself.
    pub fn used(&self) -> u64 {
        self.0.account.used()
    }

    /// Bytes reserved by this node and its descendants, in use or not.
    pub fn reservation(&self) -> u64 {
        self.0.account.reserved()
    }

    /// The most that was ever reserved.
    pub fn peak(&self) -> u64 {
        self.0.account.peak()
    }

    /// The node's own limit; `u64::MAX` where it has none.
    pub fn limit(&self) -> u64 {
        self.0.account.limit()
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The names from the root to here, joined by `/`.
    pub fn path(&self) -> String {
        let mut names: Vec<&str> = self.nodes().map(|node| node.name.as_str()).collect();
        names.reverse();
        names.join("/")
    }

    /// The figures of this node and everything under it, parents first.
    pub fn tree(&self) -> Vec<ReservationStats> {
        let mut rows = Vec::new();
        self.collect(&mut rows);
        rows
    }

    fn collect(&self, rows: &mut Vec<ReservationStats>) {
        let limit = self.limit();
        rows.push(ReservationStats {
            name: self.path(),
            reserved_bytes: self.reservation(),
            used_bytes: self.used(),
            peak_reserved_bytes: self.peak(),
            limit_bytes: (limit != u64::MAX).then_some(limit),
        });
        let children: Vec<_> = {
            let children = self.0.children.get().lock();
            children.iter().filter_map(Weak::upgrade).collect()
        };
        for child in children {
            Self(child).collect(rows);
        }
    }

    /// Counts `bytes` as used, from the unused reservation first; returns how many had to be granted anew. Pass that
    /// number to [`Reservation::release`].
    pub(crate) fn claim(&self, bytes: u64) -> Result<u64> {
        let account = &self.0.account;
        let from_free = account.take_free(bytes);
        let grown = bytes - from_free;
        if grown > 0 {
            self.grant_or_reclaim(grown)
                .inspect_err(|_| account.add_free(from_free))?;
        }
        account.add_used(bytes);
        Ok(grown)
    }

    /// Undoes a [`Reservation::claim`].
    pub(crate) fn release(&self, bytes: u64, grown: u64) {
        let account = &self.0.account;
        account.sub_used(bytes);
        account.add_free(bytes - grown);
        self.give_back(grown);
    }

    /// Reserves `bytes` more if nobody has to give anything up for it and nobody waits.
    pub(crate) fn grow_within(&self, bytes: u64) -> bool {
        let granted = self.0.tree.waiting.load(Ordering::SeqCst) == 0 && self.grant(bytes).is_ok();
        if granted {
            self.0.account.add_free(bytes);
        }
        granted
    }

    /// Whether both nodes belong to one tree.
    pub(crate) fn same_tree(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.tree, &other.0.tree)
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> + Clone {
        std::iter::successors(Some(&*self.0), |node| node.parent.as_ref().map(|p| &*p.0))
    }

    fn levels(&self) -> impl Iterator<Item = &Account> + Clone {
        self.nodes().map(|node| &node.account)
    }

    fn depth(&self) -> usize {
        self.nodes().count()
    }

    /// How many nodes, counted from the root, are ancestors of both (or the nodes themselves).
    fn common_levels(&self, other: &Self) -> usize {
        let mut a: Vec<*const Node> = self.nodes().map(std::ptr::from_ref).collect();
        let mut b: Vec<*const Node> = other.nodes().map(std::ptr::from_ref).collect();
        a.reverse();
        b.reverse();
        a.iter().zip(&b).take_while(|(a, b)| a == b).count()
    }

    fn grant(&self, bytes: u64) -> Result<(), usize> {
        grant(self.levels(), bytes)
    }

    fn give_back(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        give_back(self.levels(), bytes);
        let tree = &*self.0.tree;
        if tree.waiting.load(Ordering::SeqCst) > 0 {
            let line = tree.line.get();
            let _tickets = line.tickets.lock();
            line.moved.notify_all();
        }
    }

    /// Grants `bytes`, asking caches under the refusing level to give up theirs, cheapest first.
    fn grant_or_reclaim(&self, bytes: u64) -> Result<()> {
        match self.grant(bytes) {
            Ok(()) => Ok(()),
            Err(level) => self.reclaim_then_grant(bytes, level),
        }
    }

    #[cold]
    fn reclaim_then_grant(&self, bytes: u64, mut level: usize) -> Result<()> {
        let entries = self.0.tree.reclaimers.get().lock().clone();
        for entry in entries {
            let Some(owner) = entry.node.upgrade() else {
                continue;
            };
            let Some(refusing) = self.nodes().nth(level) else {
                break;
            };
            let owner = Self(owner);
            if !owner.nodes().any(|node| std::ptr::eq(node, refusing)) {
                continue;
            }
            let account = &refusing.account;
            let room = account.limit().saturating_sub(account.reserved());
            (entry.reclaim)(bytes.saturating_sub(room).max(1));
            match self.grant(bytes) {
                Ok(()) => return Ok(()),
                Err(other) => level = other,
            }
        }
        // Another thread may have given up bytes since, or have taken back a grant that failed higher up.
        self.grant(bytes)
            .map_err(|level| self.refused(bytes, level))
    }

    #[cold]
    fn refused(&self, bytes: u64, level: usize) -> Error {
        let mut nodes = self.nodes();
        let refusing = nodes.clone().nth(level).or_else(|| nodes.next());
        let (name, limit, reserved) = refusing.map_or(("", 0, 0), |node| {
            (
                node.name.as_str(),
                node.account.limit(),
                node.account.reserved(),
            )
        });
        let root = Self(self.root_node());
        let mut holders = Vec::new();
        root.holders(&mut holders);
        holders.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        holders.truncate(HOLDERS_NAMED);
        let list: Vec<String> = holders
            .iter()
            .map(|(bytes, name)| format!("{name} {}", size::human(*bytes)))
            .collect();
        Error::exhausted(format!(
            "no memory for {} of `{}`: `{name}` holds {} of its limit of {}",
            size::human(bytes),
            self.path(),
            size::human(reserved),
            size::human(limit)
        ))
        .with("holders", list.join(", "))
        .hint("raise the memory setting, or close what holds the most")
    }

    fn root_node(&self) -> Arc<Node> {
        let mut at = self;
        while let Some(parent) = &at.0.parent {
            at = parent;
        }
        Arc::clone(&at.0)
    }

    /// Every node's own bytes (its descendants' not included).
    fn holders(&self, out: &mut Vec<(u64, String)>) {
        let own = self.used().saturating_add(self.0.account.free());
        if own > 0 {
            out.push((own, self.path()));
        }
        let children: Vec<_> = {
            let children = self.0.children.get().lock();
            children.iter().filter_map(Weak::upgrade).collect()
        };
        for child in children {
            Self(child).holders(out);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Children keep their parent alive and buffers keep their node alive, so what is left is this node's own unused
        // reservation.
        let left = self.account.reserved();
        if let (Some(parent), true) = (&self.parent, left > 0) {
            parent.give_back(left);
        }
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Reservation({}, {} reserved, {} used)",
            self.path(),
            self.reservation(),
            self.used()
        )
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        if let Some(tree) = self.tree.upgrade()
            && let Some(entries) = tree.reclaimers.peek()
        {
            entries.lock().retain(|entry| entry.id != self.id);
        }
    }
}

impl std::fmt::Debug for Reclaimer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reclaimer({})", self.id)
    }
}

#[cfg(test)]
mod tests;
