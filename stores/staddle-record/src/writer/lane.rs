//! A lane: one open chunk and the buffer before it.
//!
//! Frames gather in a buffer of 1 MiB and are written with `pwrite` into space that was reserved before, so a full disk
//! shows up before a record is accepted and not as a signal later. A lane that cannot write keeps its buffer: what was
//! accepted stays, and writing goes on once there is space.

use std::sync::Arc;

use staddle_base::checksum::crc32c;
use staddle_base::{Error, Result};
use staddle_runtime::io::device::{File, Open};

use crate::codec::Codec;
use crate::format::chunk::fold;
use crate::format::{ChunkFooter, ChunkHeader, Entry, Frame, Op, OpenChunk, names};
use crate::manifest::SealedChunk;
use crate::options::Options;
use crate::reader::chunks::{Chunk, Origin};
use crate::reader::generation::chunk_extent;

/// Bytes gathered before a write.
const BUFFER_BYTES: usize = 1 << 20;
/// Space is reserved in steps that double from the first to the second.
const RESERVE_MIN: u64 = 1 << 20;
const RESERVE_MAX: u64 = 64 << 20;

/// A payload ready to be framed.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// Bytes as stored.
    pub bytes: &'a [u8],
    /// Length of the record itself.
    pub raw_length: u32,
    /// How it is compressed.
    pub codec: Codec,
    /// With which dictionary.
    pub dictionary: u8,
    /// CRC32C of `bytes`, where a worker computed it already.
    pub crc: Option<u32>,
}

impl<'a> Payload<'a> {
    /// The payload of a marker frame.
    pub fn marker(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            raw_length: bytes.len() as u32,
            codec: Codec::None,
            dictionary: 0,
            crc: None,
        }
    }
}

/// What gives chunks their ids.
#[derive(Debug)]
pub struct ChunkIds(pub std::sync::atomic::AtomicU32);

impl ChunkIds {
    fn next(&self) -> Result<u32> {
        use std::sync::atomic::Ordering;
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1))
            .map_err(|_| {
                Error::exhausted("the set has used all 2^32 chunk ids")
                    .hint("rebalance it into a new set")
            })
    }
}

#[derive(Debug)]
struct Current {
    id: u32,
    file: Arc<dyn File>,
    shared: Arc<Chunk>,
    base_sequence: u64,
    alignment: u64,
    /// Where the next frame may begin: everything before is in the file or in the buffer.
    end: u64,
    /// How much of it is in the file.
    written: u64,
    /// Space reserved in the file.
    reserved: u64,
    records: u64,
    sequence_max: u64,
    digest: u64,
    unsynced: bool,
}

/// Where a lane was, to go back to after a batch that failed.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    id: u32,
    end: u64,
    records: u64,
    sequence_max: u64,
    digest: u64,
}

/// One writer of one chunk at a time.
#[derive(Debug)]
pub struct Lane {
    origin: Arc<Origin>,
    ids: Arc<ChunkIds>,
    current: Option<Current>,
    buffer: Vec<u8>,
    /// Chunks sealed since the last commit.
    pub sealed: Vec<SealedChunk>,
    /// Files sealed since the last commit, still to be synced.
    pub sealed_files: Vec<Arc<dyn File>>,
    /// Chunks made since the last exposure.
    pub fresh: Vec<Arc<Chunk>>,
    /// Whether a chunk file was made since the last commit.
    pub made_file: bool,
}

impl Lane {
    /// A lane without a chunk.
    pub fn new(origin: &Arc<Origin>, ids: &Arc<ChunkIds>) -> Self {
        Self {
            origin: Arc::clone(origin),
            ids: Arc::clone(ids),
            current: None,
            buffer: Vec::new(),
            sealed: Vec::new(),
            sealed_files: Vec::new(),
            fresh: Vec::new(),
            made_file: false,
        }
    }

    /// A lane that goes on with an open chunk. Bytes after its published end are cut off: a stopped writer left them.
    ///
    /// # Errors
    /// `Corrupt` when the chunk is missing, short or another set's.
    pub fn resume(
        origin: &Arc<Origin>,
        ids: &Arc<ChunkIds>,
        open: &OpenChunk,
        shared: &Arc<Chunk>,
    ) -> Result<Self> {
        let mut lane = Self::new(origin, ids);
        let locate = |e: Error| shared.locate(e);
        let file = origin
            .device
            .open(&names::chunk(open.id), Open::Write)
            .map_err(locate)?;
        let size = file.len()?;
        if size < open.end {
            return Err(locate(
                Error::corrupt("the chunk is shorter than what was published")
                    .with("size", size)
                    .with("published", open.end),
            ));
        }
        let mut bytes = [0; ChunkHeader::BYTES];
        file.read_exact_at(&mut bytes, 0).map_err(locate)?;
        let header = ChunkHeader::decode(&bytes).map_err(locate)?;
        if header.uuid != origin.uuid || header.id != open.id {
            return Err(locate(Error::corrupt("the file is a chunk of another set")));
        }
        if size > open.end {
            file.set_len(open.end).map_err(locate)?;
        }
        lane.current = Some(Current {
            id: open.id,
            file,
            shared: Arc::clone(shared),
            base_sequence: header.base_sequence,
            alignment: u64::from(header.alignment),
            end: open.end,
            written: open.end,
            reserved: open.end,
            records: open.records,
            sequence_max: open.sequence_max,
            digest: open.digest,
            unsynced: false,
        });
        Ok(lane)
    }

    /// The state to publish, if a chunk is open.
    pub fn open_chunk(&self) -> Option<OpenChunk> {
        self.current.as_ref().map(|c| OpenChunk {
            id: c.id,
            end: c.end,
            records: c.records,
            sequence_max: c.sequence_max,
            digest: c.digest,
        })
    }

    /// Where the lane is now.
    pub fn mark(&self) -> Option<Mark> {
        self.current.as_ref().map(|c| Mark {
            id: c.id,
            end: c.end,
            records: c.records,
            sequence_max: c.sequence_max,
            digest: c.digest,
        })
    }

    /// Drops frames pushed since `mark`, if they are in the same chunk. Frames of a chunk sealed since then stay, as
    /// bytes that no entry points to.
    pub fn rewind(&mut self, mark: Option<Mark>) {
        let (Some(mark), Some(current)) = (mark, &mut self.current) else {
            return;
        };
        if mark.id != current.id || mark.end >= current.end {
            return;
        }
        if mark.end >= current.written {
            self.buffer.truncate((mark.end - current.written) as usize);
        } else {
            self.buffer.clear();
            current.written = mark.end;
        }
        current.end = mark.end;
        current.records = mark.records;
        current.sequence_max = mark.sequence_max;
        current.digest = mark.digest;
    }

    /// Frames a payload and returns the entry that points to it.
    ///
    /// # Errors
    /// `Exhausted` when the disk is full: nothing of this payload is kept, and a later push may succeed. Others come
    /// from the device and mean that it cannot be trusted any more.
    pub fn push(
        &mut self,
        options: &Options,
        generation: u64,
        sequence: u64,
        index: u64,
        op: Op,
        payload: Payload<'_>,
    ) -> Result<Entry> {
        let length = u32::try_from(payload.bytes.len())
            .map_err(|_| Error::invalid("a record of 4 GiB or more does not fit"))?;
        let at = self.room(options, generation, sequence, u64::from(length))?;
        let Some(current) = &mut self.current else {
            return Err(Error::internal("a lane has room but no chunk"));
        };
        let frame = Frame {
            physical_length: length,
            raw_length: payload.raw_length,
            sequence_delta: u32::try_from(sequence - current.base_sequence).map_err(|_| {
                Error::internal("a chunk was not sealed before its sequence ran out")
            })?,
            index,
            op,
            codec: payload.codec,
            dictionary: payload.dictionary,
        };
        let (header, crc) = frame.encode(payload.crc.unwrap_or_else(|| crc32c(payload.bytes)));
        let gap = at - Frame::BYTES as u64 - current.end;
        let framed = self.buffer.len() + gap as usize + Frame::BYTES;
        self.buffer.resize(self.buffer.len() + gap as usize, 0);
        self.buffer.extend_from_slice(&header);
        if payload.bytes.len() < BUFFER_BYTES {
            self.buffer.extend_from_slice(payload.bytes);
        } else {
            // Too large to be worth a copy: the header goes first, then the payload from where it is.
            let written = current
                .file
                .write_at(&self.buffer, current.written)
                .and_then(|()| current.file.write_at(payload.bytes, at));
            if let Err(e) = written {
                self.buffer.truncate(framed - gap as usize - Frame::BYTES);
                return Err(current.shared.locate(e));
            }
            self.buffer.clear();
            current.written = at + u64::from(length);
            current.unsynced = true;
        }
        current.end = at + u64::from(length);
        current.records += 1;
        current.sequence_max = current.sequence_max.max(sequence);
        current.digest = fold(current.digest, crc);
        Ok(Entry::new(
            current.id,
            at,
            length,
            payload.codec,
            payload.dictionary,
        ))
    }

    /// Makes room for a payload and says where it goes: in the open chunk, or in a new one.
    fn room(
        &mut self,
        options: &Options,
        generation: u64,
        sequence: u64,
        length: u64,
    ) -> Result<u64> {
        if let Some(at) = self.fits(options, sequence, length) {
            self.reserve(at + length)?;
            if self.buffer.len() + length as usize + Frame::BYTES + options.align as usize
                > BUFFER_BYTES
            {
                self.drain()?;
            }
            return Ok(at);
        }
        self.seal()?;
        self.start(options, generation, sequence, length)?;
        self.fits_alone(length)
    }

    fn fits(&self, options: &Options, sequence: u64, length: u64) -> Option<u64> {
        let current = self.current.as_ref()?;
        let at = Frame::payload_after(current.end, current.alignment)?;
        let end = at.checked_add(length)?;
        let full = end > options.chunk_bytes - ChunkFooter::BYTES as u64
            || options
                .chunk_records
                .is_some_and(|limit| current.records >= limit)
            || sequence
                .checked_sub(current.base_sequence)
                .is_none_or(|delta| delta > u64::from(u32::MAX));
        (!full).then_some(at)
    }

    fn fits_alone(&self, length: u64) -> Result<u64> {
        let impossible = || Error::internal("a new chunk has no room for its first frame");
        let current = self.current.as_ref().ok_or_else(impossible)?;
        let at = Frame::payload_after(current.end, current.alignment).ok_or_else(impossible)?;
        match at.checked_add(length) {
            Some(end) if end <= Entry::OFFSET_MAX => Ok(at),
            _ => Err(impossible()),
        }
    }

    /// Begins a new chunk. Nothing names it until a commit, so a failure leaves only a file to be removed.
    fn start(
        &mut self,
        options: &Options,
        generation: u64,
        sequence: u64,
        first: u64,
    ) -> Result<()> {
        let id = self.ids.next()?;
        let path = names::chunk(id);
        let locate = |e: Error| e.with("uri", self.origin.device.uri()).with("chunk", id);
        let file = super::create_file(&self.origin.device, &path).map_err(locate)?;
        self.made_file = true;
        let header = ChunkHeader {
            id,
            uuid: self.origin.uuid,
            base_sequence: sequence,
            generation,
            alignment: options.align,
        }
        .encode();
        // A record larger than a chunk gets one of its own.
        let extent = chunk_extent(
            options
                .chunk_bytes
                .max(first.saturating_add(3 * u64::from(options.align.max(64)))),
        );
        let shared = Arc::new(Chunk::own(&self.origin, id, 0, extent));
        let mut current = Current {
            id,
            file,
            shared: Arc::clone(&shared),
            base_sequence: sequence,
            alignment: u64::from(options.align),
            end: header.len() as u64,
            written: 0,
            reserved: 0,
            records: 0,
            sequence_max: sequence,
            digest: 0,
            unsynced: true,
        };
        let need = header.len() as u64 + first + u64::from(options.align) + Frame::BYTES as u64;
        if let Err(e) = reserve(&mut current, need) {
            drop(current);
            let _ = self.origin.device.remove(&path);
            return Err(locate(e));
        }
        self.buffer.clear();
        self.buffer.extend_from_slice(&header);
        self.current = Some(current);
        self.fresh.push(shared);
        Ok(())
    }

    fn reserve(&mut self, end: u64) -> Result<()> {
        match &mut self.current {
            Some(current) if end > current.reserved => {
                reserve(current, end).map_err(|e| current.shared.locate(e))
            }
            _ => Ok(()),
        }
    }

    /// Writes the buffer to the file (the page cache; a sync makes it durable).
    ///
    /// # Errors
    /// Those of the device; the buffer is kept.
    pub fn drain(&mut self) -> Result<()> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        if self.buffer.is_empty() {
            return Ok(());
        }
        current
            .file
            .write_at(&self.buffer, current.written)
            .map_err(|e| current.shared.locate(e))?;
        current.unsynced = true;
        current.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Drains, and lets readers of this process see it.
    ///
    /// # Errors
    /// As [`Lane::drain`].
    pub fn expose(&mut self) -> Result<()> {
        self.drain()?;
        if let Some(current) = &self.current {
            current.shared.expose(current.end);
        }
        Ok(())
    }

    /// Files with bytes that are not durable yet.
    pub fn unsynced(&self) -> impl Iterator<Item = Arc<dyn File>> {
        let current = self
            .current
            .as_ref()
            .filter(|c| c.unsynced)
            .map(|c| Arc::clone(&c.file));
        self.sealed_files.iter().cloned().chain(current)
    }

    /// Makes everything pushed so far durable, apart from folder entries.
    ///
    /// # Errors
    /// Those of the device.
    pub fn sync(&mut self) -> Result<()> {
        self.drain()?;
        self.unsynced().try_for_each(|file| file.sync())
    }

    /// Forgets what a commit has made durable.
    pub fn committed(&mut self) {
        self.sealed.clear();
        self.sealed_files.clear();
        self.made_file = false;
        if let Some(current) = &mut self.current {
            current.unsynced = false;
        }
    }

    /// Ends the open chunk: footer, surplus space freed. A chunk without frames is dropped.
    ///
    /// # Errors
    /// Those of the device; the chunk stays open.
    pub fn seal(&mut self) -> Result<()> {
        self.drain()?;
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let footer = ChunkFooter {
            frames: current.records,
            bytes: current.end,
            sequence_min: current.base_sequence,
            sequence_max: current.sequence_max,
            digest: current.digest,
        };
        let end = current.end + ChunkFooter::BYTES as u64;
        current
            .file
            .write_at(&footer.encode(), current.end)
            .map_err(|e| current.shared.locate(e))?;
        current
            .file
            .set_len(end)
            .map_err(|e| current.shared.locate(e))?;
        current.shared.expose(current.end);
        self.sealed.push(SealedChunk {
            id: current.id,
            bytes: current.end,
            records: current.records,
            digest: current.digest,
            external: None,
        });
        self.sealed_files.push(Arc::clone(&current.file));
        self.current = None;
        Ok(())
    }

    /// Frees space that was reserved and not used.
    pub fn trim(&mut self) {
        if let Some(current) = &mut self.current
            && current.written == current.end
            && current.reserved > current.end
        {
            // Only disk space is at stake.
            if current.file.set_len(current.end).is_ok() {
                current.reserved = current.end;
            }
        }
    }
}

/// Reserves space up to at least `end`, more where there is more.
fn reserve(current: &mut Current, end: u64) -> Result<()> {
    let step = current.reserved.clamp(RESERVE_MIN, RESERVE_MAX);
    let wish = end.max(current.reserved + step);
    let from = current.reserved;
    let result = match current.file.allocate(from, wish - from) {
        Err(e) if e.is_no_space() => current.file.allocate(from, end - from).map(|()| end),
        other => other.map(|()| wish),
    };
    current.reserved = result.map_err(|e| {
        e.with("needed", end - from)
            .hint("free space on that file system, then go on: flushed records are intact")
    })?;
    Ok(())
}
