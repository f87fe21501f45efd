//! `staddle dump`: what lies on disk, for people who debug a store or its format.

use std::ops::Range;

use staddle_record::DumpOptions;

use super::{Context, Failure, Outcome, locations};
use crate::Location;

/// Show what lies on disk: HEAD, manifest, log, chunks
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle dump photos.rec\n  staddle dump photos.rec --frames --entries --range 0..10"
)]
pub(crate) struct Arguments {
    /// The record set
    #[arg(value_parser = locations())]
    uri: Location,
    /// Also every frame of every chunk
    #[arg(long)]
    frames: bool,
    /// Also every entry of the table
    #[arg(long)]
    entries: bool,
    /// Only entries, frames and log records of these indices, as in 0..10
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    range: Option<Range<u64>>,
    /// So many bytes of each payload, as stored
    #[arg(long, value_name = "N", default_value_t = 0)]
    bytes: usize,
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let records = context.records(&arguments.uri)?;
    let what = DumpOptions {
        frames: arguments.frames,
        entries: arguments.entries,
        range: arguments.range.clone(),
        bytes: arguments.bytes,
    };
    if context.out.json() {
        let mut text = Vec::new();
        records.dump(&mut text, what)?;
        let lines: Vec<String> = String::from_utf8_lossy(&text)
            .lines()
            .map(str::to_owned)
            .collect();
        return context.out.document(&lines);
    }
    let mut closed = false;
    let mut out = Watched {
        inner: context.out.data(),
        closed: &mut closed,
    };
    match records.dump(&mut out, what) {
        // The reader of standard output went away: the store's error only wraps that.
        Err(_) if closed => Err(Failure::PipeClosed),
        result => Ok(result?),
    }
}

/// Passes bytes on and remembers whether the reader went away.
struct Watched<'a, W> {
    inner: &'a mut W,
    closed: &'a mut bool,
}

impl<W: std::io::Write> std::io::Write for Watched<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let result = self.inner.write(bytes);
        *self.closed |= matches!(&result, Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe);
        result
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

fn range(text: &str) -> std::result::Result<Range<u64>, String> {
    let wrong = || format!("`{text}` is not a range; write for example 0..10");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    match (from.parse(), to.parse()) {
        (Ok(from), Ok(to)) if from <= to => Ok(from..to),
        _ => Err(wrong()),
    }
}
