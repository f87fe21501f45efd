//! Keeping a set in shape: checkpoint, compact, rebalance, reclaim, snapshots, verify, repair.

pub mod checkpoint;
pub mod compact;
pub mod reclaim;
pub mod repair;
pub mod scan;
pub mod snapshot;
pub mod verify;
