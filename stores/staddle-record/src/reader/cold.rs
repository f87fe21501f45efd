//! Reading what is not mapped, or not in memory: one deep batch instead of one page fault after the other.
//!
//! A page fault waits for one device read at a time. When a sample of a batch is not resident, or the medium cannot be
//! mapped, all payloads are read at once, sorted by chunk and offset, merged by the runtime, into one pooled buffer that
//! the batch's views point to.

use std::sync::atomic::Ordering;

use staddle_base::Result;
use staddle_runtime::io::Read;
use staddle_runtime::memory::PoolBuffer;

use super::gather::{Context, Found};
use crate::format::Frame;

/// Below this a batch is not worth a question to the kernel.
const BYTES_MIN: u64 = 64 << 10;
/// Records asked about.
const SAMPLES: usize = 4;
/// After a batch that was in memory, this many are assumed to be.
const TRUSTED: u32 = 63;

/// One record to read.
#[derive(Debug)]
pub(super) struct PlannedRead {
    /// Position in the batch.
    pub position: usize,
    /// Whether a frame's header is read with it.
    pub framed: bool,
    /// Where its bytes go in the buffer.
    pub at: usize,
    /// How many, header included.
    pub len: usize,
    chunk: u32,
    offset: u64,
}

/// Everything to read for one batch.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub reads: Vec<PlannedRead>,
    bytes: usize,
}

impl Plan {
    /// Adds a record. Its entry has been checked against its chunk's end.
    pub(super) fn push(&mut self, position: usize, found: Found) {
        let framed = !found.entry.is_external();
        let before = if framed { Frame::BYTES } else { 0 };
        let len = found.entry.physical_length() as usize + before;
        self.reads.push(PlannedRead {
            position,
            framed,
            at: self.bytes,
            len,
            chunk: found.entry.chunk(),
            offset: found.entry.offset() - before as u64,
        });
        self.bytes += len.next_multiple_of(8);
    }

    /// Reads everything.
    ///
    /// # Errors
    /// `Exhausted` when the reservation does not cover it, and those of the device.
    pub(super) fn run(&self, context: &Context<'_>) -> Result<PoolBuffer> {
        let mut buffer = context
            .runtime
            .memory()
            .pool()
            .take(context.client, self.bytes)?;
        let mut rest: &mut [u8] = &mut buffer;
        let mut targets = Vec::with_capacity(self.reads.len());
        for read in &self.reads {
            let (target, after) = rest.split_at_mut(read.len.next_multiple_of(8));
            rest = after;
            targets.push((read, &mut target[..read.len]));
        }
        targets.sort_by_key(|(read, _)| (read.chunk, read.offset));
        let mut reads = Vec::with_capacity(targets.len());
        for (read, into) in targets {
            let Some(chunk) = context.generation.chunks.get(read.chunk) else {
                continue;
            };
            reads.push(Read {
                file: chunk.file()?.as_ref(),
                offset: read.offset,
                into,
            });
        }
        context
            .runtime
            .io()
            .read_many(&mut reads)
            .map_err(|e| e.with("uri", context.generation.origin.device.uri()))?;
        Ok(buffer)
    }
}

/// Whether the payloads of a batch are better read than faulted in: decided on a few of them.
pub(super) fn is_cold(context: &Context<'_>, found: &[Found]) -> bool {
    if !context.generation.origin.map || found.len() < SAMPLES {
        return false;
    }
    let bytes: u64 = found
        .iter()
        .map(|found| u64::from(found.entry.physical_length()))
        .sum();
    if bytes < BYTES_MIN {
        return false;
    }
    let trust = &context.generation.origin.trust;
    if trust
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        })
        .is_ok()
    {
        return false;
    }
    let resident = found
        .iter()
        .step_by(found.len() / SAMPLES)
        .filter(|found| {
            context
                .generation
                .chunks
                .get(found.entry.chunk())
                .and_then(|chunk| {
                    chunk.is_resident(found.entry.offset(), found.entry.physical_length() as usize)
                })
                .unwrap_or(true)
        })
        .count();
    let cold = 2 * resident < SAMPLES;
    if !cold {
        trust.store(TRUSTED, Ordering::Relaxed);
    }
    cold
}
