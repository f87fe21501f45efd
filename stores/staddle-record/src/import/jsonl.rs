//! JSON Lines: one record a line, as it stands, or one field of it.
//!
//! Every line is checked to be JSON in UTF-8, nested at most 128 deep; blank lines are counted and left out; a carriage
//! return before the line's end and a byte order mark at the file's start are no part of a record.

use serde::de::IgnoredAny;
use staddle_base::{Error, Result};

use super::{Incoming, Means, PORTION_BYTES, Portion, Reader, Skipped};
use crate::adopt::source::{FileSource, Found};
use crate::adopt::{Source, compressed, compression};
use crate::format::RECORD_BYTES_MAX;

/// Bytes read at a time.
const BLOCK_BYTES: u64 = PORTION_BYTES / 4;
/// Lines that one worker checks at a time.
const GROUP: usize = 256;

/// What becomes of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonlOptions {
    /// Keep this field rather than the line: a string's text, anything else as JSON.
    pub field: Option<String>,
    /// Take lines as they are, whatever they hold.
    pub unchecked: bool,
}

/// Reads files of JSON Lines one after the other.
#[derive(Debug)]
pub struct JsonlReader {
    files: std::vec::IntoIter<Found>,
    options: JsonlOptions,
    current: Option<Open>,
    bytes_total: u64,
    skipped: Skipped,
}

/// The file being read.
#[derive(Debug)]
struct Open {
    found: Found,
    source: FileSource,
    at: u64,
    /// Lines before `at`.
    line: u64,
    /// The beginning of a line whose end was not read yet.
    rest: Vec<u8>,
}

/// A line with its number, counted from 1.
struct Line<'a> {
    number: u64,
    bytes: &'a [u8],
}

impl JsonlReader {
    /// Reads `files` in order.
    pub fn new(files: Vec<Found>, options: JsonlOptions) -> Self {
        Self {
            bytes_total: files.iter().map(|found| found.stat.len).sum(),
            files: files.into_iter(),
            options,
            current: None,
            skipped: Skipped::default(),
        }
    }

    fn open_next(&mut self) -> Result<bool> {
        let Some(found) = self.files.next() else {
            return Ok(false);
        };
        let source = found.open()?;
        let mut head = vec![0; usize::try_from(source.size().min(6)).unwrap_or(0)];
        source.read(&mut head, 0)?;
        if let Some(codec) = compression(&head) {
            return Err(compressed("JSON Lines", codec).with("file", &found.uri));
        }
        let mark = head.starts_with(b"\xef\xbb\xbf");
        self.current = Some(Open {
            found,
            source,
            at: if mark { 3 } else { 0 },
            line: 0,
            rest: Vec::new(),
        });
        Ok(true)
    }
}

impl Reader for JsonlReader {
    fn next(&mut self, means: &Means) -> Result<Portion> {
        loop {
            let Some(open) = &mut self.current else {
                if !self.open_next()? {
                    return Ok(Portion::default());
                }
                continue;
            };
            let left = open.source.size().saturating_sub(open.at);
            if left == 0 && open.rest.is_empty() {
                open.found.check_unchanged()?;
                self.current = None;
                continue;
            }
            let take = left.min(BLOCK_BYTES);
            // The block itself, and at most as much again as records.
            let held = means.hold(
                (open.rest.len() as u64)
                    .saturating_add(take)
                    .saturating_mul(2),
            )?;
            let text = open
                .read(take)
                .map_err(|e| e.with("file", &open.found.uri))?;
            let (items, blank) = records(means, &self.options, open, &text)
                .map_err(|e| e.with("file", &open.found.uri))?;
            self.skipped.blank += blank;
            if !items.is_empty() {
                return Ok(Portion {
                    items,
                    source_bytes: take,
                    held: Some(held),
                });
            }
        }
    }

    fn totals(&self) -> (Option<u64>, Option<u64>) {
        (None, Some(self.bytes_total))
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }
}

impl Open {
    /// Whole lines: what was left of the last block, and the next `take` bytes up to their last line end.
    fn read(&mut self, take: u64) -> Result<Vec<u8>> {
        let mut text = std::mem::take(&mut self.rest);
        let old = text.len();
        let take = usize::try_from(take).unwrap_or(usize::MAX);
        text.resize(old.saturating_add(take), 0);
        self.source
            .read(text.get_mut(old..).unwrap_or_default(), self.at)?;
        self.at = self.at.saturating_add(take as u64);
        if self.at >= self.source.size() {
            return Ok(text);
        }
        // Only the new part can hold a line end.
        let fresh = text.get(old..).unwrap_or_default();
        let end = match fresh.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => old.saturating_add(at).saturating_add(1),
            None => 0,
        };
        self.rest = text.split_off(end);
        if self.rest.len() as u64 > RECORD_BYTES_MAX {
            return Err(Error::exhausted("a line has 4 GiB or more")
                .with("line", self.line.saturating_add(1))
                .hint("this may not be JSON Lines"));
        }
        Ok(text)
    }
}

/// The records of whole lines, and how many lines were blank.
fn records(
    means: &Means,
    options: &JsonlOptions,
    open: &mut Open,
    text: &[u8],
) -> Result<(Vec<Incoming>, u64)> {
    let mut lines = Vec::new();
    let mut blank = 0;
    for bytes in text.split_inclusive(|byte| *byte == b'\n') {
        open.line = open.line.saturating_add(1);
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.trim_ascii().is_empty() {
            blank += 1;
        } else {
            lines.push(Line {
                number: open.line,
                bytes,
            });
        }
    }
    let name = open.found.name.as_str();
    let groups: Vec<&[Line<'_>]> = lines.chunks(GROUP).collect();
    let read = means.runtime.workers().map("import", groups, |group| {
        group
            .iter()
            .map(|line| {
                let bytes = record(options, line.bytes).map_err(|e| e.with("line", line.number))?;
                let name = format!("{name}:{}", line.number).into_bytes();
                Ok(Incoming::new(name, bytes))
            })
            .collect::<Result<Vec<_>>>()
    })?;
    let mut items = Vec::new();
    for group in read {
        items.extend(group?);
    }
    Ok((items, blank))
}

fn record(options: &JsonlOptions, line: &[u8]) -> Result<Vec<u8>> {
    let wrong = |e: serde_json::Error| {
        Error::corrupt(format!("the line is not JSON: {e}")).hint(
            "take lines as they are (unchecked), or import the file whole with `import files`",
        )
    };
    let Some(field) = &options.field else {
        if !options.unchecked {
            let text = std::str::from_utf8(line)
                .map_err(|e| Error::corrupt(format!("the line is not UTF-8: {e}")))?;
            serde_json::from_str::<IgnoredAny>(text).map_err(wrong)?;
        }
        return Ok(line.to_vec());
    };
    let value: serde_json::Value = serde_json::from_slice(line).map_err(wrong)?;
    match value.get(field) {
        Some(serde_json::Value::String(text)) => Ok(text.clone().into_bytes()),
        Some(other) => Ok(other.to_string().into_bytes()),
        None => Err(Error::key_missing(format!(
            "the line has no field `{}`",
            field.escape_debug()
        ))),
    }
}
