//! The model must bite: correct writers never lose, each classic mistake is caught, and a seed replays.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests; a panic is the report"
)]

mod conformance;
mod crash;
mod device;
mod faults;
mod replay;
mod toy;
