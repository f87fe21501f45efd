//! The order of an epoch: a function from position to index, not a buffer of indices.
//!
//! Any position can be asked for in constant time and memory, so seeking to a saved place costs nothing, whatever the
//! number of records. What decides the order is `(shuffle, records, seed, epoch)` and nothing else.
//!
//! `Block` keeps reads close together where storage is slow at random access. It permutes blocks of consecutive records,
//! then rows inside fixed windows of a few blocks:
//!
//! ```text
//! blocks     0 1 2 3 4 5 6 7      permuted      5 2 | 7 0 | 3 6 | 1 4
//! windows of two blocks           rows permuted inside each window, for ever apart from the next
//! ```
//!
//! Only one block can be short, the one with the last record. It stands wherever the permutation put it, so positions
//! after it are shifted by what it lacks; its place is found with the permutation's inverse.

use std::fmt;
use std::ops::Range;

use staddle_base::hash::{Permutation, mix2};
use staddle_base::{Error, Result};

/// How rows are mixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shuffle {
    /// In index order.
    #[default]
    None,
    /// A permutation of all rows.
    Global,
    /// Blocks of `block_rows` consecutive records are permuted, then the rows of every `window_blocks` blocks.
    Block {
        /// Records that lie side by side and are read in one window.
        block_rows: u64,
        /// Blocks mixed with each other.
        window_blocks: u64,
    },
}

impl Shuffle {
    /// Blocks of 256 records, 16 to a window: 4 MiB of reads mixed at 1 KiB a record, 400 MiB at 100 KiB.
    pub const BLOCK: Self = Self::Block {
        block_rows: 256,
        window_blocks: 16,
    };

    /// Checks the sizes.
    ///
    /// # Errors
    /// `Invalid` with the accepted values.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Block {
                block_rows,
                window_blocks,
            } if block_rows == 0
                || window_blocks == 0
                || block_rows
                    .checked_mul(window_blocks)
                    .is_none_or(|rows| rows > crate::format::RECORDS_MAX) =>
            {
                Err(Error::invalid(format!(
                    "a shuffle of {window_blocks} blocks of {block_rows} rows is impossible"
                ))
                .hint(
                    "use at least 1 row a block and 1 block a window; 256 and 16 are the default",
                ))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Shuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Global => f.write_str("global"),
            Self::Block {
                block_rows,
                window_blocks,
            } => write!(f, "block.{block_rows}x{window_blocks}"),
        }
    }
}

/// The order of one epoch.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    rows: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Identity,
    Global(Permutation),
    Blocks(Blocks),
}

impl Order {
    /// The order of `rows` rows in one epoch.
    pub fn new(shuffle: Shuffle, rows: u64, seed: u64, epoch: u64) -> Self {
        let key = mix2(seed, epoch);
        let kind = match shuffle {
            Shuffle::None => Kind::Identity,
            Shuffle::Global => Kind::Global(Permutation::new(rows, key)),
            Shuffle::Block {
                block_rows,
                window_blocks,
            } => Kind::Blocks(Blocks::new(rows, block_rows, window_blocks, key)),
        };
        Self { rows, kind }
    }

    /// How many rows an epoch has.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Appends the indices that stand at `positions`, which must be below [`Order::rows`].
    pub fn indices(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        match &self.kind {
            Kind::Identity => out.extend(positions),
            Kind::Global(permutation) => {
                out.extend(positions.map(|position| permutation.at(position)));
            }
            Kind::Blocks(blocks) => blocks.indices(positions, out),
        }
    }
}

/// Blocks, permuted, in windows.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    key: u64,
    block_rows: u64,
    window_blocks: u64,
    rows: u64,
    /// Which block stands in which slot.
    blocks: Permutation,
    /// The slot of the block that holds the last record, and how many rows it lacks.
    short_slot: u64,
    lacking: u64,
}

impl Blocks {
    fn new(rows: u64, block_rows: u64, window_blocks: u64, key: u64) -> Self {
        let count = rows.div_ceil(block_rows);
        let blocks = Permutation::new(count, key);
        Self {
            key,
            block_rows,
            window_blocks,
            rows,
            blocks,
            short_slot: if count == 0 {
                0
            } else {
                blocks.position_of(count - 1)
            },
            lacking: count * block_rows - rows,
        }
    }

    /// The first position of a slot; for the slot after the last, the number of rows.
    fn start(&self, slot: u64) -> u64 {
        let slot = slot.min(self.blocks.len());
        slot * self.block_rows
            - if slot > self.short_slot {
                self.lacking
            } else {
                0
            }
    }

    /// The slot that a position lies in.
    fn slot(&self, position: u64) -> u64 {
        let short_end = (self.short_slot + 1) * self.block_rows - self.lacking;
        if position < short_end {
            position / self.block_rows
        } else {
            (position + self.lacking) / self.block_rows
        }
    }

    fn indices(&self, mut positions: Range<u64>, out: &mut Vec<u64>) {
        debug_assert!(positions.end <= self.rows);
        while !positions.is_empty() {
            let window = self.slot(positions.start) / self.window_blocks;
            let first = self.start(window * self.window_blocks);
            let end = self.start((window + 1) * self.window_blocks);
            // The key of a window differs from that of the blocks, whose window number would be all ones.
            let within = Permutation::new(end - first, mix2(self.key, !window));
            let stop = positions.end.min(end);
            for position in positions.start..stop {
                let mixed = first + within.at(position - first);
                let slot = self.slot(mixed);
                out.push(self.blocks.at(slot) * self.block_rows + (mixed - self.start(slot)));
            }
            positions.start = stop;
        }
    }
}
