//! `cargo x bench NAME`: measures ours, the peers and the physical limit, interleaved in one run.

use crate::peers;
use crate::place::Place;
use crate::step::{Failure, Result, step};

pub(crate) fn bench(place: &Place, args: &[String]) -> Result {
    let known = names(place)?;
    let Some((name, rest)) = args.split_first() else {
        return Err(Failure::usage(format!(
            "name a benchmark: {}",
            known.join(", ")
        )));
    };
    if !known.contains(name) {
        return Err(Failure::usage(format!(
            "no benchmark `{name}`; there are: {}",
            known.join(", ")
        )));
    }
    let runner = format!("testing/bench-peers/{name}/run.py");
    let runner = place.need(&runner, "it measures")?;
    let venv = peers::environment(place)?;
    let code = step(&format!("bench {name}"), || {
        venv.command("python")
            .arg(&runner)
            .args(absolute(rest)?)
            .env("STADDLE_BENCH_SCRATCH", place.x.join("bench"))
            .dir(&place.root)
            .code()
    })?;
    match code {
        0 => Ok(()),
        2 => Err(Failure::usage(
            "the benchmark did not understand its arguments",
        )),
        _ => Err(Failure::new(format!(
            "bench {name}: something broke (exit code {code}); a missed target alone is no failure"
        ))),
    }
}

/// Every folder of `testing/bench-peers` with a runner.
fn names(place: &Place) -> Result<Vec<String>> {
    let folder = place.root.join("testing/bench-peers");
    let mut names = Vec::new();
    for entry in if folder.exists() {
        std::fs::read_dir(folder)?.collect()
    } else {
        Vec::new()
    } {
        let entry = entry?;
        if entry.path().join("run.py").exists() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The runner starts in the checkout, so the file after `--json` is resolved against the caller's folder first.
fn absolute(args: &[String]) -> Result<Vec<String>> {
    let here = std::env::current_dir()?;
    let mut after_json = false;
    let mut made = Vec::new();
    for arg in args {
        match arg.strip_prefix("--json=") {
            Some(file) => made.push(format!("--json={}", here.join(file).display())),
            None if after_json => made.push(here.join(arg).display().to_string()),
            None => made.push(arg.clone()),
        }
        after_json = arg == "--json";
    }
    Ok(made)
}

#[cfg(test)]
mod tests;
