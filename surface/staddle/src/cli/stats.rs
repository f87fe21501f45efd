//! `staddle stats`: how full a store is, chunk by chunk.

use staddle_base::Error;

use super::{Context, Outcome, locations, render};
use crate::Location;

/// Show how full a store is, chunk by chunk
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:\n  staddle stats photos.rec\n  staddle stats --json photos.rec")]
pub(crate) struct Arguments {
    /// The store
    #[arg(value_parser = locations())]
    uri: Location,
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let records = context.records(&arguments.uri)?;
    let stats = serde_json::to_value(records.stats()?)
        .map_err(|e| Error::internal("stats cannot be written as JSON").source(e))?;
    if context.out.json() {
        context.out.document(&stats)?;
    } else {
        context.out.line(render::fields(&stats))?;
    }
    context
        .out
        .next(format!("staddle compact --dry-run {}", arguments.uri));
    Ok(())
}
