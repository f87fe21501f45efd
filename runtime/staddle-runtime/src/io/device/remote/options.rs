//! Storage options: their names and aliases, what is secret, and what an unknown one may have meant.

use std::collections::BTreeMap;
use std::time::Duration;

use object_store::ClientConfigKey;
use object_store::ObjectStoreScheme;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;
use staddle_base::{Error, Result, suggest};

/// How long one operation may take with all its retries, unless the option `deadline` says otherwise.
const DEADLINE: Duration = Duration::from_secs(60);

/// Options every scheme has, ours first.
const COMMON: &[&str] = &[
    "deadline",
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "proxy_url",
    "proxy_ca_certificate",
    "proxy_excludes",
    "timeout",
    "user_agent",
    "http1_only",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
];
const S3: &[&str] = &[
    "access_key_id",
    "secret_access_key",
    "session_token",
    "region",
    "endpoint",
    "anonymous",
    "virtual_hosted_style_request",
    "unsigned_payload",
    "checksum_algorithm",
    "conditional_put",
    "request_payer",
    "role_arn",
    "role_session_name",
    "web_identity_token_file",
    "server_side_encryption",
    "sse_kms_key_id",
    "sse_bucket_key_enabled",
    "sse_customer_key_base64",
    "disable_tagging",
    "s3_express",
    "imdsv1_fallback",
    "metadata_endpoint",
];
const GCS: &[&str] = &[
    "service_account",
    "service_account_key",
    "application_credentials",
    "base_url",
    "anonymous",
];
const AZURE: &[&str] = &[
    "account_name",
    "account_key",
    "client_id",
    "client_secret",
    "tenant_id",
    "sas_token",
    "bearer_token",
    "endpoint",
    "use_emulator",
    "use_azure_cli",
    "authority_host",
    "container_name",
    "federated_token_file",
    "anonymous",
];

/// Names of other tools for the same things.
const ALIASES: &[(&str, &str)] = &[
    ("key", "access_key_id"),
    ("secret", "secret_access_key"),
    ("anon", "skip_signature"),
    ("anonymous", "skip_signature"),
    ("endpoint_override", "endpoint"),
    ("region_name", "region"),
];

/// The options of one device, checked. Values may be secret, so this has no `Debug`.
pub(super) struct Options {
    pairs: Vec<(String, String)>,
    pub(super) deadline: Duration,
}

impl Options {
    /// Checks names against what `scheme` knows.
    pub(super) fn new(
        scheme: &ObjectStoreScheme,
        given: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let mut options = Self {
            pairs: Vec::new(),
            deadline: DEADLINE,
        };
        for (name, value) in given {
            let name = name.to_ascii_lowercase();
            if name == "deadline" {
                options.deadline = seconds(value)?;
                continue;
            }
            let full = ALIASES
                .iter()
                .find(|(alias, _)| *alias == name)
                .map_or(name.as_str(), |(_, full)| full);
            if !is_known(scheme, full) {
                let known = [COMMON, specific(scheme)].concat();
                return Err(Error::invalid(format!("unknown storage option `{name}`"))
                    .hint(suggest::hint(&name, &known)));
            }
            options.pairs.push((full.to_owned(), value.clone()));
        }
        Ok(options)
    }

    /// Name and value of every option for object_store.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// The value of an option, with or without a provider's prefix in front of its name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let bare = |given: &str| {
            let prefixes = ["aws_", "azure_storage_", "azure_", "google_"];
            prefixes
                .iter()
                .find_map(|prefix| given.strip_prefix(prefix).map(str::to_owned))
                .unwrap_or_else(|| given.to_owned())
        };
        self.pairs().find(|(n, _)| bare(n) == name).map(|(_, v)| v)
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| {
            matches!(
                value.to_ascii_lowercase().as_str(),
                "1" | "true" | "on" | "yes" | "y"
            )
        })
    }

    /// `text` without any secret: neither values given as options, nor signatures in URLs.
    pub(super) fn scrub(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for (name, value) in self.pairs() {
            if is_secret_option(name) && value.len() >= 4 {
                clean = clean.replace(value, "***");
            }
        }
        without_queries(&clean)
    }
}

/// Whether an option's value must never be shown, logged or pickled.
pub fn is_secret_option(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if name.ends_with("_file") || name.ends_with("access_key_id") || name == "key" {
        return false;
    }
    [
        "secret",
        "token",
        "sas",
        "password",
        "access_key",
        "account_key",
        "master_key",
        "key_base64",
        "proxy_url",
    ]
    .iter()
    .any(|part| name.contains(part))
        || name.ends_with("service_account_key")
}

fn specific(scheme: &ObjectStoreScheme) -> &'static [&'static str] {
    match scheme {
        ObjectStoreScheme::AmazonS3 => S3,
        ObjectStoreScheme::GoogleCloudStorage => GCS,
        ObjectStoreScheme::MicrosoftAzure => AZURE,
        _ => &[],
    }
}

fn is_known(scheme: &ObjectStoreScheme, name: &str) -> bool {
    match scheme {
        ObjectStoreScheme::AmazonS3 => name.parse::<AmazonS3ConfigKey>().is_ok(),
        ObjectStoreScheme::GoogleCloudStorage => name.parse::<GoogleConfigKey>().is_ok(),
        ObjectStoreScheme::MicrosoftAzure => name.parse::<AzureConfigKey>().is_ok(),
        _ => name.parse::<ClientConfigKey>().is_ok(),
    }
}

fn seconds(value: &str) -> Result<Duration> {
    let number = value.trim().trim_end_matches('s').trim_end();
    let seconds: f64 = number.parse().unwrap_or(f64::NAN);
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err(Error::invalid(format!("`{value}` is not a deadline"))
            .hint("give seconds, as 60 or \"2.5s\""));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Cuts the query off every URL that carries a signature or token.
fn without_queries(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('?') {
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ')' | '>'))
            .unwrap_or(after.len());
        let (query, tail) = after.split_at(end);
        clean.push_str(before);
        clean.push('?');
        let lower = query.to_ascii_lowercase();
        let telling = ["sig=", "signature=", "token=", "credential="];
        clean.push_str(if telling.iter().any(|word| lower.contains(word)) {
            "***"
        } else {
            query
        });
        rest = tail;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn aliases_reach_their_option() {
        let options = given(&[
            ("key", "id"),
            ("secret", "s"),
            ("anon", "true"),
            ("endpoint_url", "http://x"),
            ("deadline", "5"),
        ]);
        let options = Options::new(&ObjectStoreScheme::AmazonS3, &options).unwrap();
        assert_eq!(options.get("access_key_id"), Some("id"));
        assert_eq!(options.get("secret_access_key"), Some("s"));
        assert!(options.is_set("skip_signature"));
        assert_eq!(options.deadline, Duration::from_secs(5));
    }

    #[test]
    fn every_name_we_suggest_is_accepted() {
        for scheme in [
            ObjectStoreScheme::AmazonS3,
            ObjectStoreScheme::GoogleCloudStorage,
            ObjectStoreScheme::MicrosoftAzure,
            ObjectStoreScheme::Http,
        ] {
            for name in COMMON.iter().chain(specific(&scheme)) {
                assert!(
                    Options::new(&scheme, &given(&[(name, "1")])).is_ok(),
                    "{scheme:?} {name}"
                );
            }
        }
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_nearest() {
        let wrong = given(&[("acces_key_id", "x")]);
        let error = Options::new(&ObjectStoreScheme::AmazonS3, &wrong)
            .err()
            .unwrap();
        assert!(
            error.to_string().contains("did you mean `access_key_id`"),
            "{error}"
        );
        let elsewhere = given(&[("region", "x")]);
        assert!(Options::new(&ObjectStoreScheme::Http, &elsewhere).is_err());
        assert!(Options::new(&ObjectStoreScheme::Http, &given(&[("deadline", "soon")])).is_err());
    }

    #[test]
    fn secrets_are_known_by_name_and_scrubbed_from_text() {
        for name in [
            "secret_access_key",
            "aws_session_token",
            "account_key",
            "sas_token",
            "SECRET",
            "service_account_key",
            "sse_customer_key_base64",
        ] {
            assert!(is_secret_option(name), "{name}");
        }
        for name in [
            "access_key_id",
            "region",
            "web_identity_token_file",
            "sse_kms_key_id",
            "endpoint",
        ] {
            assert!(!is_secret_option(name), "{name}");
        }
        let options = given(&[
            ("secret_access_key", "hunter22"),
            ("access_key_id", "visible"),
        ]);
        let options = Options::new(&ObjectStoreScheme::AmazonS3, &options).unwrap();
        let text =
            options.scrub("visible hunter22 (http://h/p?sv=1&Sig=abc%3D) and http://h/p?page=2");
        assert_eq!(text, "visible *** (http://h/p?***) and http://h/p?page=2");
    }
}
