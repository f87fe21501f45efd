//! Read-only maps of files: one window, or a region of address space that grows in place.
//!
//! **Who guarantees what.** A map shows a file's bytes without copying them. Two things about the file must then hold,
//! and the store that maps it sees to both: mapped bytes that have been published are never changed or cut off (files
//! are sealed or append-only, and are unlinked instead of truncated), and nobody reads beyond the file's end. A map may
//! *reach* past the end, so that later growth appears in it, but touching a page that lies wholly past the end is a bus
//! error (`SIGBUS`). Stores therefore serve only offsets that a published table names. A file that another program
//! truncates cannot be defended against by a map; a store on such a medium reads instead (`map` is not among its
//! [`Capabilities`](super::Capabilities)).

use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};
use staddle_base::{Error, Result};

use crate::memory::allocator::HUGE_BYTES;
use crate::process::fork_generation;

/// A read-only window onto the start of a file; unmapped when dropped.
pub struct Map {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the map is read-only memory that lives until drop; sharing it gives out shared slices only.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    pub(crate) fn new(fd: BorrowedFd<'_>, len: usize) -> Result<Self, rustix::io::Errno> {
        if len == 0 {
            return Ok(Self {
                start: NonNull::dangling(),
                len: 0,
            });
        }
        // SAFETY: a new shared read-only mapping at an address the kernel chooses touches no existing memory.
        let start = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                fd,
                0,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Self { start, len })
    }

    /// The `len` bytes at `offset`, or `None` beyond the map. The caller knows that they lie inside the file.
    #[inline]
    pub fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: `start..start + self.len` is mapped readable until drop and the range was checked to lie inside it.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), len) })
    }

    /// Bytes of address space, which may reach past the end of the file.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the first page of these bytes is in memory, so that touching it does not wait for a device; `None` when
    /// the kernel does not say. One system call.
    pub fn is_resident(&self, offset: u64, len: usize) -> Option<bool> {
        let bytes = self.bytes(offset, len.min(1))?;
        if bytes.is_empty() {
            return Some(true);
        }
        let page = crate::kernel::page_bytes();
        let start = bytes.as_ptr().map_addr(|address| address & !(page - 1));
        let mut state = 0u8;
        // SAFETY: the page that holds `bytes` lies in this mapping, which is page-aligned and lives as long as `self`;
        // one page takes one byte of answer.
        let answer = unsafe { libc::mincore(start.cast_mut().cast(), page, &raw mut state) };
        (answer == 0).then_some(state & 1 != 0)
    }

    /// Asks the kernel to read these bytes ahead. Advice only: nothing fails.
    pub fn advise_willneed(&self, offset: u64, len: usize) {
        if let Some(bytes) = self.bytes(offset, len) {
            willneed(bytes);
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: mapped in `new` with this length; slices borrowed from `self` are gone.
            let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Map({} bytes)", self.len)
    }
}

/// Contiguous address space into which file maps are appended, so that what readers hold never moves.
///
/// Reserving costs no memory. [`File::map_into`](super::File::map_into) appends; the part mapped so far is served.
pub struct Region {
    start: NonNull<u8>,
    reserved: usize,
    mapped: AtomicUsize,
    /// 0 when nobody appends, else the fork generation of who does: a child does not wait for its parent's thread.
    appending: AtomicU32,
}

// SAFETY: only `mapped` changes after `reserve`, and only by whoever holds `appending`; mapped bytes are read-only.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves `bytes` of address space, rounded up to pages.
    ///
    /// # Errors
    /// `Exhausted` when the address space is limited (`ulimit -v`) or full.
    pub fn reserve(bytes: usize) -> Result<Self> {
        let full = || {
            Error::exhausted(format!("no address space for {bytes} bytes"))
                .hint("raise the limit on address space (ulimit -v)")
        };
        let reserved = bytes
            .max(1)
            .checked_next_multiple_of(crate::kernel::page_bytes())
            .ok_or_else(full)?;
        // SAFETY: a new inaccessible mapping at an address the kernel chooses touches no existing memory.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                reserved,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(|errno| full().source(std::io::Error::from(errno)))?;
        let start = NonNull::new(start.cast()).ok_or_else(full)?;
        Ok(Self {
            start,
            reserved,
            mapped: AtomicUsize::new(0),
            appending: AtomicU32::new(0),
        })
    }

    /// Bytes mapped so far.
    #[inline]
    pub fn mapped(&self) -> usize {
        self.mapped.load(Ordering::Acquire)
    }

    /// Bytes of address space.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// The `len` bytes at `offset` of the mapped part, or `None` beyond it. The caller knows that they lie inside their
    /// file.
    #[inline]
    pub fn bytes(&self, offset: usize, len: usize) -> Option<&[u8]> {
        if offset.checked_add(len)? > self.mapped() {
            return None;
        }
        // SAFETY: `start..start + mapped` is mapped readable until drop (the load above synchronises with the store in
        // `append`) and the range was checked to lie inside it.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), len) })
    }

    /// Asks the kernel to read these bytes ahead. Advice only: nothing fails.
    pub fn advise_willneed(&self, offset: usize, len: usize) {
        if let Some(bytes) = self.bytes(offset, len) {
            willneed(bytes);
        }
    }

    /// Maps the first `len` bytes of `fd` behind what is mapped; `len` is a multiple of the page size.
    pub(crate) fn append(&self, fd: BorrowedFd<'_>, len: usize, path: &str) -> Result<()> {
        let page = crate::kernel::page_bytes();
        if len == 0 || !len.is_multiple_of(page) {
            return Err(Error::invalid(format!(
                "a region grows by whole pages of {page} bytes, not by {len}"
            ))
            .with("path", path));
        }
        self.begin_append();
        let result = self.append_alone(fd, len, path);
        self.appending.store(0, Ordering::Release);
        result
    }

    fn begin_append(&self) {
        let here = fork_generation();
        let mut seen = 0;
        while let Err(other) =
            self.appending
                .compare_exchange_weak(seen, here, Ordering::AcqRel, Ordering::Relaxed)
        {
            if other == here {
                std::thread::yield_now();
            }
            // Another generation's mark was copied by fork; its thread is not here, so it is taken over. What that
            // thread may have mapped is not published and is mapped over.
            seen = if other == here { 0 } else { other };
        }
    }

    fn append_alone(&self, fd: BorrowedFd<'_>, len: usize, path: &str) -> Result<()> {
        let mapped = self.mapped.load(Ordering::Acquire);
        let end = mapped
            .checked_add(len)
            .filter(|end| *end <= self.reserved)
            .ok_or_else(|| {
                Error::exhausted(format!(
                    "{len} bytes do not fit into a region of {} with {mapped} mapped",
                    self.reserved
                ))
                .with("path", path)
            })?;
        // SAFETY: `mapped..end` lies inside the region's own address space (checked above) and beyond everything that
        // was served, so replacing the inaccessible pages there pulls nothing from under a reader.
        let at = unsafe { self.start.as_ptr().add(mapped) };
        // SAFETY: as above.
        unsafe {
            rustix::mm::mmap(
                at.cast(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED | MapFlags::FIXED,
                fd,
                0,
            )
        }
        .map_err(|errno| Error::io("mapping a file", path, errno.into()))?;
        self.mapped.store(end, Ordering::Release);
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: reserved in `reserve` with this length; slices borrowed from `self` are gone.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.reserved) };
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} of {} bytes)", self.mapped(), self.reserved)
    }
}

fn willneed(bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let page = crate::kernel::page_bytes();
    let before = bytes.as_ptr().addr() % page;
    let start = bytes.as_ptr().wrapping_sub(before).cast_mut();
    // SAFETY: the pages are mapped (they hold `bytes`), and this advice changes no contents.
    let _ = unsafe { rustix::mm::madvise(start.cast(), bytes.len() + before, Advice::WillNeed) };
}

/// Asks the processor to load the first cache line of `bytes`; does nothing where it cannot.
#[inline(always)]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is allowed; SSE is part of x86_64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
            bytes.as_ptr().cast(),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch of any address is allowed and touches no register but the one named.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) bytes.as_ptr(), options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = bytes;
}

/// Anonymous zeroed memory aligned to [`HUGE_BYTES`], with huge pages where the kernel gives them. Freed with `munmap` of
/// the same length.
pub(crate) fn map_huge(bytes: usize) -> Option<NonNull<u8>> {
    let page = crate::kernel::page_bytes();
    let kept = bytes.checked_next_multiple_of(page)?;
    let mapped_bytes = kept.checked_add(HUGE_BYTES)?;
    // SAFETY: a new private mapping at an address the kernel chooses touches no existing memory.
    let mapped = unsafe {
        rustix::mm::mmap_anonymous(
            ptr::null_mut(),
            mapped_bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }
    .ok()?;
    let before = mapped.addr().next_multiple_of(HUGE_BYTES) - mapped.addr();
    let start = mapped.wrapping_byte_add(before);
    let after = mapped_bytes - before - kept;
    // SAFETY: all three ranges lie inside the mapping made above, which nobody else knows yet.
    unsafe {
        if before > 0 {
            let _ = rustix::mm::munmap(mapped, before);
        }
        if after > 0 {
            let _ = rustix::mm::munmap(start.wrapping_byte_add(kept), after);
        }
        let _ = rustix::mm::madvise(start, kept, Advice::LinuxHugepage);
    }
    NonNull::new(start.cast())
}
