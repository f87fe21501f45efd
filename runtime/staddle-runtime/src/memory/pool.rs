//! Buffers that stay warm: power-of-two blocks on free lists, counted against the client that holds them.
//!
//! Taking a buffer whose class has a free block costs a few atomic additions, a lock and a pop: no system call, no page
//! fault, no zeroing. Blocks of 2 MiB and more are aligned for huge pages. A block given back stays on its free list as
//! long as the root limit has room for it; a shortage anywhere trims the free lists first.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use staddle_base::{Error, Result, size};

use super::allocator::{Allocator, block_layout};
use super::reservation::{Reclaimer, Reservation};
use crate::lock::Lock;
use crate::process::OwnerProcess;

/// The smallest block, bytes.
pub const BLOCK_BYTES_MIN: usize = 8 << 10;
/// log2 of [`BLOCK_BYTES_MIN`].
const SHIFT_MIN: u32 = BLOCK_BYTES_MIN.trailing_zeros();
/// log2 of the largest block.
const SHIFT_MAX: u32 = 40;
const CLASSES: usize = (SHIFT_MAX - SHIFT_MIN + 1) as usize;

/// The buffers that all stores of a process share.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    /// Whom a buffer is counted against when its client's tree belongs to the parent process.
    adopted: Reservation,
    _trim: Reclaimer,
}

struct Shared {
    classes: [Lock<Vec<Block>>; CLASSES],
    cached: Reservation,
    allocator: Arc<dyn Allocator>,
    owner: OwnerProcess,
    taken: AtomicU64,
    reused: AtomicU64,
    trimmed_bytes: AtomicU64,
}

/// One power-of-two piece of memory, initialised when it was made.
struct Block(NonNull<u8>);

// SAFETY: a block is owned memory; whoever has the `Block` is the only one to touch it.
unsafe impl Send for Block {}
// SAFETY: `&Block` gives no access to the memory.
unsafe impl Sync for Block {}

/// The pool's figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolStats {
    /// Bytes on free lists.
    pub cached_bytes: u64,
    /// Buffers taken so far.
    pub taken: u64,
    /// Buffers that were served from a free list.
    pub reused: u64,
    /// Bytes given back to the system because memory was short.
    pub trimmed_bytes: u64,
}

impl Pool {
    pub(crate) fn new(root: &Reservation, allocator: Arc<dyn Allocator>) -> Self {
        let cached = root.child("pool free lists", None);
        let shared = Arc::new(Shared {
            classes: [const { Lock::new(Vec::new()) }; CLASSES],
            cached: cached.clone(),
            allocator,
            owner: OwnerProcess::here(),
            taken: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            trimmed_bytes: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&shared);
        let trim = cached.on_reclaim(0, move |bytes| weak.upgrade().map_or(0, |s| s.trim(bytes)));
        Self {
            shared,
            adopted: root.child("clients from the parent process", None),
            _trim: trim,
        }
    }

    /// A buffer of `len` bytes, counted against `client` by its power-of-two size until it is dropped. Its contents are
    /// initialised and otherwise unspecified.
    ///
    /// # Errors
    /// `Exhausted` when a limit or the system refuses.
    pub fn take(&self, client: &Reservation, len: usize) -> Result<PoolBuffer> {
        let shared = &self.shared;
        shared.owner.check()?;
        let class = class_of(len)?;
        let bytes = class_bytes(class);
        let client = if client.same_tree(&self.adopted) {
            client
        } else {
            &self.adopted
        };
        let grown = client.claim(bytes as u64)?;
        shared.taken.fetch_add(1, Ordering::Relaxed);
        let block = match shared.pop(class) {
            Some(block) => block,
            None => shared
                .allocator
                .allocate_zeroed(block_layout(bytes)?)
                .map(Block)
                .inspect_err(|_| client.release(bytes as u64, grown))?,
        };
        Ok(PoolBuffer {
            block,
            len,
            class,
            grown,
            client: client.clone(),
            shared: Arc::clone(shared),
        })
    }

    /// Gives the free lists back to the system; returns the bytes.
    pub fn trim(&self) -> u64 {
        self.shared.trim(u64::MAX)
    }

    /// The figures now.
    pub fn stats(&self) -> PoolStats {
        let shared = &self.shared;
        PoolStats {
            cached_bytes: shared.cached.reservation(),
            taken: shared.taken.load(Ordering::Relaxed),
            reused: shared.reused.load(Ordering::Relaxed),
            trimmed_bytes: shared.trimmed_bytes.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    fn pop(&self, class: usize) -> Option<Block> {
        let block = self.classes.get(class)?.lock().pop()?;
        self.cached.shrink(class_bytes(class) as u64);
        self.reused.fetch_add(1, Ordering::Relaxed);
        Some(block)
    }

    /// Keeps a block if the root has room for it, else frees it.
    fn put(&self, class: usize, block: Block) {
        let bytes = class_bytes(class);
        if self.cached.grow_within(bytes as u64)
            && let Some(list) = self.classes.get(class)
        {
            list.lock().push(block);
            return;
        }
        self.free(class, &block);
    }

    /// Frees blocks, largest first, until `bytes` are given back or none are left.
    fn trim(&self, bytes: u64) -> u64 {
        let mut freed = 0;
        for (class, list) in self.classes.iter().enumerate().rev() {
            while freed < bytes {
                let Some(block) = list.lock().pop() else {
                    break;
                };
                self.free(class, &block);
                let size = class_bytes(class) as u64;
                self.cached.shrink(size);
                freed += size;
            }
        }
        self.trimmed_bytes.fetch_add(freed, Ordering::Relaxed);
        freed
    }

    fn free(&self, class: usize, block: &Block) {
        if let Ok(layout) = block_layout(class_bytes(class)) {
            // SAFETY: every block of this class was allocated in `Pool::take` from this allocator with this layout, and
            // the caller gives up the only `Block` that names it.
            unsafe { self.allocator.free(block.0, layout) }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.owner.is_here() {
            self.trim(u64::MAX);
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes free", self.cached.reservation())
    }
}

/// The class of the smallest block that holds `len` bytes.
fn class_of(len: usize) -> Result<usize> {
    let shift = len
        .checked_next_power_of_two()
        .map_or(u32::MAX, usize::trailing_zeros);
    if shift > SHIFT_MAX {
        return Err(Error::exhausted(format!(
            "a buffer of {} is larger than the largest block, {}",
            size::human(len as u64),
            size::human(1 << SHIFT_MAX)
        )));
    }
    Ok(usize::try_from(shift.saturating_sub(SHIFT_MIN)).unwrap_or(CLASSES))
}

/// The bytes of a block of `class`.
fn class_bytes(class: usize) -> usize {
    BLOCK_BYTES_MIN << class
}

/// A buffer from the [`Pool`]; dropping it gives the memory back.
pub struct PoolBuffer {
    block: Block,
    len: usize,
    class: usize,
    grown: u64,
    client: Reservation,
    shared: Arc<Shared>,
}

impl PoolBuffer {
    /// The bytes of the block behind the buffer, at least the length.
    pub fn capacity(&self) -> usize {
        class_bytes(self.class)
    }

    /// Changes the length within the capacity; bytes beyond the old length are unspecified.
    ///
    /// # Errors
    /// `Invalid` beyond the capacity.
    pub fn set_len(&mut self, len: usize) -> Result<()> {
        if len > self.capacity() {
            return Err(Error::invalid(format!(
                "a pool buffer of {} bytes cannot hold {len}",
                self.capacity()
            )));
        }
        self.len = len;
        Ok(())
    }

    /// Makes the buffer read-only and shared; the last clone gives the memory back.
    pub fn freeze(self) -> Arc<PoolBuffer> {
        Arc::new(self)
    }

    /// Bytes that had to be reserved anew for it, and go back when it is dropped.
    #[cfg(test)]
    pub(crate) fn grown(&self) -> u64 {
        self.grown
    }

    /// The client it is counted against.
    pub fn client(&self) -> &Reservation {
        &self.client
    }
}

impl Deref for PoolBuffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the block has `capacity() >= len` initialised bytes (zeroed when made) and is owned by this buffer.
        unsafe { std::slice::from_raw_parts(self.block.0.as_ptr(), self.len) }
    }
}

impl DerefMut for PoolBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.block.0.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for PoolBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PoolBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolBuffer({} of {} bytes)", self.len, self.capacity())
    }
}

impl Drop for PoolBuffer {
    fn drop(&mut self) {
        let block = Block(self.block.0);
        if !self.shared.owner.is_here() {
            // The parent's free lists may be locked by a thread that does not exist here: free the copy instead.
            self.shared.free(self.class, &block);
            return;
        }
        self.client
            .release(class_bytes(self.class) as u64, self.grown);
        self.shared.put(self.class, block);
    }
}

#[cfg(test)]
mod tests;
