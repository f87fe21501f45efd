//! An allocator that counts, so that a length from a file cannot become an allocation unnoticed.
//!
//! Counting is per thread and only while armed. An allocation past the limit is a finding: the input is saved and the
//! process ends, because an allocator must not unwind.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static LIVE: Cell<u64> = const { Cell::new(0) };
    static LIMIT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Lets this thread allocate `limit` more bytes than it holds now; past that the process ends with a report.
pub fn arm(limit: u64) {
    LIVE.set(0);
    LIMIT.set(limit);
}

/// Ends the limit; returns the bytes allocated and not freed since [`arm`].
pub fn disarm() -> u64 {
    LIMIT.set(u64::MAX);
    LIVE.get()
}

fn grow(bytes: usize) {
    // A thread that is ending has no limit any more.
    let over = LIMIT.try_with(|limit| {
        let live = LIVE.try_with(|live| {
            live.set(live.get().saturating_add(bytes as u64));
            live.get()
        });
        live.is_ok_and(|live| live > limit.get())
    });
    if over == Ok(true) {
        disarm();
        crate::guard::end_process(&format!("an allocation of {bytes} bytes passed the limit"));
    }
}

fn shrink(bytes: usize) {
    // Freeing what was allocated before arming must not wrap.
    let _ = LIVE.try_with(|live| live.set(live.get().saturating_sub(bytes as u64)));
}

// SAFETY: every method hands its arguments to the system allocator unchanged, so the caller's promises (a layout of
// non-zero size, a pointer from this allocator) hold there; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        grow(bytes.saturating_sub(layout.size()));
        shrink(layout.size().saturating_sub(bytes));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
