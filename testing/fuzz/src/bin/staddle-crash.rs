//! `cargo x crash STORE --points N`: cuts the power of a simulated disk at every call and checks what is left.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use staddle_base::{Clock, SystemClock};
use staddle_fuzz::crash::driver::{self, Plan, Report};
use staddle_fuzz::crash::record::RecordStore;
use staddle_fuzz::crash::store::Store;

/// Cuts the power of a simulated disk at every call of a random program, and checks that reopening finds one commit not
/// older than the last acknowledged one.
#[derive(Debug, Parser)]
#[command(name = "staddle-crash")]
struct Args {
    /// The store.
    store: Choice,
    /// Crash points to look at, four images each.
    #[arg(long, default_value_t = 1000)]
    points: u64,
    /// The first program; replays a run.
    #[arg(long)]
    seed: Option<u64>,
    /// Looks at this crash point of one program only, and at every image of it closely.
    #[arg(long, requires = "seed")]
    point: Option<u64>,
    /// Writes the files of images that break a promise into this folder.
    #[arg(long)]
    save: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Choice {
    /// The record store.
    Record,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let Choice::Record = args.store;
    run::<RecordStore>(&args)
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]
fn run<S: Store>(args: &Args) -> ExitCode {
    let clock = SystemClock::new();
    let seed = args.seed.unwrap_or_else(|| clock.wall_ns() % 1_000_000_000);
    let plan = Plan {
        seed,
        points: args.points,
        only: args.point,
        save: args.save.clone(),
    };
    let mut told = 0;
    let report = driver::run::<S>(&plan, &mut |report| {
        let tenth = report.points * 10 / args.points.max(1);
        if tenth > told {
            told = tenth;
            eprintln!(
                "  {} of {} points, {} images",
                report.points, args.points, report.images
            );
        }
    });
    let seconds = clock.steady_ns() as f64 / 1e9;
    println!(
        "{}: {} programs from seed {seed}, {} crash points, {} images, {} of them written to after recovery; {seconds:.1} s",
        S::NAME,
        report.programs,
        report.points,
        report.images,
        report.recoveries
    );
    for (what, count) in &report.reached {
        println!("  {count:>8}  {what}");
    }
    let complete = complete::<S>(&report, args.points, args.point.is_some());
    for violation in &report.violations {
        let point = violation
            .point
            .map(|point| format!(" --point {point}"))
            .unwrap_or_default();
        println!(
            "VIOLATION {}\n  replay: cargo x crash {} --seed {}{point}",
            violation.what,
            S::NAME,
            violation.seed
        );
    }
    println!("{} violations", report.violations.len());
    if complete && report.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A long run must have reached everything there is to reach.
#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn complete<S: Store>(report: &Report, points: u64, single: bool) -> bool {
    let missing = report.missing::<S>();
    if single || missing.is_empty() || points < 1000 {
        return true;
    }
    missing
        .iter()
        .for_each(|what| println!("NEVER REACHED  {what}"));
    false
}
