//! Counting tests: reads the closing lines of each runner, adds them up, and prints the line that ends `cargo x test`.

use crate::cmd::Listened;

/// Tests that did not run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) count: u64,
    pub(crate) reason: String,
}

/// What one runner, or all of them together, did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skips: Vec<Skip>,
    /// One line per failure, so that the end of the log names them all.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// A step without a count of its own, such as a type check: one test.
    pub(crate) fn of_step(name: &str, done: &crate::step::Result) -> Self {
        match done {
            Ok(()) => Self {
                passed: 1,
                ..Self::default()
            },
            Err(failure) => Self {
                failed: 1,
                failures: vec![format!(
                    "{name}: {}",
                    failure.what.lines().next().unwrap_or("failed")
                )],
                ..Self::default()
            },
        }
    }

    pub(crate) fn skip(&mut self, count: u64, reason: impl Into<String>) {
        if count > 0 {
            self.skips.push(Skip {
                count,
                reason: reason.into(),
            });
        }
    }

    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        self.failed += 1;
        self.failures.push(what.into());
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skips.extend(other.skips);
        self.failures.extend(other.failures);
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.skips.iter().map(|skip| skip.count).sum()
    }

    /// A runner that ended badly without counting a failure (a compile error, a crash) must not pass as success.
    pub(crate) fn honest(mut self, name: &str, heard: &Listened, codes_of_success: &[i32]) -> Self {
        let well = heard.success
            || heard
                .code
                .is_some_and(|code| codes_of_success.contains(&code));
        if !well && self.failed == 0 {
            let code = heard
                .code
                .map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
            self.fail(format!("{name}: `{}` ended with {code}", heard.shown));
        }
        self
    }

    /// The end of `cargo x test`: failures and skips by name, then the counts alone on the very last line.
    pub(crate) fn closing(&self) -> String {
        let mut text = String::new();
        for failure in &self.failures {
            text.push_str(&format!("failed: {failure}\n"));
        }
        for skip in &self.skips {
            text.push_str(&format!("skipped {}: {}\n", skip.count, skip.reason));
        }
        text.push_str(&format!(
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed,
            self.skipped()
        ));
        text
    }
}

/// `Summary [ 3.2s] 12 tests run: 11 passed (1 slow), 1 failed, 2 skipped`, and one `FAIL [ 0.1s] crate test` per failure.
pub(crate) fn nextest(text: &str) -> Tally {
    let mut tally = Tally::default();
    let mut not_run = 0;
    for line in text.lines() {
        let line = line.trim();
        if let Some((_, counts)) = line
            .split_once("tests run: ")
            .or_else(|| line.split_once("test run: "))
            && line.starts_with("Summary")
        {
            tally.passed += count(counts, "passed");
            tally.failed +=
                count(counts, "failed") + count(counts, "timed out") + count(counts, "exec failed");
            not_run += count(counts, "skipped");
        }
        let failed = ["FAIL", "TIMEOUT", "SIGABRT", "SIGSEGV", "SIGBUS", "SIGKILL"]
            .iter()
            .any(|word| {
                line.strip_prefix(word)
                    .is_some_and(|rest| rest.trim_start().starts_with('['))
            });
        if failed {
            let name = line.rsplit(']').next().unwrap_or(line).trim().to_owned();
            if !tally.failures.contains(&name) {
                tally.failures.push(name);
            }
        }
    }
    tally.skip(
        not_run,
        "Rust tests that the filter or the nextest profile leaves out",
    );
    tally
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out`, and `test NAME ... FAILED`.
pub(crate) fn libtest(text: &str) -> Tally {
    let mut tally = Tally::default();
    let (mut ignored, mut filtered) = (0, 0);
    for line in text.lines() {
        if let Some(counts) = line.strip_prefix("test result: ") {
            tally.passed += count(counts, "passed");
            tally.failed += count(counts, "failed");
            ignored += count(counts, "ignored");
            filtered += count(counts, "filtered out");
        } else if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            tally.failures.push(name.to_owned());
        }
    }
    tally.skip(ignored, "Rust tests or examples marked `ignore`");
    tally.skip(filtered, "Rust tests that the filter leaves out");
    tally
}

/// `==== 5 passed, 1 skipped, 2 deselected in 0.3s ====`, `SKIPPED [1] file:line: reason`, `FAILED file::test - why`.
pub(crate) fn pytest(text: &str) -> Tally {
    let mut tally = Tally::default();
    for line in text.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("SKIPPED [") {
            if let Some((number, reason)) = rest.split_once("] ") {
                tally.skip(number.parse().unwrap_or(1), reason);
            }
        } else if let Some(name) = line
            .strip_prefix("FAILED ")
            .or_else(|| line.strip_prefix("ERROR "))
        {
            if name.contains("::") || name.contains(".py") {
                tally.failures.push(name.to_owned());
            }
        } else if line.starts_with('=') && line.ends_with('=') && line.contains(" in ") {
            let counts = line.trim_matches('=').trim();
            tally.passed += count(counts, "passed") + count(counts, "xfailed");
            tally.failed +=
                count(counts, "failed") + count(counts, "error") + count(counts, "errors");
        }
    }
    tally
}

/// The number before a word: `count("2 failed, 11 passed", "passed")` is 11.
fn count(text: &str, word: &str) -> u64 {
    let words: Vec<&str> = text
        .split(|char: char| char.is_whitespace() || ",;()".contains(char))
        .collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let wanted: Vec<&str> = word.split(' ').collect();
    words
        .windows(wanted.len() + 1)
        .filter(|window| window.get(1..) == Some(&wanted[..]))
        .filter_map(|window| window.first().and_then(|number| number.parse::<u64>().ok()))
        .sum()
}

#[cfg(test)]
mod tests;
