//! Printing records: what `head` and `gather` share, for one set and for sets side by side.

use std::io::Write;

use clap::ValueEnum;
use staddle_base::size;
use staddle_record::Batch;

use super::{Context, Outcome, render};
use crate::Store;

/// Records read at once, so that memory stays flat.
const STEP: usize = 256;
/// Characters of a record that a line shows.
const PREVIEW: usize = 72;

/// How records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The bytes, one record right after the other
    Raw,
    /// Index, size and the start of the record, one line each
    Text,
    /// The bytes in base64, one line each
    Base64,
}

/// Prints records of every set of a store, in the order of `indices`.
pub(super) fn print(
    context: &mut Context,
    store: &Store,
    field: Option<&str>,
    indices: &[u64],
    format: Format,
) -> Outcome {
    let sets = match (store, field) {
        (Store::Aligned(aligned), Some(field)) => vec![(Some(field), aligned.field(field)?)],
        _ => store.sets(),
    };
    let index_width = indices
        .iter()
        .max()
        .map_or(1, |index| index.to_string().len());
    let name_width = sets
        .iter()
        .filter_map(|(name, _)| *name)
        .map(str::len)
        .max()
        .unwrap_or(0);
    for step in indices.chunks(STEP) {
        let mut batches: Vec<(Option<&str>, Batch)> = Vec::with_capacity(sets.len());
        for (name, records) in &sets {
            batches.push((*name, records.gather(step)?));
        }
        for (at, index) in step.iter().enumerate() {
            for (name, batch) in &batches {
                let record = batch.get(at);
                if context.out.json() {
                    context
                        .out
                        .row(&render::record_json(*index, *name, record))?;
                    continue;
                }
                match (format, record) {
                    (Format::Raw, Some(bytes)) => context.out.data().write_all(bytes)?,
                    (Format::Raw, None) => {
                        context.out.note(format_args!("record {index} was deleted"))
                    }
                    (Format::Base64, bytes) => context
                        .out
                        .line(render::base64(bytes.unwrap_or_default()))?,
                    (Format::Text, bytes) => {
                        let size = bytes.map_or_else(
                            || "-".to_owned(),
                            |bytes| size::human(bytes.len() as u64),
                        );
                        let shown = bytes.map_or_else(
                            || "(deleted)".to_owned(),
                            |bytes| render::preview(bytes, PREVIEW),
                        );
                        let name = match name {
                            Some(name) => format!("{name:<name_width$}  "),
                            None => String::new(),
                        };
                        context.out.line(format_args!(
                            "{index:>index_width$}  {name}{size:>9}  {shown}"
                        ))?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Number of rows of a store.
pub(super) fn count(store: &Store) -> crate::Result<u64> {
    match store {
        Store::Records(records) => records.len(),
        Store::Aligned(aligned) => aligned.len(),
    }
}
