//! The `staddle` command: one file per verb, and what they share.
//!
//! | File | What it does |
//! |---|---|
//! | `output` | data to standard output, the rest to standard error, errors as text or JSON |
//! | `progress` | a bar on a terminal, a line per ten seconds elsewhere |
//! | `render` | aligned fields, tables, previews of records |
//! | the others | the verb they are named after |
//!
//! Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 corrupt, 5 conflict or locked, 69 unavailable, 77 denied,
//! 130 interrupted.

use std::ffi::OsString;

use clap::{Parser, Subcommand};
use staddle_record::{OpenOptions, Records};
use staddle_runtime::Runtime;

use crate::{Location, Result, StorageOptions, Store};

mod adopt;
mod compact;
mod completions;
mod config;
mod demo;
mod doctor;
mod dump;
mod gather;
mod head;
mod import;
mod info;
mod output;
mod progress;
mod rebalance;
mod render;
mod repair;
mod rows;
mod set_options;
mod snapshot;
mod stats;
mod verify;

use output::{Failure, Outcome, Output};

/// Storage for model training: records by index, read in shuffled batches without copying.
#[derive(Debug, Parser)]
#[command(
    name = "staddle",
    version,
    max_term_width = 100,
    before_help = "Examples:\n  staddle import files photos/ photos.rec     make a record set from a folder\n  \
                   staddle gather photos.rec --indices 3,1,99  read records by index",
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 corrupt, 5 conflict or locked, 69 unavailable, \
                  77 denied, 130 interrupted."
)]
struct Cli {
    /// Print JSON: one document, or one line a record; errors too
    #[arg(long, global = true)]
    json: bool,
    /// Say nothing but data and errors
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Set a setting for this command, as in runtime.memory=8GB
    #[arg(long = "set", global = true, value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Option of the storage service, as in region=eu-central-1
    #[arg(long = "storage", global = true, value_name = "NAME=VALUE")]
    storage: Vec<String>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Import(Box<import::Arguments>),
    Adopt(Box<adopt::Arguments>),
    #[command(visible_alias = "inspect")]
    Info(info::Arguments),
    Stats(stats::Arguments),
    Head(head::Arguments),
    Gather(gather::Arguments),
    Verify(verify::Arguments),
    Dump(dump::Arguments),
    Rebalance(rebalance::Arguments),
    Compact(compact::Arguments),
    Repair(repair::Arguments),
    Snapshot(snapshot::Arguments),
    Doctor(doctor::Arguments),
    Config(config::Arguments),
    Completions(completions::Arguments),
    Demo(demo::Arguments),
}

/// What every verb gets: the streams, and the way to a store.
pub(crate) struct Context {
    pub(crate) out: Output,
    settings: Vec<(String, String)>,
    storage: StorageOptions,
}

impl Context {
    /// The runtime, with the settings of flags, environment and file.
    pub(crate) fn runtime(&self) -> Result<Runtime> {
        let flags = self
            .settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        if !self.settings.is_empty() {
            crate::settings::configure(flags)?;
        }
        crate::runtime()
    }

    /// Settings given as flags.
    pub(crate) fn flags(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Options of the storage service given as flags.
    pub(crate) fn storage(&self) -> &StorageOptions {
        &self.storage
    }

    /// Opens a store for reading.
    pub(crate) fn open(&self, location: &Location) -> Result<Store> {
        self.open_with(
            location,
            OpenOptions {
                read_only: true,
                ..OpenOptions::default()
            },
        )
    }

    /// Opens a store.
    pub(crate) fn open_with(&self, location: &Location, how: OpenOptions) -> Result<Store> {
        crate::open(&self.runtime()?, location, how, &self.storage)
    }

    /// Opens a record set so that it can be changed.
    pub(crate) fn open_to_change(&self, location: &Location) -> Result<Records> {
        self.open_with(location, OpenOptions::default())?
            .into_records()
    }

    /// Opens a record set for reading.
    pub(crate) fn records(&self, location: &Location) -> Result<Records> {
        self.open(location)?.into_records()
    }
}

/// Runs one command line, program name first, and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &arguments),
    };
    let mut out = Output::new(cli.json, cli.quiet);
    let context = pairs("--set", &cli.settings).and_then(|settings| {
        Ok((
            settings,
            pairs("--storage", &cli.storage)?.into_iter().collect(),
        ))
    });
    let (settings, storage) = match context {
        Ok(context) => context,
        Err(failure) => return out.fail(&failure),
    };
    let mut context = Context {
        out,
        settings,
        storage,
    };
    let outcome = dispatch(&mut context, &cli.verb).and_then(|()| context.out.flush());
    match outcome {
        Ok(()) => 0,
        Err(failure) => {
            // What was found before the failure is data, and still worth having.
            let _ = context.out.flush();
            context.out.fail(&failure)
        }
    }
}

fn dispatch(context: &mut Context, verb: &Verb) -> Outcome {
    match verb {
        Verb::Import(arguments) => import::run(context, arguments),
        Verb::Adopt(arguments) => adopt::run(context, arguments),
        Verb::Info(arguments) => info::run(context, arguments),
        Verb::Stats(arguments) => stats::run(context, arguments),
        Verb::Head(arguments) => head::run(context, arguments),
        Verb::Gather(arguments) => gather::run(context, arguments),
        Verb::Verify(arguments) => verify::run(context, arguments),
        Verb::Dump(arguments) => dump::run(context, arguments),
        Verb::Rebalance(arguments) => rebalance::run(context, arguments),
        Verb::Compact(arguments) => compact::run(context, arguments),
        Verb::Repair(arguments) => repair::run(context, arguments),
        Verb::Snapshot(arguments) => snapshot::run(context, arguments),
        Verb::Doctor(arguments) => doctor::run(context, arguments),
        Verb::Config(arguments) => config::run(context, arguments),
        Verb::Completions(arguments) => completions::run(context, arguments),
        Verb::Demo(arguments) => demo::run(context, arguments),
    }
}

/// Shows help, a version, or what is wrong with the arguments.
fn usage(error: &clap::Error, arguments: &[OsString]) -> i32 {
    use clap::error::ErrorKind;
    let wanted = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if !wanted && arguments.iter().any(|argument| argument == "--json") {
        let text = error.render().to_string();
        let first = text.lines().next().unwrap_or_default();
        let first = first.strip_prefix("error: ").unwrap_or(first).to_owned();
        return Output::new(true, false).fail(&Failure::Usage(first));
    }
    let _ = error.print();
    error.exit_code()
}

fn pairs(flag: &str, given: &[String]) -> Outcome<Vec<(String, String)>> {
    given
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(Failure::Usage(format!(
                "{flag} takes NAME=VALUE, not `{pair}`"
            ))),
        })
        .collect()
}

/// Parses a location argument, which may be a path that is not UTF-8.
fn location(name: OsString) -> std::result::Result<Location, std::convert::Infallible> {
    Ok(Location::new(name))
}

/// The clap parser of [`location`].
fn locations() -> impl clap::builder::TypedValueParser<Value = Location> {
    use clap::builder::{OsStringValueParser, TypedValueParser};
    OsStringValueParser::new().try_map(location)
}
