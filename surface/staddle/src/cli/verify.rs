//! `staddle verify`: checks every record, and lists what is bad.

use staddle_base::{Error, size};

use super::progress::{Progress, Unit};
use super::{Context, Outcome, locations};
use crate::Location;

/// Check every record of a store and list what is damaged
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle verify photos.rec\n  staddle verify --json photos.rec"
)]
pub(crate) struct Arguments {
    /// The store
    #[arg(value_parser = locations())]
    uri: Location,
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let store = context.open(&arguments.uri)?;
    let (mut records, mut bytes, mut bad) = (0, 0, 0);
    let mut documents = Vec::new();
    for (name, set) in store.sets() {
        let progress = Progress::new(&context.out, "verify", Unit::Records);
        let report = set.verify(|done, total| progress.set(done, total))?;
        progress.finish();
        records += report.records;
        bytes += report.bytes;
        bad += report.bad.len();
        if context.out.json() {
            let mut document = serde_json::to_value(&report)
                .map_err(|e| Error::internal("the report cannot be written as JSON").source(e))?;
            if let (Some(name), Some(map)) = (name, document.as_object_mut()) {
                map.insert("field".into(), name.into());
            }
            documents.push(document);
        } else {
            let prefix = name.map(|name| format!("{name}: ")).unwrap_or_default();
            for damage in &report.bad {
                context
                    .out
                    .line(format_args!("{prefix}{}", crate::describe::damage(damage)))?;
            }
        }
    }
    if context.out.json() {
        match documents.as_slice() {
            [only] => context.out.document(only)?,
            several => context.out.document(&several)?,
        }
    }
    if bad == 0 {
        if !context.out.json() {
            context.out.line(format_args!(
                "{}: {} records, {}, all as written",
                arguments.uri,
                size::thousands(records),
                size::human(bytes)
            ))?;
        }
        return Ok(());
    }
    let error = Error::corrupt(format!("{bad} of {records} records are damaged"))
        .with("uri", &arguments.uri)
        .hint("the others are readable; restore these from their source with update(), or drop them with delete()");
    Err(error.into())
}
