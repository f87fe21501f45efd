//! `staddle repair`: builds the index of a damaged set again from its chunks.

use staddle_base::size;

use super::snapshot::confirm;
use super::{Context, Outcome, locations};
use crate::Location;

/// Build the index of a damaged record set again from its chunks
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle verify photos.rec\n  staddle repair --yes photos.rec"
)]
pub(crate) struct Arguments {
    /// The record set
    #[arg(value_parser = locations())]
    uri: Location,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let uri = &arguments.uri;
    confirm(
        &format!("make a new index for {uri}? What was appended but not flushed may appear;"),
        arguments.yes,
    )?;
    let runtime = context.runtime()?;
    let device = uri.device(&runtime, context.storage())?;
    let report = staddle_record::repair(&runtime, device)?;
    if context.out.json() {
        context.out.document(&report)?;
    } else {
        context.out.line(format_args!(
            "{} frames of {} chunks give {} records, {} of them live",
            size::thousands(report.frames),
            report.chunks,
            size::thousands(report.records),
            size::thousands(report.live)
        ))?;
        for warning in &report.warnings {
            context.out.note(format_args!("warning: {warning}"));
        }
    }
    context.out.next(format_args!("staddle verify {uri}"));
    Ok(())
}
