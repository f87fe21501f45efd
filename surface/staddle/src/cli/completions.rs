//! `staddle completions`: shell completions.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Context, Outcome};

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle completions bash > ~/.local/share/bash-completion/completions/staddle\n  \
                   staddle completions zsh"
)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "staddle", &mut script);
    std::io::Write::write_all(context.out.data(), &script)?;
    Ok(())
}
