//! Python for people who have only Python: finds it, checks it, makes virtual environments under `target/x` and fills them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cmd::Cmd;
use crate::place::Place;
use crate::requirements;
use crate::stamp::{Fingerprint, unless_fresh};
use crate::step::{Failure, Result};

/// What building the wheel and running the package need.
pub(crate) const RUN: &[&str] = &["maturin", "numpy"];

/// The oldest Python that the abi3 wheel supports.
const OLDEST: (u32, u32) = (3, 11);

/// A Python interpreter fit for us.
pub(crate) struct Python {
    pub(crate) exe: PathBuf,
    pub(crate) version: String,
}

impl Python {
    /// `$PYTHON`, else `python3`; at least 3.11, with the modules that make virtual environments.
    pub(crate) fn find() -> Result<Self> {
        let asked = std::env::var_os("PYTHON").filter(|python| !python.is_empty());
        let name = asked.unwrap_or_else(|| OsString::from("python3"));
        let shown = name.to_string_lossy().into_owned();
        let text = Cmd::new(&name)
            .args(["-c", "import sys; print(sys.executable); print('%d.%d.%d' % sys.version_info[:3])"])
            .output()
            .map_err(|failure| {
                Failure::new(format!("no usable Python: {}", failure.what))
                    .hint("install Python 3.11 or newer (`apt install python3 python3-venv`), or name one: PYTHON=/path/to/python3 cargo x …")
            })?;
        let mut lines = text.lines();
        let (exe, version) = (
            lines.next().unwrap_or_default(),
            lines.next().unwrap_or_default(),
        );
        check_version(&shown, version)?;
        let python = Self {
            exe: PathBuf::from(exe),
            version: version.to_owned(),
        };
        if !Cmd::new(&python.exe)
            .args(["-c", "import venv, ensurepip"])
            .succeeds()
        {
            return Err(Failure::new(format!(
                "{shown} cannot make virtual environments: venv or ensurepip is missing"
            ))
            .hint("apt install python3-venv"));
        }
        Ok(python)
    }
}

fn check_version(python: &str, version: &str) -> Result {
    let mut numbers = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found >= OLDEST {
        return Ok(());
    }
    let (major, minor) = OLDEST;
    Err(Failure::new(format!(
        "{python} is Python {version}; Staddle needs {major}.{minor} or newer"
    ))
    .hint(format!(
        "name a newer one: PYTHON=/path/to/python{major}.{minor} cargo x …"
    )))
}

/// Which of the pinned requirements an environment holds.
pub(crate) enum Needs {
    /// Everything in requirements-dev.txt.
    All,
    /// These, and nothing else.
    Only(&'static [&'static str]),
}

/// A virtual environment under `target/x`.
pub(crate) struct Venv {
    pub(crate) dir: PathBuf,
    pub(crate) name: String,
}

impl Venv {
    /// Makes the environment and installs its requirements, unless the same was done before.
    pub(crate) fn ready(place: &Place, name: &str, needs: &Needs) -> Result<Self> {
        let python = Python::find()?;
        let venv = Self {
            dir: place.x.join(name),
            name: name.to_owned(),
        };
        let (wanted, what) = wanted(place, needs)?;
        let mut print = Fingerprint::new();
        print
            .add(python.exe.as_os_str().as_encoded_bytes())
            .add(&python.version)
            .add(&wanted);
        let title = format!("Python environment {name} ({what})");
        unless_fresh(&venv.dir.join("x-environment"), &print, &title, || {
            if venv.dir.exists() {
                std::fs::remove_dir_all(&venv.dir)?;
            }
            Cmd::new(&python.exe)
                .args(["-m", "venv"])
                .arg(&venv.dir)
                .quietly("making the environment")?;
            let list = place.x.join(format!("{name}.requirements.txt"));
            std::fs::write(&list, &wanted)?;
            venv.pip(&["--require-hashes", "--only-binary=:all:", "-r"])
                .arg(&list)
                .quietly("installing pinned Python packages")
        })?;
        Ok(venv)
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.bin("python")
    }

    pub(crate) fn bin(&self, program: &str) -> PathBuf {
        self.dir.join("bin").join(program)
    }

    /// `pip install` with the flags that every use shares.
    pub(crate) fn pip(&self, args: &[&str]) -> Cmd {
        self.command("python")
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-input",
            ])
            .args(["--no-warn-script-location", "--root-user-action=ignore"])
            .args(args)
    }

    /// A program of the environment, with the environment active.
    pub(crate) fn command(&self, program: &str) -> Cmd {
        activate(Cmd::new(self.bin(program)), &self.dir)
    }
}

/// Lets a command see a virtual environment as an activated shell would.
pub(crate) fn activate(command: Cmd, dir: &Path) -> Cmd {
    let mut path = OsString::from(dir.join("bin"));
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    command
        .env("PATH", path)
        .env("VIRTUAL_ENV", dir)
        .env_remove("PYTHONHOME")
        .env_remove("PYTHONPATH")
}

fn wanted(place: &Place, needs: &Needs) -> Result<(String, String)> {
    let path = place.need(
        "requirements-dev.txt",
        "it pins the Python packages by hash",
    )?;
    let text = std::fs::read_to_string(path)?;
    match needs {
        Needs::Only(names) => Ok((requirements::subset(&text, names)?, names.join(", "))),
        Needs::All => Ok((text, "requirements-dev.txt".to_owned())),
    }
}

#[cfg(test)]
mod tests;
