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
    run_sim(place, PACKAGE, PROGRAM, args, "fuzz")
}

/// Builds a program of the test layer with the profile `sim` (optimised, assertions on), then runs it.
pub(crate) fn run_sim(
    place: &Place,
    package: &str,
    program: &str,
    args: &[String],
    title: &str,
) -> Result {
    step(&format!("build of {program}, profile sim"), || {
        Cmd::cargo()
            .args([
                "build",
                "--profile",
                "sim",
                "--locked",
                "-p",
                package,
                "--bin",
                program,
            ])
            .dir(&place.root)
            .run()
    })?;
    let binary = place.target.join("sim").join(program);
    step(title, || {
        Cmd::new(&binary).args(args).dir(&place.root).run()
    })
}
