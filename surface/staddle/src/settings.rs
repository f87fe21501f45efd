//! Where settings come from: flags over `STADDLE_…` variables over `staddle.toml` over defaults.
//!
//! The file is the one that `STADDLE_CONFIG` names, else `staddle.toml` in the current folder, else
//! `staddle/staddle.toml` in the user's configuration folder. The table of settings is the runtime's.

use std::path::PathBuf;

use staddle_base::settings::{Origin, Settings};
use staddle_base::{Error, ErrorKind, Result};
use staddle_runtime::Runtime;
use staddle_runtime::options::{Options, SPECS};

/// The settings in force for this process; `flags` are `name`, `value` pairs that win over everything else.
///
/// # Errors
/// `Invalid` naming the file and line, variable or flag, with the nearest known name.
pub fn load<'a>(flags: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Settings> {
    let mut settings = Settings::new(SPECS);
    if let Some(path) = file()? {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path)
            .map_err(|e| Error::io("reading the settings", &name, e))?;
        settings.add_toml(&name, &text)?;
    }
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    settings.add_environment(variables)?;
    for (name, value) in flags {
        settings.set(name, value, Origin::Flag)?;
    }
    Ok(settings)
}

/// The settings file, if there is one.
///
/// # Errors
/// `NotFound` when `STADDLE_CONFIG` names a file that is not there.
pub fn file() -> Result<Option<PathBuf>> {
    if let Some(named) = std::env::var_os("STADDLE_CONFIG").map(PathBuf::from) {
        return if named.is_file() {
            Ok(Some(named))
        } else {
            Err(Error::not_found("the settings file does not exist")
                .with("path", named.display())
                .hint("STADDLE_CONFIG names it; correct or unset the variable"))
        };
    }
    let home = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")));
    let places = [
        Some(PathBuf::from("staddle.toml")),
        home.map(|home| home.join("staddle").join("staddle.toml")),
    ];
    Ok(places.into_iter().flatten().find(|path| path.is_file()))
}

/// The runtime options that these settings say.
///
/// # Errors
/// `Invalid` naming the setting and where its value came from.
pub fn options(settings: &Settings) -> Result<Options> {
    let mut options = Options::default();
    for (name, value, origin, _) in settings.rows() {
        if *origin == Origin::Default {
            continue;
        }
        options
            .set(name, value)
            .map_err(|e| e.with("setting", name).with("origin", origin))?;
    }
    Ok(options)
}

/// Makes this process's runtime use the settings; `flags` win.
///
/// # Errors
/// `Invalid` for a bad setting; `Conflict` when the runtime is in use already.
pub fn configure<'a>(flags: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<()> {
    Runtime::configure_global(options(&load(flags)?)?)
}

/// The runtime of this process, with the settings of its environment. The first call decides.
///
/// # Errors
/// `Invalid` for a bad setting.
pub fn runtime() -> Result<Runtime> {
    use std::sync::OnceLock;
    static DECIDED: OnceLock<()> = OnceLock::new();
    if DECIDED.get().is_none() {
        match configure([]) {
            Ok(()) => {}
            // Someone configured it before; theirs wins.
            Err(e) if e.kind() == ErrorKind::Conflict => {}
            Err(e) => return Err(e),
        }
        let _ = DECIDED.set(());
    }
    Ok(Runtime::global())
}
