//! Stamps make a second call fast: a step is skipped while the hash of everything it was made from is unchanged.

use std::path::{Path, PathBuf};

use crate::step::{Result, fresh, step};

/// A 64-bit FNV-1a hash. It guards against staleness, not against malice.
#[derive(Clone)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds one value. Its length goes in as well, so that `ab, c` and `a, bc` differ.
    pub(crate) fn add(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self
    }

    /// Adds a file's content; a file that cannot be read counts as absent.
    pub(crate) fn add_content(&mut self, path: &Path) -> &mut Self {
        match std::fs::read(path) {
            Ok(content) => self.add(content),
            Err(_) => self.add("absent"),
        }
    }

    /// Adds every file below a folder, in name order, leaving out what a build or Python itself drops there.
    pub(crate) fn add_tree(&mut self, root: &Path) -> Result<&mut Self> {
        for file in files_below(root)? {
            // Names are relative, so that a second checkout of the same files has the same fingerprint.
            self.add(
                file.strip_prefix(root)
                    .unwrap_or(&file)
                    .as_os_str()
                    .as_encoded_bytes(),
            );
            self.add_content(&file);
        }
        Ok(self)
    }

    pub(crate) fn hex(&self) -> String {
        format!("{:016x}", self.0)
    }
}

/// All files below a folder in name order, without build products.
pub(crate) fn files_below(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = entry.file_name();
            let product = name == "target" || name == "__pycache__" || name == ".git";
            if kind.is_dir() && !product {
                folders.push(path);
            } else if kind.is_file()
                && path
                    .extension()
                    .is_none_or(|kind| kind != "so" && kind != "pyc")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Runs `work` unless the file `stamp` already holds `print`; writes the stamp only after success.
///
/// A stamp lies inside the folder that the work makes, so that who deletes the folder deletes the stamp.
pub(crate) fn unless_fresh(
    stamp: &Path,
    print: &Fingerprint,
    title: &str,
    work: impl FnOnce() -> Result,
) -> Result {
    if std::fs::read_to_string(stamp).is_ok_and(|old| old == print.hex()) {
        fresh(title);
        return Ok(());
    }
    step(title, || {
        let _ = std::fs::remove_file(stamp); // absent on a first run; work that fails must not leave an old stamp
        work()?;
        if let Some(folder) = stamp.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(stamp, print.hex())?;
        Ok(())
    })
}

#[cfg(test)]
mod tests;
