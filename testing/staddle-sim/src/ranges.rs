//! Which byte ranges of a file have disk space, for the capacity of a [`SimDisk`](crate::SimDisk).

use std::collections::BTreeMap;

/// Disk space is handed out in blocks of this many bytes.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// Disjoint ranges of blocks: start to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    runs: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Blocks that `offset..offset + len` touches.
    pub(crate) fn blocks(offset: u64, len: u64) -> (u64, u64) {
        (
            offset / BLOCK_BYTES,
            offset.saturating_add(len).div_ceil(BLOCK_BYTES),
        )
    }

    /// How many of the blocks `start..end` are not held yet.
    pub(crate) fn missing(&self, start: u64, end: u64) -> u64 {
        let mut held = 0;
        for (from, to) in self.runs.range(..end) {
            held += (*to).min(end).saturating_sub((*from).max(start));
        }
        end.saturating_sub(start).saturating_sub(held)
    }

    /// Holds the blocks `start..end`.
    pub(crate) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let touching: Vec<(u64, u64)> = self
            .runs
            .range(..=end)
            .filter(|(_, to)| **to >= start)
            .map(|(from, to)| (*from, *to))
            .collect();
        let (mut low, mut high) = (start, end);
        for (from, to) in touching {
            low = low.min(from);
            high = high.max(to);
            self.runs.remove(&from);
        }
        self.runs.insert(low, high);
    }

    /// Gives up all blocks from `start` on.
    pub(crate) fn cut(&mut self, start: u64) {
        self.runs.retain(|from, _| *from < start);
        if let Some(mut last) = self.runs.last_entry() {
            let to = last.get_mut();
            *to = (*to).min(start);
        }
    }

    /// Blocks held.
    pub(crate) fn total(&self) -> u64 {
        self.runs.iter().map(|(from, to)| to - from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_count() {
        let mut ranges = Ranges::default();
        ranges.insert(0, 4);
        ranges.insert(8, 12);
        assert_eq!(ranges.missing(2, 10), 4);
        ranges.insert(4, 8);
        assert_eq!((ranges.runs.len(), ranges.total()), (1, 12));
        ranges.cut(5);
        assert_eq!((ranges.total(), ranges.missing(0, 12)), (5, 7));
    }

    #[test]
    fn a_byte_takes_the_block_it_lies_in() {
        assert_eq!(Ranges::blocks(4095, 2), (0, 2));
        assert_eq!(Ranges::blocks(4096, 0), (1, 1));
    }
}
