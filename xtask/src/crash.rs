//! `cargo x crash STORE`: stops a writer at every write, sync and rename, and checks what reopening finds.
//!
//! The driver stands beside the fuzzer in `testing/fuzz`, so that both share their builds and their generators.

use crate::fuzz::run_optimised;
use crate::metadata::Graph;
use crate::place::Place;
use crate::step::{Failure, Result};

const PACKAGE: &str = "staddle-fuzz";
const PROGRAM: &str = "staddle-crash";

/// Stores that have a driver.
const STORES: &[&str] = &["record"];

pub(crate) fn crash(place: &Place, args: &[String]) -> Result {
    if let Some(store) = args.first().filter(|arg| !arg.starts_with('-'))
        && !STORES.contains(&store.as_str())
    {
        return Err(Failure::usage(format!(
            "no crash driver for `{store}`; there is one for: {}",
            STORES.join(", ")
        )));
    }
    if args.is_empty() {
        return Err(Failure::usage(format!(
            "name a store: {}",
            STORES.join(", ")
        )));
    }
    Graph::load(place)?.need_program(PACKAGE, PROGRAM)?;
    run_optimised(place, PROGRAM, args, "crash")
}
