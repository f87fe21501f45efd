//! What cargo knows about the workspace: its members, how they depend on each other, and every package behind them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cmd::Cmd;
use crate::place::Place;
use crate::step::{Failure, Result};

/// How one package uses another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In the library that users get.
    Normal,
    /// In its tests only.
    Dev,
    /// In its build script.
    Build,
}

/// One `[dependencies]` line.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// One package of the resolved graph.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: Option<String>,
    /// `None` for members of this workspace.
    pub(crate) source: Option<String>,
    /// The folder that holds its Cargo.toml.
    pub(crate) folder: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    /// Names of its programs.
    pub(crate) programs: Vec<String>,
    /// Whether its library documentation is tested.
    pub(crate) doctests: bool,
}

/// The resolved graph.
pub(crate) struct Graph {
    pub(crate) root: PathBuf,
    pub(crate) packages: Vec<Package>,
}

impl Graph {
    /// The whole lock file, for every platform.
    pub(crate) fn load(place: &Place) -> Result<Self> {
        Self::ask(place, &[])
    }

    /// Only what this machine builds, whose sources are therefore on its disk.
    pub(crate) fn load_for_host(place: &Place) -> Result<Self> {
        let version = Cmd::new("rustc").arg("-vV").output()?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        match host {
            Some(host) => Self::ask(place, &["--filter-platform", host]),
            None => Err(Failure::new("`rustc -vV` does not say its host")),
        }
    }

    fn ask(place: &Place, args: &[&str]) -> Result<Self> {
        let text = Cmd::cargo()
            .args(["metadata", "--locked", "--format-version", "1"])
            .args(args)
            .dir(&place.root)
            .output()?;
        let json = serde_json::from_str(&text).map_err(|error| {
            Failure::new(format!(
                "cargo metadata answered something that is no JSON: {error}"
            ))
        })?;
        Self::parse(&json).ok_or_else(|| Failure::new("cargo metadata answered without packages"))
    }

    fn parse(json: &Value) -> Option<Self> {
        let resolved: Option<BTreeSet<&str>> = json["resolve"]["nodes"].as_array().map(|nodes| {
            nodes
                .iter()
                .filter_map(|node| node["id"].as_str())
                .collect()
        });
        let packages = json["packages"].as_array()?;
        let built = |package: &&Value| match (&resolved, package["id"].as_str()) {
            (Some(resolved), Some(id)) => resolved.contains(id),
            _ => true,
        };
        Some(Self {
            root: PathBuf::from(json["workspace_root"].as_str()?),
            packages: packages
                .iter()
                .filter(built)
                .filter_map(Package::parse)
                .collect(),
        })
    }

    /// The packages of this workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| package.source.is_none())
    }

    /// A member's folder relative to the workspace root, with `/` between parts.
    pub(crate) fn place_of(&self, package: &Package) -> String {
        package
            .folder
            .strip_prefix(&self.root)
            .unwrap_or(&package.folder)
            .to_string_lossy()
            .replace('\\', "/")
    }

    /// A program that a command of ours runs; says which package should bring it when it is not there.
    pub(crate) fn need_program(&self, package: &str, program: &str) -> Result {
        let found = self.members().find(|member| member.name == package);
        match found {
            Some(member) if member.programs.iter().any(|name| name == program) => Ok(()),
            Some(member) => Err(Failure::new(format!(
                "package {package} has no program `{program}` (it has: {})",
                if member.programs.is_empty() {
                    "none".to_owned()
                } else {
                    member.programs.join(", ")
                }
            ))),
            None => Err(Failure::new(format!(
                "this workspace has no package `{package}`"
            ))),
        }
    }
}

impl Package {
    fn parse(json: &Value) -> Option<Self> {
        let targets = json["targets"].as_array()?;
        let is = |target: &Value, kind: &str| {
            target["kind"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|found| found == kind))
        };
        Some(Self {
            name: json["name"].as_str()?.to_owned(),
            version: json["version"].as_str()?.to_owned(),
            licence: json["license"].as_str().map(str::to_owned),
            source: json["source"].as_str().map(str::to_owned),
            folder: Path::new(json["manifest_path"].as_str()?)
                .parent()?
                .to_path_buf(),
            dependencies: json["dependencies"]
                .as_array()?
                .iter()
                .filter_map(Dependency::parse)
                .collect(),
            programs: targets
                .iter()
                .filter(|target| is(target, "bin"))
                .filter_map(|target| target["name"].as_str().map(str::to_owned))
                .collect(),
            doctests: targets
                .iter()
                .any(|target| target["doctest"] == true && !is(target, "bin")),
        })
    }
}

impl Dependency {
    fn parse(json: &Value) -> Option<Self> {
        let kind = match json["kind"].as_str() {
            Some("dev") => Kind::Dev,
            Some("build") => Kind::Build,
            _ => Kind::Normal,
        };
        Some(Self {
            name: json["name"].as_str()?.to_owned(),
            kind,
        })
    }
}

#[cfg(test)]
mod tests;
