//! The fuzz targets under a fixed number of inputs, and the machinery on targets with known mistakes.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests; a panic is the report"
)]

mod machinery;
mod targets;
