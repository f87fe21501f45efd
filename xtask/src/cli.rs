//! The command line of `cargo x`: its help, and which file answers which word.

use crate::place::Place;
use crate::step::{Failure, Result};
use crate::{audit, bench, check, crash, demo, fmt, fuzz, services, test, tidy};

const HELP: &str = "\
cargo x: sets up, runs, tests and measures Staddle.
It needs Rust, Python 3.11 or newer and a C compiler, and writes only to target/x.

  cargo x demo                         run the main job on the sources of our own dependencies
  cargo x demo --input DIR             … on your files (arguments go to `staddle demo`)
  cargo x test                         every test, Rust and Python; the last line counts them
  cargo x test gather                  … only those whose name holds a word
  cargo x test --rust | --python       … only one side
  cargo x check                        format, lints, house rules, documentation
  cargo x fmt                          mend the format of Rust and Python
  cargo x tidy                         house rules only (seconds)

  cargo x bench record [--quick] [--json FILE]       ours, the peers, the physical limit
  cargo x fuzz [TARGET] --seconds N [--seed S]       mutated input into every parser
  cargo x crash record --points N [--kill] [--seed S]  a writer stopped at every device call
  cargo x services up | down           S3 on a local port, for tests run by hand
  cargo x audit                        known advisories against Cargo.lock

Environment: PYTHON names the interpreter; CARGO_TARGET_DIR moves target; CI=true turns missing services into failures.
Exit codes: 0 done, 1 failed, 2 usage.
";

pub(crate) fn dispatch(args: &[String]) -> Result {
    let Some((word, rest)) = args.split_first() else {
        print!("{HELP}");
        return Ok(());
    };
    let place = || Place::find();
    match word.as_str() {
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        "demo" => demo::demo(&place()?, rest),
        "test" => test::test(&place()?, rest),
        "check" => alone(word, rest).and_then(|()| check::check(&place()?)),
        "fmt" => alone(word, rest).and_then(|()| fmt::fmt(&place()?)),
        "tidy" => alone(word, rest).and_then(|()| tidy::tidy(&place()?)),
        "bench" => bench::bench(&place()?, rest),
        "fuzz" => fuzz::fuzz(&place()?, rest),
        "crash" => crash::crash(&place()?, rest),
        "services" => services::services(&place()?, rest),
        "audit" => alone(word, rest).and_then(|()| audit::audit(&place()?)),
        other => Err(Failure::usage(format!(
            "no command `{other}`{}",
            near(other)
        ))),
    }
}

/// Commands without arguments refuse them: a flag that does nothing misleads.
fn alone(word: &str, rest: &[String]) -> Result {
    match rest.first() {
        None => Ok(()),
        Some(extra) => Err(Failure::usage(format!(
            "`cargo x {word}` takes no arguments, and got `{extra}`"
        ))),
    }
}

/// `; did you mean …` for a word that shares its beginning with a command.
fn near(word: &str) -> String {
    let commands = [
        "demo", "test", "check", "fmt", "tidy", "bench", "fuzz", "crash", "services", "audit",
    ];
    let start: String = word.chars().take(2).collect();
    match commands.iter().find(|command| command.starts_with(&start)) {
        Some(command) => format!("; did you mean `{command}`?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
