//! Integration tests of the record store: one binary, one file per behaviour.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    reason = "tests play the outside world, fail by panicking, and share helpers in one binary"
)]

mod batch;
mod common;
mod concat;
mod export;
mod faults;
mod found;
mod golden;
mod input;
mod loader;
mod model;
mod readers;
mod resume;
mod scripts;
mod web;
