//! `staddle head`: the first records.

use super::rows::{self, Format};
use super::{Context, Outcome, locations};
use crate::Location;

/// Show the first records
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle head photos.rec\n  staddle head -n 100 --json words.rec"
)]
pub(crate) struct Arguments {
    /// The store
    #[arg(value_parser = locations())]
    uri: Location,
    /// How many
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N")]
    count: u64,
    /// Only this one of sets side by side
    #[arg(long, value_name = "NAME")]
    field: Option<String>,
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let store = context.open(&arguments.uri)?;
    let end = arguments.count.min(rows::count(&store)?);
    let indices: Vec<u64> = (0..end).collect();
    rows::print(
        context,
        &store,
        arguments.field.as_deref(),
        &indices,
        Format::Text,
    )?;
    if end == 0 {
        context.out.note("there are no records");
    } else {
        context.out.next(format_args!(
            "staddle gather {} --indices 0,{}",
            arguments.uri,
            end - 1
        ));
    }
    Ok(())
}
