//! `staddle demo`: lives in the Python package, because what it shows is the Python loader.

use staddle_base::Error;

use super::{Context, Outcome};

/// Import a real tree of files, feed two shuffled epochs, resume in the middle, prove every record
///
/// It drives the Python loader, so the `staddle` that comes with the Python package runs it.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:\n  staddle demo\n  staddle demo --input photos/ --keep photos.rec"
)]
pub(crate) struct Arguments {
    /// Folder to import; may be given several times
    #[arg(long, value_name = "DIR")]
    input: Vec<std::path::PathBuf>,
    /// Keep the record set in this folder
    #[arg(long, value_name = "DIR")]
    keep: Option<std::path::PathBuf>,
}

pub(super) fn run(_context: &mut Context, _arguments: &Arguments) -> Outcome {
    let error = Error::unsupported(
        "the demo feeds batches through the Python loader, and this program has no Python",
    )
    .hint("run `cargo x demo`, or `pip install .` and then `staddle demo`");
    Err(error.into())
}
