//! `cargo x audit`: known security advisories against the lock file, without a network.

use std::path::PathBuf;

use crate::cmd::Cmd;
use crate::place::Place;
use crate::stamp::{Fingerprint, unless_fresh};
use crate::step::{Result, step};

/// Where a snapshot of the RustSec database may be: named by the caller, or beside the checkout.
const SNAPSHOT: &str = "../shared/data/rustsec-advisory-db.tar.gz";

pub(crate) fn audit(place: &Place) -> Result {
    if !Cmd::new("cargo-audit").arg("--version").succeeds() {
        println!(
            "audit skipped: cargo-audit is not installed (cargo install --locked cargo-audit)"
        );
        return Ok(());
    }
    let named = std::env::var_os("STADDLE_ADVISORY_DB").map(PathBuf::from);
    let snapshot = named.unwrap_or_else(|| place.root.join(SNAPSHOT));
    if !snapshot.exists() {
        println!(
            "audit skipped: no advisory database at {} (name a snapshot with STADDLE_ADVISORY_DB=FILE.tar.gz)",
            place.show(&snapshot)
        );
        return Ok(());
    }
    let folder = place.x.join("advisories");
    let database = folder.join("db");
    let mut print = Fingerprint::new();
    print.add_content(&snapshot);
    unless_fresh(
        &folder.join("snapshot"),
        &print,
        "advisory database",
        || {
            if database.exists() {
                std::fs::remove_dir_all(&database)?;
            }
            std::fs::create_dir_all(&database)?;
            Cmd::new("tar")
                .arg("-xzf")
                .arg(&snapshot)
                .arg("-C")
                .arg(&database)
                .quietly("unpacking the advisories")
        },
    )?;
    step("cargo audit", || {
        Cmd::new("cargo-audit")
            .args(["audit", "--no-fetch", "--stale", "--db"])
            .arg(&database)
            .arg("--file")
            .arg(place.root.join("Cargo.lock"))
            .dir(&place.root)
            .run()
    })
}
