//! Where an adopted file is, and whether this set may go there.
//!
//! A relative URI starts at the folder that holds the set; `..` in front goes up. A set may follow files in that folder
//! and below it (and in the folder above, where the set is a field of an aligned set); anything else needs
//! `external_anywhere`, because a set that comes from someone else must not read the reader's other files.

use std::collections::BTreeMap;
use std::sync::Arc;

use staddle_base::{Error, ErrorKind, Result};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, check_path};

use crate::manifest::External;
use crate::reader::chunks::Origin;

/// The name of the file that says that a folder holds aligned sets.
pub const ALIGNED: &str = "aligned.json";

/// The device and the name on it of an adopted file.
///
/// # Errors
/// `Denied` when it lies where the set must not go, and those of finding the device.
pub fn resolve(origin: &Origin, external: &External) -> Result<(Arc<dyn Device>, String)> {
    find(
        &origin.runtime,
        &origin.device,
        &external.uri,
        origin.external_anywhere,
    )
}

/// As [`resolve`], for a set on `device`.
///
/// # Errors
/// As [`resolve`].
pub fn find(
    runtime: &Runtime,
    device: &Arc<dyn Device>,
    uri: &str,
    anywhere: bool,
) -> Result<(Arc<dyn Device>, String)> {
    let denied = || {
        Error::denied(format!(
            "the set refers to `{}`, which does not lie beside it",
            uri.escape_debug()
        ))
        .hint("open it with external=\"any\" if you trust where it comes from")
    };
    if is_rooted(uri) {
        if !anywhere {
            return Err(denied());
        }
        let (folder, name) = split(uri);
        let device = runtime.io().device(folder, &BTreeMap::new())?;
        return Ok((device, name.to_owned()));
    }
    let mut base = above(runtime, device)?;
    let mut name = uri;
    let mut ups = 0;
    while let Some(rest) = name.strip_prefix("../") {
        let may_go_up = anywhere || (ups == 0 && base.stat(ALIGNED)?.is_some());
        if !may_go_up {
            return Err(denied());
        }
        base = above(runtime, &base)?;
        name = rest;
        ups += 1;
    }
    check_path(name).map_err(|e| e.kinded(ErrorKind::Corrupt))?;
    if name.is_empty() {
        return Err(Error::corrupt("an adopted file has no name"));
    }
    Ok((base, name.to_owned()))
}

/// The folder above a device.
fn above(runtime: &Runtime, device: &Arc<dyn Device>) -> Result<Arc<dyn Device>> {
    if let Some(parent) = device.parent() {
        return Ok(parent);
    }
    let uri = device.uri();
    if device.capabilities().remote {
        return runtime.io().device(split(uri).0, &BTreeMap::new());
    }
    Err(
        Error::unsupported("nothing lies beside this set, so it cannot follow relative paths")
            .with("uri", uri),
    )
}

/// Whether a path or URI says by itself where it is.
pub(crate) fn is_rooted(uri: &str) -> bool {
    uri.starts_with('/') || uri.contains("://")
}

/// Splits a path or URI into its folder and its last part.
pub(crate) fn split(uri: &str) -> (&str, &str) {
    let trimmed = uri.trim_end_matches('/');
    match trimmed.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
        None => (".", trimmed),
    }
}

/// How a set in the folder `home` refers to `file`, both rooted: relative where it can, so that both can move.
pub(crate) fn refer(home: &str, file: &str) -> String {
    let home = home.trim_end_matches('/');
    file.strip_prefix(home)
        .and_then(|rest| rest.strip_prefix('/'))
        .filter(|rest| check_path(rest).is_ok() && !rest.is_empty())
        .unwrap_or(file)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use staddle_runtime::io::device::{FolderDevice, MemoryDevice};

    #[test]
    fn only_files_beside_the_set_are_followed() {
        let runtime = Runtime::global();
        let root: Arc<dyn Device> = Arc::new(MemoryDevice::new("memory://locate-tests"));
        root.create_dir("a/b/field").unwrap();
        let folder = |path: &str| -> Arc<dyn Device> {
            Arc::new(FolderDevice::new(Arc::clone(&root), path).unwrap())
        };
        let kind = |set: &str, uri: &str, anywhere| {
            find(&runtime, &folder(set), uri, anywhere)
                .map(|(device, name)| format!("{}/{name}", device.uri()))
                .map_err(|e| e.kind())
        };
        let found = |path: &str| Ok(format!("memory://locate-tests/{path}"));
        assert_eq!(kind("a/b", "s.tar", false), found("a/s.tar"));
        assert_eq!(kind("a/b", "x/s.tar", false), found("a/x/s.tar"));
        assert_eq!(kind("a/b", "../s.tar", false), Err(ErrorKind::Denied));
        assert_eq!(kind("a/b", "../s.tar", true), found("s.tar"));
        assert_eq!(kind("a/b", "x/../../s.tar", true), Err(ErrorKind::Corrupt));
        assert_eq!(kind("a/b", "", true), Err(ErrorKind::Corrupt));
        assert_eq!(kind("a/b", "/etc/passwd", false), Err(ErrorKind::Denied));
        assert_eq!(kind("a/b", "memory://x/y", false), Err(ErrorKind::Denied));
        assert_eq!(kind("a/b", "memory://x/y", true), Ok("memory://x/y".into()));

        assert_eq!(kind("a/b/field", "../s.tar", false), Err(ErrorKind::Denied));
        root.open(
            "a/b/aligned.json",
            staddle_runtime::io::device::Open::Create,
        )
        .unwrap();
        assert_eq!(kind("a/b/field", "../s.tar", false), found("a/s.tar"));
        assert_eq!(
            kind("a/b/field", "../../s.tar", false),
            Err(ErrorKind::Denied)
        );
    }

    #[test]
    fn files_below_the_home_are_referred_to_relatively() {
        assert_eq!(refer("/data", "/data/x/a.tar"), "x/a.tar");
        assert_eq!(refer("/", "/a.tar"), "a.tar");
        assert_eq!(refer("/data", "/database/a.tar"), "/database/a.tar");
        assert_eq!(refer("memory://t", "memory://t/a.tar"), "a.tar");
    }
}
