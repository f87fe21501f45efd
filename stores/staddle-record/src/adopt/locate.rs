//! Where an adopted file is, and whether this set may go there.
//!
//! A relative URI starts at the folder that holds the set. A set may follow files in that folder and below it (and in
//! the folder above, where the set is one field of an aligned set); anything else needs `external_anywhere`, because a
//! set that comes from someone else must not read the reader's other files.

use std::collections::BTreeMap;
use std::sync::Arc;

use staddle_base::{Error, Result};
use staddle_runtime::io::device::Device;

use crate::manifest::External;
use crate::reader::chunks::Origin;

/// The name of the file that says that a folder holds aligned sets.
pub const ALIGNED: &str = "aligned.json";

/// Splits a path or URI into its folder and its last part.
fn split(uri: &str) -> (&str, &str) {
    let trimmed = uri.trim_end_matches('/');
    match trimmed.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
        None => (".", trimmed),
    }
}

/// Resolves `.` and `..` without asking the file system.
fn normalize(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if absolute {
        format!("/{joined}")
    } else {
        joined
    }
}

fn is_within(path: &str, folder: &str) -> bool {
    let (path, folder) = (normalize(path), normalize(folder));
    match folder.as_str() {
        "" => !path.starts_with('/') && !path.starts_with(".."),
        "/" => path.starts_with('/'),
        folder => path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/')),
    }
}

/// The device and the name on it of an adopted file.
///
/// # Errors
/// `Denied` when it lies where the set must not go, and those of finding the device.
pub fn resolve(origin: &Origin, external: &External) -> Result<(Arc<dyn Device>, String)> {
    let set = origin.device.uri();
    let (home, _) = split(set);
    let is_rooted = external.uri.starts_with('/') || external.uri.contains("://");
    let target = if is_rooted {
        external.uri.clone()
    } else {
        format!("{home}/{}", external.uri)
    };
    if !origin.external_anywhere {
        let above = split(home).0;
        let aligned = || {
            let device = origin.runtime.io().device(home, &BTreeMap::new())?;
            Ok::<_, Error>(device.stat(ALIGNED)?.is_some())
        };
        let beside = is_within(&target, home) || (is_within(&target, above) && aligned()?);
        if !beside {
            return Err(Error::denied(format!(
                "the set refers to `{}`, which does not lie beside it",
                external.uri
            ))
            .hint("open it with external=\"any\" if you trust where it comes from"));
        }
    }
    let (folder, name) = split(&target);
    let device = origin.runtime.io().device(folder, &BTreeMap::new())?;
    Ok((device, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_beside_the_set_are_within() {
        assert!(is_within("/data/a.tar", "/data"));
        assert!(is_within("/data/x/../a.tar", "/data"));
        assert!(is_within("shards/a.tar", "."));
        assert!(!is_within("/data/../etc/passwd", "/data"));
        assert!(!is_within("/database/a.tar", "/data"));
        assert!(!is_within("../a.tar", "."));
        assert!(!is_within("/etc/passwd", "."));
        assert!(is_within("s3://bucket/sets/a.tar", "s3://bucket/sets"));
    }
}
