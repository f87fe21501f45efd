//! What happened to a set between saving a loader's state and loading it, row by row of the table in `loader::state`.

use std::sync::Arc;

use staddle_base::{Error, ErrorKind};
use staddle_record::{Loader, LoaderOptions, LoaderState, OpenOptions, Options, Records, Shuffle};
use staddle_runtime::io::device::Device;

use crate::common::{simulated, still};

const ROWS: u64 = 100;
const CONSUMED: u64 = 40;

fn record(index: u64, version: u32) -> Vec<u8> {
    format!("record {index} version {version}").into_bytes()
}

fn loader(set: &Records) -> Loader {
    let options = LoaderOptions {
        batch_size: 8,
        shuffle: Shuffle::Global,
        seed: 5,
        ..LoaderOptions::default()
    };
    set.loader(options).unwrap()
}

type Row = (u64, Vec<u8>);

fn rest(loader: &Loader) -> Vec<Row> {
    let mut rows = Vec::new();
    for step in loader.iter().unwrap() {
        let step = step.unwrap();
        for (at, index) in step.indices.iter().enumerate() {
            rows.push((*index, step.rows.get(at).unwrap().to_vec()));
        }
    }
    rows
}

/// A set, a state in the middle of its first epoch, and the rows that were still to come.
struct Before {
    device: Arc<dyn Device>,
    set: Records,
    state: LoaderState,
    to_come: Vec<Row>,
}

impl Before {
    fn new() -> Self {
        let device = simulated(1);
        let options = Options {
            chunk_records: Some(16),
            ..Options::default()
        };
        let set = Records::create(&still(1), Arc::clone(&device), options).unwrap();
        set.extend(&(0..ROWS).map(|i| record(i, 0)).collect::<Vec<_>>())
            .unwrap();
        let running = loader(&set);
        running
            .iter()
            .unwrap()
            .take(5)
            .for_each(|step| drop(step.unwrap()));
        let state = running.state().unwrap();
        assert_eq!((state.epoch, state.consumed), (0, CONSUMED));
        let ahead = loader(&set);
        ahead.load_state(&state, true).unwrap();
        let to_come = rest(&ahead);
        assert_eq!(to_come.len() as u64, ROWS - CONSUMED);
        Self {
            device,
            set,
            state,
            to_come,
        }
    }

    /// What another process finds.
    fn reopened(&self) -> Records {
        self.set.flush().unwrap();
        Records::open(&still(2), Arc::clone(&self.device), OpenOptions::default()).unwrap()
    }

    #[track_caller]
    fn is_exact(&self) {
        for set in [&self.set, &self.reopened()] {
            let resumed = loader(set);
            resumed.load_state(&self.state, true).unwrap();
            assert_eq!(rest(&resumed), self.to_come);
        }
    }

    #[track_caller]
    fn is_refused(&self) -> Error {
        for set in [&self.set, &self.reopened()] {
            let resumed = loader(set);
            let before = resumed.state().unwrap();
            let error = resumed.load_state(&self.state, true).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert_eq!(
                resumed.state().unwrap(),
                before,
                "a refused state changed the loader"
            );
        }
        loader(&self.set).load_state(&self.state, true).unwrap_err()
    }

    fn regardless(&self) -> Vec<Row> {
        let resumed = loader(&self.reopened());
        resumed.load_state(&self.state, false).unwrap();
        rest(&resumed)
    }
}

#[test]
fn nothing() {
    Before::new().is_exact();
}

#[test]
fn appends_join_the_next_epoch() {
    let before = Before::new();
    before
        .set
        .extend(&(ROWS..ROWS + 20).map(|i| record(i, 0)).collect::<Vec<_>>())
        .unwrap();
    before.is_exact();
    let resumed = loader(&before.reopened());
    resumed.load_state(&before.state, true).unwrap();
    assert_eq!(rest(&resumed).len() as u64, ROWS - CONSUMED);
    assert_eq!(rest(&resumed).len() as u64, ROWS + 20);
}

#[test]
fn a_resume_of_a_resume_among_appends() {
    let before = Before::new();
    let mut state = before.state.clone();
    let mut found = Vec::new();
    for more in 0..5 {
        before.set.append(&record(ROWS + more, 0)).unwrap();
        let resumed = loader(&before.reopened());
        resumed.load_state(&state, true).unwrap();
        for step in resumed.iter().unwrap().take(1) {
            found.extend(step.unwrap().indices);
        }
        state = resumed.state().unwrap();
        assert_eq!(state.fingerprint.length, ROWS);
    }
    let wanted: Vec<u64> = before.to_come.iter().map(|(index, _)| *index).collect();
    assert_eq!(found, &wanted[..40]);
}

#[test]
fn rebalance_compact_and_checkpoint() {
    let before = Before::new();
    before.set.checkpoint().unwrap();
    before.set.rebalance(false).unwrap();
    before.set.append(b"more").unwrap();
    before.set.compact(false).unwrap();
    before.is_exact();
}

#[test]
fn updates() {
    let before = Before::new();
    let (index, _) = before.to_come[3];
    before.set.update(index, &record(index, 1)).unwrap();
    let error = before.is_refused();
    assert!(error.message().contains("have changed"), "{error}");
    assert!(
        error.hint_text().unwrap().contains("strict=False"),
        "{error}"
    );
    let mut wanted = before.to_come.clone();
    wanted[3].1 = record(index, 1);
    assert_eq!(before.regardless(), wanted);
}

#[test]
fn tombstones() {
    let before = Before::new();
    let (index, _) = before.to_come[7];
    before.set.tombstone(index).unwrap();
    assert!(before.is_refused().message().contains("have changed"));
    let mut wanted = before.to_come.clone();
    wanted.remove(7);
    assert_eq!(before.regardless(), wanted);
}

#[test]
fn updates_after_a_snapshot_name_it() {
    let before = Before::new();
    before.set.snapshot("job").unwrap();
    before.set.update(1, b"new").unwrap();
    let error = before.is_refused();
    assert!(
        error
            .hint_text()
            .unwrap()
            .contains("loader(snapshot=\"job\")"),
        "{error}"
    );
    let options = LoaderOptions {
        snapshot: Some("job".into()),
        ..loader(&before.set).options().clone()
    };
    let resumed = before.reopened().loader(options).unwrap();
    resumed.load_state(&before.state, true).unwrap();
    assert_eq!(rest(&resumed), before.to_come);
    // A loader of a snapshot stays in it.
    assert_eq!(rest(&resumed).len() as u64, ROWS);
}

#[test]
fn swap_deletes() {
    let before = Before::new();
    before.set.delete(10).unwrap();
    let error = before.is_refused();
    assert!(error.message().contains("have moved"), "{error}");
    let hint = error.hint_text().unwrap();
    assert!(
        hint.contains("snapshot(") && hint.contains("keep_order"),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("with 100 records") && text.contains("with 99"),
        "{error}"
    );
    assert_eq!(error.get("consumed"), Some("40"));
    // Regardless: the same positions, without the index that is gone.
    let wanted: Vec<u64> = before
        .to_come
        .iter()
        .map(|(i, _)| *i)
        .filter(|i| *i < ROWS - 1)
        .collect();
    let found: Vec<u64> = before.regardless().iter().map(|(i, _)| *i).collect();
    assert_eq!(found, wanted);
}

#[test]
fn swap_deletes_that_appends_hide() {
    let before = Before::new();
    before.set.delete(10).unwrap();
    before.set.append(b"another").unwrap();
    assert_eq!(before.set.len().unwrap(), ROWS);
    assert!(before.is_refused().message().contains("have moved"));
}

#[test]
fn swap_deletes_after_a_snapshot_of_that_generation() {
    let before = Before::new();
    before.set.snapshot("job").unwrap();
    before.set.update(3, b"new").unwrap();
    before.set.delete(10).unwrap();
    before.set.rebalance(false).unwrap();
    before.is_exact();
    // From there on the loader is in the snapshot, then in what is there now.
    let resumed = loader(&before.reopened());
    resumed.load_state(&before.state, true).unwrap();
    resumed.iter().unwrap().next().unwrap().unwrap();
    let again = resumed.state().unwrap();
    assert_eq!(again.fingerprint, before.state.fingerprint);
    let resumed = loader(&before.reopened());
    resumed.load_state(&again, true).unwrap();
    assert_eq!(rest(&resumed), &before.to_come[8..]);
    assert_eq!(rest(&resumed).len() as u64, ROWS - 1);
}

#[test]
fn swap_deletes_after_a_snapshot_with_a_few_more_records() {
    let before = Before::new();
    before.set.append(b"more").unwrap();
    before.set.snapshot("later").unwrap();
    before.set.delete(10).unwrap();
    before.is_exact();
}

#[test]
fn a_snapshot_from_after_the_deletes_does_not_help() {
    let before = Before::new();
    before.set.delete(10).unwrap();
    before.set.snapshot("late").unwrap();
    before.set.delete(10).unwrap();
    before.is_refused();
}

#[test]
fn another_set() {
    let before = Before::new();
    let other = Before::new();
    let elsewhere = Records::create(&still(9), simulated(9), Options::default()).unwrap();
    elsewhere
        .extend(&(0..ROWS).map(|i| record(i, 7)).collect::<Vec<_>>())
        .unwrap();
    let error = loader(&elsewhere)
        .load_state(&before.state, true)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(
        error.message().contains(&before.state.fingerprint.uuid),
        "{error}"
    );
    assert!(
        error
            .message()
            .contains(&elsewhere.fingerprint().unwrap().uuid),
        "{error}"
    );
    let resumed = loader(&elsewhere);
    resumed.load_state(&before.state, false).unwrap();
    let found: Vec<u64> = rest(&resumed).iter().map(|(i, _)| *i).collect();
    let wanted: Vec<u64> = other.to_come.iter().map(|(i, _)| *i).collect();
    assert_eq!(found, wanted);
    // Not even between epochs is another set gone on with silently.
    let between = LoaderState {
        consumed: 0,
        epoch: 1,
        ..before.state.clone()
    };
    assert_eq!(
        loader(&elsewhere)
            .load_state(&between, true)
            .unwrap_err()
            .kind(),
        ErrorKind::Conflict
    );
}

#[test]
fn an_older_view_of_the_set() {
    let before = Before::new();
    let old = before.reopened();
    before.set.append(b"more").unwrap();
    let running = loader(&before.set);
    running.iter().unwrap().next().unwrap().unwrap();
    let state = running.state().unwrap();
    // A handle that has not looked since finds the newer commit by itself.
    let resumed = loader(&old);
    resumed.load_state(&state, true).unwrap();
    assert_eq!(rest(&resumed).len() as u64, ROWS + 1 - 8);
    // One that was opened at that commit does not.
    let how = OpenOptions {
        generation: Some(before.state.fingerprint.generation),
        ..OpenOptions::default()
    };
    let fixed = Records::open(&still(3), Arc::clone(&before.device), how).unwrap();
    let error = loader(&fixed).load_state(&state, true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("newer than the set"), "{error}");
}

#[test]
fn between_epochs_no_row_is_promised() {
    let before = Before::new();
    let running = loader(&before.set);
    assert_eq!(rest(&running).len() as u64, ROWS);
    let state = running.state().unwrap();
    assert_eq!((state.epoch, state.consumed), (1, 0));
    before.set.update(4, b"new").unwrap();
    before.set.delete(10).unwrap();
    let resumed = loader(&before.reopened());
    resumed.load_state(&state, true).unwrap();
    // As it would have been without the interruption.
    assert_eq!(rest(&resumed), rest(&running));
}

#[test]
fn own_unflushed_records_are_flushed_before_a_state_speaks_of_them() {
    let device = simulated(4);
    let set = Records::create(&still(4), Arc::clone(&device), Options::default()).unwrap();
    set.extend(&(0..50).map(|i| record(i, 0)).collect::<Vec<_>>())
        .unwrap();
    let running = loader(&set);
    running.iter().unwrap().next().unwrap().unwrap();
    let state = running.state().unwrap();
    // The process is killed.
    drop((running, set));
    let set = Records::open(&still(5), device, OpenOptions::default()).unwrap();
    let resumed = loader(&set);
    resumed.load_state(&state, true).unwrap();
    assert_eq!(rest(&resumed).len(), 42);
}

#[test]
fn states_that_cannot_be_are_refused() {
    let before = Before::new();
    let kind = |state: LoaderState| {
        loader(&before.set)
            .load_state(&state, false)
            .unwrap_err()
            .kind()
    };
    let good = || before.state.clone();
    assert_eq!(
        kind(LoaderState {
            format: 2,
            ..good()
        }),
        ErrorKind::Unsupported
    );
    assert_eq!(
        kind(LoaderState {
            kind: "grid.global".into(),
            ..good()
        }),
        ErrorKind::Conflict
    );
    assert_eq!(
        kind(LoaderState {
            kind: "record.none".into(),
            ..good()
        }),
        ErrorKind::Conflict
    );
    assert_eq!(
        kind(LoaderState {
            consumed: ROWS + 1,
            ..good()
        }),
        ErrorKind::Invalid
    );
    let mut endless = good();
    endless.fingerprint.length = u64::MAX;
    assert_eq!(kind(endless), ErrorKind::Invalid);
}

#[test]
fn the_state_brings_its_seed() {
    let before = Before::new();
    let options = LoaderOptions {
        seed: 77,
        ..loader(&before.set).options().clone()
    };
    let resumed = before.set.loader(options).unwrap();
    resumed.load_state(&before.state, true).unwrap();
    assert_eq!(rest(&resumed), before.to_come);
    let next: Vec<u64> = rest(&resumed).iter().map(|(i, _)| *i).collect();
    let other = loader(&before.set);
    other.set_epoch(1);
    assert_eq!(
        next,
        rest(&other).iter().map(|(i, _)| *i).collect::<Vec<_>>()
    );
}
