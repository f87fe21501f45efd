//! The native `staddle` program: the same code as the one in the Python package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let _interrupt = staddle_runtime::interrupt::exit_on_interrupt(130);
    let code = staddle::cli::run(std::env::args_os());
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
