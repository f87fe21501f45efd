//! `staddle rebalance`: all live records in index order, dead bytes gone.

use staddle_base::{Error, size};
use staddle_record::CompactReport;
use staddle_runtime::interrupt;

use super::{Context, Outcome, locations};
use crate::Location;

/// Rewrite all live records in index order; indices do not change
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle rebalance --dry-run photos.rec\n  staddle rebalance photos.rec"
)]
pub(crate) struct Arguments {
    /// The record set
    #[arg(value_parser = locations())]
    uri: Location,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Also move adopted records into the set's own files
    #[arg(long)]
    copy_external: bool,
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let records = if arguments.dry_run {
        context.records(&arguments.uri)?
    } else {
        context.open_to_change(&arguments.uri)?
    };
    let interrupt = interrupt::ask_on_interrupt(130);
    let report = records.rebalance_while(arguments.dry_run, arguments.copy_external, || {
        !interrupt.requested()
    })?;
    drop(interrupt);
    records.close()?;
    say(context, &report)?;
    if arguments.dry_run {
        context
            .out
            .next(format_args!("staddle rebalance {}", arguments.uri));
    } else {
        context
            .out
            .next(format_args!("staddle verify {}", arguments.uri));
    }
    Ok(())
}

/// Prints what a rewrite did or would do.
pub(super) fn say(context: &mut Context, report: &CompactReport) -> Outcome {
    if context.out.json() {
        let mut document = serde_json::to_value(report)
            .map_err(|e| Error::internal("the report cannot be written as JSON").source(e))?;
        if let Some(map) = document.as_object_mut() {
            map.insert("reclaimed".into(), report.reclaimed().into());
        }
        return context.out.document(&document);
    }
    let (rewrite, reclaim) = if report.dry_run {
        ("would rewrite", "reclaim")
    } else {
        ("rewrote", "reclaimed")
    };
    context.out.line(format_args!(
        "{rewrite} {} of {} chunks, {reclaim} {}",
        report.chunks,
        report.chunks_total,
        size::human(report.reclaimed())
    ))
}
