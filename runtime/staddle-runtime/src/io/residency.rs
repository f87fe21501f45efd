//! How much of a file the page cache holds, by `cachestat(2)` (kernel 6.5 and later).

use std::os::fd::{AsRawFd, RawFd};

use super::device::File;

#[repr(C)]
struct CacheRange {
    offset: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The number of `cachestat`, the same on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// The part of `offset..offset + len` that is cached, 0 to 1; `None` where the system does not say.
pub(super) fn residency(file: &dyn File, offset: u64, len: u64) -> Option<f64> {
    let fd = file.fd()?;
    if len == 0 {
        return Some(1.0);
    }
    let cached = cachestat(fd.as_raw_fd(), offset, len)?;
    let page = crate::kernel::page_bytes() as u64;
    let pages = offset.saturating_add(len - 1) / page - offset / page + 1;
    Some((cached as f64 / pages as f64).min(1.0))
}

/// Whether the kernel has the call at all: without it the answer is `ENOSYS`, with it a closed descriptor is `EBADF`.
pub(crate) fn works() -> bool {
    cachestat(-1, 0, 1).is_none()
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
}

/// Cached pages of a range.
fn cachestat(fd: RawFd, offset: u64, len: u64) -> Option<u64> {
    let range = CacheRange { offset, len };
    let mut stat = CacheStat::default();
    // SAFETY: both structures have the kernel's layout and outlive the call; a closed descriptor is refused.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            fd,
            std::ptr::from_ref(&range),
            std::ptr::from_mut(&mut stat),
            0u32,
        )
    };
    (result == 0).then_some(stat.cached)
}
