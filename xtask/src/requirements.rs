//! `requirements-dev.txt` pins every Python tool by hash. A command that needs only some of them installs that part.

use crate::step::{Failure, Result};

/// The entries for `names` out of a hashed requirements file. Every name must be there: a dropped pin must not pass silently.
pub(crate) fn subset(text: &str, names: &[&str]) -> Result<String> {
    let entries = entries(text);
    let mut chosen = String::new();
    for name in names {
        let Some((_, entry)) = entries.iter().find(|(entry, _)| entry == name) else {
            return Err(Failure::new(format!("requirements-dev.txt does not pin `{name}`"))
                .hint("add it to requirements-dev.in and compile that file again (CONTRIBUTING.md says how)"));
        };
        chosen.push_str(entry);
    }
    Ok(chosen)
}

/// Splits the file into (name, text): an entry starts in the first column, its hashes are indented below it.
fn entries(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with('#') || line.trim().is_empty() {
            continue;
        }
        if line.starts_with(char::is_whitespace) {
            if let Some((_, entry)) = found.last_mut() {
                entry.push_str(line);
                entry.push('\n');
            }
        } else {
            let name = line.split("==").next().unwrap_or(line).trim().to_owned();
            found.push((name, format!("{line}\n")));
        }
    }
    found
}

#[cfg(test)]
mod tests;
