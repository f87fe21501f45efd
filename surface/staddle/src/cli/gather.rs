//! `staddle gather`: records by index, in the order asked for.

use staddle_base::Error;

use super::rows::{self, Format};
use super::{Context, Failure, Outcome, locations};
use crate::{Location, Store};

/// Read records by index, in the order given
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle gather photos.rec --indices 3 --format raw > third.jpg\n  \
                   staddle gather words.rec --indices 3,1,99 --json"
)]
pub(crate) struct Arguments {
    /// The store
    #[arg(value_parser = locations())]
    uri: Location,
    /// Which records: numbers and ranges as in 3,1,-1,10..20; negative ones count from the end
    #[arg(
        short,
        long,
        value_name = "LIST",
        allow_hyphen_values = true,
        required = true
    )]
    indices: String,
    /// How to print them; text by default on a terminal, else raw
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Only this one of sets side by side
    #[arg(long, value_name = "NAME")]
    field: Option<String>,
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let store = context.open(&arguments.uri)?;
    let indices = parse(&arguments.indices, |index| match &store {
        Store::Records(records) => records.normalize(index),
        Store::Aligned(aligned) => aligned.normalize(index),
    })?;
    let default = if context.out.terminal() {
        Format::Text
    } else {
        Format::Raw
    };
    let format = arguments.format.unwrap_or(default);
    rows::print(
        context,
        &store,
        arguments.field.as_deref(),
        &indices,
        format,
    )
}

/// Reads `3,1,-1,10..20`; `place` turns a signed index into a place.
fn parse(text: &str, place: impl Fn(i64) -> Result<u64, Error>) -> Outcome<Vec<u64>> {
    let number = |part: &str| {
        part.trim().parse::<i64>().map_err(|_| {
            Failure::Usage(format!(
                "`{part}` is not an index; write for example 3,1,-1,10..20"
            ))
        })
    };
    let mut indices = Vec::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        match part.split_once("..") {
            None => indices.push(place(number(part)?)?),
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                if from < to {
                    // Checked first, so that a wrong end is an error before a long list is made.
                    place(from)?;
                    place(to - 1)?;
                }
                for index in from..to {
                    indices.push(place(index)?);
                }
            }
        }
    }
    Ok(indices)
}

#[cfg(test)]
mod tests;
