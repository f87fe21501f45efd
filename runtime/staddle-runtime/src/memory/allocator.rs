//! Allocators by name and priority: who hands out raw aligned memory, and six figures about each.
//!
//! A store asks the registry by name, or for the best (highest priority). Two are built in: `system` (priority 0) and
//! `arena` (priority 300, also called `TensorPoolAllocator`). An allocator is made from its factory on first use, anew in
//! a forked child.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use staddle_base::{Error, Result, suggest};

use super::arena::ArenaAllocator;
use crate::process::{AppendList, ProcessCell};

/// Blocks of this size and more come straight from the kernel, aligned for huge pages.
pub const HUGE_BYTES: usize = 2 << 20;
/// Alignment of smaller blocks: a page, as direct I/O wants.
const PAGE_ALIGN: usize = 4096;

/// Six figures about an allocator, or about one client of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AllocatorStats {
    /// Whose figures these are.
    pub name: String,
    /// Allocations so far.
    pub num_allocs: u64,
    /// Bytes handed out and not freed.
    pub bytes_in_use: u64,
    /// The most bytes that were ever handed out at once.
    pub peak_bytes_in_use: u64,
    /// The largest single allocation, bytes.
    pub largest_alloc_size: u64,
    /// Bytes taken from the system, in use or kept for later.
    pub bytes_reserved: u64,
    /// The most bytes that were ever taken from the system at once.
    pub peak_bytes_reserved: u64,
}

/// Hands out raw memory.
pub trait Allocator: Send + Sync + std::fmt::Debug {
    /// Memory for `layout`; contents unspecified and possibly uninitialised.
    ///
    /// # Errors
    /// `Exhausted` when there is none.
    fn allocate(&self, layout: Layout) -> Result<NonNull<u8>>;

    /// As [`Allocator::allocate`], all zeros.
    ///
    /// # Errors
    /// `Exhausted` when there is none.
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<u8>> {
        let start = self.allocate(layout)?;
        // SAFETY: `allocate` returned at least `layout.size()` writable bytes.
        unsafe { start.as_ptr().write_bytes(0, layout.size()) };
        Ok(start)
    }

    /// Takes memory back.
    ///
    /// # Safety
    /// `start` came from this allocator with this very `layout`, is freed once, and nothing refers to it any more.
    unsafe fn free(&self, start: NonNull<u8>, layout: Layout);

    /// The six figures now.
    fn stats(&self) -> AllocatorStats;

    /// Its name.
    fn name(&self) -> &str;
}

/// Makes an allocator.
pub type Factory = fn() -> Result<Arc<dyn Allocator>>;

/// The allocators of the program, built in and registered.
pub struct AllocatorRegistry {
    entries: AppendList<Entry>,
}

struct Entry {
    names: Vec<String>,
    priority: u32,
    factory: Factory,
    made: ProcessCell<Arc<dyn Allocator>>,
}

static REGISTRY: AllocatorRegistry = AllocatorRegistry {
    entries: AppendList::new(),
};

impl AllocatorRegistry {
    /// The one registry.
    pub fn global() -> &'static Self {
        let built_in: [(&[&str], u32, Factory); 2] = [
            (&["system"], 0, || Ok(Arc::new(SystemAllocator::default()))),
            (&["arena", "TensorPoolAllocator"], 300, || {
                Ok(Arc::new(ArenaAllocator::default()))
            }),
        ];
        if REGISTRY.entries.iter().count() < built_in.len() {
            for (names, priority, factory) in built_in {
                // A clash means that another thread was faster, which is fine.
                let _ = REGISTRY.add(names, priority, factory);
            }
        }
        &REGISTRY
    }

    /// Adds an allocator that `factory` makes when it is first asked for.
    ///
    /// # Errors
    /// `Conflict` when the name is taken.
    pub fn register(&self, name: &str, priority: u32, factory: Factory) -> Result<()> {
        self.add(&[name], priority, factory)
    }

    fn add(&self, names: &[&str], priority: u32, factory: Factory) -> Result<()> {
        let entry = Entry {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            priority,
            factory,
            made: ProcessCell::new(),
        };
        let clashes = |other: &Entry| other.names.iter().any(|n| names.contains(&n.as_str()));
        match self.entries.push_unless(entry, clashes) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::conflict(format!(
                "an allocator called `{}` is registered already",
                names.join("`, `")
            ))),
        }
    }

    /// The allocator called `name`.
    ///
    /// # Errors
    /// `Invalid` with the names that exist; what its factory reports.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Allocator>> {
        match self
            .entries
            .iter()
            .find(|e| e.names.iter().any(|n| n == name))
        {
            Some(entry) => entry.allocator(),
            None => {
                let known = self.names();
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                Err(Error::invalid(format!("no allocator is called `{name}`"))
                    .hint(suggest::hint(name, &known)))
            }
        }
    }

    /// The system's own memory, which is always there.
    pub fn system(&self) -> Arc<dyn Allocator> {
        self.get("system")
            .unwrap_or_else(|_| Arc::new(SystemAllocator::default()))
    }

    /// The allocator with the highest priority; of two equal ones, the one registered first.
    ///
    /// # Errors
    /// What its factory reports.
    pub fn best(&self) -> Result<Arc<dyn Allocator>> {
        let best = self
            .entries
            .iter()
            .fold(None, |best: Option<&Entry>, entry| {
                // Newest first, so a later (older) entry wins a tie.
                match best {
                    Some(best) if best.priority > entry.priority => Some(best),
                    _ => Some(entry),
                }
            });
        best.ok_or_else(|| Error::internal("no allocator is registered"))?
            .allocator()
    }

    /// Every name.
    pub fn names(&self) -> Vec<String> {
        self.entries
            .iter()
            .flat_map(|e| e.names.iter().cloned())
            .collect()
    }

    /// The figures of every allocator that has been made.
    pub fn stats(&self) -> Vec<AllocatorStats> {
        let made = self.entries.iter().filter_map(|entry| entry.made.peek());
        made.map(|allocator| allocator.stats()).collect()
    }
}

impl Entry {
    fn allocator(&self) -> Result<Arc<dyn Allocator>> {
        if let Some(made) = self.made.peek() {
            return Ok(Arc::clone(made));
        }
        let fresh = (self.factory)()?;
        Ok(Arc::clone(self.made.get_or_init(|| fresh)))
    }
}

impl std::fmt::Debug for AllocatorRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Counts the six figures; every allocator holds one.
#[derive(Debug, Default)]
pub struct Tally {
    num_allocs: AtomicU64,
    in_use: AtomicU64,
    peak_in_use: AtomicU64,
    largest: AtomicU64,
    reserved: AtomicU64,
    peak_reserved: AtomicU64,
}

impl Tally {
    /// Counts an allocation of `bytes`.
    pub fn allocated(&self, bytes: u64) {
        self.num_allocs.fetch_add(1, Ordering::Relaxed);
        let now = self.in_use.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_in_use.fetch_max(now, Ordering::Relaxed);
        self.largest.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Counts a free.
    pub fn freed(&self, bytes: u64) {
        self.in_use.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts bytes taken from the system.
    pub fn reserved(&self, bytes: u64) {
        let now = self.reserved.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_reserved.fetch_max(now, Ordering::Relaxed);
    }

    /// Counts bytes given back to the system.
    pub fn returned(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The figures under `name`.
    pub fn stats(&self, name: &str) -> AllocatorStats {
        AllocatorStats {
            name: name.to_owned(),
            num_allocs: self.num_allocs.load(Ordering::Relaxed),
            bytes_in_use: self.in_use.load(Ordering::Relaxed),
            peak_bytes_in_use: self.peak_in_use.load(Ordering::Relaxed),
            largest_alloc_size: self.largest.load(Ordering::Relaxed),
            bytes_reserved: self.reserved.load(Ordering::Relaxed),
            peak_bytes_reserved: self.peak_reserved.load(Ordering::Relaxed),
        }
    }
}

/// The layout of a power-of-two block: page aligned, from [`HUGE_BYTES`] on aligned for huge pages.
///
/// # Errors
/// `Exhausted` when no such layout exists.
pub fn block_layout(bytes: usize) -> Result<Layout> {
    let align = if bytes >= HUGE_BYTES {
        HUGE_BYTES
    } else {
        PAGE_ALIGN
    };
    Layout::from_size_align(bytes, align)
        .map_err(|_| Error::exhausted(format!("a block of {bytes} bytes cannot exist")))
}

/// Memory straight from the system: the C allocator, and for large aligned blocks the kernel.
#[derive(Debug, Default)]
pub struct SystemAllocator {
    tally: Tally,
}

/// Whether a layout is served by a mapping of its own; depends on the layout only, so `free` decides alike.
fn is_mapped(layout: Layout) -> bool {
    layout.size() >= HUGE_BYTES && layout.align() <= HUGE_BYTES && layout.align() >= PAGE_ALIGN
}

impl SystemAllocator {
    fn get(&self, layout: Layout, zeroed: bool) -> Result<NonNull<u8>> {
        let bytes = layout.size() as u64;
        let start = if is_mapped(layout) {
            crate::io::device::map_huge(layout.size())
        } else if layout.size() == 0 {
            return Err(Error::invalid("an allocation of 0 bytes"));
        } else if zeroed {
            // SAFETY: the size is not zero, checked above.
            NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
        } else {
            // SAFETY: the size is not zero, checked above.
            NonNull::new(unsafe { std::alloc::alloc(layout) })
        };
        let start = start.ok_or_else(|| {
            Error::exhausted(format!(
                "the system has no memory for a block of {} bytes",
                layout.size()
            ))
        })?;
        self.tally.allocated(bytes);
        self.tally.reserved(bytes);
        Ok(start)
    }
}

impl Allocator for SystemAllocator {
    fn allocate(&self, layout: Layout) -> Result<NonNull<u8>> {
        self.get(layout, false)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<u8>> {
        self.get(layout, true)
    }

    unsafe fn free(&self, start: NonNull<u8>, layout: Layout) {
        let bytes = layout.size() as u64;
        self.tally.freed(bytes);
        self.tally.returned(bytes);
        if is_mapped(layout) {
            // SAFETY: the caller says that `start` came from here with this layout, so `map_huge` mapped these bytes.
            let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), layout.size()) };
        } else {
            // SAFETY: the caller says that `start` came from here with this layout, so `alloc` made it.
            unsafe { std::alloc::dealloc(start.as_ptr(), layout) }
        }
    }

    fn stats(&self) -> AllocatorStats {
        self.tally.stats(self.name())
    }

    fn name(&self) -> &str {
        "system"
    }
}

#[cfg(test)]
mod tests;
