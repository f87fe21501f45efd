//! Settings as data: named, documented once, resolved from flags over environment over `staddle.toml` over defaults.
//!
//! A setting is described by a [`Spec`]; the CLI, the docs and the error for an unknown key come from the same table.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::suggest;

/// One setting: its dotted name, default and meaning.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Dotted name in `staddle.toml`, as in `runtime.memory`.
    pub name: &'static str,
    /// The default, as text.
    pub default: &'static str,
    /// What it does, one line.
    pub help: &'static str,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// A settings file, by name.
    File(String),
    /// An environment variable, by name.
    Environment(String),
    /// A flag or keyword argument.
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(name) => write!(f, "file {name}"),
            Self::Environment(name) => write!(f, "variable {name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// Resolved settings, each with its origin.
#[derive(Clone, Debug)]
pub struct Settings {
    specs: &'static [Spec],
    values: BTreeMap<&'static str, (String, Origin)>,
}

impl Settings {
    /// The defaults of `specs`.
    pub fn new(specs: &'static [Spec]) -> Self {
        let values = specs
            .iter()
            .map(|spec| (spec.name, (spec.default.to_owned(), Origin::Default)))
            .collect();
        Self { specs, values }
    }

    /// Sets one value.
    ///
    /// # Errors
    /// `Invalid` for an unknown name, with the nearest known one.
    pub fn set(&mut self, name: &str, value: impl Into<String>, origin: Origin) -> Result<()> {
        let Some(spec) = self.specs.iter().find(|spec| spec.name == name) else {
            let known: Vec<&str> = self.specs.iter().map(|spec| spec.name).collect();
            return Err(Error::invalid(format!("unknown setting `{name}`"))
                .with("origin", origin)
                .hint(suggest::hint(name, &known)));
        };
        self.values.insert(spec.name, (value.into(), origin));
        Ok(())
    }

    /// Adds the tables of a TOML file, flattened to dotted names.
    ///
    /// # Errors
    /// `Invalid` with the file and line for bad syntax or an unknown key.
    pub fn add_toml(&mut self, file: &str, text: &str) -> Result<()> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            let line = e.span().map_or(0, |span| {
                1 + text[..span.start.min(text.len())].matches('\n').count()
            });
            Error::invalid(format!("{file} is not valid TOML: {}", e.message())).with("line", line)
        })?;
        let mut flat = Vec::new();
        flatten("", &table, &mut flat);
        for (name, value) in flat {
            let leaf = name.rsplit('.').next().unwrap_or(&name);
            let line = text
                .lines()
                .position(|line| line.trim_start().starts_with(leaf))
                .map_or(0, |at| at + 1);
            self.set(&name, value, Origin::File(file.to_owned()))
                .map_err(|e| e.with("line", line))?;
        }
        Ok(())
    }

    /// Adds `STADDLE_…` variables: `__` nests, so `STADDLE_RUNTIME__MEMORY` sets `runtime.memory`. Variables without
    /// `__` belong to other parts (such as `STADDLE_LOG`) and are left alone.
    ///
    /// # Errors
    /// `Invalid` for an unknown name.
    pub fn add_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<()> {
        for (variable, value) in variables {
            let Some(rest) = variable.strip_prefix("STADDLE_") else {
                continue;
            };
            if !rest.contains("__") {
                continue;
            }
            let name = rest.replace("__", ".").to_ascii_lowercase();
            self.set(&name, value, Origin::Environment(variable))?;
        }
        Ok(())
    }

    /// The value of a setting that is in the table.
    ///
    /// # Errors
    /// `Internal` when no [`Spec`] has this name.
    pub fn get(&self, name: &str) -> Result<&str> {
        self.values
            .get(name)
            .map(|(value, _)| value.as_str())
            .ok_or_else(|| Error::internal(format!("no setting is called `{name}`")))
    }

    /// Name, value, origin and help of every setting, in the order of the table.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, &str, &Origin, &'static str)> {
        self.specs.iter().filter_map(|spec| {
            self.values
                .get(spec.name)
                .map(|(value, origin)| (spec.name, value.as_str(), origin, spec.help))
        })
    }
}

fn flatten(prefix: &str, table: &toml::Table, out: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            toml::Value::Table(inner) => flatten(&name, inner, out),
            toml::Value::String(text) => out.push((name, text.clone())),
            other => out.push((name, other.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[Spec] = &[
        Spec {
            name: "runtime.memory",
            default: "auto",
            help: "memory limit",
        },
        Spec {
            name: "runtime.engine",
            default: "auto",
            help: "I/O engine",
        },
    ];

    #[test]
    fn later_layers_win_and_say_so() {
        let mut settings = Settings::new(SPECS);
        settings
            .add_toml("staddle.toml", "[runtime]\nmemory = \"8GB\"\n")
            .unwrap();
        settings
            .add_environment([
                ("STADDLE_RUNTIME__ENGINE".into(), "pread".into()),
                ("STADDLE_LOG".into(), "x".into()),
            ])
            .unwrap();
        let rows: Vec<String> = settings
            .rows()
            .map(|(n, v, o, _)| format!("{n}={v} ({o})"))
            .collect();
        assert_eq!(
            rows,
            [
                "runtime.memory=8GB (file staddle.toml)",
                "runtime.engine=pread (variable STADDLE_RUNTIME__ENGINE)"
            ]
        );
    }

    #[test]
    fn an_unknown_key_names_file_line_and_nearest() {
        let error = Settings::new(SPECS)
            .add_toml("s.toml", "[runtime]\nmemroy = 1\n")
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("runtime.memroy")
                && text.contains("line=2")
                && text.contains("did you mean `runtime.memory`"),
            "{text}"
        );
    }
}
