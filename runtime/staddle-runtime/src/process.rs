//! Which process is this: values that a forked child builds anew, and objects that belong to one process only.
//!
//! Threads, rings, connections and locks do not survive `fork`, memory does. So whatever depends on a thread is kept in
//! a [`ProcessCell`] or [`PerProcess`]: in a child the parent's value is left alone (dropping it would join threads
//! that are gone) and a new one is built on first use.
//!
//! The question "am I a child?" is asked on hot paths, so it must not be a system call. A page marked
//! `MADV_WIPEONFORK` holds this process's generation: the kernel hands every child a zeroed copy, also after a raw
//! `clone`, which `pthread_atfork` hooks would miss. Asking is two loads. Kernels without that advice compare process
//! ids instead.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use staddle_base::{Error, Result};

/// This machine's name, for messages that say who holds a lock.
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The page that the kernel zeroes in a child; null until first asked, or where the kernel cannot do it.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// The kernel refused the page; compare process ids.
static NO_PAGE: AtomicBool = AtomicBool::new(false);
/// The last generation handed out in this process or in an ancestor.
static LAST: AtomicU32 = AtomicU32::new(0);
/// Without the page: process id in the high half, generation in the low one.
static PID_GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that differs between a process and its forked children; never 0.
#[inline]
pub fn fork_generation() -> u32 {
    let page = PAGE.load(Ordering::Acquire);
    if !page.is_null() {
        // SAFETY: a non-null `PAGE` is the mapping installed by `install_page`, which is never unmapped.
        let generation = unsafe { (*page).load(Ordering::Relaxed) };
        if generation != 0 {
            return generation;
        }
    }
    first_ask(page)
}

/// Answers the first question after start or fork, and every question where there is no page.
#[cold]
fn first_ask(mut page: *mut AtomicU32) -> u32 {
    if page.is_null() && !NO_PAGE.load(Ordering::Relaxed) {
        page = install_page();
    }
    if page.is_null() {
        return by_process_id();
    }
    let next = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
    // SAFETY: `page` is the mapping installed by `install_page`, which is never unmapped.
    let word = unsafe { &*page };
    match word.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => next,
        Err(other) => other,
    }
}

fn install_page() -> *mut AtomicU32 {
    let bytes = crate::kernel::page_bytes();
    // SAFETY: a new anonymous mapping at an address the kernel chooses touches no existing memory.
    let mapped = unsafe {
        rustix::mm::mmap_anonymous(
            ptr::null_mut(),
            bytes,
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::PRIVATE,
        )
    };
    let Ok(mapped) = mapped else {
        NO_PAGE.store(true, Ordering::Relaxed);
        return ptr::null_mut();
    };
    // SAFETY: the range is the mapping made above, private and anonymous as this advice needs.
    let advised =
        unsafe { rustix::mm::madvise(mapped, bytes, rustix::mm::Advice::LinuxWipeOnFork) };
    let page = mapped.cast::<AtomicU32>();
    let kept = if advised.is_ok() {
        PAGE.compare_exchange(ptr::null_mut(), page, Ordering::AcqRel, Ordering::Acquire)
    } else {
        NO_PAGE.store(true, Ordering::Relaxed);
        Err(ptr::null_mut())
    };
    match kept {
        Ok(_) => page,
        Err(other) => {
            // SAFETY: the mapping made above lost the race or is useless; nobody else has its address.
            let _ = unsafe { rustix::mm::munmap(mapped, bytes) };
            other
        }
    }
}

/// The generation by comparing process ids: right unless a grandchild reuses the id of a dead ancestor.
fn by_process_id() -> u32 {
    let pid = u64::from(std::process::id());
    loop {
        let seen = PID_GENERATION.load(Ordering::Acquire);
        if seen >> 32 == pid {
            return u32::try_from(seen & 0xffff_ffff).unwrap_or(u32::MAX);
        }
        let next = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        let packed = (pid << 32) | u64::from(next);
        if PID_GENERATION
            .compare_exchange(seen, packed, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            return next;
        }
    }
}

struct Slot<T> {
    generation: u32,
    value: T,
}

/// A value built on first use in each process; a forked child builds its own and leaks the parent's.
pub struct ProcessCell<T> {
    slot: AtomicPtr<Slot<T>>,
    owns: PhantomData<T>,
}

impl<T: Send + Sync> ProcessCell<T> {
    /// An empty cell.
    pub const fn new() -> Self {
        Self {
            slot: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// This process's value, if it has been built.
    #[inline]
    pub fn peek(&self) -> Option<&T> {
        let slot = self.slot.load(Ordering::Acquire);
        if slot.is_null() {
            return None;
        }
        // SAFETY: a non-null slot came from `Box::into_raw` in `install` and lives until the cell is dropped (or for
        // ever once replaced), and `&self` keeps the cell alive.
        let slot = unsafe { &*slot };
        (slot.generation == fork_generation()).then_some(&slot.value)
    }

    /// This process's value; `build` may run in two threads at once, then one result is dropped.
    #[inline]
    pub fn get_or_init(&self, build: impl FnOnce() -> T) -> &T {
        match self.peek() {
            Some(value) => value,
            None => self.install(build()),
        }
    }

    #[cold]
    fn install(&self, value: T) -> &T {
        let generation = fork_generation();
        let fresh = Box::into_raw(Box::new(Slot { generation, value }));
        let mut seen = self.slot.load(Ordering::Acquire);
        loop {
            // SAFETY: as in `peek`, a non-null slot is live.
            let taken = !seen.is_null() && unsafe { (*seen).generation } == generation;
            if taken {
                // SAFETY: `fresh` lost the race and was never shared; take it back to drop it.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: as in `peek`.
                return unsafe { &(*seen).value };
            }
            // A slot of another generation is the parent's: it is replaced and deliberately leaked.
            match self
                .slot
                .compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire)
            {
                // SAFETY: `fresh` is installed now and lives as `peek` says.
                Ok(_) => return unsafe { &(*fresh).value },
                Err(other) => seen = other,
            }
        }
    }
}

impl<T: Send + Sync> Default for ProcessCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for ProcessCell<T> {
    fn drop(&mut self) {
        let slot = *self.slot.get_mut();
        if slot.is_null() {
            return;
        }
        // SAFETY: as in `peek`; `&mut self` says that nobody borrows from it any more.
        if unsafe { (*slot).generation } == fork_generation() {
            // SAFETY: installed by `install` from `Box::into_raw`, owned by this cell alone.
            drop(unsafe { Box::from_raw(slot) });
        }
    }
}

impl<T: Send + Sync + std::fmt::Debug> std::fmt::Debug for ProcessCell<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ProcessCell").field(&self.peek()).finish()
    }
}

/// A [`ProcessCell`] that knows how to build its value; fit for a `static`.
pub struct PerProcess<T> {
    cell: ProcessCell<T>,
    build: fn() -> T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// A value that `build` makes on first use in each process.
    pub const fn new(build: fn() -> T) -> Self {
        Self {
            cell: ProcessCell::new(),
            build,
        }
    }

    /// This process's value.
    #[inline]
    pub fn get(&self) -> &T {
        self.cell.get_or_init(self.build)
    }

    /// This process's value, if it has been built.
    #[inline]
    pub fn peek(&self) -> Option<&T> {
        self.cell.peek()
    }
}

impl<T: Send + Sync + std::fmt::Debug> std::fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.cell.fmt(f)
    }
}

/// A mark on what belongs to one process: writers, leases, locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerProcess {
    pid: u32,
    generation: u32,
}

impl OwnerProcess {
    /// This process owns it.
    pub fn here() -> Self {
        Self {
            pid: std::process::id(),
            generation: fork_generation(),
        }
    }

    /// Whether the caller runs in the owning process.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.generation == fork_generation()
    }

    /// The owner's process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Refuses callers in other processes.
    ///
    /// # Errors
    /// `Closed`, naming the owner.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(self.refused())
    }

    #[cold]
    fn refused(&self) -> Error {
        Error::closed(format!("this writer belongs to process {}", self.pid))
            .hint("open it here: a forked child cannot use its parent's writer")
    }
}

/// A list that only grows, without locks: safe to read and extend in a child whatever the parent was doing at the fork.
pub(crate) struct AppendList<T: 'static> {
    head: AtomicPtr<Node<T>>,
    owns: PhantomData<T>,
}

struct Node<T: 'static> {
    value: T,
    next: *const Node<T>,
}

impl<T: Send + Sync + 'static> AppendList<T> {
    pub(crate) const fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// Adds `value` unless `clashes` finds it; then the list is unchanged and the clash is returned. Nodes live for ever.
    pub(crate) fn push_unless(
        &self,
        value: T,
        clashes: impl Fn(&T) -> bool,
    ) -> std::result::Result<&'static T, &'static T> {
        let mut fresh = Box::new(Node {
            value,
            next: ptr::null(),
        });
        loop {
            let head = self.head.load(Ordering::Acquire);
            if let Some(clash) = walk(head).find(|value| clashes(value)) {
                return Err(clash);
            }
            fresh.next = head;
            let raw = Box::into_raw(fresh);
            match self
                .head
                .compare_exchange(head, raw, Ordering::AcqRel, Ordering::Acquire)
            {
                // SAFETY: `raw` is now in the list, whose nodes are never freed.
                Ok(_) => return Ok(unsafe { &(*raw).value }),
                // SAFETY: `raw` was not shared; take it back for the next try.
                Err(_) => fresh = unsafe { Box::from_raw(raw) },
            }
        }
    }

    /// The values, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static T> + use<T> {
        walk(self.head.load(Ordering::Acquire))
    }
}

fn walk<T: 'static>(head: *const Node<T>) -> impl Iterator<Item = &'static T> {
    let mut at = head;
    std::iter::from_fn(move || {
        // SAFETY: nodes reachable from the head are never freed or changed after they are linked.
        let node = unsafe { at.as_ref() }?;
        at = node.next;
        Some(&node.value)
    })
}

#[cfg(test)]
mod tests;
