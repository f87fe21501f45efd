//! `cargo x fuzz [TARGET] --seconds N [--seed S]`: runs the seeded mutator over one target or all.
//!
//! Each target runs in a process of its own, so that a signal or an exhausted stack ends that process and becomes a
//! report here.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Parser;
use staddle_base::{Clock, Seed, SystemClock};
use staddle_fuzz::fuzzer::Fuzzer;
use staddle_fuzz::guard::{self, Keep};
use staddle_fuzz::{TARGETS, Target};

/// Throws damaged bytes at every parser.
#[derive(Debug, Parser)]
#[command(name = "staddle-fuzz")]
struct Args {
    /// The target; all when left out.
    target: Option<String>,
    /// How long to run each target.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Replays a run.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs this file instead of mutations.
    #[arg(long)]
    input: Option<PathBuf>,
    /// Writes a target's seeds into a folder, for other fuzzers.
    #[arg(long)]
    write_seeds: Option<PathBuf>,
    /// Names the targets.
    #[arg(long)]
    list: bool,
    /// The process that does the work; made by the one that was called.
    #[arg(long, hide = true)]
    worker: bool,
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]
fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        TARGETS
            .iter()
            .for_each(|target| println!("{}", target.name));
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<&'static Target> = TARGETS
        .iter()
        .filter(|target| args.target.as_ref().is_none_or(|name| name == target.name))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!(
            "no target `{}`; there are: {}",
            args.target.unwrap_or_default(),
            names.join(", ")
        );
        return ExitCode::from(2);
    }
    if let Some(folder) = &args.write_seeds {
        return done(chosen.iter().all(|target| write_seeds(target, folder)));
    }
    let seed = args.seed.unwrap_or_else(|| SystemClock::new().wall_ns());
    if args.worker {
        return done(chosen.iter().all(|target| work(target, &args, Seed(seed))));
    }
    if let Some(path) = &args.input {
        let Some(target) = chosen.first().filter(|_| args.target.is_some()) else {
            return ExitCode::from(2);
        };
        return done(spawn(target, &["--input".as_ref(), path.as_os_str()]));
    }
    let (seconds, seed) = (args.seconds.to_string(), seed.to_string());
    let failed: Vec<&str> = chosen
        .iter()
        .filter(|target| {
            !spawn(
                target,
                &[
                    "--seconds".as_ref(),
                    seconds.as_ref(),
                    "--seed".as_ref(),
                    seed.as_ref(),
                ],
            )
        })
        .map(|target| target.name)
        .collect();
    println!(
        "{} targets, {} failed{}",
        chosen.len(),
        failed.len(),
        if failed.is_empty() { "" } else { ":" }
    );
    failed.iter().for_each(|name| println!("  {name}"));
    done(failed.is_empty())
}

fn done(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Where a worker keeps its input.
fn keep_path(target: &Target) -> PathBuf {
    guard::failures().join(format!(".{}.current", target.name))
}

/// Runs a worker and turns its death into a report.
#[expect(clippy::print_stderr, reason = "a command-line tool")]
fn spawn(target: &Target, args: &[&std::ffi::OsStr]) -> bool {
    let _ = std::fs::create_dir_all(guard::failures());
    let result = std::env::current_exe().and_then(|me| {
        Command::new(me)
            .arg(target.name)
            .arg("--worker")
            .args(args)
            .status()
    });
    match result {
        Ok(status) if status.success() => true,
        // The worker has said what happened.
        Ok(status) if status.code() == Some(1) => false,
        Ok(status) => {
            let input = Keep::read(&keep_path(target)).unwrap_or_default();
            guard::report(
                target.name,
                &input,
                &format!("the process ended with {status}"),
            );
            false
        }
        Err(error) => {
            eprintln!("{}: the worker could not be started: {error}", target.name);
            false
        }
    }
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]
fn work(target: &'static Target, args: &Args, seed: Seed) -> bool {
    guard::watch();
    let keep = Keep::new(&keep_path(target)).ok();
    if let Some(path) = &args.input {
        let input = match std::fs::read(path) {
            Ok(input) => input,
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                return false;
            }
        };
        if let Some(keep) = keep {
            let _ = keep.put(&input);
        }
        return match guard::run(target, &input) {
            Ok(signal) => {
                println!("{}: {signal:?}", target.name);
                true
            }
            Err(what) => {
                eprintln!("{}: {what}", target.name);
                false
            }
        };
    }
    let clock = SystemClock::new();
    let mut fuzzer = Fuzzer::new(target, seed, keep);
    while clock.steady_ns() < args.seconds.saturating_mul(1_000_000_000) {
        if let Err(failure) = fuzzer.step() {
            guard::report(target.name, &failure.input, &failure.what);
            eprintln!(
                "  found by: cargo x fuzz {} --seed {} after {} runs",
                target.name,
                seed.0,
                fuzzer.runs()
            );
            return false;
        }
    }
    let per_second = fuzzer.runs() * 1_000_000_000 / clock.steady_ns().max(1);
    println!(
        "{:<12} {:>10} runs, {per_second:>8} a second, {:>4} different answers, seed {}",
        target.name,
        fuzzer.runs(),
        fuzzer.answers(),
        seed.0
    );
    true
}

#[expect(clippy::print_stderr, reason = "a command-line tool")]
fn write_seeds(target: &Target, folder: &std::path::Path) -> bool {
    let folder = folder.join(target.name);
    let written = std::fs::create_dir_all(&folder).and_then(|()| {
        (target.seeds)()
            .iter()
            .enumerate()
            .try_for_each(|(i, seed)| std::fs::write(folder.join(format!("seed-{i}")), seed))
    });
    written
        .inspect_err(|error| eprintln!("{}: {error}", folder.display()))
        .is_ok()
}
