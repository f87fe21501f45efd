//! Each layer rule refuses an arrow that points the wrong way, and lets the right ones pass.
use std::path::PathBuf;

use super::*;
use crate::metadata::Dependency;

/// A workspace of (folder, dependencies); the last part of the folder is the name, `dev:` marks a dev-dependency.
fn workspace(packages: &[(&str, &[&str])]) -> Graph {
    let package = |(folder, dependencies): &(&str, &[&str])| Package {
        name: folder.rsplit('/').next().unwrap().to_owned(),
        version: "0.1.0".into(),
        licence: None,
        source: None,
        folder: PathBuf::from("/w").join(folder),
        dependencies: dependencies
            .iter()
            .map(|name| match name.strip_prefix("dev:") {
                Some(name) => Dependency {
                    name: name.to_owned(),
                    kind: Kind::Dev,
                },
                None => Dependency {
                    name: (*name).to_owned(),
                    kind: Kind::Normal,
                },
            })
            .collect(),
        programs: Vec::new(),
        doctests: false,
    };
    Graph {
        root: PathBuf::from("/w"),
        packages: packages.iter().map(package).collect(),
    }
}

/// The complaints about one package among a whole and otherwise innocent workspace.
fn about(folder: &str, dependencies: &[&str]) -> Vec<String> {
    let others = [
        "runtime/staddle-base",
        "runtime/staddle-codec",
        "runtime/staddle-runtime",
        "stores/staddle-record",
        "stores/staddle-grid",
        "surface/staddle",
        "testing/staddle-sim",
        "testing/fuzz",
        "xtask",
    ];
    let mut packages: Vec<(&str, &[&str])> = others
        .iter()
        .filter(|other| **other != folder)
        .map(|other| (*other, &[][..]))
        .collect();
    packages.push((folder, dependencies));
    complaints(&workspace(&packages))
}

#[test]
fn the_intended_arrows_pass() {
    for (folder, dependencies) in [
        (
            "runtime/staddle-runtime",
            &[
                "staddle-base",
                "staddle-codec",
                "object_store",
                "tokio",
                "io-uring",
            ][..],
        ),
        (
            "stores/staddle-record",
            &["staddle-base", "staddle-runtime", "dev:staddle-sim", "zstd"],
        ),
        (
            "surface/staddle",
            &[
                "staddle-record",
                "staddle-runtime",
                "parquet",
                "heed",
                "arrow-array",
            ],
        ),
        ("surface/staddle-python", &["staddle", "pyo3", "numpy"]),
        ("testing/fuzz", &["staddle-record", "staddle-sim"]),
        ("xtask", &["serde_json"]),
    ] {
        assert_eq!(
            about(folder, dependencies),
            Vec::<String>::new(),
            "{folder}"
        );
    }
}

#[test]
fn wrong_arrows_are_refused_with_the_rule() {
    for (folder, dependency, rule) in [
        (
            "stores/staddle-record",
            "staddle-grid",
            "never see each other",
        ),
        (
            "stores/staddle-record",
            "dev:staddle-grid",
            "never see each other",
        ),
        (
            "stores/staddle-record",
            "staddle",
            "nothing below depends on the surface",
        ),
        (
            "testing/fuzz",
            "staddle",
            "nothing below depends on the surface",
        ),
        (
            "runtime/staddle-runtime",
            "staddle-record",
            "knows no store",
        ),
        (
            "runtime/staddle-base",
            "staddle-runtime",
            "layer 1 is ordered",
        ),
        (
            "runtime/staddle-codec",
            "staddle-runtime",
            "layer 1 is ordered",
        ),
        ("stores/staddle-record", "staddle-sim", "dev-dependency"),
        ("stores/staddle-record", "dev:fuzz", "only staddle-sim"),
        ("testing/staddle-sim", "staddle-record", "no store"),
        ("xtask", "staddle-base", "no product crate"),
        ("xtask", "clap", "serde_json only"),
        ("stores/staddle-record", "xtask", "nothing depends on xtask"),
    ] {
        let found = about(folder, &[dependency]);
        assert!(
            found.iter().any(|line| line.contains(rule)),
            "{folder} -> {dependency}: {found:?}"
        );
    }
}

#[test]
fn heavy_dependencies_stay_behind_their_fences() {
    for (folder, dependency) in [
        ("stores/staddle-record", "object_store"),
        ("stores/staddle-record", "arrow-array"),
        ("stores/staddle-record", "parquet"),
        ("stores/staddle-record", "memmap2"),
        ("surface/staddle", "datafusion"),
        ("surface/staddle", "pyo3"),
        ("runtime/staddle-runtime", "tonic"),
        ("testing/fuzz", "rocksdb"),
        ("runtime/staddle-codec", "tokio"),
    ] {
        assert_eq!(
            about(folder, &[dependency]).len(),
            1,
            "{folder} -> {dependency}"
        );
    }
}

#[test]
fn a_package_outside_the_layers_is_refused() {
    assert!(complaints(&workspace(&[("misc/thing", &[])]))[0].contains("outside"));
}
