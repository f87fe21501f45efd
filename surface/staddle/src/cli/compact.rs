//! `staddle compact`: rewrites the chunks of which little is live.

use staddle_runtime::interrupt;

use super::rebalance::say;
use super::{Context, Outcome, locations};
use crate::Location;

/// Rewrite chunks of which little is live; indices do not change
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle compact --dry-run photos.rec\n  staddle compact photos.rec"
)]
pub(crate) struct Arguments {
    /// The record set
    #[arg(value_parser = locations())]
    uri: Location,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let records = if arguments.dry_run {
        context.records(&arguments.uri)?
    } else {
        context.open_to_change(&arguments.uri)?
    };
    let interrupt = interrupt::ask_on_interrupt(130);
    let report = records.compact_while(arguments.dry_run, || !interrupt.requested())?;
    drop(interrupt);
    records.close()?;
    say(context, &report)?;
    if arguments.dry_run && report.chunks > 0 {
        context
            .out
            .next(format_args!("staddle compact {}", arguments.uri));
    }
    Ok(())
}
