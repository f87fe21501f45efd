//! Rules about Python files: a docstring first, and in the package nothing that turns bytes into code.

use super::Source;
use super::lexer::{self, words};

/// Modules that run code while they read data.
const MODULES: &[&str] = &[
    "pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "shelve",
    "marshal",
    "joblib",
];

/// Calls that run data as code.
const CALLS: &[&str] = &["eval(", "exec(", "torch.load(", "__import__("];

pub(super) fn complaints(source: &Source) -> Vec<String> {
    let path = &source.path;
    let mut found = Vec::new();
    let first = source
        .text
        .lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with("#!"))
        .unwrap_or_default();
    let begins = ["\"\"\"", "r\"\"\""]
        .iter()
        .any(|mark| first.starts_with(mark))
        || (path.ends_with(".pyi") && first.starts_with('#'));
    if !begins && !source.text.trim().is_empty() {
        found.push(format!(
            "{path}:1: begins without a docstring that a newcomer wants to read"
        ));
    }
    let in_package = path.starts_with("surface/staddle-python/python/");
    for (at, line) in lexer::python(&source.text).iter().enumerate() {
        let number = at + 1;
        if !in_package {
            continue;
        }
        let statement = line.code.trim_start();
        if statement.starts_with("import ") || statement.starts_with("from ") {
            for module in MODULES
                .iter()
                .filter(|module| words(&line.code, module).next().is_some())
            {
                found.push(format!(
                    "{path}:{number}: `{module}` runs code while it reads; the package never does"
                ));
            }
        }
        for call in CALLS {
            let word = call.trim_end_matches('(');
            let called =
                words(&line.code, word).any(|at| line.code[at + word.len()..].starts_with('('));
            // A method of that name (`model.eval()`) is something else.
            let method = line.code.contains(&format!(".{call}")) && !word.contains('.');
            if called && !method {
                found.push(format!(
                    "{path}:{number}: `{word}` turns data into code; the package never does"
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
