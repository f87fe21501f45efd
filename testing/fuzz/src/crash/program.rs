//! Random programs: the operations a user could make, drawn from a seed.

use std::fmt;
use std::sync::Arc;

use staddle_base::Rng;

use super::model::State;

/// The bytes of one record.
pub type Bytes = Arc<[u8]>;

/// One operation on a store.
#[derive(Clone, Debug)]
pub enum Op {
    /// Appends a record.
    Append(Bytes),
    /// Appends several.
    Extend(Vec<Bytes>),
    /// Replaces a record; holes become records.
    Update(u64, Bytes),
    /// Swap-deletes.
    Delete(u64),
    /// Swap-deletes several, indices before the call.
    DeleteMany(Vec<u64>),
    /// Empties an index.
    Tombstone(u64),
    /// Commits.
    Flush,
    /// Commits and folds redirects into the table.
    Checkpoint,
    /// Rewrites sparse chunks.
    Compact,
    /// Rewrites everything.
    Rebalance,
    /// Commits and keeps the commit under a name.
    Snapshot(String),
    /// Forgets a name.
    DropSnapshot(String),
    /// Closes, which commits, and opens again.
    Reopen,
    /// Drops the handle without closing, as a killed process does, and opens again.
    Abandon,
    /// Reads some records and compares them.
    Read(Vec<u64>),
    /// Reads everything and compares it.
    ReadAll,
}

/// The kinds of [`Op`], to count which were reached.
pub const KINDS: [&str; 16] = [
    "append",
    "extend",
    "update",
    "delete",
    "delete_many",
    "tombstone",
    "flush",
    "checkpoint",
    "compact",
    "rebalance",
    "snapshot",
    "drop_snapshot",
    "reopen",
    "abandon",
    "read",
    "read_all",
];

impl Op {
    /// One of [`KINDS`].
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Append(_) => "append",
            Self::Extend(_) => "extend",
            Self::Update(..) => "update",
            Self::Delete(_) => "delete",
            Self::DeleteMany(_) => "delete_many",
            Self::Tombstone(_) => "tombstone",
            Self::Flush => "flush",
            Self::Checkpoint => "checkpoint",
            Self::Compact => "compact",
            Self::Rebalance => "rebalance",
            Self::Snapshot(_) => "snapshot",
            Self::DropSnapshot(_) => "drop_snapshot",
            Self::Reopen => "reopen",
            Self::Abandon => "abandon",
            Self::Read(_) => "read",
            Self::ReadAll => "read_all",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Self::Append(bytes) => write!(f, " {} bytes", bytes.len()),
            Self::Extend(many) => write!(
                f,
                " {:?} bytes",
                many.iter().map(|bytes| bytes.len()).collect::<Vec<_>>()
            ),
            Self::Update(index, bytes) => write!(f, " {index} with {} bytes", bytes.len()),
            Self::Delete(index) | Self::Tombstone(index) => write!(f, " {index}"),
            Self::DeleteMany(indices) | Self::Read(indices) => write!(f, " {indices:?}"),
            Self::Snapshot(name) | Self::DropSnapshot(name) => write!(f, " {name}"),
            _ => Ok(()),
        }
    }
}

/// Draws operations. Each program has its own temper, so that some commit often, some hardly ever, and some keep a set
/// small enough to be emptied.
#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    weights: [u64; KINDS.len()],
    large: u64,
    length_max: usize,
}

impl Generator {
    /// A generator for one program.
    pub fn new(mut rng: Rng) -> Self {
        let mut weights = [30, 12, 16, 8, 4, 8, 14, 4, 3, 3, 3, 2, 3, 2, 4, 2];
        for weight in &mut weights {
            *weight *= [0, 1, 1, 1, 3][rng.index(5)];
        }
        // Every program can grow and commit.
        weights[0] += 10;
        weights[6] += 4;
        let large = rng.below(12);
        let length_max = [6, 40, 200][rng.index(3)];
        Self {
            rng,
            weights,
            large,
            length_max,
        }
    }

    /// The next operation on a set in this state.
    pub fn next_op(&mut self, state: &State) -> Op {
        let length = state.records.len() as u64;
        loop {
            let kind = self.kind();
            let op = match kind {
                "append" if state.records.len() < self.length_max => Op::Append(self.record()),
                "extend" if state.records.len() < self.length_max => {
                    let count = [0, 1, 2, 5, 30][self.rng.index(5)];
                    Op::Extend((0..count).map(|_| self.record()).collect())
                }
                "update" if length > 0 => Op::Update(self.rng.below(length), self.record()),
                "delete" if length > 0 => Op::Delete(self.index(length)),
                "delete_many" if length > 0 => {
                    let mut indices: Vec<u64> = (0..1 + self.rng.below(length.min(6)))
                        .map(|_| self.index(length))
                        .collect();
                    indices.sort_unstable();
                    indices.dedup();
                    let turn = self.rng.index(indices.len());
                    indices.rotate_left(turn);
                    Op::DeleteMany(indices)
                }
                "tombstone" if length > 0 => Op::Tombstone(self.rng.below(length)),
                "flush" => Op::Flush,
                "checkpoint" => Op::Checkpoint,
                "compact" => Op::Compact,
                "rebalance" => Op::Rebalance,
                "snapshot" if state.snapshots.len() < 4 => {
                    // Never a name that was used: a dropped one may come back with the old contents.
                    Op::Snapshot(format!("s{:x}", self.rng.next_u64()))
                }
                "drop_snapshot" => {
                    let at = self.rng.index(state.snapshots.len());
                    match state.snapshots.keys().nth(at) {
                        Some(name) => Op::DropSnapshot(name.clone()),
                        None => continue,
                    }
                }
                "reopen" => Op::Reopen,
                "abandon" => Op::Abandon,
                "read" if length > 0 => Op::Read(
                    (0..self.rng.below(20))
                        .map(|_| self.rng.below(length))
                        .collect(),
                ),
                "read_all" => Op::ReadAll,
                _ => continue,
            };
            return op;
        }
    }

    fn kind(&mut self) -> &'static str {
        let mut ticket = self.rng.below(self.weights.iter().sum());
        for (kind, weight) in KINDS.iter().zip(self.weights) {
            if ticket < weight {
                return kind;
            }
            ticket -= weight;
        }
        KINDS[0]
    }

    /// An index, often the last.
    fn index(&mut self, length: u64) -> u64 {
        if self.rng.chance(1, 4) {
            length - 1
        } else {
            self.rng.below(length)
        }
    }

    fn record(&mut self) -> Bytes {
        let len = match self.rng.below(16) {
            0 => 0,
            1 => self.rng.index(8),
            2 | 3 if self.rng.chance(self.large, 12) => 2000 + self.rng.index(12_000),
            4 => [504, 512, 1000, 4096][self.rng.index(4)],
            _ => 8 + self.rng.index(200),
        };
        let mut bytes = vec![0; len];
        self.rng.fill(&mut bytes);
        if self.rng.chance(1, 2) {
            // Compressible: a few words again and again.
            let words = [&b"the "[..], b"quick ", b"brown ", b"fox ", b"0000"];
            let text = bytes
                .iter()
                .flat_map(|byte| words[usize::from(*byte) % words.len()]);
            bytes = text.copied().take(len).collect();
        }
        bytes.into()
    }
}
