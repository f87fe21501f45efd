//! The environment that holds the systems we measure against. They live here and nowhere else in the project.

use crate::place::Place;
use crate::python::{Needs, RUN, Venv};
use crate::stamp::{Fingerprint, unless_fresh};
use crate::step::Result;
use crate::wheel::{self, Build};

/// `target/x/venv-peers` with the peers that can be installed here, and our release wheel.
pub(crate) fn environment(place: &Place) -> Result<Venv> {
    let folder = place.root.join("testing/bench-peers");
    let install = place.need(
        "testing/bench-peers/install.py",
        "it installs the peers of the benchmarks",
    )?;
    let venv = Venv::ready(place, "venv-peers", &Needs::Only(RUN))?;
    let mut print = Fingerprint::new();
    for file in ["install.py", "requirements.txt", "requirements-nodeps.txt"] {
        print.add_content(&folder.join(file));
    }
    unless_fresh(
        &venv.dir.join("x-peers"),
        &print,
        "peers to measure against",
        || {
            // A peer without a wheel for this platform costs only itself: install.py says which, the table shows it.
            venv.command("python").arg(&install).dir(&place.root).run()
        },
    )?;
    wheel::install(place, &venv, &venv, Build::Release)?;
    Ok(venv)
}
