//! Decompressing a batch: in the caller when it is small, on the workers when it is not.

use std::cell::RefCell;
use std::sync::Arc;

use staddle_base::Result;

use super::gather::Context;
use crate::codec::{Codec, Decoder, Dictionary};
use crate::format::Entry;

/// A work item is worth a hop to another thread from this many records or bytes.
const JOBS_MIN: usize = 64;
const BYTES_MIN: usize = 256 << 10;

/// One record to decompress.
pub(super) struct Job<'a> {
    pub codec: Codec,
    pub dictionary: Option<&'a Arc<Dictionary>>,
    pub payload: &'a [u8],
    pub out: &'a mut [u8],
    pub index: u64,
    pub entry: Entry,
}

thread_local! {
    // Contexts and digested dictionaries cost far more than a small record.
    static DECODER: RefCell<Decoder> = RefCell::default();
}

fn decode(context: &Context<'_>, jobs: Vec<Job<'_>>) -> Result<()> {
    DECODER.with_borrow_mut(|decoder| {
        for job in jobs {
            decoder
                .decode(job.codec, job.payload, job.dictionary, job.out)
                .map_err(|e| context.generation.locate(e, job.index, job.entry))?;
        }
        Ok(())
    })
}

/// Decompresses all jobs.
///
/// # Errors
/// `Corrupt` for the first record that does not decompress to what its frame says.
pub(super) fn run(context: &Context<'_>, jobs: Vec<Job<'_>>) -> Result<()> {
    let bytes: usize = jobs.iter().map(|job| job.out.len()).sum();
    let workers = context.runtime.workers();
    let parts = workers
        .threads()
        .min(8)
        .min((jobs.len() / JOBS_MIN).max(bytes / BYTES_MIN));
    if parts < 2 {
        return decode(context, jobs);
    }
    let mut groups: Vec<Vec<Job<'_>>> = Vec::with_capacity(parts);
    let share = bytes.div_ceil(parts);
    let mut filled = share;
    for job in jobs {
        if filled >= share {
            groups.push(Vec::new());
            filled = 0;
        }
        filled += job.out.len();
        if let Some(group) = groups.last_mut() {
            group.push(job);
        }
    }
    workers
        .map("decompress", groups, |group| decode(context, group))?
        .into_iter()
        .collect()
}
