//! `staddle config`: the settings in force and where each comes from.

use serde_json::json;

use super::{Context, Outcome};
use crate::settings;

/// Show the settings in force
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:\n  staddle config show\n  staddle config show --origin --json")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Show every setting
    Show {
        /// Also show which file, variable or flag it comes from
        #[arg(long)]
        origin: bool,
    },
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let Verb::Show { origin } = &arguments.verb;
    let settings = settings::load(context.flags())?;
    settings::options(&settings)?;
    let width = settings
        .rows()
        .map(|(name, ..)| name.len())
        .max()
        .unwrap_or(0);
    let mut document = serde_json::Map::new();
    for (name, value, from, help) in settings.rows() {
        if context.out.json() {
            let from = from.to_string();
            document.insert(
                name.into(),
                json!({"value": value, "origin": from, "help": help}),
            );
        } else if *origin {
            context
                .out
                .line(format_args!("{name:<width$}  {value:<8}  {from}"))?;
        } else {
            context
                .out
                .line(format_args!("{name:<width$}  {value:<8}  {help}"))?;
        }
    }
    if context.out.json() {
        context.out.document(&document)?;
    }
    context.out.next(
        "a staddle.toml in this folder, STADDLE_RUNTIME__MEMORY=8GB, or --set runtime.memory=8GB",
    );
    Ok(())
}
