//! Reading a file of which most is skipped: a window that grows while the parser walks and shrinks when it jumps.

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use staddle_base::{Error, Result};

/// Bytes with a length: a file on a device, or a slice in a test.
pub trait Source: Send + Sync {
    /// How many bytes there are.
    fn size(&self) -> u64;

    /// Fills `into` from `offset`.
    ///
    /// # Errors
    /// `Corrupt` when the file turns out to be shorter; those of the device.
    fn read(&self, into: &mut [u8], offset: u64) -> Result<()>;
}

impl Source for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let from = usize::try_from(offset)
            .ok()
            .and_then(|at| self.get(at..)?.get(..into.len()))
            .ok_or_else(|| short(offset, into.len() as u64, self.size()))?;
        into.copy_from_slice(from);
        Ok(())
    }
}

impl Source for Vec<u8> {
    fn size(&self) -> u64 {
        self.as_slice().size()
    }

    fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        self.as_slice().read(into, offset)
    }
}

/// How far a window reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// After a jump.
    pub min: usize,
    /// While walking.
    pub max: usize,
}

impl Reach {
    /// For media where a call is cheap.
    pub const LOCAL: Self = Self {
        min: 4 << 10,
        max: 1 << 20,
    };
    /// For media where a call is a round trip.
    pub const REMOTE: Self = Self {
        min: 4 << 20,
        max: 4 << 20,
    };
}

/// A jump beyond this many bytes ends the walk.
const STEP_BYTES: u64 = 32 << 10;

/// The part of a file that is in memory.
pub struct Window<'a> {
    source: &'a dyn Source,
    size: u64,
    reach: Reach,
    next: usize,
    bytes: Vec<u8>,
    start: u64,
    used: u64,
}

impl<'a> Window<'a> {
    /// A window over `source`.
    pub fn new(source: &'a dyn Source, reach: Reach) -> Self {
        Self {
            size: source.size(),
            source,
            reach,
            next: reach.min,
            bytes: Vec::new(),
            start: 0,
            used: 0,
        }
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Checks that `len` bytes at `offset` lie inside the file, and returns where they end.
    ///
    /// # Errors
    /// `Corrupt` with offset, length and file size.
    pub fn inside(&self, offset: u64, len: u64) -> Result<u64> {
        offset
            .checked_add(len)
            .filter(|end| *end <= self.size)
            .ok_or_else(|| short(offset, len, self.size))
    }

    /// `len` bytes at `offset`. The caller bounds `len`; it is memory.
    ///
    /// # Errors
    /// `Corrupt` beyond the end of the file; those of the device.
    pub fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let end = self.inside(offset, len as u64)?;
        let have = self.start.saturating_add(self.bytes.len() as u64);
        if offset < self.start || end > have {
            self.fill(offset, len)?;
        }
        self.used = end;
        let at = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        self.bytes
            .get(at..)
            .and_then(|rest| rest.get(..len))
            .ok_or_else(|| short(offset, len as u64, self.size))
    }

    /// As an array.
    ///
    /// # Errors
    /// Those of [`Window::get`].
    pub fn array<const N: usize>(&mut self, offset: u64) -> Result<[u8; N]> {
        let size = self.size;
        let bytes = self.get(offset, N)?;
        bytes
            .first_chunk()
            .copied()
            .ok_or_else(|| short(offset, N as u64, size))
    }

    /// Up to `len` bytes at `offset`, fewer at the end of the file.
    ///
    /// # Errors
    /// Those of the device.
    pub fn up_to(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let left = self.size.saturating_sub(offset);
        let len = usize::try_from(left).map_or(len, |left| left.min(len));
        self.get(offset.min(self.size), len)
    }

    fn fill(&mut self, offset: u64, len: usize) -> Result<()> {
        let walks = offset >= self.start && offset.saturating_sub(self.used) <= STEP_BYTES;
        self.next = if walks {
            self.next.saturating_mul(2).min(self.reach.max)
        } else {
            self.reach.min
        };
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.bytes.clear();
        self.start = offset;
        self.bytes.resize(self.next.max(len).min(left), 0);
        self.source
            .read(&mut self.bytes, offset)
            .inspect_err(|_| self.bytes.clear())
    }
}

#[cold]
fn short(offset: u64, len: u64, size: u64) -> Error {
    Error::corrupt(format!(
        "{len} bytes are expected where the file has {} left",
        size.saturating_sub(offset)
    ))
    .with("offset", offset)
    .with("size", size)
    .hint("the file is cut short or damaged; fetch or write it again")
}
