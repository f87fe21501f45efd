//! Walking the frames of a chunk, one after the other, without trusting any of them.

use std::sync::Arc;

use staddle_base::checksum::crc32c;
use staddle_base::{Error, Result};
use staddle_runtime::io::device::File;

use crate::format::{ChunkHeader, Frame};

/// Bytes read at a time.
const WINDOW_BYTES: usize = 4 << 20;

/// A frame found in a chunk.
#[derive(Debug)]
pub struct Found<'a> {
    /// Where its payload begins.
    pub offset: u64,
    /// Its header.
    pub frame: Frame,
    /// The CRC in its header, which is right.
    pub crc: u32,
    /// Its payload as stored.
    pub payload: &'a [u8],
}

/// Reads a chunk front to back.
pub struct Scan {
    file: Arc<dyn File>,
    header: ChunkHeader,
    /// Frames end at or before this.
    end: u64,
    at: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Scan {
    /// Begins after the header. `end` is where frames end: the published end, or the size of the file.
    ///
    /// # Errors
    /// `Corrupt` for a bad header.
    pub fn new(file: Arc<dyn File>, end: u64) -> Result<Self> {
        let mut bytes = [0; ChunkHeader::BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        let header = ChunkHeader::decode(&bytes)?;
        Ok(Self {
            file,
            header,
            end,
            at: ChunkHeader::BYTES as u64,
            window: Vec::new(),
            window_at: 0,
        })
    }

    /// The chunk's header.
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// Where the last good frame ended.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// `Corrupt` with the offset of a frame that is not what was written. The scan cannot go on after it: where the next
    /// frame begins is not known.
    pub fn next_frame(&mut self) -> Result<Option<Found<'_>>> {
        let corrupt = |why: &'static str, at: u64| Error::corrupt(why).with("offset", at);
        let start = Frame::payload_after(self.at, u64::from(self.header.alignment))
            .ok_or_else(|| corrupt("a frame lies beyond any file", self.at))?;
        if start > self.end {
            return Ok(None);
        }
        let Some(header) = self
            .bytes(start - Frame::BYTES as u64, Frame::BYTES)?
            .first_chunk()
            .copied()
        else {
            return Err(corrupt("the chunk ends inside a frame", self.at));
        };
        let length = u64::from(u32::from_le_bytes([
            header[0], header[1], header[2], header[3],
        ]));
        if start + length > self.end {
            return Err(corrupt("a frame reaches beyond its chunk", start));
        }
        let payload_len =
            usize::try_from(length).map_err(|_| corrupt("a frame is larger than memory", start))?;
        let payload = self.bytes(start, payload_len)?;
        let crc = Frame::stored_crc(&header);
        if Frame::crc_with(&header, crc32c(payload)) != crc {
            return Err(corrupt(
                "a frame is not what was written: checksum mismatch",
                start,
            ));
        }
        let (frame, _) = Frame::decode(&header).map_err(|e| e.with("offset", start))?;
        self.at = start + length;
        let from = (start - self.window_at) as usize;
        Ok(Some(Found {
            offset: start,
            frame,
            crc,
            payload: &self.window[from..from + payload_len],
        }))
    }

    /// After an error: moves to the next place where a whole frame stands, trying every aligned address. False when there
    /// is none; the position is then still after the last good frame.
    ///
    /// # Errors
    /// Those of reading.
    pub fn resync(&mut self) -> Result<bool> {
        let alignment = u64::from(self.header.alignment);
        let good = self.at;
        let mut start = Frame::payload_after(good, alignment);
        while let Some(candidate) = start.and_then(|start| start.checked_add(alignment)) {
            if candidate > self.end {
                break;
            }
            // The header stands just before the payload, so a frame that begins here follows an end of this value.
            self.at = candidate - Frame::BYTES as u64;
            if self.is_plausible(candidate)? && matches!(self.next_frame(), Ok(Some(_))) {
                self.at = candidate - Frame::BYTES as u64;
                return Ok(true);
            }
            start = Some(candidate);
        }
        self.at = good;
        Ok(false)
    }

    /// Whether a header could stand before this payload address: cheap, and wrong for nearly all that is not one.
    fn is_plausible(&mut self, start: u64) -> Result<bool> {
        let end = self.end;
        let Some(header) = self
            .bytes(start - Frame::BYTES as u64, Frame::BYTES)?
            .first_chunk()
            .copied()
        else {
            return Ok(false);
        };
        Ok(Frame::decode(&header)
            .is_ok_and(|(frame, _)| start + u64::from(frame.physical_length) <= end))
    }

    /// `len` bytes at `offset`, which lie before the end.
    fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let have = offset >= self.window_at
            && offset + len as u64 <= self.window_at + self.window.len() as u64;
        if !have {
            let wish = (len.max(WINDOW_BYTES) as u64)
                .min(self.end.saturating_sub(offset))
                .max(len as u64);
            // Bounded by the end of the chunk, which was compared with the size of the file.
            self.window.resize(
                usize::try_from(wish)
                    .map_err(|_| Error::corrupt("a frame is larger than memory"))?,
                0,
            );
            self.window_at = offset;
            let got = self.file.read_at(&mut self.window, offset)?;
            self.window.truncate(got);
            if got < len {
                self.window.clear();
                return Err(Error::corrupt("the chunk ends inside a frame").with("offset", offset));
            }
        }
        let from = (offset - self.window_at) as usize;
        Ok(&self.window[from..from + len])
    }
}
