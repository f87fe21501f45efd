//! `cargo x fuzz`: runs the seeded mutator of `testing/fuzz` over one parser or all of them.

use crate::cmd::Cmd;
use crate::metadata::Graph;
use crate::place::Place;
use crate::step::{Result, step};

const PACKAGE: &str = "staddle-fuzz";
const PROGRAM: &str = "staddle-fuzz";

/// Everything after `cargo x fuzz` goes to the program, which knows its targets and says so.
pub(crate) fn fuzz(place: &Place, args: &[String]) -> Result {
    Graph::load(place)?.need_program(PACKAGE, PROGRAM)?;
    run_optimised(place, PROGRAM, args, "fuzz")
}

/// Builds a program of the test layer optimised, with assertions on, then runs it.
///
/// That is what the profile `sim` says. Said as a setting of the profile `dev`, it lets the program share the dependencies that
/// `cargo x test` has compiled: they are optimised there too. `--workspace` is there for the same reason: it chooses the same
/// features.
pub(crate) fn run_optimised(place: &Place, program: &str, args: &[String], title: &str) -> Result {
    step(
        &format!("build of {program}, optimised, assertions on"),
        || {
            Cmd::cargo()
                .args(["build", "--config", "profile.dev.opt-level=2", "--locked"])
                .args(["--workspace", "--bin", program])
                .dir(&place.root)
                .run()
        },
    )?;
    let binary = place.target.join("debug").join(program);
    step(title, || {
        Cmd::new(&binary).args(args).dir(&place.root).run()
    })
}
