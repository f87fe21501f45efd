//! From records to payloads: compression and checksums, on the workers when a batch is large.

use std::sync::Arc;

use staddle_base::Result;
use staddle_base::checksum::crc32c;
use staddle_runtime::Runtime;

use super::lane::Payload;
use crate::codec::{Codec, Dictionary, Encoder};

/// A work item is worth a hop to another thread from this many records or bytes.
const RECORDS_MIN: usize = 64;
const BYTES_MIN: usize = 256 << 10;

/// How records are compressed now.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The method.
    pub codec: Codec,
    /// Its level.
    pub level: i32,
    /// Its dictionary.
    pub dictionary: Option<Arc<Dictionary>>,
}

/// Payloads of a run of records, in one buffer where they had to be made.
#[derive(Debug, Default)]
pub struct Encoded {
    bytes: Vec<u8>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    /// Where the payload lies in `bytes`; `None` when it is the record itself.
    at: Option<(usize, usize)>,
    codec: Codec,
    dictionary: u8,
    crc: Option<u32>,
}

impl Encoded {
    /// The payload of the k-th record.
    pub fn payload<'a>(&'a self, k: usize, record: &'a [u8]) -> Payload<'a> {
        let raw_length = record.len() as u32;
        match self.rows.get(k) {
            Some(row) => {
                let bytes = row
                    .at
                    .and_then(|(from, to)| self.bytes.get(from..to))
                    .unwrap_or(record);
                Payload {
                    bytes,
                    raw_length,
                    codec: row.codec,
                    dictionary: row.dictionary,
                    crc: row.crc,
                }
            }
            None => Payload {
                bytes: record,
                raw_length,
                codec: Codec::None,
                dictionary: 0,
                crc: None,
            },
        }
    }
}

/// Encodes records one after the other.
pub struct Workbench {
    recipe: Recipe,
    encoder: Encoder,
}

impl Workbench {
    /// For one recipe.
    ///
    /// # Errors
    /// Those of the codec library.
    pub fn new(recipe: Recipe) -> Result<Self> {
        let encoder = Encoder::new(recipe.codec, recipe.level, recipe.dictionary.as_ref())?;
        Ok(Self { recipe, encoder })
    }

    /// What it makes.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// One record's payload.
    ///
    /// # Errors
    /// Those of the codec library.
    pub fn one<'a>(&'a mut self, record: &'a [u8]) -> Result<Payload<'a>> {
        let (bytes, codec, dictionary) = self.encoder.encode(record)?;
        Ok(Payload {
            bytes,
            raw_length: record.len() as u32,
            codec,
            dictionary,
            crc: None,
        })
    }

    /// The payloads of a run of records.
    ///
    /// # Errors
    /// Those of the codec library.
    pub fn many<R: AsRef<[u8]> + Sync>(
        &mut self,
        runtime: &Runtime,
        records: &[R],
    ) -> Result<Vec<Encoded>> {
        let bytes: usize = records.iter().map(|record| record.as_ref().len()).sum();
        let workers = runtime.workers();
        let parts = workers
            .threads()
            .min(8)
            .min((records.len() / RECORDS_MIN).max(bytes / BYTES_MIN))
            .min(records.len());
        if parts < 2 {
            // Checksums of raw records are cheapest while the lane copies them.
            if self.recipe.codec == Codec::None {
                return Ok(vec![Encoded::default()]);
            }
            return Ok(vec![run(&mut self.encoder, records)?]);
        }
        let groups: Vec<&[R]> = records.chunks(records.len().div_ceil(parts)).collect();
        let recipe = &self.recipe;
        let encoded = workers.map("compress", groups, |group| {
            let mut encoder = Encoder::new(recipe.codec, recipe.level, recipe.dictionary.as_ref())?;
            run(&mut encoder, group)
        })?;
        encoded.into_iter().collect()
    }
}

fn run<R: AsRef<[u8]>>(encoder: &mut Encoder, records: &[R]) -> Result<Encoded> {
    let mut out = Encoded::default();
    for record in records {
        let record = record.as_ref();
        let (payload, codec, dictionary) = encoder.encode(record)?;
        let crc = Some(crc32c(payload));
        let at = (codec != Codec::None).then(|| (out.bytes.len(), out.bytes.len() + payload.len()));
        if at.is_some() {
            out.bytes.extend_from_slice(payload);
        }
        out.rows.push(Row {
            at,
            codec,
            dictionary,
            crc,
        });
    }
    Ok(out)
}
