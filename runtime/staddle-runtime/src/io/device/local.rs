//! Files in a folder of this machine's file system.
//!
//! Every name is resolved beneath the root and through no symbolic link (`openat2`, or one component at a time with
//! `O_NOFOLLOW` on kernels without it); only regular files are opened. A sync that failed poisons its file: the kernel
//! may have dropped the pages, so a second sync that succeeds would say nothing.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use staddle_base::{Error, ErrorKind, Result};

use super::{Capabilities, Device, File, LockKind, Map, Open, Region, Stat, check_path};
use crate::process::OwnerProcess;

/// Whether `openat2` is missing here; found out once.
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// A folder of the local file system.
pub struct LocalDevice {
    root: PathBuf,
    uri: String,
    capabilities: OnceLock<Capabilities>,
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
            capabilities: OnceLock::new(),
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
        Ok(LocalFile {
            fd,
            path: self.name(path),
            owner: OwnerProcess::here(),
            poisoned: AtomicBool::new(false),
        })
    }
}

#[cold]
pub(super) fn not_a_file(action: &str, path: &str) -> Error {
    Error::denied(format!("{action}: it is not a regular file")).with("path", path)
}

/// Opens `path` beneath the folder `root`, through no symbolic link and no `..`; an empty path is the folder itself.
pub(super) fn beneath(
    root: &OwnedFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    if path.is_empty() {
        return rustix::fs::openat(root, ".", flags | OFlags::CLOEXEC, mode);
    }
    if !NO_OPENAT2.load(Ordering::Relaxed) {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        loop {
            match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, mode, resolve) {
                Err(Errno::NOSYS | Errno::PERM) => {
                    NO_OPENAT2.store(true, Ordering::Relaxed);
                    break;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => return result,
            }
        }
    }
    open_by_component(root, path, flags, mode)
}

/// `openat` one part at a time, so that no part is a symbolic link.
fn open_by_component(
    root: &OwnedFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let (flags, mode) = if last {
            (flags, mode)
        } else {
            (OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
        };
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = at.as_ref().unwrap_or(root);
        let opened = match rustix::fs::openat(folder, part, flags, mode) {
            // A link where a folder must be: the system says what the link is not, we say what it is.
            Err(Errno::NOTDIR) if is_link(folder, part) => return Err(Errno::LOOP),
            result => result?,
        };
        // `O_PATH | O_NOFOLLOW` opens a link itself instead of refusing it.
        if flags.contains(OFlags::PATH) {
            let stat = rustix::fs::fstat(&opened)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                return Err(Errno::LOOP);
            }
        }
        at = Some(opened);
    }
    at.ok_or(Errno::NOENT)
}

fn is_link(folder: &OwnedFd, name: &[u8]) -> bool {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

impl Device for LocalDevice {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn capabilities(&self) -> Capabilities {
        *self.capabilities.get_or_init(|| {
            let network = self
                .root
                .ancestors()
                .find_map(|path| rustix::fs::statfs(path).ok())
                .is_some_and(|fs| is_network(&fs));
            Capabilities {
                write: true,
                map: !network,
                lock: true,
                remote: false,
            }
        })
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
        std::fs::create_dir_all(&self.root)
            .map_err(|error| Error::io("making a folder", self.name(""), error))?;
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

/// Shares blocks where the file system can, else copies inside the kernel, else through memory.
fn copy_bytes(source: &LocalFile, target: &LocalFile) -> Result<()> {
    if rustix::fs::ioctl_ficlone(&target.fd, &source.fd).is_ok() {
        return Ok(());
    }
    let mut at = 0u64;
    loop {
        let (mut from, mut to) = (at, at);
        match rustix::fs::copy_file_range(
            &source.fd,
            Some(&mut from),
            &target.fd,
            Some(&mut to),
            1 << 30,
        ) {
            Ok(0) if at > 0 => return Ok(()),
            Ok(0) | Err(Errno::NOSYS | Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP) => break,
            Ok(copied) => at += copied as u64,
            Err(Errno::INTR) => {}
            Err(errno) => {
                return Err(Error::io("copying a file", &target.path, errno.into()));
            }
        }
    }
    let mut buffer = vec![0; 1 << 20];
    loop {
        let got = source.read_at(&mut buffer, at)?;
        if got == 0 {
            return Ok(());
        }
        target.write_at(buffer.get(..got).unwrap_or_default(), at)?;
        at += got as u64;
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
    const NETWORK: [u64; 11] = [
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
    NETWORK.contains(&magic)
}

/// An open regular file.
struct LocalFile {
    fd: OwnedFd,
    path: String,
    owner: OwnerProcess,
    poisoned: AtomicBool,
}

impl LocalFile {
    fn error(&self, action: &str, errno: Errno) -> Error {
        Error::io(action, &self.path, errno.into())
    }

    fn check_healthy(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(Error::unavailable("an earlier sync of this file failed")
                .with("path", &self.path)
                .hint(
                    "close the store and open it again: it recovers from its last durable point",
                ));
        }
        Ok(())
    }

    /// One open-file-description lock command.
    fn lock_command(&self, command: libc::c_int, lock: &mut libc::flock) -> Result<(), Errno> {
        loop {
            // SAFETY: the descriptor is open and `lock` is a valid `struct flock` that outlives the call.
            let result =
                unsafe { libc::fcntl(self.fd.as_raw_fd(), command, std::ptr::from_mut(lock)) };
            if result != -1 {
                return Ok(());
            }
            let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
            if errno != Errno::INTR {
                return Err(errno);
            }
        }
    }

    fn lock_error(&self, errno: Errno) -> Error {
        match errno {
            Errno::INVAL | Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP => {
                Error::unsupported("this file system has no byte-range locks")
                    .with("path", &self.path)
                    .hint("use a local file system, or mount with locks")
            }
            _ => self.error("locking a file", errno),
        }
    }
}

fn flock(kind: libc::c_int, offset: u64, len: u64) -> Result<libc::flock> {
    let range = || Error::invalid(format!("a lock at {offset} of {len} bytes is out of range"));
    // SAFETY: `struct flock` is plain integers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).map_err(|_| range())?;
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).map_err(|_| range())?;
    lock.l_start = libc::off_t::try_from(offset).map_err(|_| range())?;
    lock.l_len = libc::off_t::try_from(len).map_err(|_| range())?;
    Ok(lock)
}

fn lock_type(kind: LockKind) -> libc::c_int {
    match kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    }
}

impl File for LocalFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.fd).map_err(|e| self.error("looking at a file", e))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(&self.fd, rest, offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(got) => done += got,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    return Err(self.error("reading a file", errno).with("offset", offset));
                }
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.check_healthy()?;
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pwrite(&self.fd, rest, offset.saturating_add(done as u64)) {
                Ok(0) => {
                    return Err(
                        Error::unavailable("writing a file: the system took no bytes")
                            .with("path", &self.path)
                            .with("offset", offset),
                    );
                }
                Ok(put) => done += put,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    return Err(self
                        .error("writing a file", errno)
                        .with("offset", offset)
                        .with("bytes", bytes.len()));
                }
            }
        }
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.check_healthy()?;
        if len == 0 {
            return Ok(());
        }
        loop {
            match rustix::fs::fallocate(&self.fd, FallocateFlags::KEEP_SIZE, offset, len) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => {
                    return Err(self.error("reserving disk space", errno).with("bytes", len));
                }
            }
        }
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_healthy()?;
        loop {
            match rustix::fs::ftruncate(&self.fd, len) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.error("resizing a file", errno)),
            }
        }
    }

    fn sync(&self) -> Result<()> {
        self.check_healthy()?;
        loop {
            match rustix::fs::fdatasync(&self.fd) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => {
                    self.poisoned.store(true, Ordering::Release);
                    return Err(self
                        .error("syncing a file", errno)
                        .kinded(ErrorKind::Unavailable)
                        .hint("close the store and open it again: it recovers from its last durable point"));
                }
            }
        }
    }

    fn map(&self, len: usize) -> Result<Map> {
        Map::new(self.fd.as_fd(), len).map_err(|errno| map_error(&self.path, errno))
    }

    fn map_into(&self, region: &Region, len: usize) -> Result<()> {
        region.append(self.fd.as_fd(), len, &self.path)
    }

    fn try_lock(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        // A child shares its parent's open file description, so the kernel would grant what the parent holds.
        self.owner.check()?;
        let mut lock = flock(lock_type(kind), offset, len)?;
        match self.lock_command(libc::F_OFD_SETLK, &mut lock) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
            Err(errno) => Err(self.lock_error(errno)),
        }
    }

    fn unlock(&self, offset: u64, len: u64) -> Result<()> {
        if !self.owner.is_here() {
            // Unlocking in a child would free the parent's lock.
            return Ok(());
        }
        let mut lock = flock(libc::F_UNLCK, offset, len)?;
        self.lock_command(libc::F_OFD_SETLK, &mut lock)
            .map_err(|errno| self.lock_error(errno))
    }

    fn is_locked(&self, offset: u64, len: u64, kind: LockKind) -> Result<bool> {
        let mut lock = flock(lock_type(kind), offset, len)?;
        self.lock_command(libc::F_OFD_GETLK, &mut lock)
            .map_err(|errno| self.lock_error(errno))?;
        Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}

#[cold]
fn map_error(path: &str, errno: Errno) -> Error {
    match errno {
        Errno::NODEV | Errno::PERM | Errno::ACCESS => {
            Error::unsupported("this file system cannot map files").with("path", path)
        }
        Errno::NOMEM => Error::exhausted("mapping a file: no address space, or too many maps")
            .with("path", path)
            .hint("raise vm.max_map_count or the limit on address space (ulimit -v)"),
        _ => Error::io("mapping a file", path, errno.into()),
    }
}

impl fmt::Debug for LocalFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalFile({})", self.path)
    }
}
