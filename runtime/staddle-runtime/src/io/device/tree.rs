//! A tree of a user's files, to be read once: any names, no symbolic link followed, nothing but regular files.
//!
//! On this machine's file system a name may be any bytes; on other devices names are UTF-8.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use staddle_base::{Error, ErrorKind, Result};

use super::local::{beneath, not_a_file};
use super::{Device, Open};

/// Reasons that a walk keeps; the others are only counted.
const REASONS_MAX: usize = 20;

/// A file of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its path below the root.
    pub path: Vec<u8>,
    /// Bytes when it was listed.
    pub len: u64,
}

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walk {
    /// Regular files, sorted by the bytes of their paths.
    pub files: Vec<Leaf>,
    /// Symbolic links, which are not followed.
    pub links: u64,
    /// Pipes, sockets and devices.
    pub special: u64,
    /// Files and folders that could not be looked at.
    pub unreadable: u64,
    /// Why, for the first of them.
    pub reasons: Vec<Error>,
}

/// A tree of files.
#[derive(Debug)]
pub struct Tree {
    root: Root,
    name: String,
    only: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Root {
    Local(OwnedFd),
    Device(Arc<dyn Device>),
}

impl Tree {
    /// The files below `path`, or the one file that it is. `path` itself may lead through symbolic links.
    ///
    /// # Errors
    /// `NotFound`, `Denied`, and what else opening a folder gives.
    pub fn local(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("opening a tree of files", path.display(), error);
        let real = std::fs::canonicalize(path).map_err(failed)?;
        let is_dir = std::fs::metadata(&real).map_err(failed)?.is_dir();
        let (folder, only) = match (real.parent(), real.file_name()) {
            (Some(folder), Some(name)) if !is_dir => (folder, Some(name.as_bytes().to_vec())),
            _ => (real.as_path(), None),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(folder, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        Ok(Self {
            root: Root::Local(root),
            name: folder.display().to_string(),
            only,
        })
    }

    /// The files of a device.
    pub fn on(device: Arc<dyn Device>) -> Self {
        Self {
            name: device.uri().to_owned(),
            root: Root::Device(device),
            only: None,
        }
    }

    /// Lists every regular file whose path, and whose folders' paths, `keep` accepts.
    ///
    /// # Errors
    /// When the root itself cannot be listed; what is below is counted instead.
    pub fn walk(&self, keep: &dyn Fn(&[u8]) -> bool) -> Result<Walk> {
        let mut walk = Walk::default();
        if let Some(only) = &self.only {
            self.visit(only.clone(), None, &mut walk, &mut Vec::new());
            return Ok(walk);
        }
        let mut folders = vec![Vec::new()];
        while let Some(folder) = folders.pop() {
            let entries = match self.entries(&folder) {
                Ok(entries) => entries,
                Err(error) if folder.is_empty() => return Err(error),
                Err(error) => {
                    walk.fail(error);
                    continue;
                }
            };
            for (name, kind) in entries {
                let mut path = folder.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(&name);
                if keep(&path) {
                    self.visit(path, kind, &mut walk, &mut folders);
                }
            }
        }
        walk.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(walk)
    }

    /// Files one entry under what it is. `kind` saves a call where the folder said it.
    fn visit(
        &self,
        path: Vec<u8>,
        kind: Option<FileType>,
        walk: &mut Walk,
        folders: &mut Vec<Vec<u8>>,
    ) {
        match kind {
            Some(FileType::Directory) => return folders.push(path),
            Some(FileType::Symlink) => return walk.links += 1,
            Some(FileType::RegularFile | FileType::Unknown) | None => {}
            Some(_) => return walk.special += 1,
        }
        match self.look(&path) {
            Ok((FileType::RegularFile, len)) => walk.files.push(Leaf { path, len }),
            Ok((FileType::Directory, _)) => folders.push(path),
            Ok((FileType::Symlink, _)) => walk.links += 1,
            Ok(_) => walk.special += 1,
            Err(error) => walk.fail(error),
        }
    }

    fn entries(&self, folder: &[u8]) -> Result<Vec<(Vec<u8>, Option<FileType>)>> {
        let mut names = Vec::new();
        match &self.root {
            Root::Device(device) => {
                let listed = device.list(&utf8(folder)?)?;
                names.extend(listed.into_iter().map(|name| (name.into_bytes(), None)));
            }
            Root::Local(root) => {
                let failed = |errno| self.error("listing a folder", folder, errno);
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let fd = beneath(root, folder, flags, Mode::empty()).map_err(failed)?;
                for entry in rustix::fs::Dir::read_from(&fd).map_err(failed)? {
                    let entry = entry.map_err(failed)?;
                    let name = entry.file_name().to_bytes();
                    if name != b"." && name != b".." {
                        names.push((name.to_vec(), Some(entry.file_type())));
                    }
                }
            }
        }
        Ok(names)
    }

    fn look(&self, path: &[u8]) -> Result<(FileType, u64)> {
        match &self.root {
            Root::Device(device) => {
                let text = utf8(path)?;
                let stat = device.stat(&text)?.ok_or_else(|| {
                    Error::not_found("the file is gone").with("path", self.shown(path))
                })?;
                let kind = if stat.dir {
                    FileType::Directory
                } else {
                    FileType::RegularFile
                };
                Ok((kind, stat.len))
            }
            Root::Local(root) => {
                let stat = rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(|errno| self.error("looking at a file", path, errno))?;
                let len = u64::try_from(stat.st_size).unwrap_or(0);
                Ok((FileType::from_raw_mode(stat.st_mode), len))
            }
        }
    }

    /// Reads a file whole. What is appended to it meanwhile is left out.
    ///
    /// # Errors
    /// `Exhausted` when it has more than `limit` bytes; those of opening and reading it.
    pub fn read(&self, path: &[u8], limit: u64) -> Result<Vec<u8>> {
        let room = |len: u64| {
            usize::try_from(len)
                .ok()
                .filter(|_| len <= limit)
                .ok_or_else(|| {
                    Error::exhausted(format!(
                        "the file has {len} bytes, more than the limit of {limit}"
                    ))
                    .with("path", self.shown(path))
                })
        };
        match &self.root {
            Root::Device(device) => {
                let file = device.open(&utf8(path)?, Open::Read)?;
                let mut bytes = vec![0; room(file.len()?)?];
                let got = file.read_at(&mut bytes, 0)?;
                bytes.truncate(got);
                Ok(bytes)
            }
            Root::Local(root) => {
                let failed = |errno| self.error("reading a file", path, errno);
                // Not blocking: opening a pipe would wait for its other end.
                let flags = OFlags::RDONLY | OFlags::NONBLOCK;
                let fd = beneath(root, path, flags, Mode::empty()).map_err(failed)?;
                let stat = rustix::fs::fstat(&fd).map_err(failed)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    return Err(not_a_file("reading a file", &self.shown(path)));
                }
                let mut bytes = vec![0; room(u64::try_from(stat.st_size).unwrap_or(0))?];
                let mut done = 0;
                while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
                    match rustix::io::pread(&fd, rest, done as u64) {
                        Ok(0) => break,
                        Ok(got) => done += got,
                        Err(Errno::INTR) => {}
                        Err(errno) => return Err(failed(errno)),
                    }
                }
                bytes.truncate(done);
                Ok(bytes)
            }
        }
    }

    /// A path below the root, for messages.
    pub fn shown(&self, path: &[u8]) -> String {
        let path = String::from_utf8_lossy(path);
        format!(
            "{}/{}",
            self.name.trim_end_matches('/'),
            path.escape_debug()
        )
    }

    fn error(&self, action: &str, path: &[u8], errno: Errno) -> Error {
        let error = Error::io(action, self.shown(path), errno.into());
        match errno {
            Errno::LOOP | Errno::XDEV => error.kinded(ErrorKind::Denied),
            _ => error,
        }
    }
}

impl Walk {
    fn fail(&mut self, error: Error) {
        self.unreadable += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(error);
        }
    }
}

fn utf8(path: &[u8]) -> Result<String> {
    String::from_utf8(path.to_vec()).map_err(|_| Error::invalid("paths on this device are UTF-8"))
}

#[cfg(test)]
mod tests;
