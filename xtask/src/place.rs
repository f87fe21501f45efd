//! Where things are: the checkout, cargo's target folder, and `target/x`, the one folder that `cargo x` writes to.

use std::path::{Path, PathBuf};

use crate::cmd::Cmd;
use crate::step::{Failure, Result};

/// The checkout and the folders of this run.
pub(crate) struct Place {
    /// The workspace root.
    pub(crate) root: PathBuf,
    /// Cargo's target folder, wherever CARGO_TARGET_DIR or the configuration put it.
    pub(crate) target: PathBuf,
    /// `target/x`: virtual environments, wheels, stamps, services.
    pub(crate) x: PathBuf,
}

impl Place {
    /// Asks cargo, which knows every way in which the target folder can be moved.
    pub(crate) fn find() -> Result<Self> {
        let here = match std::env::var_os("CARGO_MANIFEST_DIR") {
            Some(dir) => PathBuf::from(dir),
            None => std::env::current_dir()?,
        };
        let text = Cmd::cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .dir(&here)
            .output()?;
        let json: serde_json::Value = serde_json::from_str(&text).map_err(|error| {
            Failure::new(format!(
                "cargo metadata answered something that is no JSON: {error}"
            ))
        })?;
        let path = |key: &str| match json[key].as_str() {
            Some(path) => Ok(PathBuf::from(path)),
            None => Err(Failure::new(format!(
                "cargo metadata answered without `{key}`"
            ))),
        };
        let (root, target) = (path("workspace_root")?, path("target_directory")?);
        let x = target.join("x");
        std::fs::create_dir_all(&x)
            .map_err(|error| Failure::new(format!("cannot create {}: {error}", x.display())))?;
        Ok(Self { root, target, x })
    }

    /// A file that must be there, with the part of the project that brings it when it is not.
    pub(crate) fn need(&self, relative: &str, what: &str) -> Result<PathBuf> {
        let path = self.root.join(relative);
        if path.exists() {
            return Ok(path);
        }
        Err(Failure::new(format!("{relative} is missing: {what}")))
    }

    /// A path as a person in the checkout would write it.
    pub(crate) fn show<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}
