//! The parsers under attack, one file each; a file begins with its Strategy and its Invariants.

use crate::target::Target;

mod chunk;
mod head;
mod log;
mod manifest;
mod megatron;
mod repair;
mod scan;
mod snapshot;
mod tar;
mod tfrecord;

/// Every target.
pub const TARGETS: &[Target] = &[
    head::TARGET,
    manifest::TARGET,
    chunk::TARGET,
    log::TARGET,
    snapshot::TARGET,
    tar::TARGET,
    tfrecord::TARGET,
    megatron::TARGET,
];
