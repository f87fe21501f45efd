//! The first records of a set whose codec or dictionary is decided by what they look like.
//!
//! Up to 16 MiB of records wait in memory. Then, or at the first flush, read or edit, a dictionary is trained on nine
//! tenths of them and kept if it makes the last tenth at least 5 % smaller; `codec="auto"` also decides whether
//! compression is worth it at all. The waiting records are then appended as usual.

use std::sync::Arc;

use staddle_base::Result;
use staddle_base::checksum::xxh3;

use super::Writer;
use super::encode::{Recipe, Workbench};
use crate::codec::{Codec, Dictionary, Encoder};
use crate::format::{DICTIONARIES_MAX, Head, names};
use crate::manifest::{DictionaryInfo, Manifest};
use crate::options::CodecChoice;
use crate::reader::Generation;
use crate::reader::gather::{self, Context};

/// Records wait until there are this many bytes.
const SAMPLE_BYTES: usize = 16 << 20;
/// Size of a trained dictionary.
const DICTIONARY_BYTES: usize = 110 << 10;
/// Fewer samples teach nothing.
const SAMPLES_MIN: usize = 64;

/// Records that wait.
#[derive(Debug, Default)]
pub struct Staging {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Staging {
    /// A staging area, if the set's codec is still to be decided.
    pub fn wanted(manifest: &Manifest, head: &Head) -> Option<Self> {
        let options = &manifest.options;
        let undecided = match options.codec {
            CodecChoice::Auto => manifest.codec_decided.is_none(),
            CodecChoice::Zstd => {
                options.dictionary && manifest.dictionaries.is_empty() && head.next_sequence == 0
            }
            _ => false,
        };
        undecided.then(Self::default)
    }

    /// Adds a record.
    pub fn push(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.ends.push(self.bytes.len());
    }

    /// Whether there is enough to decide on.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= SAMPLE_BYTES
    }

    /// Records waiting.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    fn records(&self) -> Vec<&[u8]> {
        let mut start = 0;
        self.ends
            .iter()
            .map(|end| {
                let record = &self.bytes[start..*end];
                start = *end;
                record
            })
            .collect()
    }
}

/// What the samples say.
struct Decision {
    codec: Codec,
    dictionary: Option<Vec<u8>>,
}

fn compressed_len(
    codec: Codec,
    level: i32,
    dictionary: Option<&Arc<Dictionary>>,
    samples: &[&[u8]],
) -> Result<usize> {
    let mut encoder = Encoder::new(codec, level, dictionary)?;
    samples
        .iter()
        .map(|sample| encoder.encode(sample).map(|(payload, ..)| payload.len()))
        .sum()
}

fn decide(
    choice: CodecChoice,
    level: i32,
    want_dictionary: bool,
    records: &[&[u8]],
) -> Result<Decision> {
    let (test, learn): (Vec<_>, Vec<_>) =
        records.iter().enumerate().partition(|(k, _)| k % 10 == 9);
    let test: Vec<&[u8]> = test.into_iter().map(|(_, r)| *r).collect();
    let learn: Vec<&[u8]> = learn
        .into_iter()
        .map(|(_, r)| *r)
        .filter(|r| !r.is_empty())
        .collect();
    let raw: usize = test.iter().map(|record| record.len()).sum();
    let plain = compressed_len(Codec::Zstd, level, None, &test)?;
    let mut decision = Decision {
        codec: Codec::Zstd,
        dictionary: None,
    };
    let mut best = plain;
    if want_dictionary
        && learn.len() >= SAMPLES_MIN
        && let Ok(bytes) = Dictionary::train(&learn, DICTIONARY_BYTES)
    {
        let trained = Arc::new(Dictionary::new(1, bytes));
        let with = compressed_len(Codec::Zstd, level, Some(&trained), &test)?;
        if with.saturating_mul(100) <= plain.saturating_mul(95) {
            best = with;
            decision.dictionary = Some(trained.bytes().to_vec());
        }
    }
    if choice == CodecChoice::Auto && best > raw - raw / 16 {
        decision = Decision {
            codec: Codec::None,
            dictionary: None,
        };
    }
    Ok(decision)
}

impl Writer {
    /// Decides on what waits, and appends it. Every operation but an append begins with this.
    pub(super) fn settle(&mut self) -> Result<()> {
        let Some(staging) = self.staging.take() else {
            return Ok(());
        };
        if staging.count() == 0 {
            self.staging = Some(staging);
            return Ok(());
        }
        let result = self.settle_with(&staging);
        if result.is_err() && self.head.next_sequence == self.published.next_sequence {
            // Nothing was appended: the records wait on, for a disk with space.
            self.staging = Some(staging);
        }
        result
    }

    fn settle_with(&mut self, staging: &Staging) -> Result<()> {
        let records = staging.records();
        let options = self.manifest.options.clone();
        let want_dictionary = options.dictionary || options.codec == CodecChoice::Auto;
        let decision = decide(options.codec, options.level, want_dictionary, &records)?;
        let dictionary = match decision.dictionary {
            Some(bytes) => Some(self.add_dictionary(bytes).map_err(|e| self.note(e))?),
            None => None,
        };
        if options.codec == CodecChoice::Auto {
            self.manifest.codec_decided = Some(decision.codec.name().to_owned());
        }
        self.manifest_changed = true;
        self.workbench = Workbench::new(Recipe {
            codec: decision.codec,
            level: options.level,
            dictionary,
        })?;
        self.extend_encoded(&records)
    }

    /// Before a rebalance: trains a dictionary on a spread of the records, and uses it from now on if it makes them at
    /// least 10 % smaller than the one in use does.
    pub(crate) fn retrain(&mut self, view: &Arc<Generation>, indices: &[u64]) -> Result<()> {
        let recipe = self.workbench.recipe().clone();
        let trains =
            self.manifest.options.dictionary || self.manifest.options.codec == CodecChoice::Auto;
        if recipe.codec != Codec::Zstd || !trains || indices.len() < SAMPLES_MIN {
            return Ok(());
        }
        let runtime = self.runtime.clone();
        let client = runtime.memory().root().child("train", None);
        let context = Context {
            generation: view,
            runtime: &runtime,
            client: &client,
        };
        let mut samples = Staging::default();
        // 4096 steps over the whole set see drift; 16 MiB bound the time.
        let spread: Vec<u64> = indices
            .iter()
            .step_by(indices.len().div_ceil(4096))
            .copied()
            .collect();
        for step in spread.chunks(64) {
            for record in gather::gather(&context, step)?.iter().flatten() {
                samples.push(record);
            }
            if samples.is_full() {
                break;
            }
        }
        let records = samples.records();
        let Decision {
            dictionary: Some(bytes),
            ..
        } = decide(CodecChoice::Zstd, recipe.level, true, &records)?
        else {
            return Ok(());
        };
        let trained = Arc::new(Dictionary::new(1, bytes));
        let now = compressed_len(
            Codec::Zstd,
            recipe.level,
            recipe.dictionary.as_ref(),
            &records,
        )?;
        let then = compressed_len(Codec::Zstd, recipe.level, Some(&trained), &records)?;
        if then.saturating_mul(10) > now.saturating_mul(9) {
            return Ok(());
        }
        let dictionary = self
            .add_dictionary(trained.bytes().to_vec())
            .map_err(|e| self.note(e))?;
        self.workbench = Workbench::new(Recipe {
            dictionary: Some(dictionary),
            ..recipe
        })?;
        Ok(())
    }

    /// Stores a dictionary in the next free slot and uses it from now on.
    pub(crate) fn add_dictionary(&mut self, bytes: Vec<u8>) -> Result<Arc<Dictionary>> {
        let used = |slot: &u8| {
            self.manifest
                .dictionaries
                .iter()
                .any(|known| known.slot == *slot)
        };
        let slot = (1..=DICTIONARIES_MAX as u8)
            .find(|slot| !used(slot))
            .ok_or_else(|| {
                staddle_base::Error::exhausted("the set has 255 dictionaries already")
                    .hint("rebalance it, which drops unused ones")
            })?;
        let device = &self.origin.device;
        let path = names::dictionary(slot);
        let file = super::create_file(device, &path)?;
        file.write_at(&bytes, 0)?;
        self.unsynced.push(file);
        self.folders.insert("dict");
        self.manifest.dictionaries.push(DictionaryInfo {
            slot,
            bytes: bytes.len() as u64,
            xxh3: xxh3(&bytes),
        });
        self.manifest.dictionaries.sort_by_key(|known| known.slot);
        self.manifest.dictionary_in_use = slot;
        self.manifest_changed = true;
        Ok(Arc::new(Dictionary::new(slot, bytes)))
    }
}
