//! `cargo x demo`: sets everything up and runs `staddle demo` from a release wheel.
//!
//! Without `--input` it reads the sources of the packages that Staddle itself was just built from: thousands of real files
//! that are on every machine that got this far.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::metadata::Graph;
use crate::place::Place;
use crate::python::{Needs, RUN, Venv};
use crate::stamp::Fingerprint;
use crate::step::{Failure, Result, step};
use crate::wheel::{self, Build};

pub(crate) fn demo(place: &Place, args: &[String]) -> Result {
    let venv = Venv::ready(place, "venv-demo", &Needs::Only(RUN))?;
    wheel::install(place, &venv, &venv, Build::Release)?;
    let mut command = venv.command("staddle").arg("demo").args(args);
    if !names_input(args) {
        for folder in dependencies(place)? {
            command = command.arg("--input").arg(folder);
        }
    }
    step("staddle demo", || command.run())
}

/// Whether the caller chose what to read, or only wants help.
fn names_input(args: &[String]) -> bool {
    args.iter().any(|arg| {
        arg == "--input" || arg.starts_with("--input=") || arg == "--help" || arg == "-h"
    })
}

/// One link per dependency, named like the package, in a folder of ours: nothing that other projects brought to this machine,
/// the same paths on every machine, and not a byte copied.
fn dependencies(place: &Place) -> Result<Vec<PathBuf>> {
    let graph = Graph::load_for_host(place)?;
    let mut sources: Vec<(String, &Path)> = graph
        .packages
        .iter()
        .filter(|package| package.source.is_some())
        .map(|package| {
            (
                format!("{}-{}", package.name, package.version),
                package.folder.as_path(),
            )
        })
        .collect();
    sources.sort();
    if sources.is_empty() {
        return Err(Failure::new("no dependency sources on this machine")
            .hint("pass a folder: cargo x demo --input DIR"));
    }
    let mut print = Fingerprint::new();
    for (name, folder) in &sources {
        print.add(name).add(folder.as_os_str().as_encoded_bytes());
    }
    let home = place.x.join("demo").join(print.hex());
    let folder = home.join("dependencies");
    if !folder.exists() {
        let making = home.join("making");
        if making.exists() {
            std::fs::remove_dir_all(&making)?;
        }
        std::fs::create_dir_all(&making)?;
        for (name, source) in &sources {
            symlink(source, making.join(name))?;
        }
        std::fs::rename(&making, &folder)?;
    }
    Ok(sources.iter().map(|(name, _)| folder.join(name)).collect())
}

#[cfg(test)]
mod tests;
