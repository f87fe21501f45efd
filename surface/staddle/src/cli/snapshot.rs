//! `staddle snapshot`: named states of a set that readers can come back to.

use std::io::{IsTerminal, Write};

use serde_json::{Value, json};
use staddle_base::Error;

use super::{Context, Failure, Outcome, locations, render};
use crate::Location;

/// List, add or remove named states of a record set
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle snapshot add photos.rec run7\n  staddle snapshot ls photos.rec"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List the snapshots
    Ls {
        /// The record set
        #[arg(value_parser = locations())]
        uri: Location,
    },
    /// Name the newest state; costs nothing and copies nothing
    Add {
        /// The record set
        #[arg(value_parser = locations())]
        uri: Location,
        /// Its name
        name: String,
    },
    /// Remove a name; what only it kept is freed
    Rm {
        /// The record set
        #[arg(value_parser = locations())]
        uri: Location,
        /// Its name
        name: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    match &arguments.verb {
        Verb::Ls { uri } => list(context, uri),
        Verb::Add { uri, name } => {
            let records = context.open_to_change(uri)?;
            records.snapshot(name)?;
            records.close()?;
            if context.out.json() {
                context.out.document(&json!({"snapshot": name}))?;
            } else {
                context.out.note(format_args!("snapshot `{name}` added"));
            }
            context.out.next(format_args!("staddle snapshot ls {uri}"));
            Ok(())
        }
        Verb::Rm { uri, name, yes } => {
            confirm(&format!("remove snapshot `{name}` of {uri}?"), *yes)?;
            let records = context.open_to_change(uri)?;
            records.drop_snapshot(name)?;
            records.close()?;
            if context.out.json() {
                context.out.document(&json!({"removed": name}))?;
            } else {
                context.out.note(format_args!("snapshot `{name}` removed"));
            }
            Ok(())
        }
    }
}

fn list(context: &mut Context, uri: &Location) -> Outcome {
    let snapshots = context.records(uri)?.snapshots()?;
    let rows = Value::Array(snapshots.iter().map(crate::describe::snapshot).collect());
    if context.out.json() {
        return context.out.document(&rows);
    }
    match &rows {
        Value::Array(rows) if !rows.is_empty() => context.out.line(render::table(rows).trim_end()),
        _ => {
            context.out.note("no snapshots");
            Ok(())
        }
    }
}

/// Asks before something is destroyed; without a terminal only `--yes` will do.
#[expect(
    clippy::print_stderr,
    reason = "a question is for the person at the terminal"
)]
pub(super) fn confirm(question: &str, yes: bool) -> Outcome {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::Usage(format!(
            "{question} say --yes, since nobody can be asked here"
        )));
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Error::cancelled("nothing was changed").into())
}
