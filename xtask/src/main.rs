//! `cargo x`: the one entry point for people and CI. Each command is one file; this one is the table of contents.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a build tool reads the real clock, starts real threads, opens real files and talks to a person"
)]

mod audit;
mod bench;
mod check;
mod cli;
mod cmd;
mod crash;
mod demo;
mod fmt;
mod fuzz;
mod metadata;
mod peers;
mod place;
mod python;
mod requirements;
mod services;
mod stamp;
mod step;
mod tally;
mod test;
mod tidy;
mod torch;
mod transcripts;
mod wheel;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match cli::dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\ncargo x: {failure}");
            ExitCode::from(failure.code)
        }
    }
}
