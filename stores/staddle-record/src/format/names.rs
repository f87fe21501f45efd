//! Where each file of a set lies.
//!
//! ```text
//! imgs.rec/
//!   HEAD  LOCK  meta.json
//!   manifest/N.json   offset/SEGMENT.VERSION.seg   offset/SEGMENT.VERSION.SUMMED.sum
//!   chunk/ID.zr       log/N.log                    dict/SLOT.zdict   snap/NAME.json
//! ```

use staddle_base::{Error, Result};

/// The only mutable truth: two slots of 4 KiB.
pub const HEAD: &str = "HEAD";
/// Byte 0: the writer. Byte 2^32 + g: a reader of generation g.
pub const LOCK: &str = "LOCK";
/// The manifest for people; the engine never reads it.
pub const META: &str = "meta.json";
/// Folders of a set, in the order they are made.
pub const DIRS: [&str; 6] = ["manifest", "offset", "chunk", "log", "dict", "snap"];

/// The first byte of the lock file that pins generations.
pub const PIN_BASE: u64 = 1 << 32;

/// A manifest.
pub fn manifest(number: u64) -> String {
    format!("manifest/{number}.json")
}
/// A segment of the offset table.
pub fn segment(no: u64, version: u64) -> String {
    format!("offset/{no}.{version}.seg")
}
/// The page checksums of the first `summed` slots of a segment.
pub fn sums(no: u64, version: u64, summed: u64) -> String {
    format!("offset/{no}.{version}.{summed}.sum")
}
/// A chunk.
pub fn chunk(id: u32) -> String {
    format!("chunk/{id}.zr")
}
/// A log.
pub fn log(number: u64) -> String {
    format!("log/{number}.log")
}
/// A zstd dictionary.
pub fn dictionary(slot: u8) -> String {
    format!("dict/{slot}.zdict")
}
/// A named snapshot.
pub fn snapshot(name: &str) -> String {
    format!("snap/{name}.json")
}

/// Checks a name that becomes part of a path: `[A-Za-z0-9._=-]{1,128}`, no leading dot.
///
/// # Errors
/// `Invalid` with the rule.
pub fn check(name: &str) -> Result<()> {
    let legal = (1..=128).contains(&name.len())
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._=-".contains(&b));
    if legal {
        return Ok(());
    }
    Err(
        Error::invalid(format!("`{}` cannot be a name here", name.escape_debug()))
            .hint("use 1 to 128 of A-Z a-z 0-9 . _ = -, not starting with a dot"),
    )
}
