//! Files in a folder of this machine's file system.
//!
//! Every name is resolved beneath the root and through no symbolic link (`openat2`, or one component at a time with
//! `O_NOFOLLOW` on kernels without it); only regular files are opened. A sync that failed poisons its file: the kernel
//! may have dropped the pages, so a second sync that succeeds would say nothing.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use staddle_base::{Error, ErrorKind, Result};

use super::{Capabilities, Device, File, Open, Stat, check_path};

mod file;
mod resolve;

pub(super) use resolve::beneath;

use file::{LocalFile, copy_bytes};

/// Media that a [`LocalDevice`] tells apart.
const UNKNOWN: u8 = 0;
const LOCAL: u8 = 1;
const NETWORK: u8 = 2;

/// A folder of the local file system.
pub struct LocalDevice {
    root: PathBuf,
    uri: String,
    /// What `statfs` said: one of the constants below. Asked twice rather than locked, since a fork may come between.
    medium: AtomicU8,
}

impl LocalDevice {
    /// The folder at `path`, which need not exist yet. The path may be any bytes the system accepts.
    ///
    /// # Errors
    /// `Invalid` for an empty path; `Unavailable` when the current folder, which a relative path needs, is gone.
    pub fn new(path: &Path) -> Result<Self> {
        let uri = path.to_string_lossy().into_owned();
        let root = std::path::absolute(path)
            .map_err(|error| Error::io("resolving a path", path.display(), error))?;
        Ok(Self {
            root,
            uri,
            medium: AtomicU8::new(UNKNOWN),
        })
    }

    /// The absolute path of the root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn name(&self, path: &str) -> String {
        if path.is_empty() {
            self.uri.clone()
        } else {
            format!("{}/{path}", self.uri.trim_end_matches('/'))
        }
    }

    fn error(&self, action: &str, path: &str, errno: Errno) -> Error {
        match errno {
            Errno::LOOP | Errno::XDEV => Error::denied(format!(
                "{action}: the path leads through a symbolic link or out of its folder"
            ))
            .with("path", self.name(path)),
            Errno::NOTDIR => Error::io(action, self.name(path), errno.into())
                .kinded(ErrorKind::NotFound)
                .hint("a part of the path is a file, not a folder"),
            _ => Error::io(action, self.name(path), errno.into()),
        }
    }

    /// Opens `path` beneath the root, following no symbolic link.
    fn open_beneath(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mode = if flags.contains(OFlags::CREATE) {
            Mode::from_raw_mode(0o666)
        } else {
            Mode::empty()
        };
        let root = rustix::fs::open(
            &self.root,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        beneath(&root, path.as_bytes(), flags, mode)
    }

    /// Makes the root where it is missing, durably: nobody else can sync the folders above it.
    fn create_root(&self) -> Result<()> {
        let missing: Vec<&Path> = self
            .root
            .ancestors()
            .take_while(|path| !path.is_dir())
            .collect();
        let failed = |error| Error::io("making a folder", self.name(""), error);
        std::fs::create_dir_all(&self.root).map_err(failed)?;
        for parent in missing.iter().rev().filter_map(|path| path.parent()) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let synced = rustix::fs::open(parent, flags, Mode::empty()).and_then(rustix::fs::fsync);
            match synced {
                // A folder that may be searched and not read cannot be synced either; its file system does that.
                Ok(()) | Err(Errno::INVAL | Errno::ACCESS) => {}
                Err(errno) => return Err(self.error("syncing the folder above", "", errno)),
            }
        }
        Ok(())
    }

    /// The folder that `path` lies in, and its last part.
    fn folder_of<'a>(&self, path: &'a str) -> Result<(OwnedFd, &'a str), Errno> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let fd = self.open_beneath(dir, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok((fd, name))
    }

    fn open_file(&self, path: &str, how: Open) -> Result<LocalFile> {
        check_path(path)?;
        let (action, flags) = match how {
            Open::Read => ("opening a file", OFlags::RDONLY),
            Open::Write => ("opening a file to write", OFlags::RDWR),
            Open::Create => (
                "creating a file",
                OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            ),
        };
        // Not blocking: opening a FIFO would wait for its other end.
        let fd =
            self.open_beneath(path, flags | OFlags::NONBLOCK)
                .map_err(|errno| match errno {
                    Errno::NXIO | Errno::ISDIR => not_a_file(action, &self.name(path)),
                    _ => self.error(action, path, errno),
                })?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| self.error(action, path, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(not_a_file(action, &self.name(path)));
        }
        // Regular files never block; a ring would refuse to wait for the disk if the flag stayed.
        rustix::fs::fcntl_setfl(&fd, OFlags::empty())
            .map_err(|errno| self.error(action, path, errno))?;
        Ok(LocalFile::new(fd, self.name(path)))
    }
}

#[cold]
pub(super) fn not_a_file(action: &str, path: &str) -> Error {
    Error::denied(format!("{action}: it is not a regular file")).with("path", path)
}

impl Device for LocalDevice {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn capabilities(&self) -> Capabilities {
        let mut medium = self.medium.load(Ordering::Relaxed);
        if medium == UNKNOWN {
            let mut folders = self.root.ancestors();
            let found = folders.find_map(|path| rustix::fs::statfs(path).ok());
            medium = if found.is_some_and(|fs| is_network(&fs)) {
                NETWORK
            } else {
                LOCAL
            };
            self.medium.store(medium, Ordering::Relaxed);
        }
        Capabilities {
            write: true,
            map: medium == LOCAL,
            lock: true,
            remote: false,
        }
    }

    fn parent(&self) -> Option<Arc<dyn Device>> {
        let parent = Self::new(self.root.parent()?).ok()?;
        Some(Arc::new(parent))
    }

    fn open(&self, path: &str, how: Open) -> Result<Arc<dyn File>> {
        Ok(Arc::new(self.open_file(path, how)?))
    }

    fn stat(&self, path: &str) -> Result<Option<Stat>> {
        check_path(path)?;
        let found = if path.is_empty() {
            rustix::fs::stat(&self.root)
        } else {
            self.folder_of(path).and_then(|(folder, name)| {
                rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
            })
        };
        match found {
            Ok(stat) => Ok(Some(Stat {
                len: u64::try_from(stat.st_size).unwrap_or(0),
                mtime_ns: mtime_ns(&stat),
                etag: None,
                dir: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
            })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(self.error("looking at a file", path, errno)),
        }
    }

    fn list(&self, dir: &str) -> Result<Vec<String>> {
        check_path(dir)?;
        let failed = |errno| self.error("listing a folder", dir, errno);
        let fd = self
            .open_beneath(dir, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(failed)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A name that is not UTF-8 cannot be one of ours.
            if let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        check_path(dir)?;
        self.create_root()?;
        let mut made = String::new();
        for part in dir.split('/').filter(|part| !part.is_empty()) {
            let parent = self
                .open_beneath(&made, OFlags::PATH | OFlags::DIRECTORY)
                .map_err(|errno| self.error("making a folder", dir, errno))?;
            match rustix::fs::mkdirat(&parent, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(self.error("making a folder", dir, errno)),
            }
            if !made.is_empty() {
                made.push('/');
            }
            made.push_str(part);
        }
        let stat = self.stat(dir)?;
        if stat.is_some_and(|stat| stat.dir) {
            return Ok(());
        }
        Err(Error::conflict("making a folder: a file has this name").with("path", self.name(dir)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_path(from)?;
        check_path(to)?;
        let rename = || {
            let (source, source_name) = self.folder_of(from)?;
            let (target, target_name) = self.folder_of(to)?;
            rustix::fs::renameat(&source, source_name, &target, target_name)
        };
        rename().map_err(|errno| {
            self.error("renaming a file", from, errno)
                .with("to", self.name(to))
        })
    }

    fn remove(&self, path: &str) -> Result<()> {
        check_path(path)?;
        let remove = || {
            let (folder, name) = self.folder_of(path)?;
            rustix::fs::unlinkat(&folder, name, AtFlags::empty())
        };
        match remove() {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.error("removing a file", path, errno)),
        }
    }

    fn remove_dir(&self, dir: &str) -> Result<()> {
        check_path(dir)?;
        let removed = if dir.is_empty() {
            rustix::fs::rmdir(&self.root)
        } else {
            self.folder_of(dir)
                .and_then(|(folder, name)| rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR))
        };
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                Err(Error::conflict("removing a folder: it is not empty")
                    .with("path", self.name(dir)))
            }
            Err(errno) => Err(self.error("removing a folder", dir, errno)),
        }
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        check_path(dir)?;
        let sync = || {
            let fd = self.open_beneath(dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
            rustix::fs::fsync(&fd)
        };
        match sync() {
            // Some network file systems cannot sync a folder: their servers do it at each change.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(self.error("syncing a folder", dir, errno)),
        }
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        let source = self.open_file(from, Open::Read)?;
        let target = self.open_file(to, Open::Create)?;
        copy_bytes(&source, &target).inspect_err(|_| {
            let _ = self.remove(to);
        })
    }
}

impl fmt::Debug for LocalDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalDevice({})", self.uri)
    }
}

fn mtime_ns(stat: &rustix::fs::Stat) -> u64 {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(stat.st_mtime_nsec)
}

/// File systems whose pages another machine or process may change or cut without this kernel knowing.
pub(crate) fn is_network(fs: &rustix::fs::StatFs) -> bool {
    const MAGIC: [u64; 11] = [
        0x6969,      // NFS
        0x517b,      // SMB
        0xff53_4d42, // CIFS
        0xfe53_4d42, // SMB2
        0x0bd0_0bd0, // Lustre
        0x6573_5546, // FUSE
        0x5346_414f, // AFS
        0x00c3_6400, // Ceph
        0x0102_1997, // 9p
        0x4750_4653, // GPFS
        0x1983_0326, // BeeGFS
    ];
    let magic = u64::try_from(fs.f_type).unwrap_or(0) & 0xffff_ffff;
    MAGIC.contains(&magic)
}
