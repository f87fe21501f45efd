//! Where a loader is, as a few plain numbers, and whether a set still is what they were saved about.
//!
//! | Since the state was saved | Loading it |
//! |---|---|
//! | nothing; appends, rebalance, checkpoint | exact: the first rows and their indices are the same, new ones join the next epoch |
//! | updates, tombstones | `Conflict`; not strict: the same order and positions, new content, holes skipped |
//! | swap-deletes | exact from a snapshot where nothing had moved or changed yet; else `Conflict` |
//! | another set, or an older state of it | `Conflict` |
//!
//! A state between two epochs promises no rows, so it only has to be of the same set: the next epoch has whatever the
//! set holds when it begins, as it would have had without the interruption.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use staddle_base::{Error, Result};

use super::order::Shuffle;
use crate::format::RECORDS_MAX;
use crate::maintain::snapshot;
use crate::reader::Generation;
use crate::records::{Fingerprint, Records};

/// The format that this build writes and reads.
const FORMAT: u32 = 1;

/// Where a loader is. The same on every rank; less than 500 bytes as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderState {
    /// Format of the state.
    pub format: u32,
    /// What was loaded, and in which order: `record.global`, `record.none`, `record.block.256x16`.
    pub kind: String,
    /// What the rows were; its length is the number of rows of the epoch.
    pub fingerprint: Fingerprint,
    /// Decides the order, with the epoch.
    pub seed: u64,
    /// The epoch in progress, or the one to begin.
    pub epoch: u64,
    /// Rows of it that all ranks together have yielded; never rows that were only prefetched.
    pub consumed: u64,
}

/// How a set differs from what a state was saved about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Not in the rows that the state speaks of.
    None,
    /// Rows have new content or are gone, all where they were.
    Content,
    /// Rows have moved.
    Moved,
    /// The set in view is older than the state.
    Older,
    /// It is another set.
    Other,
}

/// What happened to a set between two looks at it.
pub(super) fn compare(then: &Fingerprint, now: &Fingerprint) -> Change {
    if then.uuid != now.uuid {
        Change::Other
    } else if now.generation < then.generation {
        Change::Older
    } else if now.moved_generation > then.generation || now.length < then.length {
        Change::Moved
    } else if now.changed_generation > then.generation {
        Change::Content
    } else {
        Change::None
    }
}

impl LoaderState {
    /// A state of this build's format.
    pub(super) fn new(
        shuffle: Shuffle,
        fingerprint: Fingerprint,
        seed: u64,
        epoch: u64,
        consumed: u64,
    ) -> Self {
        Self {
            format: FORMAT,
            kind: kind(shuffle),
            fingerprint,
            seed,
            epoch,
            consumed,
        }
    }

    /// Checks what does not depend on the set. A state may come from anywhere.
    pub(super) fn check(&self, shuffle: Shuffle) -> Result<()> {
        if self.format != FORMAT {
            return Err(Error::unsupported(format!(
                "the loader state has format {}; this version reads format {FORMAT}",
                self.format
            ))
            .hint("resume with the version that saved it, or a newer one"));
        }
        if self.kind != kind(shuffle) {
            let hint = if self.kind.starts_with("record.") {
                "make the loader with the shuffle that the state was saved with"
            } else {
                "it was saved by the loader of another kind of store"
            };
            return Err(Error::conflict(format!(
                "the loader state is of order `{}`, this loader has `{}`",
                self.kind.escape_debug(),
                kind(shuffle)
            ))
            .hint(hint));
        }
        let length = self.fingerprint.length;
        if self.consumed > length || length > RECORDS_MAX {
            return Err(Error::invalid(
                "the loader state contradicts itself: more rows were consumed than there are",
            )
            .with("consumed", self.consumed)
            .with("length", length));
        }
        Ok(())
    }
}

fn kind(shuffle: Shuffle) -> String {
    format!("record.{shuffle}")
}

/// The view that goes on exactly where a state was saved, or, when not strict, the nearest there is. A `fixed` view is
/// the one that the user asked for: no other is looked for.
///
/// # Errors
/// `Conflict` as the table above says, naming both sides.
pub(super) fn find_view(
    records: &Records,
    view: Arc<Generation>,
    fixed: bool,
    state: &LoaderState,
    strict: bool,
) -> Result<Arc<Generation>> {
    let then = &state.fingerprint;
    let mut view = view;
    let mut change = compare(then, &Fingerprint::of(&view.head));
    if change == Change::Older
        && !fixed
        && let Some(newer) = records.newest()?
    {
        view = newer;
        change = compare(then, &Fingerprint::of(&view.head));
    }
    if change == Change::None {
        return Ok(view);
    }
    let kept = match change {
        Change::Content | Change::Moved => snapshot_of(records, then)?,
        _ => None,
    };
    if change == Change::Moved
        && !fixed
        && let Some(name) = &kept
    {
        return records.view_of(name);
    }
    if !strict {
        return Ok(view);
    }
    Err(conflict(change, state, &view, kept.as_deref()).with("uri", records.uri()))
}

/// A snapshot in which a state's rows are as they were, the one of that very commit first.
fn snapshot_of(records: &Records, then: &Fingerprint) -> Result<Option<String>> {
    let mut fit: Vec<_> = snapshot::list(records.device().as_ref())?
        .into_iter()
        .filter(|kept| compare(then, &Fingerprint::of(&kept.head)) == Change::None)
        .collect();
    fit.sort_by_key(|kept| kept.head.generation);
    Ok(fit.into_iter().next().map(|kept| kept.name))
}

fn conflict(change: Change, state: &LoaderState, view: &Generation, kept: Option<&str>) -> Error {
    let (then, now) = (&state.fingerprint, Fingerprint::of(&view.head));
    let both = format!(
        "it was saved at generation {} with {} records, the set is at generation {} with {}",
        then.generation, then.length, now.generation, now.length
    );
    let error = match change {
        Change::Other => Error::conflict(format!(
            "the loader state belongs to set {}, this is set {}",
            then.uuid, now.uuid
        ))
        .hint("load it into a loader of the set it was saved from, or go on regardless with strict=False"),
        Change::Older => Error::conflict(format!(
            "the loader state is newer than the set that is open: {both}"
        ))
        .hint("open the newest generation, or restore the set that the state was saved from"),
        Change::Moved => Error::conflict(format!(
            "records have moved since the loader state was saved, by deletes in generation {}: {both}",
            now.moved_generation
        ))
        .hint(
            "make a snapshot(name) when a job starts, and resuming finds it by itself; or delete with keep_order=True, \
             which moves nothing; strict=False goes on with what is there",
        ),
        Change::Content | Change::None => Error::conflict(format!(
            "records have changed since the loader state was saved, last in generation {}: {both}",
            now.changed_generation
        ))
        .hint(match kept {
            Some(name) => format!(
                "strict=False goes on in the same order with what is there now; loader(snapshot=\"{name}\") has the records as they were"
            ),
            None => "strict=False goes on in the same order with what is there now".to_owned(),
        }),
    };
    error
        .with("epoch", state.epoch)
        .with("consumed", state.consumed)
        .with("length", then.length)
}
