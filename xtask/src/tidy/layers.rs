//! Layer rules, from `cargo metadata`: who may depend on whom, and behind which fence each heavy dependency stays.

use crate::metadata::{Graph, Kind, Package};

/// Where a package stands. The folder decides, so that `ls` shows the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Runtime,
    Stores,
    Surface,
    Testing,
    Tools,
}

impl Layer {
    fn of(folder: &str) -> Option<Self> {
        match folder.split('/').next()? {
            "runtime" => Some(Self::Runtime),
            "stores" => Some(Self::Stores),
            "surface" => Some(Self::Surface),
            "testing" => Some(Self::Testing),
            "xtask" => Some(Self::Tools),
            _ => None,
        }
    }
}

/// A dependency that only the named packages may have: name (or a prefix ending in `*`), packages, why.
const FENCES: &[(&str, &[&str], &str)] = &[
    (
        "object_store",
        &["staddle-runtime"],
        "object stores are devices of the runtime",
    ),
    (
        "io-uring",
        &["staddle-runtime"],
        "only the runtime's engines talk to the kernel's queues",
    ),
    (
        "memmap2",
        &["staddle-runtime"],
        "only the runtime maps files",
    ),
    (
        "arrow*",
        &[
            "staddle-scan",
            "staddle-queue",
            "staddle-sql",
            "staddle",
            "staddle-python",
        ],
        "Arrow belongs to the tabular parts and the surface",
    ),
    (
        "parquet",
        &[
            "staddle-scan",
            "staddle-queue",
            "staddle-sql",
            "staddle",
            "staddle-python",
        ],
        "Parquet belongs to the tabular parts and the surface",
    ),
    (
        "datafusion*",
        &["staddle-sql"],
        "the SQL engine stays in staddle-sql",
    ),
    (
        "tonic*",
        &["staddle", "staddle-queue"],
        "gRPC stays behind the facade's feature `server` and queue's `flight`",
    ),
    (
        "pyo3*",
        &["staddle-python"],
        "Python stays in staddle-python",
    ),
    (
        "numpy",
        &["staddle-python"],
        "Python stays in staddle-python",
    ),
    (
        "heed",
        &["staddle", "staddle-bench-peers"],
        "LMDB is an import format of the facade and a peer, nothing more",
    ),
    (
        "clap*",
        &["staddle", "staddle-fuzz"],
        "command lines belong to the surface",
    ),
    (
        "rocksdb",
        &["staddle-bench-peers"],
        "peers live in bench-peers",
    ),
    (
        "redb",
        &["staddle-bench-peers"],
        "peers live in bench-peers",
    ),
    (
        "lance*",
        &["staddle-bench-peers"],
        "peers live in bench-peers",
    ),
];

/// What a package may never depend on itself, beyond the fences: package, dependency prefix, why.
const ABSENT: &[(&str, &str, &str)] = &[
    (
        "staddle-codec",
        "tokio",
        "codecs do no I/O and are not async",
    ),
    (
        "staddle-codec",
        "futures",
        "codecs do no I/O and are not async",
    ),
    (
        "staddle-codec",
        "rustix",
        "codecs do no I/O and are not async",
    ),
    ("staddle-base", "tokio", "the base is not async"),
    ("staddle-base", "rustix", "the base does no I/O"),
];

pub(super) fn complaints(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for package in graph.members() {
        let folder = graph.place_of(package);
        let Some(layer) = Layer::of(&folder) else {
            found.push(format!(
                "{folder}/Cargo.toml: a package outside runtime, stores, surface, testing and xtask"
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let member = graph
                .members()
                .find(|member| member.name == dependency.name);
            let why = match member {
                Some(member) => between(
                    layer,
                    package,
                    Layer::of(&graph.place_of(member)),
                    member,
                    dependency.kind,
                ),
                None => outside(layer, package, &dependency.name),
            };
            if let Some(why) = why {
                found.push(format!(
                    "{folder}/Cargo.toml: {} must not depend on {}: {why}",
                    package.name, dependency.name
                ));
            }
        }
    }
    found
}

/// A dependency between two members of the workspace.
fn between(
    from: Layer,
    package: &Package,
    to: Option<Layer>,
    member: &Package,
    kind: Kind,
) -> Option<String> {
    let to = to?;
    let test_only = kind == Kind::Dev;
    let why = match (from, to) {
        (Layer::Tools, _) => {
            "xtask must build before everything else, so it depends on no product crate"
        }
        (_, Layer::Tools) => "nothing depends on xtask",
        (Layer::Surface, Layer::Testing)
        | (Layer::Stores, Layer::Testing)
        | (Layer::Runtime, Layer::Testing) => {
            if test_only && member.name == "staddle-sim" {
                return None;
            }
            "the test layer is for tests: only staddle-sim, and only as a dev-dependency"
        }
        (Layer::Surface, _) => return None,
        (_, Layer::Surface) => "nothing below depends on the surface",
        (Layer::Stores, Layer::Stores) => "stores never see each other",
        (Layer::Runtime, Layer::Stores) => "the runtime knows no store",
        (Layer::Runtime, Layer::Runtime) if rank(&package.name) <= rank(&member.name) => {
            "layer 1 is ordered: base, then codec, then runtime"
        }
        (Layer::Testing, Layer::Stores | Layer::Testing)
            if package.name == "staddle-sim" && !test_only =>
        {
            "the simulator knows devices, no store"
        }
        _ => return None,
    };
    Some(why.to_owned())
}

fn rank(name: &str) -> u8 {
    match name {
        "staddle-base" => 0,
        "staddle-codec" => 1,
        _ => 2,
    }
}

/// A dependency on somebody else's package.
fn outside(layer: Layer, package: &Package, dependency: &str) -> Option<String> {
    if layer == Layer::Tools && dependency != "serde_json" {
        return Some("xtask is the first thing a fresh machine builds: the standard library and serde_json only".to_owned());
    }
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => dependency.starts_with(start),
        None => dependency == pattern,
    };
    for (pattern, allowed, why) in FENCES {
        if fits(pattern) && !allowed.contains(&package.name.as_str()) {
            return Some(format!("{why} (allowed: {})", allowed.join(", ")));
        }
    }
    let absent = ABSENT
        .iter()
        .find(|(name, start, _)| package.name == *name && dependency.starts_with(start));
    absent.map(|(_, _, why)| (*why).to_owned())
}

#[cfg(test)]
mod tests;
