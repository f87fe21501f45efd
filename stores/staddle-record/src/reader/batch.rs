//! What a gather returns: the records in input order, owning everything they point to.

use std::sync::Arc;

use staddle_base::{Error, Result};
use staddle_runtime::memory::PoolBuffer;

use super::generation::Generation;

/// Where one record of a batch lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// A chunk's position in the generation, or one of the constants below.
    pub source: u32,
    pub length: u32,
    pub offset: u64,
}

/// No record: the index is a hole.
pub(super) const HOLE: u32 = u32::MAX;
/// Buffer k of the batch is source `BUFFERS + k`.
pub(super) const BUFFERS: u32 = u32::MAX - 3;

/// Records in input order. Cloning is cheap; the bytes live as long as any clone.
#[derive(Clone, Debug)]
pub struct Batch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    generation: Arc<Generation>,
    items: Vec<Item>,
    buffers: Vec<PoolBuffer>,
    copied: Option<&'static str>,
}

impl Batch {
    pub(super) fn new(
        generation: Arc<Generation>,
        items: Vec<Item>,
        buffers: Vec<PoolBuffer>,
        copied: Option<&'static str>,
    ) -> Self {
        Self(Arc::new(Inner {
            generation,
            items,
            buffers,
            copied,
        }))
    }

    /// Number of records, holes included.
    pub fn len(&self) -> usize {
        self.0.items.len()
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.0.items.is_empty()
    }

    /// The bytes at a position; `None` for a hole or past the end.
    #[inline]
    pub fn get(&self, position: usize) -> Option<&[u8]> {
        let item = self.0.items.get(position)?;
        self.0.bytes(item)
    }

    /// Whether the position holds a record, perhaps an empty one.
    pub fn is_present(&self, position: usize) -> bool {
        self.0
            .items
            .get(position)
            .is_some_and(|item| item.source != HOLE)
    }

    /// Length of each record in bytes; 0 for holes.
    pub fn lengths(&self) -> impl ExactSizeIterator<Item = usize> {
        self.0.items.iter().map(|item| item.length as usize)
    }

    /// Address of each record; 0 for holes. Valid while the batch, or a clone of it, lives.
    pub fn pointers(&self) -> impl ExactSizeIterator<Item = usize> {
        self.0.items.iter().map(|item| {
            self.0
                .bytes(item)
                .map_or(0, |bytes| bytes.as_ptr() as usize)
        })
    }

    /// Every record in order; `None` for holes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.0.items.iter().map(|item| self.0.bytes(item))
    }

    /// Why bytes were copied, or `None` when all of them are where the file system keeps them.
    pub fn copied(&self) -> Option<&'static str> {
        self.0.copied
    }

    /// Sum of all lengths.
    pub fn bytes(&self) -> u64 {
        self.0.items.iter().map(|item| u64::from(item.length)).sum()
    }

    /// The generation that the batch reads.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.0.generation
    }

    /// All records one after the other in a pooled buffer of its own.
    ///
    /// # Errors
    /// `Exhausted` when the memory limit leaves no room.
    pub fn pack(&self) -> Result<Packed> {
        let memory = self.0.generation.origin.runtime.memory();
        let bytes = usize::try_from(self.bytes())
            .map_err(|_| Error::invalid("the batch is larger than memory"))?;
        let mut data = memory.pool().take(memory.root(), bytes)?;
        let mut offsets = vec![0; self.len() + 1];
        self.pack_into(&mut data, &mut offsets)?;
        let holes = self.0.items.iter().any(|item| item.source == HOLE);
        let present = holes.then(|| {
            self.0
                .items
                .iter()
                .map(|item| item.source != HOLE)
                .collect()
        });
        Ok(Packed {
            data,
            offsets,
            present,
        })
    }

    /// Copies all records into `out`, one after the other, and fills `offsets` (one more than records) with their
    /// borders. Returns the bytes written.
    ///
    /// # Errors
    /// `Invalid` when `out` or `offsets` has the wrong size, with the sizes needed.
    pub fn pack_into(&self, out: &mut [u8], offsets: &mut [i64]) -> Result<u64> {
        check_sizes(self.len(), self.bytes(), out.len(), offsets.len())?;
        let mut at = 0;
        for (record, offset) in self.iter().zip(offsets.iter_mut()) {
            *offset = at as i64;
            let record = record.unwrap_or(&[]);
            out[at..at + record.len()].copy_from_slice(record);
            at += record.len();
        }
        if let Some(last) = offsets.last_mut() {
            *last = at as i64;
        }
        Ok(at as u64)
    }
}

impl Inner {
    #[inline]
    fn bytes(&self, item: &Item) -> Option<&[u8]> {
        match item.source {
            HOLE => None,
            source if source >= BUFFERS => {
                let buffer = self.buffers.get((source - BUFFERS) as usize)?;
                let at = usize::try_from(item.offset).ok()?;
                buffer.get(at..at + item.length as usize)
            }
            position => self
                .generation
                .chunks
                .at(position)?
                .mapped(item.offset, item.length as usize),
        }
    }
}

/// Checks the sizes of a caller's packed output.
///
/// # Errors
/// `Invalid` with the sizes needed.
pub fn check_sizes(records: usize, bytes: u64, out: usize, offsets: usize) -> Result<()> {
    if offsets != records + 1 {
        return Err(Error::invalid(format!(
            "offsets has {offsets} entries, {} are needed",
            records + 1
        ))
        .hint("one more than there are indices"));
    }
    if (out as u64) < bytes {
        return Err(Error::invalid(format!(
            "the output has {out} bytes, the records have {bytes}"
        ))
        .with("needed", bytes)
        .hint("lengths() tells the sizes without copying"));
    }
    Ok(())
}

/// Records one after the other in one buffer that nobody else can see.
#[derive(Debug)]
pub struct Packed {
    /// The bytes; writable, and as long as the last offset.
    pub data: PoolBuffer,
    /// Record k is `data[offsets[k]..offsets[k + 1]]`; one more than there are records.
    pub offsets: Vec<i64>,
    /// Which positions hold a record; `None` when all do.
    pub present: Option<Vec<bool>>,
}

impl Packed {
    /// Number of records, holes included.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of one record; empty for holes.
    pub fn get(&self, position: usize) -> Option<&[u8]> {
        let (from, to) = (
            *self.offsets.get(position)?,
            *self.offsets.get(position + 1)?,
        );
        self.data
            .get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
    }
}
