//! Chunks and entries: header, frames, payloads of every codec, footer, and offset entries that point into them.
//!
//! Strategy: mutate chunks with frames of all codecs, followed by offset entries; repair the CRCs of header, footer and
//! of every frame that can be walked to.
//! Invariants: a walk ends; a frame that passes its check decodes to what it says or is an error; entries encode to the
//! bytes they came from; nothing larger than the limit is allocated for a length that the chunk claims.

use staddle_base::checksum::crc32c;
use staddle_base::{Error, ErrorKind, Result};
use staddle_record::codec::{Codec, Decoder, Encoder};
use staddle_record::format::{ChunkFooter, ChunkHeader, Entry, Frame, Op};

use super::repair;
use crate::target::{Signal, Target};

pub(super) const TARGET: Target = Target {
    name: "chunk",
    run,
    seeds,
    fix: Some(|input| fix(input)),
    words: &[b"STADCHK1", b"STADEND1", &[0x28, 0xb5, 0x2f, 0xfd]],
};

/// The largest record decoded here.
const RECORD_MAX: usize = 1 << 20;

fn run(input: &[u8]) -> Signal {
    let mut parts = Vec::new();
    let header = note(ChunkHeader::decode(input), &mut parts);
    if let Some(header) = &header {
        assert_eq!(
            ChunkHeader::decode(&header.encode()).as_ref().ok(),
            Some(header)
        );
    }
    let alignment = header.map_or(8, |header| u64::from(header.alignment));
    let mut decoder = Decoder::default();
    let (mut end, mut frames, mut good) = (ChunkHeader::BYTES as u64, 0, 0);
    while let Some((frame, payload, next)) = frame_after(input, end, alignment) {
        assert!(next > end);
        frames += 1;
        good += u64::from(note(decode(&frame, payload, &mut decoder), &mut parts).is_some());
        end = next;
    }
    let rest = usize::try_from(end)
        .ok()
        .and_then(|end| input.get(end..))
        .unwrap_or_default();
    if let Some(footer) = note(ChunkFooter::decode(rest), &mut parts) {
        assert_eq!(ChunkFooter::decode(&footer.encode()).ok(), Some(footer));
    }
    for bytes in rest.as_chunks::<{ Entry::BYTES }>().0 {
        let entry = Entry::from_bytes(*bytes);
        assert_eq!(entry.to_bytes(), *bytes);
        assert!(entry.offset() <= Entry::OFFSET_MAX);
        note(entry.codec(), &mut parts);
    }
    parts.sort_unstable();
    parts.dedup();
    parts.truncate(16);
    parts.extend([frames, good]);
    Signal::of(&parts)
}

/// The frame after `end`: itself, its payload and where it ends.
fn frame_after(input: &[u8], end: u64, alignment: u64) -> Option<(Frame, &[u8], u64)> {
    let at = usize::try_from(Frame::payload_after(end, alignment)?).ok()?;
    let header: &[u8; Frame::BYTES] = input
        .get(at.checked_sub(Frame::BYTES)?..at)?
        .try_into()
        .ok()?;
    let (frame, crc) = Frame::decode(header).ok()?;
    let payload = input.get(at..at.checked_add(usize::try_from(frame.physical_length).ok()?)?)?;
    assert_eq!(
        Frame::check(header, payload),
        crc == Frame::crc(header, payload)
    );
    let (again, _) = frame.encode(crc32c(payload));
    assert_eq!(
        Frame::decode(&again).ok().map(|(frame, _)| frame),
        Some(frame)
    );
    Some((frame, payload, (at + payload.len()) as u64))
}

fn decode(frame: &Frame, payload: &[u8], decoder: &mut Decoder) -> Result<Vec<u8>> {
    let len = usize::try_from(frame.raw_length).unwrap_or(usize::MAX);
    if len > RECORD_MAX {
        return Err(Error::exhausted(
            "the record is larger than this target decodes",
        ));
    }
    let mut out = vec![0; len];
    decoder.decode(frame.codec, payload, None, &mut out)?;
    Ok(out)
}

fn note<T>(result: Result<T>, parts: &mut Vec<u64>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let kinds = [
                ErrorKind::Corrupt,
                ErrorKind::Unsupported,
                ErrorKind::Exhausted,
            ];
            assert!(kinds.contains(&error.kind()), "{error:?}");
            parts.push(Signal::error(&error).as_number());
            None
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    [8, 64]
        .into_iter()
        .filter_map(|alignment| chunk(alignment).ok())
        .collect()
}

fn chunk(alignment: u32) -> Result<Vec<u8>> {
    let header = ChunkHeader {
        id: 3,
        uuid: [7; 16],
        base_sequence: 5,
        generation: 2,
        alignment,
    };
    let mut out = header.encode();
    let mut entries = Vec::new();
    let text = b"the quick brown fox jumps over the lazy dog; ".repeat(20);
    for (index, codec) in (0_u32..).zip([
        Codec::None,
        Codec::Deflate,
        Codec::Lz4,
        Codec::Zstd,
        Codec::None,
    ]) {
        let record: &[u8] = if index == 4 { b"" } else { &text };
        let mut encoder = Encoder::new(codec, 3, None)?;
        let (payload, codec, dictionary) = encoder.encode(record)?;
        let length = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let frame = Frame {
            physical_length: length(payload.len()),
            raw_length: length(record.len()),
            sequence_delta: index,
            index: u64::from(index),
            op: Op::Put,
            codec,
            dictionary,
        };
        let at = Frame::payload_after(out.len() as u64, u64::from(alignment)).unwrap_or(0);
        out.resize(usize::try_from(at).unwrap_or(0) - Frame::BYTES, 0);
        out.extend_from_slice(&frame.encode(crc32c(payload)).0);
        out.extend_from_slice(payload);
        entries.extend_from_slice(&Entry::new(3, at, frame.physical_length, codec, 0).to_bytes());
    }
    let footer = ChunkFooter {
        frames: 5,
        bytes: out.len() as u64,
        sequence_min: 5,
        sequence_max: 9,
        digest: 1,
    };
    out.extend(footer.encode());
    out.extend(entries);
    Ok(out)
}

fn fix(input: &mut [u8]) {
    repair::crc_at(input, ChunkHeader::BYTES - 4);
    let alignment = ChunkHeader::decode(input).map_or(8, |header| u64::from(header.alignment));
    let mut end = ChunkHeader::BYTES as u64;
    while let Some((frame, payload, next)) = frame_after(input, end, alignment) {
        let (header, _) = frame.encode(crc32c(payload));
        let at = usize::try_from(next).unwrap_or(0) - payload.len() - Frame::BYTES;
        input[at..at + Frame::BYTES].copy_from_slice(&header);
        end = next;
    }
    if let Some(footer) = usize::try_from(end)
        .ok()
        .and_then(|end| input.get_mut(end..))
    {
        repair::crc_at(footer, ChunkFooter::BYTES - 4);
    }
}
