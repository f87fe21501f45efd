//! What the kernel says about this machine and this process: sizes, limits, switches.
//!
//! **Invariant**: files under `/proc` and `/sys` are read here and in the engines, and no data file is.

/// The text of a file under `/proc` or `/sys`, where there is one.
pub(crate) fn text(path: &str) -> Option<String> {
    debug_assert!(path.starts_with("/proc/") || path.starts_with("/sys/"));
    std::fs::read_to_string(path).ok()
}

/// The number in such a file.
pub(crate) fn number(path: &str) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

/// The size of a page in bytes.
pub fn page_bytes() -> usize {
    // SAFETY: `sysconf` reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096).max(4096)
}

/// The machine's memory in bytes.
pub fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit).max(1);
    info.totalram.saturating_mul(unit)
}

/// The kernel's release, as `6.18.44`.
pub fn release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// The soft limit of a resource of this process; `None` is unlimited.
pub(crate) fn soft_limit(resource: rustix::process::Resource) -> Option<u64> {
    rustix::process::getrlimit(resource).current
}
