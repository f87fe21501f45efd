//! WebDataset's convention: consecutive members of a tar whose names agree up to the first dot are one sample.
//!
//! `train/0001.jpg` and `train/0001.cls` are the fields `jpg` and `cls` of the sample `train/0001`; `0001.seg.png` is its
//! field `seg.png`. Field names are lower case. A sample without a field has a hole there.

#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use std::collections::BTreeMap;

use staddle_base::{Error, Result};

use super::{Item, shown};

/// The field that holds the keys of the samples.
pub const KEY_FIELD: &str = "__key__";

/// The most fields a set can be split into.
pub const FIELDS_MAX: usize = 256;

/// Splits a name into the sample's key and the field. `None` for names that are no part of a sample: without a dot,
/// with a leading one, `__meta__` files, or a field that is not UTF-8.
pub fn split_name(name: &[u8]) -> Option<(&[u8], String)> {
    let base_at = name
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(Some(0), |at| at.checked_add(1))?;
    let (_, base) = name.split_at_checked(base_at)?;
    let dot = base.iter().position(|byte| *byte == b'.')?;
    let (_, field) = base.split_at_checked(dot)?;
    let field = std::str::from_utf8(field.strip_prefix(b".")?).ok()?;
    let (key, _) = name.split_at_checked(base_at.checked_add(dot)?)?;
    let meta = name.starts_with(b"__") && base_at == 0 && name.ends_with(b"__");
    (dot > 0 && !field.is_empty() && !meta).then(|| (key, field.to_lowercase()))
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where its payload begins.
    pub offset: u64,
    /// Bytes of the payload.
    pub len: u64,
}

/// The samples of one archive, field by field.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Field names in the order they were met, and for each the samples that have it. Holes take no memory here, so a
    /// hostile archive of many samples and many fields stays as small as its members.
    fields: Vec<(String, Vec<(usize, Piece)>)>,
    by_name: BTreeMap<String, usize>,
    keys: Vec<Vec<u8>>,
    /// Members that belong to no sample.
    skipped: u64,
}

impl Samples {
    /// Adds a member.
    ///
    /// # Errors
    /// `Corrupt` when a sample has the same field twice, `Exhausted` for more than [`FIELDS_MAX`] fields.
    pub fn add(&mut self, item: &Item<'_>) -> Result<()> {
        let Some((key, field)) = split_name(item.name) else {
            self.skipped = self.skipped.saturating_add(1);
            return Ok(());
        };
        if self.keys.last().is_none_or(|last| last != key) {
            self.keys.push(key.to_vec());
        }
        let position = self.position(field)?;
        let sample = self.keys.len().saturating_sub(1);
        let Some((name, pieces)) = self.fields.get_mut(position) else {
            return Err(Error::internal("a field has no column"));
        };
        if pieces.last().is_some_and(|(last, _)| *last == sample) {
            return Err(Error::corrupt(format!(
                "the sample `{}` has the field `{name}` twice",
                shown(key)
            ))
            .with("offset", item.offset)
            .hint("adopt it without splitting into fields, or rename one"));
        }
        let piece = Piece {
            offset: item.offset,
            len: item.len,
        };
        pieces.push((sample, piece));
        Ok(())
    }

    fn position(&mut self, field: String) -> Result<usize> {
        if let Some(position) = self.by_name.get(&field) {
            return Ok(*position);
        }
        if field == KEY_FIELD {
            return Err(Error::unsupported(format!(
                "the extension `{KEY_FIELD}` is kept for the keys of the samples"
            )));
        }
        let position = self.fields.len();
        if position >= FIELDS_MAX {
            return Err(Error::exhausted(format!(
                "the archive has more than {FIELDS_MAX} different extensions; the last is `{}`",
                shown(field.as_bytes())
            ))
            .hint("this does not look like WebDataset; adopt it without splitting into fields"));
        }
        self.by_name.insert(field.clone(), position);
        self.fields.push((field, Vec::new()));
        Ok(position)
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The samples' keys.
    pub fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }

    /// The fields' names, in the order they were met.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// A column, one slot a sample; all holes for a field that this archive does not have.
    pub fn column(&self, field: &str) -> Vec<Option<Piece>> {
        let mut column = vec![None; self.len()];
        let pieces = self
            .by_name
            .get(field)
            .and_then(|position| self.fields.get(*position))
            .map_or(&[][..], |(_, pieces)| pieces);
        for (sample, piece) in pieces {
            if let Some(slot) = column.get_mut(*sample) {
                *slot = Some(*piece);
            }
        }
        column
    }

    /// Members that belong to no sample.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}
