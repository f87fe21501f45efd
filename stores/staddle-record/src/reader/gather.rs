//! Gather: the one read primitive. Slices, ranges and single records are gathers.
//!
//! 1. *Resolve*: every index is checked before any byte moves; entries are fetched with the table prefetched ahead.
//! 2. *Fetch*: what is mapped is a slice of the map; what is not, or is cold, is read in one deep batch, sorted by
//!    chunk and offset, into a pooled buffer.
//! 3. *Hand out*: raw records as they lie ([`gather`]), everything else decompressed into a pooled buffer; or all of
//!    them packed one after the other into one buffer ([`pack`]), with the checksum computed on the bytes just copied,
//!    while they are in the cache.

use std::cell::OnceCell;
use std::sync::Arc;

use staddle_base::checksum::crc32c;
use staddle_base::{Error, Result};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::prefetch;
use staddle_runtime::memory::{PoolBuffer, Reservation};

use super::batch::{BUFFERS, Batch, HOLE, Item, Packed, check_sizes};
use super::cold;
use super::decode::{self, Job};
use super::generation::{Generation, Place};
use crate::codec::Codec;
use crate::format::{Entry, Frame};

/// How many table entries and payloads ahead are prefetched; from the figures of the design.
const TABLE_AHEAD: usize = 12;
const PAYLOAD_AHEAD: usize = 6;

/// What a gather works with.
pub struct Context<'a> {
    /// The view to read.
    pub generation: &'a Arc<Generation>,
    /// Memory, I/O and workers.
    pub runtime: &'a Runtime,
    /// Pays for the buffers.
    pub client: &'a Reservation,
}

/// One index, resolved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub index: u64,
    pub entry: Entry,
    pub place: Place,
}

/// One record's stored bytes, wherever they are.
#[derive(Clone, Copy)]
struct Piece<'a> {
    found: Found,
    /// The chunk's position, [`BUFFERS`] for the read buffer, or [`HOLE`].
    source: u32,
    /// Where the payload begins in the source.
    offset: u64,
    /// The frame's header; foreign files have none.
    header: Option<&'a [u8; Frame::BYTES]>,
    payload: &'a [u8],
}

impl Piece<'_> {
    /// Length of the record itself.
    fn raw_length(&self, generation: &Generation) -> Result<u32> {
        if self.found.entry.is_raw() {
            return Ok(self.found.entry.physical_length());
        }
        let fail = |e: Error| generation.locate(e, self.found.index, self.found.entry);
        let header = self
            .header
            .ok_or_else(|| fail(Error::corrupt("a compressed record has no frame")))?;
        let (frame, _) = Frame::decode(header).map_err(fail)?;
        if u64::from(frame.raw_length) > generation.raw_bytes_max {
            return Err(fail(Error::exhausted(format!(
                "the record says that it has {} bytes when decompressed, more than the limit of {}",
                frame.raw_length, generation.raw_bytes_max
            ))
            .hint("raise record_bytes_max if this is right")));
        }
        Ok(frame.raw_length)
    }
}

impl Context<'_> {
    fn resolve(&self, indices: &[u64]) -> Result<Vec<Found>> {
        let generation = self.generation.as_ref();
        if let Some(bad) = indices.iter().find(|index| **index >= generation.len()) {
            return Err(generation.out_of_range(*bad));
        }
        let mut found = Vec::with_capacity(indices.len());
        for index in indices.iter().take(TABLE_AHEAD) {
            generation.table.prefetch(*index);
        }
        for (k, index) in indices.iter().enumerate() {
            if let Some(ahead) = indices.get(k + TABLE_AHEAD) {
                generation.table.prefetch(*ahead);
            }
            let (entry, place) = generation.entry(*index)?;
            found.push(Found {
                index: *index,
                entry,
                place,
            });
        }
        Ok(found)
    }

    /// The stored bytes of a record in a mapped chunk; `None` when the chunk is to be read instead.
    #[inline]
    fn mapped<'a>(&'a self, found: Found) -> Result<Option<Piece<'a>>> {
        let entry = found.entry;
        let chunks = &self.generation.chunks;
        let Some((source, chunk)) = chunks
            .position(entry.chunk())
            .and_then(|at| Some((at, chunks.at(at)?)))
        else {
            return Err(self.generation.locate(
                Error::corrupt("the offset entry names a chunk that the set does not have"),
                found.index,
                entry,
            ));
        };
        let length = entry.physical_length() as usize;
        let before = if entry.is_external() {
            0
        } else {
            Frame::BYTES as u64
        };
        let start = entry.offset().checked_sub(before);
        let stored = start.and_then(|start| chunk.mapped(start, length + before as usize));
        if let Some(stored) = stored {
            let (header, payload) = match stored.split_first_chunk() {
                Some((header, payload)) if before != 0 => (Some(header), payload),
                _ => (None, stored),
            };
            return Ok(Some(Piece {
                found,
                source,
                offset: entry.offset(),
                header,
                payload,
            }));
        }
        self.not_mapped(found, source, start.is_some())
    }

    #[cold]
    fn not_mapped<'a>(
        &'a self,
        found: Found,
        source: u32,
        possible: bool,
    ) -> Result<Option<Piece<'a>>> {
        let fail = |e: Error| self.generation.locate(e, found.index, found.entry);
        let Some(chunk) = self.generation.chunks.at(source) else {
            return Ok(None);
        };
        let length = u64::from(found.entry.physical_length());
        let end = found.entry.offset().checked_add(length);
        if !possible || end.is_none_or(|end| end > chunk.readable()) {
            return Err(fail(
                Error::corrupt("the offset entry points beyond its chunk")
                    .with("chunk_end", chunk.readable()),
            ));
        }
        found.entry.codec().map_err(fail)?;
        if chunk.ensure_mapped()? && chunk.mapped(found.entry.offset(), 0).is_some() {
            // Mapped just now; the bounds hold, so this does not come back here.
            let in_map = chunk
                .mapped(found.entry.offset(), found.entry.physical_length() as usize)
                .is_some();
            if in_map {
                return self.mapped(found);
            }
        }
        Ok(None)
    }

    /// The stored bytes of every record, in order. What is not mapped, or is cold, is read into `buffer`.
    fn fetch<'a>(
        &'a self,
        found: &[Found],
        buffer: &'a OnceCell<PoolBuffer>,
    ) -> Result<Vec<Piece<'a>>> {
        let all_cold = cold::is_cold(self, found);
        let mut plan = cold::Plan::default();
        let mut pieces: Vec<Piece<'a>> = Vec::with_capacity(found.len());
        for (position, found) in found.iter().enumerate() {
            let absent = Piece {
                found: *found,
                source: HOLE,
                offset: 0,
                header: None,
                payload: &[],
            };
            if !found.entry.is_present() {
                pieces.push(absent);
                continue;
            }
            match self.mapped(*found)? {
                Some(piece) if !all_cold => pieces.push(piece),
                _ => {
                    plan.push(position, *found);
                    pieces.push(absent);
                }
            }
        }
        if plan.reads.is_empty() {
            return Ok(pieces);
        }
        let filled = plan.run(self)?;
        let buffer = buffer.get_or_init(|| filled);
        for read in &plan.reads {
            let bytes = buffer.get(read.at..read.at + read.len).unwrap_or(&[]);
            let (header, payload) = match bytes.split_first_chunk() {
                Some((header, payload)) if read.framed => (Some(header), payload),
                _ => (None, bytes),
            };
            let offset = (read.at + read.len - payload.len()) as u64;
            if let Some(piece) = pieces.get_mut(read.position) {
                *piece = Piece {
                    source: BUFFERS,
                    offset,
                    header,
                    payload,
                    ..*piece
                };
            }
        }
        Ok(pieces)
    }

    fn take(&self, bytes: usize) -> Result<PoolBuffer> {
        self.runtime.memory().pool().take(self.client, bytes)
    }

    fn check(&self, piece: &Piece<'_>, payload_crc: impl FnOnce() -> u32) -> Result<()> {
        self.generation.check(
            piece.found.index,
            piece.found.place,
            piece.found.entry,
            piece.header,
            payload_crc,
        )
    }

    fn must_check(&self, piece: &Piece<'_>) -> bool {
        self.generation
            .must_check(piece.found.index, piece.found.place)
    }

    /// The dictionary and method of a compressed piece.
    fn job<'a>(&'a self, piece: &Piece<'a>, out: &'a mut [u8]) -> Result<Job<'a>> {
        let fail = |e: Error| {
            self.generation
                .locate(e, piece.found.index, piece.found.entry)
        };
        let codec = piece.found.entry.codec().map_err(fail)?;
        let dictionary = self
            .generation
            .dictionaries
            .get(piece.found.entry.dictionary())
            .map_err(fail)?;
        Ok(Job {
            codec,
            dictionary,
            payload: piece.payload,
            out,
            index: piece.found.index,
            entry: piece.found.entry,
        })
    }
}

/// Gathers records in input order without copying those that can be handed out as they lie.
///
/// # Errors
/// `OutOfRange` before any byte moves; `Corrupt` with chunk, offset and index; `Exhausted` when the reservation does not
/// cover the decompressed bytes.
pub fn gather(context: &Context<'_>, indices: &[u64]) -> Result<Batch> {
    let found = context.resolve(indices)?;
    let read = OnceCell::new();
    let pieces = context.fetch(&found, &read)?;

    let mut items = Vec::with_capacity(pieces.len());
    let mut compressed = Vec::new();
    let mut total = 0usize;
    for (k, piece) in pieces.iter().enumerate() {
        if piece.source == HOLE {
            items.push(Item {
                source: HOLE,
                length: 0,
                offset: 0,
            });
            continue;
        }
        if context.must_check(piece) {
            context.check(piece, || crc32c(piece.payload))?;
        }
        if piece.found.entry.is_raw() {
            items.push(Item {
                source: piece.source,
                length: piece.found.entry.physical_length(),
                offset: piece.offset,
            });
        } else {
            let length = piece.raw_length(context.generation)?;
            items.push(Item {
                source: BUFFERS + 1,
                length,
                offset: total as u64,
            });
            total += (length as usize).next_multiple_of(8);
            compressed.push((k, length as usize));
        }
    }

    let mut decoded = None;
    if !compressed.is_empty() {
        let mut buffer = context.take(total)?;
        let mut rest: &mut [u8] = &mut buffer;
        let mut jobs = Vec::with_capacity(compressed.len());
        for (k, length) in compressed {
            let (out, after) = rest.split_at_mut(length.next_multiple_of(8));
            rest = after;
            jobs.push(context.job(&pieces[k], &mut out[..length])?);
        }
        decode::run(context, jobs)?;
        decoded = Some(buffer);
    }

    drop(pieces);
    let read = read.into_inner();
    let copied = match (&decoded, &read) {
        (Some(_), _) => Some("decompressed"),
        (None, Some(_)) => Some("read, not mapped"),
        (None, None) => None,
    };
    let empty = |buffer: Option<PoolBuffer>| match buffer {
        Some(buffer) => Ok(buffer),
        None => context.take(0),
    };
    let buffers = if copied.is_none() {
        Vec::new()
    } else {
        vec![empty(read)?, empty(decoded)?]
    };
    Ok(Batch::new(
        Arc::clone(context.generation),
        items,
        buffers,
        copied,
    ))
}

/// Lengths of the records, decompressed; 0 for holes.
///
/// # Errors
/// As [`gather`].
pub fn lengths(context: &Context<'_>, indices: &[u64]) -> Result<Vec<u64>> {
    let found = context.resolve(indices)?;
    if found.iter().all(|found| found.entry.is_raw()) {
        return Ok(found
            .iter()
            .map(|found| u64::from(found.entry.physical_length()))
            .collect());
    }
    let read = OnceCell::new();
    let pieces = context.fetch(&found, &read)?;
    pieces
        .iter()
        .map(|piece| {
            if piece.source == HOLE {
                Ok(0)
            } else {
                piece.raw_length(context.generation).map(u64::from)
            }
        })
        .collect()
}

/// Gathers records one after the other into a pooled buffer.
///
/// # Errors
/// As [`gather`].
pub fn pack(context: &Context<'_>, indices: &[u64]) -> Result<Packed> {
    let found = context.resolve(indices)?;
    let read = OnceCell::new();
    let pieces = context.fetch(&found, &read)?;
    let mut offsets = vec![0; indices.len() + 1];
    let total = borders(context, &pieces, &mut offsets)?;
    let mut data = context.take(
        usize::try_from(total).map_err(|_| Error::invalid("the batch is larger than memory"))?,
    )?;
    fill(context, &pieces, &offsets, &mut data)?;
    let holes = pieces.iter().any(|piece| piece.source == HOLE);
    let present = holes.then(|| pieces.iter().map(|piece| piece.source != HOLE).collect());
    Ok(Packed {
        data,
        offsets,
        present,
    })
}

/// Gathers records one after the other into the caller's memory and fills `offsets`. Returns the bytes written.
///
/// # Errors
/// As [`gather`]; `Invalid` when `out` or `offsets` has the wrong size, with the size needed.
pub fn pack_into(
    context: &Context<'_>,
    indices: &[u64],
    out: &mut [u8],
    offsets: &mut [i64],
) -> Result<u64> {
    check_sizes(indices.len(), 0, out.len(), offsets.len())?;
    let found = context.resolve(indices)?;
    let read = OnceCell::new();
    let pieces = context.fetch(&found, &read)?;
    let total = borders(context, &pieces, offsets)?;
    check_sizes(indices.len(), total, out.len(), offsets.len())?;
    fill(context, &pieces, offsets, out)?;
    Ok(total)
}

fn borders(context: &Context<'_>, pieces: &[Piece<'_>], offsets: &mut [i64]) -> Result<u64> {
    let mut total = 0u64;
    for (piece, offset) in pieces.iter().zip(offsets.iter_mut()) {
        *offset = total as i64;
        if piece.source != HOLE {
            total += u64::from(piece.raw_length(context.generation)?);
        }
    }
    if let Some(last) = offsets.last_mut() {
        *last = total as i64;
    }
    Ok(total)
}

/// Copies or decompresses each piece to its place. `offsets` came from [`borders`], so the slices fit.
fn fill(
    context: &Context<'_>,
    pieces: &[Piece<'_>],
    offsets: &[i64],
    out: &mut [u8],
) -> Result<()> {
    let mut jobs = Vec::new();
    let mut rest = out;
    for (k, piece) in pieces.iter().enumerate() {
        if let Some(ahead) = pieces.get(k + PAYLOAD_AHEAD) {
            prefetch(ahead.payload);
        }
        let length = (offsets[k + 1] - offsets[k]) as usize;
        let (target, after) = rest.split_at_mut(length);
        rest = after;
        if piece.source == HOLE {
            continue;
        }
        if piece.found.entry.is_raw() {
            target.copy_from_slice(piece.payload);
            if context.must_check(piece) {
                // On the copy: it is in the cache, and it is what the caller gets.
                context.check(piece, || crc32c(target))?;
            }
        } else {
            if context.must_check(piece) {
                context.check(piece, || crc32c(piece.payload))?;
            }
            jobs.push(context.job(piece, target)?);
        }
    }
    decode::run(context, jobs)
}

/// One record, decompressed, handed to `then`; `None` for a hole. The fast path of `ds[i]`: nothing is allocated for a
/// raw record in a mapped chunk.
///
/// # Errors
/// As [`gather`].
pub fn one<R>(
    context: &Context<'_>,
    index: u64,
    then: impl FnOnce(Option<&[u8]>) -> R,
) -> Result<R> {
    let (entry, place) = context.generation.entry(index)?;
    if !entry.is_present() {
        return Ok(then(None));
    }
    if entry.is_raw()
        && let Some(piece) = context.mapped(Found {
            index,
            entry,
            place,
        })?
    {
        if context.must_check(&piece) {
            context.check(&piece, || crc32c(piece.payload))?;
        }
        return Ok(then(Some(piece.payload)));
    }
    let batch = gather(context, &[index])?;
    Ok(then(batch.get(0)))
}

impl Codec {
    /// Whether stored bytes are the record itself.
    pub fn is_raw(self) -> bool {
        self == Self::None
    }
}
