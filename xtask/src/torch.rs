//! torch for tests: Debian's CPU build in an environment of its own, because the wheels on the Python index weigh gigabytes.
//!
//! It is also our oldest supported NumPy and torch, so these tests double as the lower end of the version range.

use std::path::Path;

use crate::cmd::{Cmd, is_root};
use crate::place::Place;
use crate::python::{Venv, activate};
use crate::requirements;
use crate::stamp::{Fingerprint, unless_fresh};
use crate::step::{Failure, Result, step};
use crate::wheel;

/// What runs the tests; NumPy and torch come from Debian.
pub(crate) const TOOLS: &[&str] = &[
    "pytest",
    "hypothesis",
    "iniconfig",
    "packaging",
    "pluggy",
    "pygments",
    "sortedcontainers",
];

const DEBIAN_PYTHON: &str = "/usr/bin/python3";

/// An environment with torch, pytest and the wheel; the failure says why there is none.
pub(crate) fn environment(place: &Place, tools: &Venv) -> Result<Venv> {
    if !has_torch() {
        install_torch()?;
    }
    let venv = Venv {
        dir: place.x.join("venv-torch"),
        name: "venv-torch".to_owned(),
    };
    let pins = requirements::subset(
        &std::fs::read_to_string(place.root.join("requirements-dev.txt"))?,
        TOOLS,
    )?;
    let mut print = Fingerprint::new();
    print
        .add(&pins)
        .add(Cmd::new(DEBIAN_PYTHON).arg("--version").output()?);
    unless_fresh(
        &venv.dir.join("x-environment"),
        &print,
        "Python environment venv-torch (Debian's torch)",
        || {
            if venv.dir.exists() {
                std::fs::remove_dir_all(&venv.dir)?;
            }
            // --without-pip: Debian splits ensurepip into a package of its own, and the pip of `tools` can install into this one.
            Cmd::new(DEBIAN_PYTHON)
                .args(["-m", "venv", "--system-site-packages", "--without-pip"])
                .arg(&venv.dir)
                .quietly("making the environment")?;
            let list = place.x.join("venv-torch.requirements.txt");
            std::fs::write(&list, &pins)?;
            pip(
                tools,
                &venv,
                &["--require-hashes", "--no-deps", "--ignore-installed", "-r"],
            )
            .arg(&list)
            .quietly("installing pinned Python packages")
        },
    )?;
    let wheel = wheel::build(place, tools, wheel::Build::Checked)?;
    let mut print = Fingerprint::new();
    print.add_content(&wheel).add(&pins);
    unless_fresh(
        &venv.dir.join("x-wheel"),
        &print,
        "wheel into venv-torch",
        || {
            pip(
                tools,
                &venv,
                &["--no-deps", "--no-index", "--force-reinstall"],
            )
            .arg(&wheel)
            .quietly("installing the wheel")
        },
    )?;
    Ok(venv)
}

/// The pip of one environment, installing into another.
fn pip(tools: &Venv, into: &Venv, args: &[&str]) -> Cmd {
    activate(Cmd::new(tools.bin("python")), &tools.dir)
        .args(["-m", "pip", "--python"])
        .arg(into.python())
        .args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--root-user-action=ignore",
        ])
        .args(args)
}

fn has_torch() -> bool {
    Path::new(DEBIAN_PYTHON).exists()
        && Cmd::new(DEBIAN_PYTHON)
            .args(["-c", "import torch"])
            .succeeds()
}

fn install_torch() -> Result {
    if !Cmd::new("apt-get").arg("--version").succeeds() {
        return Err(Failure::new(
            "torch: this system has no apt-get, and no python3-torch",
        ));
    }
    if !is_root() {
        return Err(
            Failure::new("torch: not installed, and only root can install it")
                .hint("apt-get install --no-install-recommends python3-torch"),
        );
    }
    let install = || {
        Cmd::new("apt-get")
            .args([
                "install",
                "-y",
                "-qq",
                "--no-install-recommends",
                "python3-torch",
            ])
            .env("DEBIAN_FRONTEND", "noninteractive")
    };
    step("Debian's torch", || {
        if install().quietly("installing python3-torch").is_err() {
            // A new machine may have no package lists yet.
            Cmd::new("apt-get")
                .args(["update", "-qq"])
                .quietly("reading the package lists")?;
            install().quietly("installing python3-torch")?;
        }
        Ok(())
    })?;
    if has_torch() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "torch: installed, but {DEBIAN_PYTHON} cannot import it"
    )))
}
