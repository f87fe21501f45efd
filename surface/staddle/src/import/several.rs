//! Several sources as one: the records of the first, then those of the next.

use std::collections::VecDeque;

use staddle_base::Result;
use staddle_record::import::{Means, Portion, Reader, Skipped};

/// A source and what its records' names begin with.
pub struct Part {
    /// Put in front of every name, so that equal names of different sources stay apart.
    pub prefix: Vec<u8>,
    /// The source.
    pub reader: Box<dyn Reader>,
}

/// Reads sources one after the other.
pub struct Several {
    parts: VecDeque<Part>,
    totals: (Option<u64>, Option<u64>),
    skipped: Skipped,
}

impl Several {
    /// These sources, in this order.
    pub fn new(parts: Vec<Part>) -> Self {
        let totals: Vec<_> = parts.iter().map(|part| part.reader.totals()).collect();
        Self {
            totals: (
                totals.iter().map(|(records, _)| *records).sum(),
                totals.iter().map(|(_, bytes)| *bytes).sum(),
            ),
            parts: parts.into(),
            skipped: Skipped::default(),
        }
    }
}

impl Reader for Several {
    fn next(&mut self, means: &Means) -> Result<Portion> {
        while let Some(part) = self.parts.front_mut() {
            let mut portion = part.reader.next(means)?;
            if !portion.items.is_empty() {
                for item in &mut portion.items {
                    item.name.splice(0..0, part.prefix.iter().copied());
                }
                return Ok(portion);
            }
            add(&mut self.skipped, &part.reader.skipped());
            self.parts.pop_front();
        }
        Ok(Portion::default())
    }

    fn totals(&self) -> (Option<u64>, Option<u64>) {
        self.totals
    }

    fn skipped(&self) -> Skipped {
        let mut skipped = self.skipped.clone();
        if let Some(part) = self.parts.front() {
            add(&mut skipped, &part.reader.skipped());
        }
        skipped
    }
}

fn add(sum: &mut Skipped, more: &Skipped) {
    sum.unreadable += more.unreadable;
    sum.links += more.links;
    sum.special += more.special;
    sum.blank += more.blank;
    let room = REASONS_MAX.saturating_sub(sum.reasons.len());
    sum.reasons.extend(more.reasons.iter().take(room).cloned());
}

/// Reasons that are kept; the others are only counted.
const REASONS_MAX: usize = 20;
