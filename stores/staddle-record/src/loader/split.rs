//! Which rows a step takes: arithmetic on positions, shared by nobody's clock and nobody's thread.
//!
//! ```text
//! positions   0 ........................................ rows
//! step        |--- 0 ---|--- 1 ---|--- 2 ---|-- 3 -|          each batch_rows * world_size, the last perhaps short
//! rank        | 0  | 1  | 0  | 1  | …                          each batch_rows
//! ```
//!
//! Steps count from where an epoch was entered (0, or the place a state was saved at), so any place can be gone on from.
//! With equal `batch_rows * world_size` every split gives the same steps.

use std::ops::Range;

use staddle_base::{Error, Result, suggest};

/// What several ranks do with rows that do not fill a step of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uneven {
    /// The step is filled up from the start of the epoch; the rows that count are told apart.
    #[default]
    Wrap,
    /// They are left out of this epoch.
    Drop,
    /// Ranks get fewer rows, or one step fewer.
    Short,
}

impl Uneven {
    /// From a name.
    ///
    /// # Errors
    /// `Invalid` with the nearest known name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "wrap" => Ok(Self::Wrap),
            "drop" => Ok(Self::Drop),
            "short" => Ok(Self::Short),
            _ => Err(Error::invalid(format!("unknown uneven `{name}`"))
                .hint(suggest::hint(name, &["wrap", "drop", "short"]))),
        }
    }
}

/// One rank's share of every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    batch_rows: u64,
    rank: u64,
    world_size: u64,
    uneven: Uneven,
}

/// The positions of one rank's batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Rows of the epoch.
    pub rows: Range<u64>,
    /// Positions past the last row, which stand for rows from the start of the epoch and only fill the batch up.
    pub padding: Range<u64>,
}

impl Split {
    /// Checks the sizes and settles what happens at the end: one rank alone has a short last batch unless `drop_last`.
    ///
    /// # Errors
    /// `Invalid` with the accepted values.
    pub fn new(
        batch_size: usize,
        rank: usize,
        world_size: usize,
        drop_last: bool,
        uneven: Uneven,
    ) -> Result<Self> {
        let (batch_rows, rank, world_size) = (batch_size as u64, rank as u64, world_size as u64);
        let stride = batch_rows.checked_mul(world_size);
        if stride.is_none_or(|rows| rows == 0 || rows > crate::format::RECORDS_MAX) {
            return Err(Error::invalid(format!(
                "batch_size {batch_rows} on {world_size} ranks is impossible"
            ))
            .hint("batch_size and world_size are at least 1, and a step has at most 2^40 rows"));
        }
        if rank >= world_size {
            return Err(Error::invalid(format!(
                "there is no rank {rank} in a world of {world_size}"
            ))
            .hint(format!("ranks are 0..={}", world_size - 1)));
        }
        let uneven = match (drop_last, world_size) {
            (true, _) => Uneven::Drop,
            (false, 1) => Uneven::Short,
            (false, _) => uneven,
        };
        Ok(Self {
            batch_rows,
            rank,
            world_size,
            uneven,
        })
    }

    /// Rows of one step of all ranks.
    pub fn stride(&self) -> u64 {
        self.batch_rows * self.world_size
    }

    /// How many steps this rank has in an epoch of `rows` rows entered at `start`.
    pub fn steps(&self, rows: u64, start: u64) -> u64 {
        let rest = rows.saturating_sub(start);
        let (full, left) = (rest / self.stride(), rest % self.stride());
        let one_more = match self.uneven {
            Uneven::Drop => false,
            Uneven::Wrap => left > 0,
            Uneven::Short => left > self.rank * self.batch_rows,
        };
        full + u64::from(one_more)
    }

    /// Whether no rank has a step left after `consumed` rows.
    pub fn is_over(&self, rows: u64, consumed: u64) -> bool {
        let left = rows.saturating_sub(consumed);
        match self.uneven {
            Uneven::Drop => left < self.stride(),
            Uneven::Wrap | Uneven::Short => left == 0,
        }
    }

    /// Rows that all ranks have had when `steps` steps are done.
    pub fn consumed(&self, rows: u64, start: u64, steps: u64) -> u64 {
        steps
            .checked_mul(self.stride())
            .and_then(|more| start.checked_add(more))
            .map_or(rows, |end| end.min(rows))
    }

    /// This rank's positions in a step, which must be below [`Split::steps`].
    pub fn share(&self, rows: u64, start: u64, step: u64) -> Share {
        let first = start + step * self.stride() + self.rank * self.batch_rows;
        let end = first + self.batch_rows;
        Share {
            rows: first.min(rows)..end.min(rows),
            padding: match self.uneven {
                Uneven::Wrap => first.max(rows)..end.max(rows),
                Uneven::Drop | Uneven::Short => rows..rows,
            },
        }
    }
}
