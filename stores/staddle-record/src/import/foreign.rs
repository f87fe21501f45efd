//! Tar members, TFRecords and Megatron sequences, copied: what [`crate::adopt`] finds in place, read.

use staddle_base::checksum::crc32c_masked;
use staddle_base::{Error, Result};

use super::{Incoming, Means, PORTION_BYTES, PORTION_RECORDS, Portion, Reader, Skipped};
use crate::adopt::megatron::Megatron;
use crate::adopt::scan::data_file;
use crate::adopt::source::{FileSource, Found};
use crate::adopt::tar::Tar;
use crate::adopt::tfrecord::{FOOTER_BYTES, TfRecord};
use crate::adopt::{Adopter, Item, Kind, Source, Window};
use crate::format::RECORD_BYTES_MAX;

/// Records that one worker reads at a time.
const GROUP: usize = 64;

/// Reads foreign files one after the other.
#[derive(Debug)]
pub struct ForeignReader {
    files: std::vec::IntoIter<Found>,
    kind: Kind,
    skip_special: bool,
    current: Option<Open>,
    bytes_total: u64,
    skipped: Skipped,
}

/// The file being read.
#[derive(Debug)]
struct Open {
    found: Found,
    source: FileSource,
    pieces: std::vec::IntoIter<Piece>,
}

#[derive(Clone, Debug)]
struct Piece {
    name: Vec<u8>,
    offset: u64,
    len: u64,
}

impl ForeignReader {
    /// Reads `files`, all of one kind, in order. Links and devices in tar archives are passed over and counted with
    /// `skip_special`, else an error.
    pub fn new(files: Vec<Found>, kind: Kind, skip_special: bool) -> Self {
        Self {
            bytes_total: files.iter().map(|found| found.stat.len).sum(),
            files: files.into_iter(),
            kind,
            skip_special,
            current: None,
            skipped: Skipped::default(),
        }
    }

    /// Scans the next file; false at the end.
    fn open_next(&mut self) -> Result<bool> {
        let Some(named) = self.files.next() else {
            return Ok(false);
        };
        let (found, index) = data_file(&named, self.kind)?;
        let headers = index.as_ref().unwrap_or(&found);
        let adopter: Box<dyn Adopter> = match self.kind {
            Kind::Tar => Box::new(Tar {
                skip_special: self.skip_special,
            }),
            Kind::TfRecord => Box::new(TfRecord { verify: false }),
            Kind::Megatron => Box::new(Megatron {
                bin_bytes: found.stat.len,
            }),
        };
        let mut pieces = Vec::new();
        let mut keep = |item: Item<'_>| {
            if item.len > RECORD_BYTES_MAX {
                return Err(Error::unsupported(
                    "a record of 4 GiB or more does not fit a record set",
                )
                .with("offset", item.offset));
            }
            pieces.push(Piece {
                name: item.name.to_vec(),
                offset: item.offset,
                len: item.len,
            });
            Ok(())
        };
        let mut scan = || {
            let source = headers.open()?;
            let mut window = Window::new(&source, headers.reach());
            let scanned = adopter.scan(&mut window, &mut keep)?;
            Ok((scanned, found.open()?))
        };
        let (scanned, source) = scan().map_err(|e: Error| e.with("file", &headers.uri))?;
        self.skipped.links += scanned.skipped;
        self.current = Some(Open {
            found,
            source,
            pieces: pieces.into_iter(),
        });
        Ok(true)
    }
}

impl Reader for ForeignReader {
    fn next(&mut self, means: &Means) -> Result<Portion> {
        loop {
            let Some(open) = &mut self.current else {
                if !self.open_next()? {
                    return Ok(Portion::default());
                }
                continue;
            };
            let (mut taken, mut bytes) = (Vec::new(), 0_u64);
            while let Some(piece) = open.pieces.as_slice().first() {
                let full = taken.len() >= PORTION_RECORDS || bytes + piece.len > PORTION_BYTES;
                if full && !taken.is_empty() {
                    break;
                }
                bytes += piece.len;
                taken.extend(open.pieces.next());
            }
            if taken.is_empty() {
                open.found.check_unchanged()?;
                self.current = None;
                continue;
            }
            let held = means.hold(bytes)?;
            let (source, found) = (&open.source, &open.found);
            let checked = self.kind == Kind::TfRecord;
            let groups: Vec<&[Piece]> = taken.chunks(GROUP).collect();
            let read = means.runtime.workers().map("import", groups, |group| {
                group
                    .iter()
                    .map(|piece| read_piece(source, piece, checked))
                    .collect::<Result<Vec<_>>>()
            })?;
            let mut items = Vec::with_capacity(taken.len());
            for group in read {
                items.extend(group.map_err(|e| e.with("file", &found.uri))?);
            }
            return Ok(Portion {
                items,
                source_bytes: bytes,
                held: Some(held),
            });
        }
    }

    fn totals(&self) -> (Option<u64>, Option<u64>) {
        (None, Some(self.bytes_total))
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }
}

fn read_piece(source: &FileSource, piece: &Piece, checked: bool) -> Result<Incoming> {
    let after = if checked { FOOTER_BYTES } else { 0 };
    let len = usize::try_from(piece.len)
        .map_err(|_| Error::exhausted("a record does not fit the address space"))?;
    let mut bytes = vec![0; len.saturating_add(after)];
    source.read(&mut bytes, piece.offset)?;
    if checked {
        let crc = bytes.split_off(len);
        if crc32c_masked(&bytes).to_le_bytes().as_slice() != crc {
            return Err(
                Error::corrupt("a record's payload does not match its checksum")
                    .with("offset", piece.offset),
            );
        }
    }
    Ok(Incoming::new(piece.name.clone(), bytes))
}
