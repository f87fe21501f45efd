//! Integration tests of the record store: one binary, one file per behaviour.
#![allow(clippy::disallowed_methods, reason = "tests play the outside world")]

mod batch;
mod common;
mod model;
