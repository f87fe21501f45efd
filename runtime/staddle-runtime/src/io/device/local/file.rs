//! An open regular file of the local file system: positioned reads and writes, syncs that poison, locks by open file.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use staddle_base::{Error, ErrorKind, Result};

use crate::io::device::{File, LockKind, Map, Region};
use crate::process::OwnerProcess;

/// An open regular file.
pub(super) struct LocalFile {
    fd: OwnedFd,
    path: String,
    owner: OwnerProcess,
    poisoned: AtomicBool,
}

impl LocalFile {
    /// A regular file that is open; `path` is for messages.
    pub(super) fn new(fd: OwnedFd, path: String) -> Self {
        Self {
            fd,
            path,
            owner: OwnerProcess::here(),
            poisoned: AtomicBool::new(false),
        }
    }

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

/// Shares blocks where the file system can, else copies inside the kernel, else through memory.
pub(super) fn copy_bytes(source: &LocalFile, target: &LocalFile) -> Result<()> {
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
