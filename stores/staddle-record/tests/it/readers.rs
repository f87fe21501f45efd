//! Readers while a writer works: one generation at a time, never a torn record, never a mix of two commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use staddle_base::{ErrorKind, Seed};
use staddle_record::{OpenOptions, Options, Records};

use crate::common::OnDisk;

/// Records that one commit always changes together.
const GROUP: u64 = 16;

/// A record that can be checked alone: its stamp, and bytes that follow from stamp and length.
fn record(stamp: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len.max(8)];
    Seed(stamp).stream("readers").fill(&mut out);
    out[..8].copy_from_slice(&stamp.to_le_bytes());
    out
}

fn stamp(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().unwrap())
}

/// Checks everything a reader sees at one moment.
fn check(set: &Records) {
    let view = match set.current() {
        Ok(view) => view,
        // Only when commits come faster than a reader can pin one.
        Err(e) if e.kind() == ErrorKind::Conflict => return,
        Err(e) => panic!("{e:?}"),
    };
    let all: Vec<u64> = (0..view.len()).collect();
    let batch = set.gather_in(&view, &all).unwrap();
    let mut group = Vec::new();
    for (index, bytes) in batch.iter().enumerate() {
        let Some(bytes) = bytes else { continue };
        assert!(
            bytes == record(stamp(bytes), bytes.len()),
            "record {index} is torn"
        );
        if (index as u64) < GROUP {
            group.push(stamp(bytes));
        }
    }
    group.dedup();
    assert!(group.len() <= 1, "two commits in one view: {group:?}");
}

#[test]
fn every_view_is_one_commit_while_a_writer_edits_checkpoints_and_rebalances() {
    let place = OnDisk::new();
    let writer = place.create(Options {
        chunk_bytes: 1 << 18,
        writers: 2,
        ..Default::default()
    });
    let first: Vec<Vec<u8>> = (0..500).map(|at| record(1, 40 + at % 700)).collect();
    writer.extend(&first).unwrap();
    writer.flush().unwrap();
    let (done, views) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for follow in [true, true, false] {
            let set = place.open_with(OpenOptions {
                follow,
                read_only: true,
                ..Default::default()
            });
            let (done, views) = (&done, &views);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    check(&set);
                    views.fetch_add(1, Ordering::Relaxed);
                    if !follow {
                        set.refresh().unwrap();
                    }
                }
            });
        }
        let mut rng = Seed(5).stream("edits");
        for commit in 2..60u64 {
            for index in 0..GROUP {
                writer
                    .update(index, &record(commit, 30 + rng.index(3000)))
                    .unwrap();
            }
            for _ in 0..20 {
                let len = writer.len().unwrap();
                // Never the group: a delete moves the last record, which is not of it either.
                let index = GROUP + rng.below(len - GROUP);
                match rng.below(4) {
                    0 => drop(writer.delete(index).unwrap().to_string()),
                    1 => writer.tombstone(index).unwrap(),
                    2 => writer
                        .update(index, &record(commit, rng.index(5000)))
                        .unwrap(),
                    _ => drop(
                        writer
                            .append(&record(commit, rng.index(5000)))
                            .unwrap()
                            .to_string(),
                    ),
                }
            }
            match commit % 10 {
                3 => writer.checkpoint().unwrap(),
                6 => drop(writer.compact(false).unwrap()),
                9 => drop(writer.rebalance(false).unwrap()),
                _ => writer.flush().unwrap(),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(views.load(Ordering::Relaxed) > 3);
    check(&writer);
    writer.close().unwrap();
    // With no reader left, only what the last two commits name is still there.
    let set = place.open();
    set.rebalance(false).unwrap();
    set.checkpoint().unwrap();
    set.append(b"12345678").unwrap();
    set.close().unwrap();
    assert!(
        place.device.list("manifest").unwrap().len() <= 3,
        "{:?} {:?}",
        place.device.list("manifest").unwrap(),
        place.device.list("chunk").unwrap(),
    );
    assert!(place.open().verify(|_, _| ()).unwrap().bad.is_empty());
}

#[test]
fn views_outlive_everything_that_happens_to_the_set() {
    let place = OnDisk::new();
    let set = place.create(Options::default());
    let rows: Vec<Vec<u8>> = (0..50).map(|at| record(at, 100)).collect();
    set.extend(&rows).unwrap();
    set.flush().unwrap();
    let batch = set.gather(&(0..50).collect::<Vec<u64>>()).unwrap();
    for index in 0..50 {
        set.update(index, b"other bytes").unwrap();
    }
    set.rebalance(false).unwrap();
    set.close().unwrap();
    drop(set);
    std::fs::remove_dir_all(place.folder.path()).unwrap();
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(batch.get(at).unwrap(), row);
    }
}

#[test]
fn a_pinned_generation_keeps_its_files_and_a_dropped_one_does_not() {
    let place = OnDisk::new();
    let set = place.create(Options {
        chunk_bytes: 1 << 16,
        ..Default::default()
    });
    let rows: Vec<Vec<u8>> = (0..100).map(|at| record(at, 2000)).collect();
    set.extend(&rows).unwrap();
    set.flush().unwrap();
    let chunks = || place.device.list("chunk").unwrap();
    let old = chunks();
    // A reader that has not touched a chunk yet: only its pin keeps them.
    let reader = place.open();
    for index in 0..100 {
        set.update(index, b"new").unwrap();
    }
    set.rebalance(false).unwrap();
    set.append(b"x").unwrap();
    set.flush().unwrap();
    set.checkpoint().unwrap();
    assert!(
        old.iter().all(|name| chunks().contains(name)),
        "a pinned chunk is gone"
    );
    assert_eq!(reader.get(7).unwrap().unwrap(), rows[7]);
    drop(reader);
    set.update(0, b"newer").unwrap();
    set.checkpoint().unwrap();
    assert!(
        !old.iter().any(|name| chunks().contains(name)),
        "{:?}",
        chunks()
    );
}

#[test]
fn snapshots_are_views_of_the_past_until_they_are_dropped() {
    let place = OnDisk::new();
    let set = place.create(Options::default());
    set.append(b"one").unwrap();
    set.snapshot("first").unwrap();
    set.update(0, b"two").unwrap();
    set.append(b"three").unwrap();
    set.rebalance(false).unwrap();
    set.checkpoint().unwrap();
    assert_eq!(
        set.snapshot("first").unwrap_err().kind(),
        ErrorKind::Conflict
    );
    assert_eq!(set.snapshot("../x").unwrap_err().kind(), ErrorKind::Invalid);
    let past = place.open_with(OpenOptions {
        snapshot: Some("first".into()),
        ..Default::default()
    });
    assert_eq!(
        (past.len().unwrap(), past.get(0).unwrap().unwrap()),
        (1, b"one".to_vec())
    );
    assert!(past.append(b"x").is_err());
    drop(past);
    let missing = OpenOptions {
        snapshot: Some("frist".into()),
        ..Default::default()
    };
    let error = Records::open(&place.runtime, Arc::clone(&place.device), missing).unwrap_err();
    assert!(
        error.to_string().contains("did you mean `first`"),
        "{error}"
    );
    set.drop_snapshot("first").unwrap();
    assert!(set.snapshots().unwrap().is_empty());
    assert_eq!(
        set.drop_snapshot("first").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_generation_that_is_gone_is_a_conflict_that_suggests_a_snapshot() {
    let place = OnDisk::new();
    let set = place.create(Options::default());
    for at in 0..5u8 {
        set.append(&[at]).unwrap();
        set.flush().unwrap();
    }
    let newest = set.generation();
    let older = place.open_with(OpenOptions {
        generation: Some(newest - 1),
        ..Default::default()
    });
    assert_eq!(older.len().unwrap(), 4);
    let gone = OpenOptions {
        generation: Some(2),
        ..Default::default()
    };
    let error = Records::open(&place.runtime, Arc::clone(&place.device), gone).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("snapshot"), "{error}");
}

#[test]
fn threads_that_append_together_lose_nothing() {
    let place = OnDisk::new();
    let set = place.create(Options {
        writers: 4,
        chunk_bytes: 1 << 20,
        ..Default::default()
    });
    let taken: Vec<(u64, Vec<u8>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let set = set.clone();
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for turn in 0..30u64 {
                        let rows: Vec<Vec<u8>> = (0..200)
                            .map(|at| record(thread << 32 | turn << 16 | at, 100))
                            .collect();
                        let range = set.extend(&rows).unwrap();
                        mine.extend(range.zip(rows));
                        if turn % 7 == 0 {
                            set.flush().unwrap();
                        }
                    }
                    mine
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(set.len().unwrap(), 4 * 30 * 200);
    set.close().unwrap();
    let set = place.open();
    for (index, row) in taken {
        assert_eq!(set.get(index).unwrap().unwrap(), row);
    }
}
