//! Which device a path or URI names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use staddle_base::{Error, Result, suggest};

use super::device::{Device, LocalDevice, MemoryDevice, RemoteDevice};

/// The scheme of a URI, or `None` for a path.
pub fn scheme(uri: &str) -> Option<&str> {
    let (scheme, _) = uri.split_once("://")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (!scheme.is_empty() && scheme.chars().all(plain)).then_some(scheme)
}

/// Splits a path or URI into its folder and its last part, as `s3://b/a/x.tar` into `s3://b/a` and `x.tar`. `None` when
/// there is no last part.
pub fn split(uri: &str) -> Option<(&str, &str)> {
    let start = scheme(uri).map_or(0, |scheme| scheme.len() + 3);
    let rest = uri.get(start..)?.trim_end_matches('/');
    let end = start + rest.len();
    match rest.rfind('/') {
        Some(0) if start == 0 => Some(("/", uri.get(1..end)?)),
        Some(at) => Some((uri.get(..start + at)?, uri.get(start + at + 1..end)?)),
        None if start == 0 && !rest.is_empty() => Some((".", rest)),
        None => None,
    }
    .filter(|(_, name)| !name.is_empty())
}

/// Schemes that a [`RemoteDevice`] serves.
const REMOTE: &[&str] = &[
    "s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "http", "https",
];

pub(super) fn device(
    uri: &str,
    options: &BTreeMap<String, String>,
    requests: usize,
) -> Result<Arc<dyn Device>> {
    if uri.is_empty() {
        return Err(Error::invalid("an empty path").hint("give a path or a URI"));
    }
    let device: Arc<dyn Device> = match scheme(uri) {
        None => Arc::new(LocalDevice::new(Path::new(uri))?),
        Some("file") => Arc::new(LocalDevice::new(&file_path(uri)?)?),
        Some("memory") => Arc::new(MemoryDevice::new(uri)),
        Some(_) => return Ok(Arc::new(remote(uri, options, requests)?)),
    };
    if let Some(name) = options.keys().next() {
        return Err(Error::invalid(format!("unknown storage option `{name}`"))
            .with("uri", uri)
            .hint("local files take no storage options"));
    }
    Ok(device)
}

pub(super) fn remote(
    uri: &str,
    options: &BTreeMap<String, String>,
    requests: usize,
) -> Result<RemoteDevice> {
    match scheme(uri) {
        Some(scheme) if REMOTE.contains(&scheme) => RemoteDevice::new(uri, options, requests),
        Some(other) => {
            let known = [&["file", "memory"], REMOTE].concat();
            Err(Error::invalid(format!("unknown scheme `{other}://`"))
                .hint(suggest::hint(other, &known)))
        }
        None => Err(Error::invalid("a local path is not an object store").with("uri", uri)),
    }
}

/// The path that a `file://` URI names; percent-encoded bytes need not be UTF-8.
fn file_path(uri: &str) -> Result<PathBuf> {
    let bad = || {
        Error::invalid("not a file URI")
            .with("uri", uri)
            .hint("write file:///absolute/path")
    };
    let url = url::Url::parse(uri).map_err(|_| bad())?;
    url.to_file_path().map_err(|()| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_split_into_folder_and_name() {
        for (uri, folder, name) in [
            ("a/b/x.tar", "a/b", "x.tar"),
            ("/x", "/", "x"),
            ("x", ".", "x"),
            ("s3://bucket/a/x/", "s3://bucket/a", "x"),
            ("s3://bucket/x", "s3://bucket", "x"),
            ("file:///x", "file://", "x"),
            ("odd name://x", "odd name:/", "x"),
        ] {
            assert_eq!(split(uri), Some((folder, name)), "{uri}");
        }
        for uri in ["", "/", "s3://bucket", "s3://bucket/", "memory://name"] {
            assert_eq!(split(uri), None, "{uri}");
        }
    }

    #[test]
    fn schemes_are_plain_words() {
        assert_eq!(scheme("s3://x"), Some("s3"));
        assert_eq!(scheme("C:/x"), None);
        assert_eq!(scheme("a b://x"), None);
        assert_eq!(scheme("://x"), None);
    }

    #[test]
    fn unknown_schemes_and_options_are_refused_with_a_suggestion() {
        let none = BTreeMap::new();
        let error = device("fil:///x", &none, 1).unwrap_err();
        assert!(
            error.hint_text().unwrap().contains("did you mean `file`"),
            "{error}"
        );
        assert!(device("", &none, 1).is_err());
        let options = BTreeMap::from([("region".to_owned(), "x".to_owned())]);
        let error = device("/tmp", &options, 1).unwrap_err();
        assert!(error.message().contains("`region`"), "{error}");
    }

    #[test]
    fn a_file_uri_decodes_percent_signs() {
        let path = file_path("file:///a%20b/%FF").unwrap();
        assert_eq!(path.as_os_str().as_encoded_bytes(), b"/a b/\xff");
        assert!(file_path("file://host/x").is_err());
    }
}
