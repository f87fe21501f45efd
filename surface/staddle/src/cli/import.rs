//! `staddle import`: records copied into a set of their own.

use std::ffi::OsString;

use staddle_base::{Clock, Error, SystemClock, size};
use staddle_record::import::{ImportOptions, ImportReport, Skipped, import};
use staddle_runtime::interrupt;

use super::progress::{Progress, Unit};
use super::set_options::SetArguments;
use super::{Context, Outcome, locations};
use crate::Location;
use crate::import::{Format, SourceOptions, reader};

/// Make a record set by copying records from files, jsonl, tar, tfrecord, megatron, lmdb or parquet
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle import files photos/ photos.rec --names\n  \
                   staddle import jsonl 'logs-*.jsonl' text.rec --codec zstd --dictionary"
)]
pub(crate) struct Arguments {
    /// What the sources are: files, jsonl, tar, tfrecord, megatron, lmdb, parquet
    #[arg(value_name = "FORMAT", value_parser = parse_format)]
    format: Format,
    /// Paths or URIs; all formats but files take *, ?, [a-z] and {000..146}
    #[arg(value_name = "SRC", required = true, num_args = 1..)]
    sources: Vec<OsString>,
    /// Where the record set is made
    #[arg(value_name = "DST", value_parser = locations())]
    destination: Location,
    /// Keep the records' names (paths, keys) in a set beside them
    #[arg(long)]
    names: bool,
    /// Add to the set that is there
    #[arg(long)]
    append: bool,
    /// End with an error at the first file that cannot be read
    #[arg(long)]
    strict: bool,
    /// jsonl: keep this field of each line
    #[arg(long, value_name = "NAME", help_heading = "The sources")]
    field: Option<String>,
    /// jsonl: take lines as they are, whatever they hold
    #[arg(long, help_heading = "The sources")]
    unchecked: bool,
    /// parquet: the column with the records
    #[arg(long, value_name = "NAME", help_heading = "The sources")]
    column: Option<String>,
    /// parquet: the column that names them
    #[arg(long, value_name = "NAME", help_heading = "The sources")]
    key: Option<String>,
    /// lmdb: the named database
    #[arg(long, value_name = "NAME", help_heading = "The sources")]
    database: Option<String>,
    /// tar: pass over links and devices
    #[arg(long, help_heading = "The sources")]
    skip_special: bool,
    #[command(flatten)]
    set: SetArguments,
}

fn parse_format(name: &str) -> Result<Format, String> {
    Format::parse(name).map_err(|e| e.to_string())
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let runtime = context.runtime()?;
    let from = SourceOptions {
        field: arguments.field.clone(),
        unchecked: arguments.unchecked,
        column: arguments.column.clone(),
        key: arguments.key.clone(),
        database: arguments.database.clone(),
        strict: arguments.strict,
        skip_special: arguments.skip_special,
        storage: context.storage().clone(),
    };
    let how = ImportOptions {
        set: arguments.set.options()?,
        names: arguments.names,
        append: arguments.append,
    };
    let place = &arguments.destination;
    let device = place.device(&runtime, context.storage())?;
    let clock = SystemClock::new();
    let started = clock.steady_ns();
    let source = reader(
        &runtime,
        arguments.format,
        &arguments.sources,
        Some(place.as_os_str()),
        &from,
    )?;
    let progress = Progress::new(&context.out, "import", Unit::Bytes);
    // What was copied so far is removed again, or stays unflushed, when the user has enough.
    let interrupt = interrupt::ask_on_interrupt(130);
    let (_, report) = import(&runtime, source, &device, &how, &mut |done| {
        progress.set(done.bytes, done.bytes_total.unwrap_or(0));
        if interrupt.requested() {
            return Err(Error::cancelled("the import was interrupted"));
        }
        Ok(())
    })?;
    drop(interrupt);
    progress.finish();
    let seconds = (clock.steady_ns().saturating_sub(started)) as f64 / 1e9;
    say(context, &report, seconds)?;
    context.out.next(format_args!("staddle info {place}"));
    Ok(())
}

fn say(context: &mut Context, report: &ImportReport, seconds: f64) -> Outcome {
    if context.out.json() {
        let mut document = serde_json::to_value(report)
            .map_err(|e| Error::internal("the report cannot be written as JSON").source(e))?;
        if let Some(map) = document.as_object_mut() {
            map.insert("seconds".into(), seconds.into());
        }
        return context.out.document(&document);
    }
    let rate = (report.bytes as f64 / seconds.max(1e-9)) as u64;
    context.out.line(format_args!(
        "{} records, {}, in {seconds:.1} s ({}/s)",
        size::thousands(report.records),
        size::human(report.bytes),
        size::human(rate)
    ))?;
    for line in left_out(&report.skipped) {
        context.out.note(line);
    }
    Ok(())
}

/// What an import passed over, in words.
fn left_out(skipped: &Skipped) -> Vec<String> {
    let counts = [
        (skipped.unreadable, "could not be read"),
        (skipped.links, "are symbolic links"),
        (skipped.special, "are pipes, sockets or devices"),
        (skipped.blank, "are empty lines"),
    ];
    let mut lines: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("left out: {} {why}", size::thousands(*count)))
        .collect();
    lines.extend(skipped.reasons.iter().map(|reason| format!("  {reason}")));
    lines
}
