//! Supply-chain rules that need no network: least versions with known holes closed, licences, sources, one major where two would
//! mean two of everything, and packages that never read our bytes.

use std::collections::BTreeMap;

use crate::metadata::{Graph, Package};

/// Package, least version, the advisory or reason.
const LEAST: &[(&str, &str, &str)] = &[
    ("h2", "0.4.16", "RUSTSEC-2026-0258"),
    ("bytes", "1.11.1", "RUSTSEC-2026-0007"),
    ("lz4_flex", "0.12.1", "RUSTSEC-2026-0041"),
    ("memmap2", "0.9.11", "RUSTSEC-2026-0186"),
    ("lru", "0.18.2", "RUSTSEC-2026-0253"),
    ("tar", "0.4.45", "RUSTSEC-2026-0067 and -0068"),
    ("pyo3", "0.29.0", "RUSTSEC-2026-0176 and -0177"),
    ("object_store", "0.10.2", "RUSTSEC-2024-0358"),
    ("tonic", "0.12.3", "RUSTSEC-2024-0376"),
    ("rustls", "0.23.18", "RUSTSEC-2024-0399"),
];

/// Packages that must not be in the lock file at all.
const NEVER: &[(&str, &str)] = &[
    ("bincode", "unmaintained, and no format for untrusted bytes"),
    ("rkyv", "not for untrusted bytes (RUSTSEC-2026-0233)"),
    ("arrow2", "unmaintained; arrow is the one Arrow here"),
    ("serde_cbor", "unmaintained"),
    ("tokio-tar", "RUSTSEC-2025-0111"),
    ("openssl", "TLS here is rustls"),
    ("openssl-sys", "TLS here is rustls"),
];

/// Packages of which two majors would mean two runtimes, two TLS stacks or two kinds of arrays.
const ONE_MAJOR: &[&str] = &[
    "tokio",
    "rustls",
    "arrow",
    "arrow-array",
    "arrow-schema",
    "parquet",
    "object_store",
    "pyo3",
];

/// Licences we may ship. An expression passes when one of its `OR` sides has only these.
const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "Unlicense",
    "Unicode-3.0",
    "CDLA-Permissive-2.0",
];

pub(super) fn complaints(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    let foreign: Vec<&Package> = graph
        .packages
        .iter()
        .filter(|package| package.source.is_some())
        .collect();
    for package in &foreign {
        let named = format!("Cargo.lock: {} {}", package.name, package.version);
        if let Some((_, least, why)) = LEAST.iter().find(|(name, _, _)| *name == package.name)
            && numbers(&package.version) < numbers(least)
        {
            found.push(format!("{named}: at least {least} is needed ({why})"));
        }
        if let Some((_, why)) = NEVER.iter().find(|(name, _)| *name == package.name) {
            found.push(format!("{named}: not allowed: {why}"));
        }
        if !package
            .source
            .as_deref()
            .is_some_and(|source| source.starts_with("registry+"))
        {
            found.push(format!(
                "{named}: packages come from the registry, not from git or elsewhere"
            ));
        }
        match &package.licence {
            Some(licence) if licence_passes(licence) => {}
            Some(licence) => found.push(format!(
                "{named}: licence `{licence}` is not on the list of those we may ship"
            )),
            None => found.push(format!("{named}: states no licence")),
        }
    }
    found.extend(second_majors(&foreign));
    found
}

fn second_majors(packages: &[&Package]) -> Vec<String> {
    let mut majors: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in packages
        .iter()
        .filter(|package| ONE_MAJOR.contains(&package.name.as_str()))
    {
        let (major, minor, _) = numbers(&package.version);
        // Below 1.0 the second number is the one that breaks.
        let major = if major == 0 {
            format!("0.{minor}")
        } else {
            major.to_string()
        };
        let seen = majors.entry(&package.name).or_default();
        if !seen.contains(&major) {
            seen.push(major);
        }
    }
    majors
        .into_iter()
        .filter(|(_, majors)| majors.len() > 1)
        .map(|(name, majors)| {
            format!(
                "Cargo.lock: {name} in more than one major: {}",
                majors.join(" and ")
            )
        })
        .collect()
}

/// `1.2.3-rc.1+build` as (1, 2, 3).
fn numbers(version: &str) -> (u64, u64, u64) {
    let release = version.split(['-', '+']).next().unwrap_or(version);
    let mut parts = release.split('.').map(|part| part.parse().unwrap_or(0));
    (
        parts.next().unwrap_or(0),
        parts.next().unwrap_or(0),
        parts.next().unwrap_or(0),
    )
}

/// Reads `A OR (B AND C)` and the old `A/B`: one side of an OR must pass, all sides of an AND.
fn licence_passes(expression: &str) -> bool {
    let plain = expression.replace('/', " OR ");
    let parts = |text: &str, word: &str| -> Vec<String> {
        let (mut parts, mut depth, mut part) = (Vec::new(), 0_i32, Vec::new());
        for piece in text
            .replace('(', " ( ")
            .replace(')', " ) ")
            .split_whitespace()
        {
            match piece {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            if piece == word && depth == 0 {
                parts.push(part.join(" "));
                part = Vec::new();
            } else {
                part.push(piece.to_owned());
            }
        }
        parts.push(part.join(" "));
        parts
    };
    let unwrapped = plain.trim();
    let any = parts(unwrapped, "OR");
    if any.len() > 1 {
        return any.iter().any(|side| licence_passes(side));
    }
    let all = parts(unwrapped, "AND");
    if all.len() > 1 {
        return all.iter().all(|side| licence_passes(side));
    }
    match unwrapped
        .strip_prefix('(')
        .and_then(|rest| rest.trim_end().strip_suffix(')'))
    {
        Some(inside) => licence_passes(inside),
        None => LICENCES.contains(&unwrapped),
    }
}

#[cfg(test)]
mod tests;
