//! Steps: each prints its name when it starts and its time when it ends. Also the one error type of `cargo x`.

use std::fmt;
use std::time::{Duration, Instant};

/// What went wrong, what to do about it, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
    pub(crate) code: u8,
}

pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hint: None,
            code: 1,
        }
    }

    /// A mistake in the command line: exit code 2.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hint: Some("see `cargo x --help`".into()),
            code: 2,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(out, "\n  to fix it: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// Runs one step between its title and its time. Everything goes to stderr: stdout belongs to the command itself.
pub(crate) fn step<T>(title: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("── {title}");
    let start = Instant::now();
    let done = work();
    let word = if done.is_ok() { "done" } else { "FAILED" };
    eprintln!("   {word}: {title} ({})", seconds(start.elapsed()));
    done
}

/// One line for a step whose work was done before.
pub(crate) fn fresh(title: &str) {
    eprintln!("── {title}: up to date");
}

/// A duration as people say it: `0.4 s`, `12.3 s`, `4 min 08 s`.
pub(crate) fn seconds(time: Duration) -> String {
    let whole = time.as_secs();
    if whole < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests;
