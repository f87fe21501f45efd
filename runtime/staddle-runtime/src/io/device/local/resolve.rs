//! Opening names beneath a folder, through no symbolic link: by `openat2`, or part by part on kernels without it.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Whether `openat2` is missing here; found out once.
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// Opens `path` beneath the folder `root`, through no symbolic link and no `..`; an empty path is the folder itself.
pub(crate) fn beneath(
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
