//! `staddle doctor`: what this machine offers, and what is wrong with it.

use serde::Serialize;
use staddle_runtime::doctor::Row;

use super::{Context, Outcome, locations};
use crate::Location;

/// Check what this machine offers: kernel, io_uring, limits, credentials tried, versions
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:\n  staddle doctor\n  staddle doctor s3://bucket/photos.rec")]
pub(crate) struct Arguments {
    /// Also try to reach this store
    #[arg(value_parser = locations())]
    uri: Option<Location>,
}

/// How a finding should be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Note,
    Bad,
}

/// One finding.
#[derive(Debug, Serialize)]
struct Finding {
    level: Level,
    what: &'static str,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            level: Level::Ok,
            what,
            found: found.into(),
            advice: None,
        }
    }

    fn note(what: &'static str, found: impl Into<String>, advice: &str) -> Self {
        Self {
            level: Level::Note,
            what,
            found: found.into(),
            advice: Some(advice.into()),
        }
    }

    fn bad(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            level: Level::Bad,
            what,
            found: found.into(),
            advice: Some(advice.into()),
        }
    }
}

impl From<Row> for Finding {
    fn from(row: Row) -> Self {
        Self {
            level: if row.advice.is_some() {
                Level::Note
            } else {
                Level::Ok
            },
            what: row.name,
            found: row.value,
            advice: row.advice,
        }
    }
}

pub(super) fn run(context: &mut Context, arguments: &Arguments) -> Outcome {
    let mut findings = vec![
        Finding::ok("staddle", env!("CARGO_PKG_VERSION")),
        Finding::ok(
            "machine",
            format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        ),
    ];
    match context.runtime() {
        Ok(runtime) => findings.extend(runtime.doctor().rows.into_iter().map(Finding::from)),
        Err(e) => findings.push(Finding::bad(
            "settings",
            e.to_string(),
            "see `staddle config show --origin`",
        )),
    }
    findings.push(settings_file());
    findings.extend(credentials());
    if let Some(uri) = &arguments.uri {
        findings.push(reach(context, uri));
    }
    let bad = findings
        .iter()
        .filter(|finding| finding.level == Level::Bad)
        .count();
    if context.out.json() {
        context.out.document(&findings)?;
    } else {
        let width = findings
            .iter()
            .map(|finding| finding.what.len())
            .max()
            .unwrap_or(0);
        for finding in &findings {
            let mark = match finding.level {
                Level::Ok => "ok  ",
                Level::Note => "note",
                Level::Bad => "BAD ",
            };
            context.out.line(format_args!(
                "{mark}  {:<width$} {}",
                finding.what, finding.found
            ))?;
            if let Some(advice) = &finding.advice {
                context
                    .out
                    .line(format_args!("      {:<width$} {advice}", ""))?;
            }
        }
    }
    if bad > 0 {
        let error = staddle_base::Error::unavailable(format!("{bad} findings need attention"));
        return Err(error.into());
    }
    context.out.next("staddle demo");
    Ok(())
}

fn settings_file() -> Finding {
    match crate::settings::file() {
        Ok(Some(path)) => Finding::ok("settings", path.display().to_string()),
        Ok(None) => Finding::ok("settings", "no staddle.toml; defaults"),
        Err(e) => Finding::bad("settings", e.to_string(), "correct STADDLE_CONFIG"),
    }
}

/// Which sources of credentials are there; never what they hold.
fn credentials() -> Vec<Finding> {
    let sources: [(&str, &[&str]); 3] = [
        (
            "s3",
            &[
                "AWS_ACCESS_KEY_ID",
                "AWS_WEB_IDENTITY_TOKEN_FILE",
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            ],
        ),
        (
            "gs",
            &[
                "GOOGLE_APPLICATION_CREDENTIALS",
                "GOOGLE_SERVICE_ACCOUNT",
                "GOOGLE_SERVICE_ACCOUNT_KEY",
            ],
        ),
        (
            "az",
            &[
                "AZURE_STORAGE_ACCOUNT_KEY",
                "AZURE_CLIENT_ID",
                "AZURE_STORAGE_SAS_KEY",
            ],
        ),
    ];
    let mut findings = Vec::new();
    for (what, variables) in sources {
        let set: Vec<&str> = variables
            .iter()
            .copied()
            .filter(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
            .collect();
        findings.push(if set.is_empty() {
            Finding::ok(
                what,
                format!("no credentials: none of {} is set", variables.join(", ")),
            )
        } else {
            Finding::ok(what, format!("credentials from {}", set.join(", ")))
        });
    }
    if std::env::var_os("AWS_PROFILE").is_some() {
        findings.push(Finding::note(
            "AWS_PROFILE",
            "set, but profiles are not read",
            "export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the profile",
        ));
    }
    findings
}

fn reach(context: &Context, uri: &Location) -> Finding {
    match context.open(uri) {
        Ok(store) => Finding::ok("store", format!("{uri} is a store of {}", store.kind())),
        Err(e) => Finding::bad(
            "store",
            e.message().to_owned(),
            e.hint_text().unwrap_or("check the path").to_owned(),
        ),
    }
}
