//! `staddle adopt`: an index over files that stay where they are.

use staddle_base::{Error, size};
use staddle_record::adopt::{AdoptOptions, AdoptReport, Kind, Split, adopt};
use staddle_runtime::interrupt;

use super::progress::{Progress, Unit};
use super::set_options::SetArguments;
use super::{Context, Outcome, locations};
use crate::Location;

/// Index tar, TFRecord or Megatron files where they are, without copying them
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle adopt 'shards/s-{000..146}.tar' photos.rec\n  \
                   staddle adopt tokens.bin tokens.rec"
)]
pub(crate) struct Arguments {
    /// Paths or URIs; *, ?, [a-z] and {000..146} name several
    #[arg(value_name = "SRC", required = true, num_args = 1..)]
    sources: Vec<String>,
    /// Where the record set is made
    #[arg(value_name = "DST", value_parser = locations())]
    destination: Location,
    /// What the sources are: tar, tfrecord or megatron; found out when left out
    #[arg(long, value_name = "FORMAT", value_parser = parse_kind)]
    kind: Option<Kind>,
    /// Make every member of tar archives a record of one set, instead of one set for each extension
    #[arg(long)]
    no_split: bool,
    /// Pass over links and devices in tar archives
    #[arg(long)]
    skip_special: bool,
    /// Also check payload checksums now, where the format has them
    #[arg(long)]
    verify: bool,
    /// Keep a hash of every file, which `staddle verify` checks later
    #[arg(long)]
    digest: bool,
    #[command(flatten)]
    set: SetArguments,
}

fn parse_kind(name: &str) -> Result<Kind, String> {
    Kind::parse(name).map_err(|e| e.to_string())
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let runtime = context.runtime()?;
    let options = AdoptOptions {
        kind: arguments.kind,
        split: if arguments.no_split {
            Split::Never
        } else {
            Split::Auto
        },
        skip_special: arguments.skip_special,
        verify: arguments.verify,
        digest: arguments.digest,
        set: arguments.set.options()?,
        storage: context.storage().clone(),
    };
    let place = &arguments.destination;
    let device = place.device(&runtime, context.storage())?;
    let progress = Progress::new(&context.out, "adopt", Unit::Bytes);
    let interrupt = interrupt::ask_on_interrupt(130);
    let (_, report) = adopt(
        &runtime,
        &arguments.sources,
        &device,
        &options,
        &mut |done| {
            progress.set(done.bytes, done.bytes_total.unwrap_or(0));
            if interrupt.requested() {
                return Err(Error::cancelled("the adoption was interrupted"));
            }
            Ok(())
        },
    )?;
    drop(interrupt);
    progress.finish();
    say(context, &report)?;
    context.out.next(format_args!("staddle head {place}"));
    Ok(())
}

fn say(context: &mut Context, report: &AdoptReport) -> Outcome {
    if context.out.json() {
        return context.out.document(report);
    }
    context.out.line(format_args!(
        "{} records in {} files, {}, left where they are",
        size::thousands(report.records),
        size::thousands(report.files),
        size::human(report.bytes)
    ))?;
    for (name, count) in &report.fields {
        context
            .out
            .line(format_args!("  {name}: {}", size::thousands(*count)))?;
    }
    if report.skipped > 0 {
        let first = report.first_skipped.as_deref().unwrap_or_default();
        context.out.note(format_args!(
            "passed over: {}, the first is {first}",
            size::thousands(report.skipped)
        ));
    }
    for name in &report.unterminated {
        context.out.note(format_args!(
            "warning: {name} has no end marker; was its writer stopped?"
        ));
    }
    Ok(())
}
