//! Printing what lies on disk, slot by slot and frame by frame: for people who look into a set, and for tests that fix
//! the format. What cannot be read is said and passed over.

use std::fmt;
use std::io::Write;
use std::ops::Range;

use staddle_base::{Error, Result};
use staddle_runtime::io::device::{Open, read_file};

use crate::codec::Codec;
use crate::format::chunk::fold;
use crate::format::{
    ChunkFooter, Entry, Frame, Head, LogHeader, LogRecord, Op, SEGMENT_SLOTS, head, log, names,
    uuid_text,
};
use crate::maintain::compact::for_entries;
use crate::maintain::scan::Scan;
use crate::maintain::snapshot;
use crate::reader::Generation;
use crate::reader::chunks::Chunk;
use crate::records::Records;

/// What to print beyond HEAD, manifest, table, log and chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpOptions {
    /// Every frame of every chunk.
    pub frames: bool,
    /// Every entry of the table, redirects applied.
    pub entries: bool,
    /// Only entries, frames and log records of these indices.
    pub range: Option<Range<u64>>,
    /// So many bytes of each payload, as stored.
    pub bytes: usize,
}

/// Lines, indented.
struct Printer<'a> {
    out: &'a mut dyn Write,
    what: DumpOptions,
}

macro_rules! line {
    ($printer:expr, $depth:literal, $($text:tt)*) => {
        $printer.line($depth, format_args!($($text)*))?
    };
}

impl Printer<'_> {
    fn line(&mut self, depth: usize, text: fmt::Arguments<'_>) -> Result<()> {
        let depth = 2 * depth;
        writeln!(self.out, "{:depth$}{text}", "")
            .map_err(|e| Error::unavailable("the dump cannot be written").source(e))
    }

    /// Says what keeps a part from being printed.
    fn damaged(&mut self, depth: usize, error: &Error) -> Result<()> {
        self.line(depth, format_args!("damaged: {error}"))
    }

    fn shows(&self, index: u64) -> bool {
        self.what
            .range
            .as_ref()
            .is_none_or(|range| range.contains(&index))
    }
}

/// An entry in words.
struct Shown(Entry);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.0;
        if !entry.is_present() {
            return f.write_str("hole");
        }
        let (chunk, offset) = (entry.chunk(), entry.offset());
        write!(
            f,
            "chunk {chunk} at {offset}, {} bytes",
            entry.physical_length()
        )?;
        match entry.codec() {
            Ok(Codec::None) => {}
            Ok(codec) => write!(f, ", {}", codec.name())?,
            Err(_) => f.write_str(", unknown codec or flags")?,
        }
        if entry.dictionary() != 0 {
            write!(f, " with dictionary {}", entry.dictionary())?;
        }
        if entry.is_external() {
            f.write_str(", external")?;
        }
        Ok(())
    }
}

/// The first bytes of a payload.
struct Preview<'a>(&'a [u8], usize);

impl fmt::Display for Preview<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1 == 0 {
            return Ok(());
        }
        let (shown, more) = self.0.split_at(self.1.min(self.0.len()));
        let dots = if more.is_empty() { "" } else { "…" };
        write!(f, " \"{}\"{dots}", shown.escape_ascii())
    }
}

fn op_name(op: Op) -> &'static str {
    match op {
        Op::Put => "put",
        Op::SwapDelete => "swap-delete",
        Op::Tombstone => "tombstone",
        Op::Rebase => "rebase",
    }
}

impl Records {
    /// Prints what lies on disk: HEAD, manifest, segments, log, dictionaries, snapshots and chunks of the view in use,
    /// and as much more as `what` asks for.
    ///
    /// # Errors
    /// `Closed`, and `Unavailable` when `out` does not take it. Damage is printed.
    pub fn dump(&self, out: &mut dyn Write, what: DumpOptions) -> Result<()> {
        let view = self.current()?;
        let mut printer = Printer { out, what };
        line!(printer, 0, "set {}", uuid_text(&view.head.uuid));
        self.dump_head(&mut printer, &view)?;
        dump_manifest(&mut printer, &view)?;
        dump_log(&mut printer, &view)?;
        self.dump_snapshots(&mut printer)?;
        if printer.what.entries {
            dump_entries(&mut printer, &view)?;
        }
        for chunk in view.chunks.list() {
            dump_chunk(&mut printer, &view, chunk)?;
        }
        printer
            .out
            .flush()
            .map_err(|e| Error::unavailable("the dump cannot be written").source(e))
    }

    fn dump_head(&self, printer: &mut Printer<'_>, view: &Generation) -> Result<()> {
        let bytes = match read_file(self.device().as_ref(), names::HEAD, head::FILE_BYTES) {
            Ok(bytes) => bytes,
            Err(e) => return printer.damaged(0, &e),
        };
        let mut published = false;
        for (no, slot) in bytes.chunks(head::SLOT_BYTES).enumerate() {
            let at = no * head::SLOT_BYTES;
            if slot.iter().all(|byte| *byte == 0) {
                line!(printer, 0, "HEAD {at}: empty");
                continue;
            }
            match Head::decode(slot) {
                Ok(head) => {
                    published |= head == view.head;
                    let mark = if head == view.head { ", in view" } else { "" };
                    line!(
                        printer,
                        0,
                        "HEAD {at}: generation {}{mark}",
                        head.generation
                    );
                    print_head(printer, &head)?;
                }
                Err(e) => {
                    line!(printer, 0, "HEAD {at}:");
                    printer.damaged(1, &e)?;
                }
            }
        }
        if !published {
            line!(
                printer,
                0,
                "in view: generation {}, not as published",
                view.head.generation
            );
            print_head(printer, &view.head)?;
        }
        Ok(())
    }

    fn dump_snapshots(&self, printer: &mut Printer<'_>) -> Result<()> {
        let kept = match snapshot::list(self.device().as_ref()) {
            Ok(kept) => kept,
            Err(e) => return printer.damaged(0, &e),
        };
        for kept in kept {
            line!(
                printer,
                0,
                "snapshot {}: generation {}, {} records, manifest {}, log {} to {}",
                kept.name,
                kept.head.generation,
                kept.head.n,
                kept.head.manifest,
                kept.head.log,
                kept.head.log_end
            );
        }
        Ok(())
    }
}

fn print_head(printer: &mut Printer<'_>, head: &Head) -> Result<()> {
    line!(
        printer,
        1,
        "records {}, live {}, base_len {}, next sequence {}",
        head.n,
        head.live,
        head.base_len,
        head.next_sequence
    );
    line!(
        printer,
        1,
        "manifest {}, log {} to {}",
        head.manifest,
        head.log,
        head.log_end
    );
    line!(
        printer,
        1,
        "changed in {}, moved in {}",
        head.changed_generation,
        head.moved_generation
    );
    line!(
        printer,
        1,
        "live bytes {}, total bytes {}, time {}",
        head.live_bytes,
        head.total_bytes,
        head.time_ns
    );
    for open in &head.open {
        line!(
            printer,
            1,
            "open chunk {} to {}: {} frames, sequence to {}, digest {:016x}",
            open.id,
            open.end,
            open.records,
            open.sequence_max,
            open.digest
        );
    }
    Ok(())
}

fn dump_manifest(printer: &mut Printer<'_>, view: &Generation) -> Result<()> {
    let manifest = &view.manifest;
    line!(
        printer,
        0,
        "manifest {}: format {}, from generation {}, next chunk {}, next version {}",
        manifest.number,
        manifest.version,
        manifest.generation,
        manifest.next_chunk,
        manifest.next_version
    );
    let options = serde_json::to_string(&manifest.options)
        .map_err(|e| Error::internal("options cannot be written").source(e))?;
    line!(printer, 1, "options {options}");
    if let Some(codec) = &manifest.codec_decided {
        line!(printer, 1, "codec decided: {codec}");
    }
    for segment in &manifest.segments {
        let slots = view
            .head
            .base_len
            .saturating_sub(segment.no * SEGMENT_SLOTS)
            .min(SEGMENT_SLOTS);
        line!(
            printer,
            1,
            "segment {} version {}: {slots} slots, {} with checksums",
            segment.no,
            segment.version,
            segment.summed
        );
    }
    for known in &manifest.dictionaries {
        let mark = if known.slot == manifest.dictionary_in_use {
            ", in use"
        } else {
            ""
        };
        line!(
            printer,
            1,
            "dictionary {}: {} bytes, xxh3 {:016x}{mark}",
            known.slot,
            known.bytes,
            known.xxh3
        );
    }
    Ok(())
}

fn dump_log(printer: &mut Printer<'_>, view: &Generation) -> Result<()> {
    let head = &view.head;
    if head.log_end == 0 {
        line!(printer, 0, "log {}: empty", head.log);
        return Ok(());
    }
    let (header, records) = match read_log(view) {
        Ok(read) => read,
        Err(e) => {
            line!(printer, 0, "log {}:", head.log);
            return printer.damaged(1, &e);
        }
    };
    line!(
        printer,
        0,
        "log {}: {} records, from generation {}",
        header.number,
        records.len(),
        header.generation
    );
    let mut at = LogHeader::BYTES;
    for record in records {
        if printer.shows(record.index) {
            line!(
                printer,
                1,
                "{at}: {} {}, sequence {}: {}",
                op_name(record.op),
                record.index,
                record.sequence,
                Shown(record.entry)
            );
        }
        at += LogRecord::BYTES;
    }
    Ok(())
}

fn read_log(view: &Generation) -> Result<(LogHeader, Vec<LogRecord>)> {
    let file = view
        .origin
        .device
        .open(&names::log(view.head.log), Open::Read)?;
    let len = usize::try_from(view.head.log_end.min(file.len()?))
        .map_err(|_| Error::corrupt("the log is too long"))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    let (header, records) = bytes
        .split_at_checked(LogHeader::BYTES)
        .ok_or_else(|| Error::corrupt("the log ends inside its header"))?;
    Ok((LogHeader::decode(header)?, log::decode_all(records)?))
}

fn dump_entries(printer: &mut Printer<'_>, view: &Generation) -> Result<()> {
    line!(printer, 0, "entries");
    let mut failed = None;
    let read = for_entries(view, |index, entry| {
        if !printer.shows(index) {
            return Ok(());
        }
        let mark = if view.overlay.get(index).is_some() {
            ", redirected"
        } else {
            ""
        };
        printer
            .line(1, format_args!("{index}: {}{mark}", Shown(entry)))
            .inspect_err(|e| failed = Some(e.duplicate()))
    });
    match (failed, read) {
        (Some(e), _) => Err(e),
        (None, Err(e)) => printer.damaged(1, &e),
        (None, Ok(())) => Ok(()),
    }
}

/// What HEAD or manifest says of a chunk.
struct Said {
    state: &'static str,
    frames: Option<u64>,
    digest: Option<u64>,
}

fn said(view: &Generation, id: u32) -> Said {
    let sealed = view.manifest.sealed.iter().find(|chunk| chunk.id == id);
    let open = view.head.open.iter().find(|chunk| chunk.id == id);
    match (sealed, open) {
        (Some(sealed), _) => Said {
            state: if sealed.external.is_some() {
                "external"
            } else {
                "sealed"
            },
            frames: Some(sealed.records),
            digest: Some(sealed.digest),
        },
        (None, Some(open)) => Said {
            state: "open",
            frames: Some(open.records),
            digest: Some(open.digest),
        },
        (None, None) => Said {
            state: "open, not published",
            frames: None,
            digest: None,
        },
    }
}

fn dump_chunk(printer: &mut Printer<'_>, view: &Generation, chunk: &Chunk) -> Result<()> {
    let said = said(view, chunk.id());
    let frames = said
        .frames
        .map_or(String::new(), |frames| format!(", {frames} frames"));
    line!(
        printer,
        0,
        "chunk {}: {}, {} bytes{frames}",
        chunk.id(),
        said.state,
        chunk.end()
    );
    if let Some(foreign) = chunk.foreign() {
        line!(printer, 1, "{} {}", foreign.kind, foreign.uri);
        return Ok(());
    }
    let file = chunk.file().cloned();
    let scan = match file.and_then(|file| Scan::new(file, chunk.end())) {
        Ok(scan) => scan,
        Err(e) => return printer.damaged(1, &e),
    };
    let header = scan.header();
    line!(
        printer,
        1,
        "0: header, base sequence {}, generation {}, alignment {}",
        header.base_sequence,
        header.generation,
        header.alignment
    );
    if printer.what.frames {
        dump_frames(printer, scan, &said)?;
    }
    if said.state == "sealed" {
        match read_footer(chunk) {
            Ok(Some(footer)) => line!(
                printer,
                1,
                "{}: footer, {} frames, sequences {} to {}, digest {:016x}",
                chunk.end(),
                footer.frames,
                footer.sequence_min,
                footer.sequence_max,
                footer.digest
            ),
            Ok(None) => line!(printer, 1, "{}: no footer: sealed by a repair", chunk.end()),
            Err(e) => printer.damaged(1, &e)?,
        }
    }
    Ok(())
}

fn dump_frames(printer: &mut Printer<'_>, mut scan: Scan, said: &Said) -> Result<()> {
    let base = scan.header().base_sequence;
    let (mut digest, mut count) = (0, 0);
    loop {
        let found = match scan.next_frame() {
            Ok(Some(found)) => found,
            Ok(None) => break,
            Err(e) => {
                printer.damaged(1, &e)?;
                if scan.resync()? {
                    continue;
                }
                return Ok(());
            }
        };
        digest = fold(digest, found.crc);
        count += 1;
        let frame = found.frame;
        if !printer.shows(frame.index) {
            continue;
        }
        let stored = match frame.codec {
            Codec::None => String::new(),
            codec if frame.dictionary == 0 => {
                format!(" for {}, {}", frame.raw_length, codec.name())
            }
            codec => format!(
                " for {}, {} with dictionary {}",
                frame.raw_length,
                codec.name(),
                frame.dictionary
            ),
        };
        line!(
            printer,
            1,
            "{}: {} {}, sequence {}, {} bytes{stored}, crc {:08x}{}",
            found.offset - Frame::BYTES as u64,
            op_name(frame.op),
            frame.index,
            base + u64::from(frame.sequence_delta),
            frame.physical_length,
            found.crc,
            Preview(found.payload, printer.what.bytes)
        );
    }
    let differs = said.frames.is_some_and(|frames| frames != count)
        || said.digest.is_some_and(|wanted| wanted != digest);
    if differs {
        line!(
            printer,
            1,
            "damaged: {count} frames with digest {digest:016x} are not what was published"
        );
    }
    Ok(())
}

/// The footer of a sealed chunk; a chunk that a repair found open never got one.
fn read_footer(chunk: &Chunk) -> Result<Option<ChunkFooter>> {
    let file = chunk.file()?;
    if file.len()? == chunk.end() {
        return Ok(None);
    }
    let mut bytes = [0; ChunkFooter::BYTES];
    file.read_exact_at(&mut bytes, chunk.end())?;
    ChunkFooter::decode(&bytes).map(Some)
}
