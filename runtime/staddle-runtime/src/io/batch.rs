//! One batch of reads: what the page cache holds at once, the rest through an engine, merged where that pays.
//!
//! ```text
//!   reads ─┬─ no descriptor ──────────────► File::read_ranges, files side by side
//!          └─ descriptor ─ sort ─ cached? ─┬─ yes: copied by that very call
//!                                          └─ no:  merge neighbours ─► Engine::read
//! ```

use std::os::fd::{AsRawFd, BorrowedFd};

use rayon::prelude::*;
use staddle_base::Result;

use super::coalesce::{LOCAL, plan};
use super::device::{File, Range};
use super::engine::{Engine, Job, Part, PreadEngine, read_if_cached};
use super::{Counters, Read};

/// After so many reads in a row that were not cached, the rest of a batch is taken for cold without asking.
const COLD_IN_A_ROW: usize = 8;

/// Reads without a descriptor: each file for itself, several files at once.
pub(super) fn read_others(
    reads: Vec<&mut Read<'_>>,
    pread: &PreadEngine,
    counters: &Counters,
) -> Result<()> {
    let mut files: Vec<(&dyn File, Vec<Range<'_>>)> = Vec::new();
    for read in reads {
        counters.other_reads.add(1);
        counters.other_bytes.add(read.into.len() as u64);
        let range = Range {
            offset: read.offset,
            into: &mut *read.into,
        };
        match files
            .iter_mut()
            .find(|(file, _)| std::ptr::addr_eq(*file, read.file))
        {
            Some((_, ranges)) => ranges.push(range),
            None => files.push((read.file, vec![range])),
        }
    }
    match pread.pool() {
        Some(pool) if files.len() > 1 => pool.install(|| {
            files
                .par_iter_mut()
                .with_max_len(1)
                .try_for_each(|(file, ranges)| file.read_ranges(ranges))
        }),
        _ => files
            .iter_mut()
            .try_for_each(|(file, ranges)| file.read_ranges(ranges)),
    }
}

/// Reads from files with a descriptor. `engine` is asked for only if the disk is needed.
pub(super) fn read_local<'e>(
    reads: Vec<(BorrowedFd<'_>, &mut Read<'_>)>,
    engine: impl FnOnce() -> &'e dyn Engine,
    pread: &PreadEngine,
    counters: &Counters,
) -> Result<()> {
    let mut jobs: Vec<Job<'_>> = reads
        .into_iter()
        .map(|(fd, read)| Job {
            fd,
            path: read.file.path(),
            offset: read.offset,
            parts: vec![Part::Into(&mut *read.into)],
        })
        .collect();
    if let [job] = jobs.as_mut_slice() {
        counters.cold_reads.add(1);
        counters.local_bytes.add(job.len() as u64);
        return pread.read(&mut jobs);
    }
    jobs.sort_by_key(|job| (job.fd.as_raw_fd(), job.offset));
    let mut cold = Vec::new();
    let mut in_a_row = 0;
    for mut job in jobs {
        counters.local_bytes.add(job.len() as u64);
        if job.is_empty() {
            continue;
        }
        if in_a_row < COLD_IN_A_ROW && read_if_cached(&mut job) {
            counters.cached_reads.add(1);
            in_a_row = 0;
            continue;
        }
        in_a_row += 1;
        cold.push(job);
    }
    if cold.is_empty() {
        return Ok(());
    }
    let network = one_is_on_a_network(&cold);
    let mut merged = merge(cold);
    counters.cold_reads.add(merged.len() as u64);
    if network {
        pread.read(&mut merged)
    } else {
        engine().read(&mut merged)
    }
}

/// Joins neighbouring jobs of one file; gaps are skipped over.
fn merge(jobs: Vec<Job<'_>>) -> Vec<Job<'_>> {
    let mut merged = Vec::with_capacity(jobs.len());
    let mut jobs = jobs.into_iter().peekable();
    while let Some(fd) = jobs.peek().map(|job| job.fd.as_raw_fd()) {
        let mut of_file = Vec::new();
        while let Some(job) = jobs.next_if(|job| job.fd.as_raw_fd() == fd) {
            of_file.push(job);
        }
        let ranges: Vec<(u64, u64)> = of_file
            .iter()
            .map(|job| (job.offset, job.len() as u64))
            .collect();
        let mut of_file = of_file.into_iter();
        for run in plan(&ranges, LOCAL, true) {
            let Some(mut whole) = of_file.next() else {
                break;
            };
            let mut end = whole.offset.saturating_add(whole.len() as u64);
            for job in of_file.by_ref().take(run.last - run.first - 1) {
                let gap = usize::try_from(job.offset.saturating_sub(end)).unwrap_or(0);
                if gap > 0 {
                    whole.parts.push(Part::Skip(gap));
                }
                end = job.offset.saturating_add(job.len() as u64);
                whole.parts.extend(job.parts);
            }
            merged.push(whole);
        }
    }
    merged
}

/// Whether any file lies on a network file system, where a ring has no advantage and locks up more easily.
fn one_is_on_a_network(jobs: &[Job<'_>]) -> bool {
    let mut last = None;
    jobs.iter().any(|job| {
        let fresh = last.replace(job.fd.as_raw_fd()) != Some(job.fd.as_raw_fd());
        fresh && rustix::fs::fstatfs(job.fd).is_ok_and(|fs| super::device::is_network(&fs))
    })
}
