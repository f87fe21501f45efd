//! A connection to an object store: built from URI, options and environment, anew in every process.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, ObjectStoreScheme, RetryConfig};
use staddle_base::{Error, ErrorKind, Result};
use tokio::sync::Semaphore;
use url::Url;

use super::options::Options;

/// How long the metadata service of a cloud machine may take to answer; elsewhere nobody does.
const METADATA_WAIT: Duration = Duration::from_secs(1);

/// What is needed to connect. Holds secrets, so it has no `Debug`.
pub(super) struct Target {
    pub(super) uri: String,
    pub(super) url: Url,
    pub(super) scheme: ObjectStoreScheme,
    pub(super) options: Options,
    pub(super) requests: usize,
}

/// A connected store and the requests it may have in flight.
pub(super) struct Client {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) slots: Arc<Semaphore>,
}

impl Target {
    pub(super) fn connect(&self) -> Result<Client> {
        self.check_transport()?;
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(5),
                base: 2.0,
            },
            max_retries: 20,
            retry_timeout: self.options.deadline,
        };
        let store: object_store::Result<Arc<dyn ObjectStore>> = match &self.scheme {
            ObjectStoreScheme::AmazonS3 => {
                self.check_credentials()?;
                let mut builder = AmazonS3Builder::from_env();
                for (name, value) in self.options.pairs() {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let builder = builder.with_url(self.url.as_str()).with_retry(retry);
                builder.build().map(|store| Arc::new(store) as _)
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let mut builder = GoogleCloudStorageBuilder::from_env();
                for (name, value) in self.options.pairs() {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let builder = builder.with_url(self.url.as_str()).with_retry(retry);
                builder.build().map(|store| Arc::new(store) as _)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let mut builder = MicrosoftAzureBuilder::from_env();
                for (name, value) in self.options.pairs() {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let builder = builder.with_url(self.url.as_str()).with_retry(retry);
                builder.build().map(|store| Arc::new(store) as _)
            }
            _ => {
                let mut builder = HttpBuilder::new();
                for (name, value) in self.options.pairs() {
                    if let Ok(key) = name.parse::<ClientConfigKey>() {
                        builder = builder.with_config(key, value);
                    }
                }
                let origin = &self.url[..url::Position::BeforePath];
                let builder = builder.with_url(origin).with_retry(retry);
                builder.build().map(|store| Arc::new(store) as _)
            }
        };
        let store = store.map_err(|error| {
            Error::invalid(
                self.options
                    .scrub(&format!("the storage options do not fit: {error}")),
            )
            .with("uri", &self.uri)
        })?;
        Ok(Client {
            store,
            slots: Arc::new(Semaphore::new(self.requests)),
        })
    }

    /// Refuses plain HTTP unless the user allows it.
    fn check_transport(&self) -> Result<()> {
        let endpoint = ["endpoint", "endpoint_url", "endpoint_url_s3", "base_url"]
            .iter()
            .find_map(|name| self.options.get(name));
        let plain =
            self.url.scheme() == "http" || endpoint.is_some_and(|url| url.starts_with("http://"));
        if plain && !self.options.is_set("allow_http") && !env_is_true("AWS_ALLOW_HTTP") {
            return Err(
                Error::denied("plain HTTP sends data and credentials unprotected")
                    .with("uri", &self.uri)
                    .hint("use https, or set the storage option allow_http to true"),
            );
        }
        Ok(())
    }

    /// Finds out at once, not after many retries, that there are no credentials at all.
    fn check_credentials(&self) -> Result<()> {
        let option = |name: &str| self.options.get(name).is_some();
        let env = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let anonymous = self.options.is_set("skip_signature") || env_is_true("AWS_SKIP_SIGNATURE");
        let keys = option("access_key_id") || env("AWS_ACCESS_KEY_ID");
        let identity = option("web_identity_token_file") || env("AWS_WEB_IDENTITY_TOKEN_FILE");
        let container = env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
            || env("AWS_CONTAINER_CREDENTIALS_FULL_URI")
            || option("container_credentials_relative_uri")
            || option("container_credentials_full_uri");
        let elsewhere = option("metadata_endpoint") || env("AWS_METADATA_ENDPOINT");
        if anonymous || keys || identity || container || elsewhere {
            return Ok(());
        }
        let metadata = SocketAddr::from(([169, 254, 169, 254], 80));
        if TcpStream::connect_timeout(&metadata, METADATA_WAIT).is_ok() {
            return Ok(());
        }
        Err(Error::denied(
            "no credentials: storage options (not given), AWS_ACCESS_KEY_ID (not set), web identity (not set), \
             container credentials (not set), instance metadata (no answer within 1 s)",
        )
        .with("uri", &self.uri)
        .hint(
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the storage options access_key_id and \
             secret_access_key, or anonymous=true for a public bucket",
        ))
    }

    /// Our error for one of object_store's, without secrets.
    #[cold]
    pub(super) fn error(&self, action: &str, path: &str, error: &object_store::Error) -> Error {
        use object_store::Error as E;
        let kind = match error {
            E::NotFound { .. } => ErrorKind::NotFound,
            E::PermissionDenied { .. } | E::Unauthenticated { .. } | E::InvalidPath { .. } => {
                ErrorKind::Denied
            }
            E::Precondition { .. } | E::NotModified { .. } | E::AlreadyExists { .. } => {
                ErrorKind::Conflict
            }
            E::NotSupported { .. } | E::NotImplemented { .. } => ErrorKind::Unsupported,
            E::UnknownConfigurationKey { .. } => ErrorKind::Invalid,
            _ => ErrorKind::Unavailable,
        };
        let words = match error {
            E::NotFound { .. } => "there is no such object".to_owned(),
            E::Precondition { .. } => "it has changed since it was opened".to_owned(),
            E::AlreadyExists { .. } => "it exists already".to_owned(),
            other => self.options.scrub(&causes(other)),
        };
        let made = Error::new(kind, format!("{action}: {words}"))
            .with("uri", &self.uri)
            .with("path", path);
        match kind {
            ErrorKind::NotFound => made.hint("check the URI"),
            ErrorKind::Denied => made.hint("check the credentials and what they may do"),
            ErrorKind::Conflict => made.hint("open it again"),
            ErrorKind::Unavailable => {
                made.hint("the store did not answer properly; try again later")
            }
            _ => made,
        }
    }
}

fn env_is_true(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| {
        matches!(
            value.to_ascii_lowercase().as_str(),
            "1" | "true" | "yes" | "on"
        )
    })
}

/// An error and its causes, each once.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(cause) = at {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        at = cause.source();
    }
    text
}
