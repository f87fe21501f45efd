//! Rules about every text file: not too long, nothing left to do, no path of somebody's machine.

use super::Source;

/// Longest source file. Most should be below half of this.
const LINES_MAX: usize = 900;

/// File kinds that are code.
const CODE: &[&str] = &[".rs", ".py", ".pyi", ".c", ".h", ".sh"];

/// Words that mark work left to do. They are put together here so that this file passes its own rule.
const LEFT_OVER: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("HA", "CK:"),
];

/// Folders that exist on one machine only: people's homes, and the root of a build machine's checkouts.
const MACHINE: &[&str] = &["/home/", "/Users/", "/root/", "/work/"];

/// Files whose subject these words and paths are.
const ABOUT_IT: &[&str] = &["xtask/src/tidy/", "STYLE.md", "CONTRIBUTING.md"];

/// Made by tools.
const MADE: &[&str] = &["Cargo.lock", "requirements-dev.txt"];

pub(super) fn complaints(source: &Source) -> Vec<String> {
    let path = &source.path;
    if MADE.contains(&path.as_str()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let is_code = CODE.iter().any(|kind| path.ends_with(kind));
    let length = source.text.lines().count();
    if is_code && length > LINES_MAX {
        found.push(format!(
            "{path}:{length}: longer than {LINES_MAX} lines; one concept per file"
        ));
    }
    if ABOUT_IT.iter().any(|about| path.starts_with(about)) {
        return found;
    }
    for (at, line) in source.text.lines().enumerate() {
        let number = at + 1;
        if is_code && let Some(word) = LEFT_OVER.iter().find(|word| line.contains(**word)) {
            found.push(format!(
                "{path}:{number}: `{word}`: do it, or open an issue"
            ));
        }
        if let Some(folder) = MACHINE.iter().find(|folder| names_folder(line, folder)) {
            found.push(format!(
                "{path}:{number}: `{folder}` is a path of one machine"
            ));
        }
        if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
            found.push(format!("{path}:{number}: a merge conflict was committed"));
        }
    }
    found
}

/// Whether the line names something below the folder, as an absolute path and not as the middle of another one.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + folder.len()..].chars().next();
        !before.is_some_and(|char| char.is_alphanumeric() || "._-~}$)".contains(char))
            && after.is_some_and(|char| char.is_alphanumeric() || "._-".contains(char))
    })
}

#[cfg(test)]
mod tests;
