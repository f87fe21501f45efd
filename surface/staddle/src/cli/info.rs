//! `staddle info`: what a store is.

use serde_json::json;
use staddle_base::Error;

use super::{Context, Outcome, locations, render};
use crate::{Location, Store};

/// Show what a store is: kind, sizes, options
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle info photos.rec\n  staddle info --json s3://bucket/photos.rec"
)]
pub(crate) struct Arguments {
    /// The store
    #[arg(value_parser = locations())]
    uri: Location,
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let store = context.open(&arguments.uri)?;
    let mut sets = Vec::new();
    for (name, records) in store.sets() {
        let info = serde_json::to_value(records.info()?)
            .map_err(|e| Error::internal("info cannot be written as JSON").source(e))?;
        sets.push((name, info));
    }
    let document = match (&store, sets.as_mut_slice()) {
        (Store::Records(_), [(_, info)]) => {
            let mut info = info.take();
            if let Some(map) = info.as_object_mut() {
                map.insert("kind".into(), store.kind().into());
            }
            info
        }
        _ => {
            let fields: serde_json::Map<_, _> = sets
                .into_iter()
                .map(|(name, info)| (name.unwrap_or_default().to_owned(), info))
                .collect();
            json!({"kind": store.kind(), "uri": arguments.uri.to_string(), "fields": fields})
        }
    };
    if context.out.json() {
        context.out.document(&document)?;
    } else {
        context.out.line(render::fields(&document))?;
    }
    context.out.next(format!("staddle head {}", arguments.uri));
    Ok(())
}
