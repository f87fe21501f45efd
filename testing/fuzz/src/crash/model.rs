//! The model: a vector of records, and what a crash may leave of it.

use std::collections::{BTreeMap, BTreeSet};

use super::program::{Bytes, Op};

/// The records of a set; `None` is a hole.
pub type Contents = Vec<Option<Bytes>>;

/// What is in a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Its records.
    pub records: Contents,
    /// Its named commits.
    pub snapshots: BTreeMap<String, Contents>,
}

/// What an operation gives back, to be compared with what the model says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    None,
    /// An index, or a count.
    Index(u64),
    /// Indices.
    Indices(Vec<u64>),
    /// Records.
    Records(Contents),
}

impl State {
    /// Applies an operation that succeeds.
    pub fn apply(&mut self, op: &Op) -> Answer {
        let records = &mut self.records;
        let length = records.len() as u64;
        match op {
            Op::Append(bytes) => {
                records.push(Some(Bytes::clone(bytes)));
                Answer::Index(length)
            }
            Op::Extend(many) => {
                records.extend(many.iter().cloned().map(Some));
                Answer::Indices(vec![length, length + many.len() as u64])
            }
            Op::Update(index, bytes) => {
                records[at(*index)] = Some(Bytes::clone(bytes));
                Answer::None
            }
            Op::Delete(index) => {
                records.swap_remove(at(*index));
                Answer::Index(length - 1)
            }
            Op::DeleteMany(indices) => {
                let mut order: Vec<usize> = (0..indices.len()).collect();
                order.sort_by_key(|position| std::cmp::Reverse(indices[*position]));
                let mut moved = vec![0; indices.len()];
                for position in order {
                    moved[position] = records.len() as u64 - 1;
                    records.swap_remove(at(indices[position]));
                }
                Answer::Indices(moved)
            }
            Op::Tombstone(index) => {
                records[at(*index)] = None;
                Answer::None
            }
            Op::Snapshot(name) => {
                self.snapshots.insert(name.clone(), self.records.clone());
                Answer::None
            }
            Op::DropSnapshot(name) => {
                self.snapshots.remove(name);
                Answer::None
            }
            Op::Read(indices) => Answer::Records(
                indices
                    .iter()
                    .map(|index| records[at(*index)].clone())
                    .collect(),
            ),
            Op::ReadAll => Answer::Records(records.clone()),
            Op::Flush | Op::Checkpoint | Op::Compact | Op::Rebalance | Op::Reopen | Op::Abandon => {
                Answer::None
            }
        }
    }
}

fn at(index: u64) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// What has been promised about a set, and so what a crash may leave.
#[derive(Clone, Debug, Default)]
pub struct Promise {
    /// The last acknowledged commit; `None` before the set was made.
    acknowledged: Option<State>,
    /// Commits begun since, the newest last.
    begun: Vec<State>,
    /// Snapshots being made or dropped: each may be there or not.
    doubtful: BTreeMap<String, Contents>,
}

impl Promise {
    /// A commit of this state begins: from now on a crash may leave it.
    pub fn begin(&mut self, state: &State) {
        if self.begun.last() != Some(state) {
            self.begun.push(state.clone());
        }
    }

    /// A snapshot is being made or dropped.
    pub fn doubt(&mut self, name: &str, contents: &Contents) {
        self.doubtful.insert(name.to_owned(), contents.clone());
    }

    /// A commit of this state was acknowledged: nothing older may be found any more.
    pub fn acknowledge(&mut self, state: &State) {
        self.acknowledged = Some(state.clone());
        self.begun.clear();
        self.doubtful.clear();
    }

    /// The named commits are durable as they are in `state`, whatever became of the records since the last commit.
    pub fn acknowledge_snapshots(&mut self, state: &State) {
        if let Some(acknowledged) = &mut self.acknowledged {
            acknowledged.snapshots = state.snapshots.clone();
        }
        self.doubtful.clear();
    }

    /// Whether the set may be missing altogether.
    pub fn may_be_missing(&self) -> bool {
        self.acknowledged.is_none()
    }

    /// Whether `found` is a state that a crash may leave: `Ok` says whether it is the acknowledged one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, found: &State) -> Result<bool, String> {
        let mut states = self.acknowledged.iter().chain(&self.begun);
        let newest = self.begun.last().or(self.acknowledged.as_ref());
        if !states.any(|state| state.records == found.records) {
            let acknowledged = self
                .acknowledged
                .as_ref()
                .map(|state| difference(&found.records, &state.records));
            let begun = newest.map(|state| difference(&found.records, &state.records));
            return Err(format!(
                "the set is none of {} possible commits\n    against the acknowledged one: {}\n    against the newest begun: {}",
                self.begun.len() + usize::from(self.acknowledged.is_some()),
                acknowledged.unwrap_or_else(|| "there is none".into()),
                begun.unwrap_or_else(|| "there is none".into()),
            ));
        }
        self.check_snapshots(found)?;
        Ok(self
            .acknowledged
            .as_ref()
            .is_some_and(|state| state.records == found.records))
    }

    fn check_snapshots(&self, found: &State) -> Result<(), String> {
        let none = BTreeMap::new();
        let promised = self
            .acknowledged
            .as_ref()
            .map_or(&none, |state| &state.snapshots);
        let names: BTreeSet<&String> = promised.keys().chain(found.snapshots.keys()).collect();
        for name in names {
            let expected = promised.get(name).or_else(|| self.doubtful.get(name));
            match (found.snapshots.get(name), expected) {
                (Some(found), Some(expected)) if found == expected => {}
                (Some(found), Some(expected)) => {
                    return Err(format!(
                        "snapshot {name} changed: {}",
                        difference(found, expected)
                    ));
                }
                (Some(_), None) => {
                    return Err(format!(
                        "snapshot {name} was dropped and is back, or never was"
                    ));
                }
                (None, _) if self.doubtful.contains_key(name) => {}
                (None, _) => return Err(format!("snapshot {name} is lost")),
            }
        }
        Ok(())
    }
}

/// How two sets differ, in a line.
pub fn difference(found: &Contents, expected: &Contents) -> String {
    let describe = |record: Option<&Option<Bytes>>| match record {
        None => "past the end".to_owned(),
        Some(None) => "a hole".to_owned(),
        Some(Some(bytes)) => {
            format!(
                "{} bytes {:02x?}",
                bytes.len(),
                bytes.iter().take(6).collect::<Vec<_>>()
            )
        }
    };
    let longest = found.len().max(expected.len());
    let wrong: Vec<usize> = (0..longest)
        .filter(|index| found.get(*index) != expected.get(*index))
        .collect();
    match wrong.first() {
        None => "equal".into(),
        Some(first) => format!(
            "{} records, expected {}; {} differ, first {first}: {}, expected {}",
            found.len(),
            expected.len(),
            wrong.len(),
            describe(found.get(*first)),
            describe(expected.get(*first)),
        ),
    }
}
