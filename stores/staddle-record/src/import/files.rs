//! A tree of files: one record a file, in order of the bytes of its path below the root.
//!
//! Symbolic links are not followed, pipes and devices never opened; both are counted. A file that cannot be read is
//! counted with its reason, or ends the import where the user wants every file.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use staddle_base::{Error, Result};
use staddle_runtime::io::device::Device;
use staddle_runtime::io::device::tree::{Leaf, Tree};

use super::{Incoming, Means, PORTION_BYTES, PORTION_RECORDS, Portion, Reader, Skipped};
use crate::adopt::source::real;
use crate::format::RECORD_BYTES_MAX;

/// Files that one worker reads at a time.
const GROUP: usize = 64;

/// Reads a tree of files.
#[derive(Debug)]
pub struct FilesReader {
    tree: Tree,
    files: Vec<Leaf>,
    next: usize,
    bytes_total: u64,
    strict: bool,
    skipped: Skipped,
}

impl FilesReader {
    /// The files below a local path, or the one file that it is. What lies in `leave_out`, say the set that is being
    /// made, is left out.
    ///
    /// # Errors
    /// As [`FilesReader::new`]; `NotFound` when nothing is there.
    pub fn local(path: &Path, leave_out: Option<&Path>, strict: bool) -> Result<Self> {
        let tree = Tree::local(path)?;
        let root = real(path)?;
        let out = match leave_out {
            Some(out) => Some(real_prefix(out)?),
            None => None,
        };
        let out = out
            .as_deref()
            .zip(root.as_deref())
            .and_then(|(out, root)| out.strip_prefix(root).ok())
            .map(|below| below.as_os_str().as_bytes().to_vec())
            .filter(|below| !below.is_empty());
        Self::new(tree, &|path| Some(path) != out.as_deref(), strict)
    }

    /// The files of a device.
    ///
    /// # Errors
    /// As [`FilesReader::new`].
    pub fn on(device: Arc<dyn Device>, strict: bool) -> Result<Self> {
        Self::new(Tree::on(device), &|_| true, strict)
    }

    /// Lists the tree. Paths for which `keep` is false are left out, folders with all that is in them; `strict` makes a
    /// file or folder that cannot be read an error.
    ///
    /// # Errors
    /// When the root cannot be listed; when strict, the first that cannot be looked at.
    pub fn new(tree: Tree, keep: &dyn Fn(&[u8]) -> bool, strict: bool) -> Result<Self> {
        let walk = tree.walk(keep)?;
        if strict && let Some(error) = walk.reasons.first() {
            return Err(error.duplicate());
        }
        let mut skipped = Skipped {
            links: walk.links,
            special: walk.special,
            ..Skipped::default()
        };
        walk.reasons.iter().for_each(|reason| skipped.add(reason));
        skipped.unreadable = walk.unreadable;
        Ok(Self {
            bytes_total: walk.files.iter().map(|leaf| leaf.len).sum(),
            tree,
            files: walk.files,
            next: 0,
            strict,
            skipped,
        })
    }

    /// The files that will be read.
    pub fn files(&self) -> &[Leaf] {
        &self.files
    }

    fn skip(&mut self, error: Error) -> Result<()> {
        if self.strict {
            return Err(error);
        }
        self.skipped.add(&error);
        Ok(())
    }

    /// How many files the next portion has, and their bytes.
    fn plan(&self) -> (usize, u64) {
        let (mut count, mut bytes) = (0, 0_u64);
        for leaf in self.files.iter().skip(self.next).take(PORTION_RECORDS) {
            let len = if leaf.len > RECORD_BYTES_MAX {
                0
            } else {
                leaf.len
            };
            if count > 0 && bytes + len > PORTION_BYTES {
                break;
            }
            count += 1;
            bytes += len;
        }
        (count, bytes)
    }
}

/// A path without symbolic links, of which the last part need not exist.
fn real_prefix(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Error::io("resolving a path", path.display(), error))?;
    if let Some(real) = real(&absolute)? {
        return Ok(real);
    }
    Ok(match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => real(parent)?
            .unwrap_or_else(|| parent.to_owned())
            .join(name),
        _ => absolute,
    })
}

impl Reader for FilesReader {
    fn next(&mut self, means: &Means) -> Result<Portion> {
        loop {
            let (count, bytes) = self.plan();
            if count == 0 {
                return Ok(Portion::default());
            }
            let held = means.hold(bytes)?;
            let files = self
                .files
                .get(self.next..self.next + count)
                .unwrap_or_default();
            let tree = &self.tree;
            let groups: Vec<&[Leaf]> = files.chunks(GROUP).collect();
            let read = means.runtime.workers().map("import", groups, |group| {
                let read =
                    |leaf: &Leaf| (leaf.path.clone(), tree.read(&leaf.path, RECORD_BYTES_MAX));
                group.iter().map(read).collect::<Vec<_>>()
            })?;
            self.next += count;
            let mut items = Vec::new();
            for (name, bytes) in read.into_iter().flatten() {
                match bytes {
                    Ok(bytes) => items.push(Incoming::new(name, bytes)),
                    Err(error) => self.skip(error)?,
                }
            }
            if !items.is_empty() {
                return Ok(Portion {
                    items,
                    source_bytes: bytes,
                    held: Some(held),
                });
            }
        }
    }

    fn totals(&self) -> (Option<u64>, Option<u64>) {
        (Some(self.files.len() as u64), Some(self.bytes_total))
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }
}
