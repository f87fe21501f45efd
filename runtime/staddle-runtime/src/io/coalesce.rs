//! Which neighbouring ranges are read together.
//!
//! One request more costs something: a system call and a completion locally, a round trip remotely. Bytes nobody asked
//! for cost something too. Two neighbours are merged when the gap between them is at most what one more request is
//! worth, and the result stays below a cap, so that a long run still splits into reads that go on at the same time.

/// When to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The widest gap worth reading, bytes.
    pub gap_bytes: u64,
    /// The longest merged read, bytes. A range that is longer on its own stays whole.
    pub run_bytes: u64,
}

/// Local files whose bytes come from a disk.
pub const LOCAL: Policy = Policy {
    gap_bytes: 64 << 10,
    run_bytes: 1 << 20,
};

/// Object stores, while there are fewer requests than may be in flight: another one costs little.
pub const REMOTE_FEW: Policy = Policy {
    gap_bytes: 64 << 10,
    run_bytes: 8 << 20,
};

/// Object stores with more requests than may be in flight: each one more waits for a round trip, some 30 ms at 100 MB/s
/// a connection, capped well below that product.
pub const REMOTE_MANY: Policy = Policy {
    gap_bytes: 1 << 20,
    run_bytes: 16 << 20,
};

/// A run of ranges to read as one: positions `first..last` of the sorted input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Position of the first range.
    pub first: usize,
    /// Position after the last range.
    pub last: usize,
    /// First byte.
    pub offset: u64,
    /// Bytes, gaps included.
    pub len: u64,
}

/// Splits ranges (offset, length), sorted by offset, into runs. Ranges may overlap; with `disjoint` those that do begin a
/// run of their own, since a scattered read fills each byte once.
pub fn plan(ranges: &[(u64, u64)], policy: Policy, disjoint: bool) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (position, &(offset, len)) in ranges.iter().enumerate() {
        let end = offset.saturating_add(len);
        if let Some(run) = runs.last_mut() {
            let run_end = run.offset.saturating_add(run.len);
            let joined = run_end.max(end).saturating_sub(run.offset);
            let near = offset <= run_end.saturating_add(policy.gap_bytes);
            let apart = !disjoint || offset >= run_end;
            // Ranges that lie inside the run cost nothing at all.
            if apart && near && (joined <= policy.run_bytes || joined == run.len) {
                run.last = position + 1;
                run.len = joined;
                continue;
            }
        }
        runs.push(Run {
            first: position,
            last: position + 1,
            offset,
            len,
        });
    }
    runs
}

#[cfg(test)]
mod tests;
