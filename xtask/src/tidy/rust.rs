//! Rules about Rust files: a first line for newcomers, nothing unfinished, `unsafe` only where it may be and with its argument,
//! and data files opened in one place.

use std::path::Path;

use super::Source;
use super::lexer::{self, Line, words};
use crate::metadata::Graph;

/// Packages that may hold `unsafe`; every other one forbids it in its crate root.
const UNSAFE: &[&str] = &[
    "staddle-base",
    "staddle-codec",
    "staddle-runtime",
    "staddle-python",
    // A counting allocator, the only way to see what a parser allocates for a length it was told.
    "staddle-fuzz",
];

/// How far above a block its `SAFETY:` may stand when code comes between.
const SAFETY_LINES: usize = 3;

/// Unfinished work, written as calls.
const UNFINISHED: &[&str] = &["todo!", "unimplemented!"];

/// Ways to open or rename a file, which belong to the runtime's devices.
const OPENING: &[&str] = &[
    "File::open",
    "File::create",
    "File::create_new",
    "File::options",
    "OpenOptions::new",
    "fs::read(",
    "fs::read_to_string",
    "fs::write",
    "fs::rename",
    "fs::copy",
    "fs::hard_link",
    "fs::remove_file",
    "fs::remove_dir_all",
    "rustix::fs::open",
    "libc::open",
];

/// The seam itself.
const DEVICES: &str = "runtime/staddle-runtime/src/io/device";

/// Places outside the seam that touch files, each with its reason. Only what is not a data file of a store may be here.
const OPENING_ALLOWED: &[(&str, &str)] = &[
    (
        "runtime/staddle-base/src/settings",
        "settings are read before there is a runtime",
    ),
    (
        "runtime/staddle-runtime/src/kernel",
        "reads what the kernel says about itself",
    ),
    (
        "runtime/staddle-runtime/src/io/engine",
        "engines probe what the kernel offers",
    ),
    (
        "surface/staddle/src/import",
        "reads other people's files, not a store's",
    ),
    (
        "surface/staddle/src/export",
        "writes other people's files, not a store's",
    ),
    (
        "surface/staddle/src/cli",
        "the command line reads its own input and settings",
    ),
    (
        "surface/staddle/src/settings",
        "settings are read before there is a runtime",
    ),
];

pub(super) fn complaints(source: &Source, with_unsafe: &[String]) -> Vec<String> {
    let path = &source.path;
    let lines = lexer::rust(&source.text);
    let mut found = Vec::new();
    if !source.text.starts_with("//!") {
        found.push(format!(
            "{path}:1: begins without a `//!` line that a newcomer wants to read"
        ));
    }
    let may_be_unsafe = with_unsafe
        .iter()
        .any(|folder| path.starts_with(folder.as_str()));
    if is_crate_root(path)
        && !may_be_unsafe
        && !lines
            .iter()
            .any(|line| line.code.contains("#![forbid(unsafe_code)]"))
    {
        found.push(format!(
            "{path}:1: a crate without unsafe says so: #![forbid(unsafe_code)]"
        ));
    }
    for (at, line) in lines.iter().enumerate() {
        let number = at + 1;
        for call in UNFINISHED {
            if line.code.contains(call) {
                found.push(format!("{path}:{number}: `{call}` is unfinished work"));
            }
        }
        if line.code.contains("#[ignore") {
            found.push(format!("{path}:{number}: an ignored test tests nothing; select it by a nextest profile instead"));
        }
        if words(&line.code, "unsafe").next().is_some() {
            if !may_be_unsafe {
                found.push(format!(
                    "{path}:{number}: `unsafe` is for {} only",
                    UNSAFE.join(", ")
                ));
            } else if needs_argument(&line.code) && !has_argument(&lines, at) {
                found.push(format!("{path}:{number}: `unsafe` without a `SAFETY:` within {SAFETY_LINES} lines above"));
            }
        }
        if !is_test(path)
            && may_not_open(path)
            && let Some(call) = OPENING.iter().find(|call| line.code.contains(**call))
        {
            found.push(format!(
                "{path}:{number}: `{call}`: only {DEVICES} opens data files"
            ));
        }
    }
    found
}

/// Folders of the packages that may hold `unsafe`, with a `/` at the end.
pub(super) fn crates_with_unsafe(graph: &Graph) -> Vec<String> {
    let allowed = graph
        .members()
        .filter(|member| UNSAFE.contains(&member.name.as_str()));
    allowed
        .map(|member| format!("{}/", graph.place_of(member)))
        .collect()
}

fn is_crate_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")
}

/// Test code: it plays the outside world, so it may do to files what the outside world does.
fn is_test(path: &str) -> bool {
    let path = Path::new(path);
    let first = path.components().next().map(|part| part.as_os_str());
    first.is_some_and(|part| part == "testing" || part == "xtask" || part == "examples")
        || path
            .components()
            .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

fn may_not_open(path: &str) -> bool {
    !path.starts_with(DEVICES)
        && !OPENING_ALLOWED
            .iter()
            .any(|(allowed, _)| path.starts_with(allowed))
}

/// Blocks and impls are claims that something holds; a function or a function type only passes the duty on.
fn needs_argument(code: &str) -> bool {
    words(code, "unsafe").any(|at| {
        let after = code[at + "unsafe".len()..].trim_start();
        let passes_on =
            after.starts_with("fn") || (after.starts_with("extern") && after.contains("fn"));
        !passes_on
    })
}

/// A `SAFETY:` on the line, within three lines above, or in the comment block that stands directly above.
fn has_argument(lines: &[Line], at: usize) -> bool {
    let says = |line: &Line| line.comment.contains("SAFETY:") || line.comment.contains("# Safety");
    let near = at.saturating_sub(SAFETY_LINES)..=at;
    if lines.get(near).is_some_and(|near| near.iter().any(says)) {
        return true;
    }
    let above = lines.get(..at).unwrap_or_default().iter().rev();
    above
        .take_while(|line| line.code.trim().is_empty() && !line.comment.is_empty())
        .any(says)
}

#[cfg(test)]
mod tests;
