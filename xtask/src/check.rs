//! `cargo x check`: format, lints, house rules, documentation. Everything is checked, then what failed is named.

use crate::cmd::Cmd;
use crate::place::Place;
use crate::python::{Needs, Venv};
use crate::step::{Failure, Result, step};
use crate::tidy;

pub(crate) fn check(place: &Place) -> Result {
    let mut failed = Vec::new();
    let mut one = |title: &str, work: &dyn Fn() -> Result| {
        if let Err(failure) = step(title, work) {
            eprintln!("   {failure}");
            failed.push(title.to_owned());
        }
    };
    one("format of Rust (cargo fmt)", &|| {
        Cmd::cargo()
            .args(["fmt", "--all", "--check"])
            .dir(&place.root)
            .run()
    });
    one("house rules (tidy)", &|| tidy::tidy(place));
    one("format and lints of Python (ruff)", &|| ruff(place));
    one("lints of Rust (clippy)", &|| {
        Cmd::cargo()
            .args([
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--keep-going",
                "--",
                "-D",
                "warnings",
            ])
            .dir(&place.root)
            .run()
    });
    one("Rust documentation", &|| {
        Cmd::cargo()
            .args([
                "doc",
                "--workspace",
                "--no-deps",
                "--locked",
                "--document-private-items",
            ])
            .env("RUSTDOCFLAGS", "-D warnings")
            .dir(&place.root)
            .run()
    });
    optional(
        place,
        "spelling (typos)",
        "typos",
        &["--format", "brief"],
        &mut one,
    );
    optional(
        place,
        "licences and sources (cargo-deny)",
        "cargo-deny",
        &["check", "bans", "licenses", "sources"],
        &mut one,
    );
    if failed.is_empty() {
        eprintln!("\nall checks passed");
        return Ok(());
    }
    Err(Failure::new(format!("failed: {}", failed.join(", ")))
        .hint("`cargo x fmt` mends what is only format"))
}

fn ruff(place: &Place) -> Result {
    let venv = Venv::ready(place, "venv", &Needs::All)?;
    let cache = place.x.join("ruff-cache");
    let ruff = |args: &[&str]| {
        venv.command("ruff")
            .args(args)
            .env("RUFF_CACHE_DIR", &cache)
            .dir(&place.root)
            .run()
    };
    ruff(&["check", "--quiet", "."])?;
    ruff(&["format", "--check", "--quiet", "--diff", "."])
}

/// A tool that is a help where it is installed; tidy covers what must hold everywhere.
fn optional(
    place: &Place,
    title: &str,
    tool: &str,
    args: &[&str],
    one: &mut dyn FnMut(&str, &dyn Fn() -> Result),
) {
    if Cmd::new(tool).arg("--version").succeeds() {
        one(title, &|| Cmd::new(tool).args(args).dir(&place.root).run());
    } else {
        eprintln!("── {title}: skipped, {tool} is not installed");
    }
}
