//! The `arena` allocator: small blocks cut from large ones and kept for reuse.
//!
//! Training steps ask for the same sizes again and again. Sizes are rounded up to eight steps per power of two; a freed
//! block goes to the free list of its size and serves the next one. Blocks above 1 MiB, or aligned beyond a page, are
//! kept the same way but come from the system one by one. Memory goes back to the system when the allocator is dropped.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ptr::NonNull;

use staddle_base::{Error, Result};

use crate::lock::Lock;

use super::allocator::{Allocator, AllocatorStats, HUGE_BYTES, SystemAllocator, Tally};

/// What small blocks are cut from, bytes.
const SLAB_BYTES: usize = HUGE_BYTES;
/// The largest block that is cut from a slab, bytes.
const CUT_BYTES_MAX: usize = 1 << 20;
/// The finest alignment, bytes.
const ALIGN_MIN: usize = 64;

/// The `arena` allocator.
#[derive(Debug, Default)]
pub(super) struct ArenaAllocator {
    system: SystemAllocator,
    state: Lock<State>,
    tally: Tally,
}

#[derive(Debug, Default)]
struct State {
    /// Free blocks by layout, as addresses.
    free: HashMap<Layout, Vec<Owned>>,
    /// Everything taken from the system.
    taken: Vec<(Owned, Layout)>,
    /// The rest of the newest slab.
    rest: Option<(Owned, usize)>,
}

/// Memory that the arena owns.
#[derive(Clone, Copy, Debug)]
struct Owned(NonNull<u8>);

// SAFETY: the arena owns the memory and hands each block to one user at a time.
unsafe impl Send for Owned {}

/// The layout that serves `layout`: size rounded up to an eighth of a power of two, alignment at least 64.
fn rounded(layout: Layout) -> Result<Layout> {
    let align = layout.align().max(ALIGN_MIN);
    let size = layout.size().max(1);
    let step = (size.checked_next_power_of_two().unwrap_or(size) / 16).max(align);
    size.checked_next_multiple_of(step)
        .and_then(|size| Layout::from_size_align(size, align).ok())
        .ok_or_else(|| Error::exhausted(format!("a block of {size} bytes cannot exist")))
}

impl ArenaAllocator {
    fn take_from_system(&self, state: &mut State, layout: Layout) -> Result<Owned> {
        let start = Owned(self.system.allocate(layout)?);
        self.tally.reserved(layout.size() as u64);
        state.taken.push((start, layout));
        Ok(start)
    }

    fn cut(&self, state: &mut State, layout: Layout) -> Result<Owned> {
        let fits = |(start, left): &(Owned, usize)| {
            let gap = start.0.as_ptr().align_offset(layout.align());
            gap.checked_add(layout.size())
                .is_some_and(|need| need <= *left)
                .then_some(gap)
        };
        let (slab, left, gap) = match state
            .rest
            .as_ref()
            .and_then(|rest| Some((rest.0, rest.1, fits(rest)?)))
        {
            Some(found) => found,
            None => {
                let slab = Layout::from_size_align(SLAB_BYTES, HUGE_BYTES)
                    .map_err(|_| Error::internal("the slab layout is valid"))?;
                (self.take_from_system(state, slab)?, SLAB_BYTES, 0)
            }
        };
        let used = gap + layout.size();
        // SAFETY: `fits`, or the fresh slab being larger than any cut block, says that `gap + size` lies inside it.
        let (block, rest) = unsafe { (slab.0.add(gap), slab.0.add(used)) };
        state.rest = Some((Owned(rest), left - used));
        Ok(Owned(block))
    }
}

impl Allocator for ArenaAllocator {
    fn allocate(&self, layout: Layout) -> Result<NonNull<u8>> {
        let layout = rounded(layout)?;
        let mut state = self.state.lock();
        let kept = state.free.get_mut(&layout).and_then(Vec::pop);
        let block = match kept {
            Some(block) => block,
            None if layout.size() <= CUT_BYTES_MAX && layout.align() <= 4096 => {
                self.cut(&mut state, layout)?
            }
            None => self.take_from_system(&mut state, layout)?,
        };
        self.tally.allocated(layout.size() as u64);
        Ok(block.0)
    }

    unsafe fn free(&self, start: NonNull<u8>, layout: Layout) {
        if let Ok(layout) = rounded(layout) {
            self.tally.freed(layout.size() as u64);
            self.state
                .lock()
                .free
                .entry(layout)
                .or_default()
                .push(Owned(start));
        }
    }

    fn stats(&self) -> AllocatorStats {
        self.tally.stats(self.name())
    }

    fn name(&self) -> &str {
        "arena"
    }
}

impl Drop for ArenaAllocator {
    fn drop(&mut self) {
        for (start, layout) in std::mem::take(&mut self.state.get_mut().taken) {
            // SAFETY: `taken` lists what `take_from_system` got with this layout; blocks cut from it are unusable once
            // their allocator is gone, as `Allocator::free`'s contract implies.
            unsafe { self.system.free(start.0, layout) }
        }
    }
}
