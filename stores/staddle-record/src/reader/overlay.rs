//! Changes since the last checkpoint, in memory: immutable layers over the immutable table.
//!
//! A commit adds a layer; layers are merged geometrically, so a look-up visits at most a logarithm of them, and a writer
//! that alternates updates and reads does not copy the whole overlay each time. One bit per 256 slots says whether a
//! slot may be in the overlay at all: at 10^8 records that is 49 KB, and most look-ups end there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::Entry;

/// Slots that share a bit of the filter.
const BLOCK_SHIFT: u32 = 8;

/// Sorted redirects of one or more commits.
#[derive(Debug)]
struct Layer {
    slots: Vec<u64>,
    entries: Vec<Entry>,
    verified: Vec<AtomicU64>,
}

impl Layer {
    fn new(rows: Vec<(u64, Entry, bool)>) -> Self {
        let verified = (0..rows.len().div_ceil(64))
            .map(|_| AtomicU64::new(0))
            .collect();
        let layer = Self {
            slots: rows.iter().map(|(slot, ..)| *slot).collect(),
            entries: rows.iter().map(|(_, entry, _)| *entry).collect(),
            verified,
        };
        for (at, (_, _, verified)) in rows.iter().enumerate() {
            if *verified {
                layer.set_verified(at);
            }
        }
        layer
    }

    fn is_verified(&self, at: usize) -> bool {
        self.verified[at / 64].load(Ordering::Relaxed) & (1 << (at % 64)) != 0
    }

    fn set_verified(&self, at: usize) {
        self.verified[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
    }

    fn rows(&self) -> impl Iterator<Item = (u64, (Entry, bool))> {
        self.slots
            .iter()
            .zip(&self.entries)
            .enumerate()
            .map(|(at, (slot, entry))| (*slot, (*entry, self.is_verified(at))))
    }

    /// Both layers as one; `newer` wins.
    fn merge(older: &Self, newer: &Self) -> Self {
        let mut all: BTreeMap<u64, (Entry, bool)> = older.rows().collect();
        all.extend(newer.rows());
        Self::new(
            all.into_iter()
                .map(|(slot, (entry, verified))| (slot, entry, verified))
                .collect(),
        )
    }
}

/// A place in an overlay, for the bit that remembers a check.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    layer: u32,
    at: u32,
}

/// All redirects of a generation.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    layers: Vec<Arc<Layer>>,
    blocks: Vec<u64>,
}

impl Overlay {
    /// The redirect of a slot, if it has one.
    #[inline]
    pub fn get(&self, slot: u64) -> Option<(Entry, Spot)> {
        let block = slot >> BLOCK_SHIFT;
        let word = self.blocks.get(usize::try_from(block / 64).ok()?)?;
        if word & (1 << (block % 64)) == 0 {
            return None;
        }
        self.search(slot)
    }

    fn search(&self, slot: u64) -> Option<(Entry, Spot)> {
        for (no, layer) in self.layers.iter().enumerate().rev() {
            if let Ok(at) = layer.slots.binary_search(&slot) {
                // Layers hold at most a few million rows and there are at most a few dozen.
                let spot = Spot {
                    layer: u32::try_from(no).ok()?,
                    at: u32::try_from(at).ok()?,
                };
                return Some((layer.entries[at], spot));
            }
        }
        None
    }

    /// Whether the redirect at `spot` has been checked against its frame.
    pub fn is_verified(&self, spot: Spot) -> bool {
        self.layers[spot.layer as usize].is_verified(spot.at as usize)
    }

    /// Remembers that the redirect at `spot` has been checked.
    pub fn set_verified(&self, spot: Spot) {
        self.layers[spot.layer as usize].set_verified(spot.at as usize);
    }

    /// Whether there are no redirects.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Rows over all layers: an upper bound on the number of redirected slots.
    pub fn len(&self) -> usize {
        self.layers.iter().map(|layer| layer.slots.len()).sum()
    }

    /// This overlay with newer redirects on top.
    #[must_use]
    pub fn with(&self, newer: BTreeMap<u64, Entry>) -> Self {
        if newer.is_empty() {
            return self.clone();
        }
        let mut blocks = self.blocks.clone();
        for slot in newer.keys() {
            let block = slot >> BLOCK_SHIFT;
            // Slots are below 2^40, so a block's word index is below 2^26.
            let word = usize::try_from(block / 64).unwrap_or(usize::MAX);
            if word >= blocks.len() {
                blocks.resize(word + 1, 0);
            }
            blocks[word] |= 1 << (block % 64);
        }
        let mut layers = self.layers.clone();
        let mut top = Layer::new(
            newer
                .into_iter()
                .map(|(slot, entry)| (slot, entry, false))
                .collect(),
        );
        while let Some(below) = layers.last()
            && below.slots.len() < 2 * top.slots.len()
        {
            top = Layer::merge(below, &top);
            layers.pop();
        }
        layers.push(Arc::new(top));
        Self { layers, blocks }
    }

    /// Every redirected slot with its newest entry, in slot order.
    pub fn rows(&self) -> Vec<(u64, Entry)> {
        let mut all = BTreeMap::new();
        for layer in &self.layers {
            all.extend(layer.rows().map(|(slot, (entry, _))| (slot, entry)));
        }
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::Codec;

    fn entry(id: u32) -> Entry {
        Entry::new(id, 64, 1, Codec::None, 0)
    }

    proptest! {
        #[test]
        fn equals_a_map(commits in proptest::collection::vec(proptest::collection::btree_map(0u64..3000, any::<u32>(), 0..20), 0..40)) {
            let mut model = BTreeMap::new();
            let mut overlay = Overlay::default();
            for commit in commits {
                model.extend(commit.iter().map(|(slot, id)| (*slot, entry(*id))));
                overlay = overlay.with(commit.into_iter().map(|(slot, id)| (slot, entry(id))).collect());
            }
            for slot in 0..3000 {
                prop_assert_eq!(overlay.get(slot).map(|(entry, _)| entry), model.get(&slot).copied());
            }
            prop_assert_eq!(overlay.rows(), model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn layers_stay_few_and_checks_survive_merging() {
        let mut overlay = Overlay::default().with([(7, entry(1))].into());
        let (_, spot) = overlay.get(7).unwrap();
        overlay.set_verified(spot);
        for slot in 100..1100 {
            overlay = overlay.with([(slot, entry(2))].into());
        }
        assert!(overlay.layers.len() <= 11, "{}", overlay.layers.len());
        assert!(overlay.is_verified(overlay.get(7).unwrap().1));
        assert!(!overlay.is_verified(overlay.get(100).unwrap().1));
        // A newer redirect of the same slot has not been checked.
        overlay = overlay.with([(7, entry(3))].into());
        assert!(!overlay.is_verified(overlay.get(7).unwrap().1));
    }
}
