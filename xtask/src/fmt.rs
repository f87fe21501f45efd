//! `cargo x fmt`: formats Rust and Python, and mends the Python lints that can be mended without thought.

use crate::cmd::Cmd;
use crate::place::Place;
use crate::python::{Needs, Venv};
use crate::step::{Result, step};

pub(crate) fn fmt(place: &Place) -> Result {
    step("cargo fmt", || {
        Cmd::cargo().args(["fmt", "--all"]).dir(&place.root).run()
    })?;
    let venv = Venv::ready(place, "venv", &Needs::All)?;
    let cache = place.x.join("ruff-cache");
    let ruff = |args: &[&str]| {
        venv.command("ruff")
            .args(args)
            .env("RUFF_CACHE_DIR", &cache)
            .dir(&place.root)
    };
    step("ruff", || {
        // What cannot be mended is for `cargo x check` to report.
        ruff(&["check", "--fix", "--quiet", "--exit-zero", "."]).run()?;
        ruff(&["format", "--quiet", "."]).run()
    })
}
