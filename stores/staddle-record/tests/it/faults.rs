//! The k-th call to the device fails, for every k: nothing acknowledged is lost, and a full disk is only a pause.

use std::sync::Arc;

use staddle_base::{ErrorKind, Seed};
use staddle_record::{CodecChoice, OpenOptions, Options, Records};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::Device;
use staddle_sim::{Fault, On, Rule, SimDisk, When};

use crate::common::{Model, contents, same, still};

/// One step of the programme, on the set and on the model. A step that fails may be tried again.
type Step = (
    &'static str,
    fn(&Records) -> staddle_base::Result<()>,
    fn(&mut Model),
);

fn text(at: u32, len: usize) -> Vec<u8> {
    format!("record {at} ")
        .into_bytes()
        .into_iter()
        .cycle()
        .take(len)
        .collect()
}

/// Every kind of mutation, with chunks that fill up and a log that is checkpointed.
const PROGRAMME: &[Step] = &[
    (
        "append",
        |s| s.append(&text(1, 300)).map(drop),
        |m| m.append(text(1, 300)),
    ),
    (
        "append empty",
        |s| s.append(b"").map(drop),
        |m| m.append(Vec::new()),
    ),
    ("flush", Records::flush, |_| ()),
    (
        "append large",
        |s| s.append(&text(2, 70_000)).map(drop),
        |m| m.append(text(2, 70_000)),
    ),
    (
        "append",
        |s| s.append(&text(3, 30_000)).map(drop),
        |m| m.append(text(3, 30_000)),
    ),
    (
        "append",
        |s| s.append(&text(4, 40_000)).map(drop),
        |m| m.append(text(4, 40_000)),
    ),
    ("flush", Records::flush, |_| ()),
    (
        "update",
        |s| s.update(1, &text(5, 500)),
        |m| m.0[1] = Some(text(5, 500)),
    ),
    (
        "delete",
        |s| s.delete(0).map(drop),
        |m| {
            m.delete(0);
        },
    ),
    ("flush", Records::flush, |_| ()),
    ("tombstone", |s| s.tombstone(2), |m| m.0[2] = None),
    (
        "append",
        |s| s.append(&text(6, 10)).map(drop),
        |m| m.append(text(6, 10)),
    ),
    ("checkpoint", Records::checkpoint, |_| ()),
    (
        "snapshot",
        |s| match s.snapshots()?.is_empty() {
            true => s.snapshot("kept"),
            false => s.flush(),
        },
        |_| (),
    ),
    (
        "update",
        |s| s.update(0, &text(7, 20_000)),
        |m| m.0[0] = Some(text(7, 20_000)),
    ),
    ("compact", |s| s.compact(false).map(drop), |_| ()),
    (
        "delete",
        |s| s.delete(1).map(drop),
        |m| {
            m.delete(1);
        },
    ),
    ("rebalance", |s| s.rebalance(false).map(drop), |_| ()),
    (
        "append",
        |s| s.append(&text(8, 100)).map(drop),
        |m| m.append(text(8, 100)),
    ),
    ("flush", Records::flush, |_| ()),
];

/// Steps whose success means that everything before is durable.
fn acknowledges(name: &str) -> bool {
    matches!(
        name,
        "flush" | "checkpoint" | "snapshot" | "compact" | "rebalance"
    )
}

fn options(codec: CodecChoice) -> Options {
    Options {
        codec,
        chunk_bytes: 1 << 16,
        writers: 2,
        ..Default::default()
    }
}

fn open(runtime: &Runtime, disk: &Arc<SimDisk>) -> staddle_base::Result<Records> {
    Records::open(
        runtime,
        Arc::clone(disk) as Arc<dyn Device>,
        OpenOptions::default(),
    )
}

/// Runs the programme with one fault. Returns whether the fault struck.
fn run(fault: Fault, nth: u64, codec: CodecChoice) -> bool {
    let runtime = still(7);
    let disk = Arc::new(SimDisk::new(Seed(nth)));
    let device = || Arc::clone(&disk) as Arc<dyn Device>;
    let mut set = Records::create(&runtime, device(), options(codec)).unwrap();
    disk.inject(Rule {
        on: On::Mutating,
        when: When::Nth(nth),
        fault,
    });
    let (mut model, mut durable) = (Model::default(), Model::default());
    let mut at = 0;
    let mut tries = 0;
    while let Some((name, act, mirror)) = PROGRAMME.get(at) {
        let mut after = model.clone();
        mirror(&mut after);
        match act(&set) {
            Ok(()) => {
                model = after;
                at += 1;
                if acknowledges(name) {
                    durable = model.clone();
                }
            }
            Err(e) if e.kind() == ErrorKind::Exhausted => {
                // The disk is full once; the next try finds space. What was acknowledged is readable meanwhile.
                tries += 1;
                assert!(tries < 5, "{name} keeps failing: {e}");
                if set.len().is_ok() {
                    same(&contents(&set), &model.0);
                }
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Unavailable, "{name}: {e:?}");
                // What this handle showed before is readable still.
                assert!(contents(&set).len() + 2 >= durable.0.len(), "{name}");
                drop(set);
                set = open(&runtime, &disk).unwrap();
                let found = contents(&set);
                // A commit that failed may or may not have reached the disk.
                let possible = [&durable, &model, &after];
                let matching = possible.into_iter().find(|model| model.0 == found);
                model = matching
                    .unwrap_or_else(|| panic!("{name}, call {nth}, {fault:?}: neither state"))
                    .clone();
                break;
            }
        }
    }
    set.flush().unwrap();
    same(&contents(&set), &model.0);
    drop(set);
    let set = open(&runtime, &disk).unwrap();
    same(&contents(&set), &model.0);
    let report = set.verify(|_, _| ()).unwrap();
    assert!(
        report.bad.is_empty(),
        "call {nth}, {fault:?}: {:?}",
        report.bad
    );
    disk.faults_struck() > 0
}

fn every_call(fault: Fault, codec: CodecChoice) {
    let mut nth = 1;
    while run(fault, nth, codec) {
        nth += 1;
    }
    assert!(nth > 60, "only {nth} calls were reached");
}

#[test]
fn a_full_disk_is_a_pause_at_every_call() {
    every_call(Fault::NoSpace, CodecChoice::None);
    every_call(Fault::NoSpace, CodecChoice::Zstd);
}

#[test]
fn a_quota_is_a_full_disk() {
    every_call(Fault::Quota, CodecChoice::Lz4);
}

#[test]
fn an_io_error_ends_the_writer_and_loses_nothing_acknowledged() {
    every_call(Fault::Io, CodecChoice::None);
    every_call(Fault::Io, CodecChoice::Auto);
}

#[test]
fn a_failed_sync_is_never_retried() {
    let runtime = still(1);
    let disk = Arc::new(SimDisk::new(Seed(1)));
    let set = Records::create(
        &runtime,
        Arc::clone(&disk) as Arc<dyn Device>,
        Options::default(),
    )
    .unwrap();
    set.append(b"one").unwrap();
    set.flush().unwrap();
    set.append(b"two").unwrap();
    disk.inject(Rule {
        on: On::Only(staddle_sim::Op::Sync),
        when: When::Nth(1),
        fault: Fault::NoSpace,
    });
    assert!(set.flush().is_err());
    for _ in 0..2 {
        let error = set.flush().unwrap_err();
        assert!(error.to_string().contains("writing has stopped"), "{error}");
        assert!(set.append(b"three").is_err());
    }
    // Reads of what was flushed go on.
    let reader = open(&runtime, &disk).unwrap();
    assert_eq!(reader.get(0).unwrap().unwrap(), b"one");
    assert_eq!(reader.len().unwrap(), 1);
}

#[test]
fn a_power_cut_at_every_call_leaves_one_commit() {
    for cut in 1.. {
        let runtime = still(3);
        let disk = Arc::new(SimDisk::new(Seed(cut)));
        let set = Records::create(
            &runtime,
            Arc::clone(&disk) as Arc<dyn Device>,
            options(CodecChoice::None),
        )
        .unwrap();
        disk.power_off_at(disk.calls() + cut);
        let (mut model, mut acknowledged) = (Model::default(), Model::default());
        let (mut allowed, mut stopped) = (Vec::new(), "");
        for (name, act, mirror) in PROGRAMME {
            let mut after = model.clone();
            mirror(&mut after);
            match act(&set) {
                Ok(()) => model = after,
                Err(_) => {
                    allowed = vec![acknowledged.clone(), model.clone(), after];
                    stopped = *name;
                    break;
                }
            }
            if acknowledges(name) {
                acknowledged = model.clone();
            }
        }
        if allowed.is_empty() {
            allowed = vec![acknowledged, model];
        }
        if !disk.is_off() {
            assert!(cut > 100, "only {cut} calls were reached");
            return;
        }
        for (seed, survivors) in (0..).zip(staddle_sim::Survivors::EACH) {
            let image = Arc::new(disk.crash_image(survivors, Seed(cut * 8 + seed)));
            let reopened = open(&runtime, &image).unwrap();
            let found = contents(&reopened);
            assert!(
                allowed.iter().any(|model| model.0 == found),
                "cut {cut} in {stopped}, {survivors:?}: {} records, allowed {:?}",
                found.len(),
                allowed
                    .iter()
                    .map(|model| model.0.len())
                    .collect::<Vec<_>>()
            );
            // The next writer goes on.
            let at = reopened.append(b"after").unwrap();
            reopened.flush().unwrap();
            assert_eq!(reopened.get(at).unwrap().unwrap(), b"after");
            assert!(reopened.verify(|_, _| ()).unwrap().bad.is_empty());
        }
    }
}
