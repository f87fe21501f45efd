//! Keeping a set in shape: checkpoint, compact, rebalance, reclaim, snapshots, verify, repair.

pub mod checkpoint;
pub mod reclaim;
pub mod snapshot;
