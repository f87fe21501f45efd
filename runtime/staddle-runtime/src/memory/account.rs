//! The counters of one reservation node: additions and limits without a lock.
//!
//! A node counts three things, in bytes: `reserved` (its own and its descendants' together), `free` (granted to this
//! node itself and not in use) and `used` (in use through this node). A grant is added from the node up to the root,
//! checking each limit, and taken back from the levels already passed when one refuses. So on every level `reserved`
//! never exceeds the limit at any moment, and whenever no call is under way it equals `free + used` of the node and its
//! descendants.
//!
//! The file is compiled a second time by the model test, with that test's own atomics behind `super::sync`.

use super::sync::{AtomicU64, Ordering};

/// The counters of one node.
#[derive(Debug)]
pub struct Account {
    limit: AtomicU64,
    reserved: AtomicU64,
    free: AtomicU64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl Account {
    /// An empty account that may reach `limit`.
    pub fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            reserved: AtomicU64::new(0),
            free: AtomicU64::new(0),
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    /// The most that may be reserved.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Reserved by this node and its descendants.
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Granted to this node and not in use.
    pub fn free(&self) -> u64 {
        self.free.load(Ordering::Acquire)
    }

    /// In use through this node.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// The most that was ever reserved.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Adds to `reserved` if the limit allows it.
    pub fn try_add(&self, bytes: u64) -> bool {
        let limit = self.limit();
        let mut seen = self.reserved.load(Ordering::Relaxed);
        loop {
            let Some(next) = seen.checked_add(bytes).filter(|next| *next <= limit) else {
                return false;
            };
            match self.reserved.compare_exchange_weak(
                seen,
                next,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    self.peak.fetch_max(next, Ordering::Relaxed);
                    return true;
                }
                Err(other) => seen = other,
            }
        }
    }

    /// Takes back what [`Account::try_add`] added.
    pub fn sub(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Adds to `free`; the bytes are in `reserved` already.
    pub fn add_free(&self, bytes: u64) {
        self.free.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Takes up to `bytes` out of `free`; returns how many there were.
    pub fn take_free(&self, bytes: u64) -> u64 {
        let mut seen = self.free.load(Ordering::Relaxed);
        loop {
            let taken = seen.min(bytes);
            if taken == 0 {
                return 0;
            }
            match self.free.compare_exchange_weak(
                seen,
                seen - taken,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return taken,
                Err(other) => seen = other,
            }
        }
    }

    /// Counts bytes as used.
    pub fn add_used(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Counts bytes as no longer used.
    pub fn sub_used(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Adds `bytes` to `reserved` on every level of `chain`, node first, root last.
///
/// # Errors
/// The level that refused; no level has changed then.
pub fn grant<'a>(
    chain: impl Iterator<Item = &'a Account> + Clone,
    bytes: u64,
) -> Result<(), usize> {
    for (level, account) in chain.clone().enumerate() {
        if !account.try_add(bytes) {
            give_back(chain.take(level), bytes);
            return Err(level);
        }
    }
    Ok(())
}

/// Takes `bytes` off every level of `chain`, node first: a level never holds less than its children.
pub fn give_back<'a>(chain: impl Iterator<Item = &'a Account>, bytes: u64) {
    for account in chain {
        account.sub(bytes);
    }
}
