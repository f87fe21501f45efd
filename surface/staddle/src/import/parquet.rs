//! Parquet: one record for each value of a column of bytes or text; nulls become holes.
//!
//! Values are read as views of their pages, so that one long value in a dictionary does not multiply in memory; a
//! portion is cut where it gets large. A panic of the decoder on a damaged file is `Corrupt`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::{Buf, Bytes};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use staddle_base::{Error, ErrorKind, Result, suggest};
use staddle_record::adopt::Source;
use staddle_record::adopt::source::{FileSource, Found};
use staddle_record::import::{Incoming, Means, PORTION_BYTES, PORTION_RECORDS, Portion, Reader};

/// The largest footer that is read.
const FOOTER_BYTES_MAX: u32 = 64 << 20;
/// Bytes read ahead where the decoder reads a stream.
const STREAM_BYTES: usize = 1 << 20;

/// Reads a column of Parquet files, one file after the other.
#[derive(Debug)]
pub struct ParquetReader {
    files: std::vec::IntoIter<Found>,
    column: String,
    key: Option<String>,
    current: Option<Open>,
    rows_total: u64,
}

/// The file being read.
#[derive(Debug)]
struct Open {
    found: Found,
    batches: ParquetRecordBatchReader,
    /// The batch at hand, and the next row of it.
    batch: Option<(RecordBatch, usize)>,
    /// Rows before the batch at hand.
    row: u64,
    /// Rows in the file, by its footer.
    rows: u64,
}

/// A file as the decoder wants it.
#[derive(Clone, Debug)]
struct Chunks(Arc<FileSource>);

/// A stream of a file from some offset on.
#[derive(Debug)]
struct Stream {
    source: Arc<FileSource>,
    at: u64,
    ahead: Bytes,
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.size()
    }
}

impl ChunkReader for Chunks {
    type T = Stream;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Stream> {
        Ok(Stream {
            source: Arc::clone(&self.0),
            at: start,
            ahead: Bytes::new(),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.0.size()) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} lie outside the file"
            )));
        }
        let mut bytes = vec![0; length];
        self.0
            .read(&mut bytes, start)
            .map_err(|e| ParquetError::External(Box::new(e)))?;
        Ok(bytes.into())
    }
}

impl std::io::Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.ahead.is_empty() {
            let left = self.source.size().saturating_sub(self.at);
            let len = usize::try_from(left).map_or(STREAM_BYTES, |left| left.min(STREAM_BYTES));
            let mut bytes = vec![0; len];
            self.source
                .read(&mut bytes, self.at)
                .map_err(std::io::Error::other)?;
            self.at += len as u64;
            self.ahead = bytes.into();
        }
        let len = into.len().min(self.ahead.len());
        self.ahead.copy_to_slice(&mut into[..len]);
        Ok(len)
    }
}

impl ParquetReader {
    /// Reads `column` of `files` in order: the one named, or the only one of bytes or text. `key` names the column of
    /// the records' names.
    ///
    /// # Errors
    /// `KeyMissing` for a column that is not there, `Invalid` where one must be chosen or has another type, `Corrupt`
    /// and `Unsupported` as the files say.
    pub fn new(files: Vec<Found>, column: Option<&str>, key: Option<&str>) -> Result<Self> {
        let mut rows_total = 0;
        let mut chosen = column.map(str::to_owned);
        for found in &files {
            let look = || {
                let (_, metadata) = open(found)?;
                let rows = rows_of(metadata.metadata())?;
                let name = choose(metadata.schema(), chosen.as_deref())?;
                if let Some(key) = key {
                    choose(metadata.schema(), Some(key))?;
                }
                Ok((rows, name))
            };
            let (rows, name) = guarded(look).map_err(|e| e.with("file", &found.uri))?;
            rows_total = u64::saturating_add(rows_total, rows);
            chosen = Some(name);
        }
        Ok(Self {
            files: files.into_iter(),
            column: chosen.ok_or_else(|| Error::invalid("no file was named"))?,
            key: key.map(str::to_owned),
            current: None,
            rows_total,
        })
    }

    fn open_next(&mut self) -> Result<bool> {
        let Some(found) = self.files.next() else {
            return Ok(false);
        };
        let mut columns = vec![self.column.as_str()];
        columns.extend(self.key.as_deref());
        let (batches, rows) =
            guarded(|| batches(&found, &columns)).map_err(|e| e.with("file", &found.uri))?;
        self.current = Some(Open {
            found,
            batches,
            batch: None,
            row: 0,
            rows,
        });
        Ok(true)
    }
}

impl Reader for ParquetReader {
    fn next(&mut self, means: &Means) -> Result<Portion> {
        loop {
            let Some(open) = &mut self.current else {
                if !self.open_next()? {
                    return Ok(Portion::default());
                }
                continue;
            };
            let portion = guarded(|| open.portion(means, &self.column, self.key.as_deref()))
                .map_err(|e| e.with("file", &open.found.uri))?;
            if !portion.items.is_empty() {
                return Ok(portion);
            }
            open.found.check_unchanged()?;
            self.current = None;
        }
    }

    fn totals(&self) -> (Option<u64>, Option<u64>) {
        (Some(self.rows_total), None)
    }
}

impl Open {
    /// The end of the file: a damaged footer must not make rows disappear silently.
    fn end(&self) -> Result<Portion> {
        if self.row == self.rows {
            return Ok(Portion::default());
        }
        Err(Error::corrupt(format!(
            "the Parquet footer says that there are {} rows, but {} were found",
            self.rows, self.row
        )))
    }

    /// The next rows; none at the end of the file.
    fn portion(&mut self, means: &Means, column: &str, key: Option<&str>) -> Result<Portion> {
        if self.batch.is_none() {
            let Some(batch) = self.batches.next() else {
                return self.end();
            };
            let batch = batch.map_err(|e| Error::corrupt(format!("reading Parquet: {e}")))?;
            self.batch = Some((batch, 0));
        }
        let Some((batch, first)) = &mut self.batch else {
            return Ok(Portion::default());
        };
        let find = |name: &str| {
            batch
                .column_by_name(name)
                .ok_or_else(|| Error::internal("a column that was asked for is not there"))
        };
        let (values, keys) = (find(column)?, key.map(find).transpose()?);
        let (mut last, mut bytes) = (*first, 0_u64);
        while last < batch.num_rows() && bytes < PORTION_BYTES {
            bytes += value(values, last)?.map_or(0, <[u8]>::len) as u64;
            last += 1;
        }
        let held = means.hold(bytes)?;
        let mut items = Vec::with_capacity(last - *first);
        for row in *first..last {
            let name = match keys {
                Some(keys) => value(keys, row)?.unwrap_or_default().to_vec(),
                None => format!("{}:{}", self.found.name, self.row + row as u64).into_bytes(),
            };
            items.push(match value(values, row)? {
                Some(bytes) => Incoming::new(name, bytes.to_vec()),
                None => Incoming::hole(name),
            });
        }
        *first = last;
        if last == batch.num_rows() {
            self.row += last as u64;
            self.batch = None;
        }
        Ok(Portion {
            items,
            source_bytes: bytes,
            held: Some(held),
        })
    }
}

/// Rows in a file, by its footer.
fn rows_of(metadata: &ParquetMetaData) -> Result<u64> {
    u64::try_from(metadata.file_metadata().num_rows())
        .map_err(|_| Error::corrupt("the Parquet footer says that there are fewer than no rows"))
}

/// The bytes of a row; `None` for null.
fn value(array: &ArrayRef, row: usize) -> Result<Option<&[u8]>> {
    if array.is_null(row) {
        return Ok(None);
    }
    Ok(Some(match array.data_type() {
        DataType::BinaryView => array.as_binary_view().value(row),
        DataType::Utf8View => array.as_string_view().value(row).as_bytes(),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
        other => return Err(Error::internal(format!("a column was read as {other}"))),
    }))
}

/// Opens a file and reads its footer.
fn open(found: &Found) -> Result<(Chunks, ArrowReaderMetadata)> {
    let source = found.open()?;
    let size = source.size();
    let mut tail = [0; 8];
    let Some(at) = size.checked_sub(12) else {
        return Err(Error::corrupt("the file is too short for Parquet").with("size", size));
    };
    source.read(&mut tail, at + 4)?;
    let [a, b, c, d, magic @ ..] = tail;
    match &magic {
        b"PAR1" => {}
        b"PARE" => return Err(Error::unsupported("the Parquet file is encrypted")),
        _ => return Err(Error::corrupt("the file does not end as Parquet does")),
    }
    let footer = u32::from_le_bytes([a, b, c, d]);
    if u64::from(footer) > at {
        return Err(Error::corrupt("the Parquet footer is longer than the file"));
    }
    if footer > FOOTER_BYTES_MAX {
        return Err(Error::exhausted(format!(
            "the Parquet footer has {footer} bytes, more than the limit of {FOOTER_BYTES_MAX}"
        )));
    }
    let chunks = Chunks(Arc::new(source));
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&chunks, options).map_err(failed)?;
    Ok((chunks, metadata))
}

/// A reader of some columns, with text and bytes as views.
fn batches(found: &Found, columns: &[&str]) -> Result<(ParquetRecordBatchReader, u64)> {
    let (chunks, metadata) = open(found)?;
    let viewed: Vec<Field> = metadata
        .schema()
        .fields()
        .iter()
        .map(|field| {
            let field = Field::clone(field);
            match field.data_type() {
                DataType::Binary if columns.contains(&field.name().as_str()) => {
                    field.with_data_type(DataType::BinaryView)
                }
                DataType::Utf8 if columns.contains(&field.name().as_str()) => {
                    field.with_data_type(DataType::Utf8View)
                }
                _ => field,
            }
        })
        .collect();
    let options = ArrowReaderOptions::new()
        .with_skip_arrow_metadata(true)
        .with_schema(Arc::new(Schema::new(viewed)));
    let file = Arc::clone(metadata.metadata());
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(&file), options).map_err(failed)?;
    let mask = ProjectionMask::columns(metadata.parquet_schema(), columns.iter().copied());
    let at_once = rows_at_once(&file, metadata.schema(), columns);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata)
        .with_projection(mask)
        .with_batch_size(at_once)
        .build()
        .map_err(failed)?;
    Ok((reader, rows_of(&file)?))
}

/// Rows that are decoded together: as many as a portion holds, by what the footer says about their size.
fn rows_at_once(file: &ParquetMetaData, schema: &SchemaRef, columns: &[&str]) -> usize {
    let widest = schema
        .fields()
        .iter()
        .filter_map(|field| match field.data_type() {
            DataType::FixedSizeBinary(width) if columns.contains(&field.name().as_str()) => {
                u64::try_from(*width).ok()
            }
            _ => None,
        });
    let average = file.row_groups().iter().map(|group| {
        let bytes: i64 = group
            .columns()
            .iter()
            .filter(|column| columns.contains(&column.column_path().string().as_str()))
            .map(|column| column.uncompressed_size())
            .sum();
        let rows = u64::try_from(group.num_rows()).unwrap_or(0).max(1);
        u64::try_from(bytes).unwrap_or(0) / rows
    });
    let row_bytes = widest.chain(average).max().unwrap_or(0).max(1);
    usize::try_from(PORTION_BYTES / row_bytes)
        .unwrap_or(1)
        .clamp(1, PORTION_RECORDS)
}

fn is_bytes(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Binary | DataType::Utf8 | DataType::FixedSizeBinary(_)
    )
}

/// The column that is meant.
fn choose(schema: &SchemaRef, column: Option<&str>) -> Result<String> {
    let fitting: Vec<&str> = schema
        .fields()
        .iter()
        .filter(|field| is_bytes(field.data_type()))
        .map(|field| field.name().as_str())
        .collect();
    let Some(column) = column else {
        return match fitting.as_slice() {
            [one] => Ok((*one).to_owned()),
            [] => Err(Error::invalid("the file has no column of bytes or text")
                .hint("other types are no opaque records; keep them as Parquet")),
            several => Err(
                Error::invalid("the file has several columns of bytes or text")
                    .hint(format!("choose one of {}", several.join(", "))),
            ),
        };
    };
    match schema.field_with_name(column) {
        Ok(field) if is_bytes(field.data_type()) => Ok(column.to_owned()),
        Ok(field) => Err(Error::invalid(format!(
            "the column `{column}` is of type {}, not of bytes or text",
            field.data_type()
        ))),
        Err(_) => {
            let known: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            Err(
                Error::key_missing(format!("there is no column `{}`", column.escape_debug()))
                    .hint(suggest::hint(column, &known)),
            )
        }
    }
}

/// What went wrong in the decoder; errors of the device pass through.
fn failed(error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => Error::corrupt(format!("reading Parquet: {other}")),
        },
        ParquetError::NYI(what) => Error::unsupported(format!("reading Parquet: {what}")),
        other => Error::corrupt(format!("reading Parquet: {other}")),
    }
}

/// Runs the decoder; its panics are the file's fault.
fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Corrupt,
            "the Parquet decoder gave up on this file",
        )
        .hint("the file is damaged; write it again"))
    })
}

#[cfg(test)]
mod tests;
