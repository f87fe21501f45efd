//! Who may hold how many bytes, and where they come from.
//!
//! | File | The question it answers |
//! |---|---|
//! | [`account`] | how are bytes counted without a lock |
//! | [`reservation`] | may this client have that many bytes |
//! | [`pool`] | which buffer serves it, warm and without a system call |
//! | [`allocator`] | where does raw memory come from, and what do its six figures say |
//! | [`limit`] | how much is there on this machine |
//!
//! **Invariant**: memory that clients reserved and memory on the pool's free lists never sum to more than the root limit.

use std::sync::Arc;

use serde::Serialize;
use staddle_base::Clock;

pub mod account;
pub mod allocator;
mod arena;
pub mod limit;
pub mod pool;
pub mod reservation;

/// The atomics of [`account`]; the model test puts its own here.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

pub use allocator::{Allocator, AllocatorRegistry, AllocatorStats};
pub use pool::{Pool, PoolBuffer, PoolStats};
pub use reservation::{Reclaimer, Reservation, ReservationStats};

/// The memory of one process.
#[derive(Debug)]
pub struct Memory {
    root: Reservation,
    pool: Pool,
}

/// What [`Memory::stats`] reports.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryStats {
    /// The root limit, bytes.
    pub limit_bytes: u64,
    /// Bytes reserved under the root, free lists of the pool included.
    pub reserved_bytes: u64,
    /// The most that was ever reserved.
    pub peak_reserved_bytes: u64,
    /// The pool's figures.
    pub pool: PoolStats,
    /// Every allocator that has been used.
    pub allocators: Vec<AllocatorStats>,
    /// Every reservation, parents before children.
    pub reservations: Vec<ReservationStats>,
}

impl Memory {
    pub(crate) fn new(limit_bytes: u64, clock: Arc<dyn Clock>) -> Self {
        let root = Reservation::root("process", limit_bytes, clock);
        let pool = Pool::new(&root, AllocatorRegistry::global().system());
        Self { root, pool }
    }

    /// The node that holds the whole limit; stores take children of it.
    pub fn root(&self) -> &Reservation {
        &self.root
    }

    /// The buffers that all stores share.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Where raw memory comes from.
    pub fn allocators(&self) -> &'static AllocatorRegistry {
        AllocatorRegistry::global()
    }

    /// The figures now.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            limit_bytes: self.root.limit(),
            reserved_bytes: self.root.reservation(),
            peak_reserved_bytes: self.root.peak(),
            pool: self.pool.stats(),
            allocators: self.allocators().stats(),
            reservations: self.root.tree(),
        }
    }
}
