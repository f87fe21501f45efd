//! Old versions, banned packages, foreign sources, odd licences and second majors are each refused.
use std::path::PathBuf;

use super::*;

fn lock(packages: &[(&str, &str, &str, Option<&str>)]) -> Graph {
    let package = |(name, version, source, licence): &(&str, &str, &str, Option<&str>)| Package {
        name: (*name).to_owned(),
        version: (*version).to_owned(),
        licence: licence.map(str::to_owned),
        source: Some((*source).to_owned()),
        folder: PathBuf::from("/r"),
        dependencies: Vec::new(),
        programs: Vec::new(),
        doctests: false,
    };
    Graph {
        root: PathBuf::from("/w"),
        packages: packages.iter().map(package).collect(),
    }
}

#[test]
fn a_version_with_a_known_hole_is_refused() {
    let found = complaints(&lock(&[("tar", "0.4.44", "registry+x", Some("MIT"))]));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("0.4.45"), "{found:?}");
    assert!(complaints(&lock(&[("tar", "0.4.45", "registry+x", Some("MIT"))])).is_empty());
    assert!(
        complaints(&lock(&[("bytes", "1.9.0", "registry+x", Some("MIT"))]))[0].contains("1.11.1"),
        "9 is less than 11"
    );
}

#[test]
fn banned_packages_and_git_sources_are_refused() {
    assert!(
        complaints(&lock(&[("bincode", "2.0.0", "registry+x", Some("MIT"))]))[0]
            .contains("not allowed")
    );
    assert!(complaints(&lock(&[("left", "1.0.0", "git+x", Some("MIT"))]))[0].contains("registry"));
}

#[test]
fn licence_expressions_are_read() {
    for good in [
        "MIT",
        "MIT OR Apache-2.0",
        "Unlicense/MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "GPL-3.0-only OR MIT",
        "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
        "Apache-2.0 AND ISC",
    ] {
        assert!(licence_passes(good), "{good}");
    }
    for bad in [
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "(GPL-2.0-only OR LGPL-3.0-only) AND MIT",
        "",
        "SSPL-1.0",
    ] {
        assert!(!licence_passes(bad), "{bad}");
    }
    assert!(complaints(&lock(&[("x", "1.0.0", "registry+x", None)]))[0].contains("no licence"));
}

#[test]
fn two_majors_of_one_runtime_are_refused() {
    let two = |name: &'static str, a: &'static str, b: &'static str| {
        complaints(&lock(&[
            (name, a, "registry+x", Some("MIT")),
            (name, b, "registry+x", Some("MIT")),
        ]))
    };
    assert!(two("tokio", "1.54.0", "0.2.9")[0].contains("more than one major"));
    assert!(two("rustls", "0.23.40", "0.24.0")[0].contains("0.23 and 0.24"));
    assert!(two("arrow", "59.3.0", "59.4.0").is_empty());
    assert!(
        two("syn", "1.0.0", "2.0.0").is_empty(),
        "only those where it matters"
    );
}
