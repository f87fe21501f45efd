//! `cargo x tidy`: house rules that a machine can hold, so that reviews speak about ideas.
//!
//! Each rule is a function from what it looks at to a list of complaints, and has a test that feeds it bad input.

mod layers;
mod lexer;
mod packages;
mod python;
mod rust;
mod text;

use std::path::Path;

use crate::cmd::Cmd;
use crate::metadata::Graph;
use crate::place::Place;
use crate::step::{Failure, Result};

/// One file as the rules see it.
pub(crate) struct Source {
    /// Relative to the checkout, with `/` between parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn tidy(place: &Place) -> Result {
    let graph = Graph::load(place)?;
    let sources = sources(place)?;
    let mut complaints = layers::complaints(&graph);
    complaints.extend(packages::complaints(&graph));
    let allowed = rust::crates_with_unsafe(&graph);
    for source in &sources {
        complaints.extend(text::complaints(source));
        match Path::new(&source.path)
            .extension()
            .and_then(|kind| kind.to_str())
        {
            Some("rs") => complaints.extend(rust::complaints(source, &allowed)),
            Some("py" | "pyi") => complaints.extend(python::complaints(source)),
            _ => {}
        }
    }
    if complaints.is_empty() {
        eprintln!(
            "   {} files and {} packages are tidy",
            sources.len(),
            graph.packages.len()
        );
        return Ok(());
    }
    complaints.sort();
    for complaint in &complaints {
        eprintln!("   {complaint}");
    }
    Err(
        Failure::new(format!("tidy: {} complaints", complaints.len()))
            .hint("each line says which rule; STYLE.md says why"),
    )
}

/// Every text file that is, or would be, committed. Files that are not text (golden files) are left out.
fn sources(place: &Place) -> Result<Vec<Source>> {
    let listed = Cmd::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .dir(&place.root)
        .output();
    let mut paths: Vec<String> = match listed {
        Ok(list) => list
            .split('\0')
            .filter(|path| !path.is_empty())
            .map(str::to_owned)
            .collect(),
        // Not a git checkout: everything but build products.
        Err(_) => crate::stamp::files_below(&place.root)?
            .iter()
            .map(|path| place.show(path).to_string())
            .collect(),
    };
    paths.sort();
    paths.dedup();
    let mut sources = Vec::new();
    for path in paths {
        // A file that git still lists may have been deleted, and a golden file is no text.
        if let Ok(bytes) = std::fs::read(place.root.join(&path))
            && let Ok(text) = String::from_utf8(bytes)
        {
            sources.push(Source { path, text });
        }
    }
    Ok(sources)
}
