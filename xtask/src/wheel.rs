//! The wheel: built by maturin, kept under `target/x/wheels`, installed into whichever environment asks.
//!
//! Installing a built wheel, instead of `maturin develop`, keeps the source tree free of binaries and lets the release build
//! of the demo and the checked build of the tests live side by side.

use std::path::{Path, PathBuf};

use crate::cmd::Cmd;
use crate::place::Place;
use crate::python::Venv;
use crate::stamp::{Fingerprint, unless_fresh};
use crate::step::{Failure, Result};

/// How the native module is compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// Assertions on; shares its compiled dependencies with the Rust tests.
    Checked,
    /// What users get, and what is measured.
    Release,
}

impl Build {
    fn name(self) -> &'static str {
        match self {
            Self::Checked => "dev",
            Self::Release => "release",
        }
    }
}

/// Builds the wheel with the maturin of `tools` unless nothing it is made from has changed. Returns its path.
pub(crate) fn build(place: &Place, tools: &Venv, build: Build) -> Result<PathBuf> {
    let folder = place.x.join("wheels").join(build.name());
    let print = inputs(place)?;
    unless_fresh(
        &folder.join("inputs"),
        &print,
        &format!("Python wheel, {} build", build.name()),
        || {
            if folder.exists() {
                std::fs::remove_dir_all(&folder)?;
            }
            let mut maturin = tools
                .command("maturin")
                .arg("build")
                .arg("--out")
                .arg(&folder);
            // A wheel for this machine needs no manylinux audit.
            maturin = maturin
                .args(["--compatibility", "linux", "--interpreter"])
                .arg(tools.python());
            match build {
                Build::Release => maturin = maturin.arg("--release").arg("--strip"),
                Build::Checked => maturin = maturin.args(["--profile", "dev"]),
            }
            maturin.dir(&place.root).run()?;
            single_wheel(&folder).map(|_| ())
        },
    )?;
    single_wheel(&folder)
}

/// Builds the wheel and installs it into `into`, without its dependencies: those are pinned by the environment.
pub(crate) fn install(place: &Place, tools: &Venv, into: &Venv, how: Build) -> Result {
    let wheel = build(place, tools, how)?;
    let mut print = Fingerprint::new();
    print.add_content(&wheel);
    let title = format!("wheel into {}", into.name);
    unless_fresh(&into.dir.join("x-wheel"), &print, &title, || {
        into.pip(&["--no-deps", "--no-index", "--force-reinstall"])
            .arg(&wheel)
            .quietly("installing the wheel")
    })
}

/// Everything that the wheel is made from.
fn inputs(place: &Place) -> Result<Fingerprint> {
    let mut print = Fingerprint::new();
    print.add(Cmd::new("rustc").arg("-vV").output()?);
    for file in [
        "Cargo.toml",
        "Cargo.lock",
        "pyproject.toml",
        "README.md",
        ".cargo/config.toml",
        "rust-toolchain.toml",
    ] {
        print.add_content(&place.root.join(file));
    }
    for layer in ["runtime", "stores", "surface"] {
        print.add_tree(&place.root.join(layer))?;
    }
    Ok(print)
}

fn single_wheel(folder: &Path) -> Result<PathBuf> {
    let mut wheels = Vec::new();
    if folder.exists() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| kind == "whl") {
                wheels.push(path);
            }
        }
    }
    match (wheels.pop(), wheels.is_empty()) {
        (Some(wheel), true) => Ok(wheel),
        (None, _) => Err(Failure::new(format!("no wheel in {}", folder.display()))),
        (Some(_), false) => Err(Failure::new(format!(
            "more than one wheel in {}",
            folder.display()
        ))
        .hint("empty that folder")),
    }
}
