//! Random programmes against a vector: whatever is done, a set holds what the vector holds.

use std::sync::Arc;

use proptest::prelude::*;
use staddle_record::{CodecChoice, OpenOptions, Options, Records};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::Device;

use crate::common::{Model, OnDisk, contents, same, simulated, still};

#[derive(Clone, Debug)]
enum Step {
    Append(u16),
    Extend(Vec<u16>),
    Update(u32, u16),
    Delete(u32),
    Tombstone(u32),
    Flush,
    Checkpoint,
    Compact,
    Rebalance,
    Snapshot,
    Read,
    Reopen,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![4 => 0u16..300, 1 => Just(0), 1 => 300u16..9000];
    prop_oneof![
        6 => size.clone().prop_map(Step::Append),
        3 => proptest::collection::vec(size.clone(), 0..20).prop_map(Step::Extend),
        4 => (any::<u32>(), size).prop_map(|(i, s)| Step::Update(i, s)),
        3 => any::<u32>().prop_map(Step::Delete),
        2 => any::<u32>().prop_map(Step::Tombstone),
        3 => Just(Step::Flush),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Compact),
        1 => Just(Step::Rebalance),
        1 => Just(Step::Snapshot),
        2 => Just(Step::Read),
        1 => Just(Step::Reopen),
        1 => Just(Step::Crash),
    ]
}

/// A record that says which one it is, half text and half noise.
fn record(stamp: &mut u64, size: u16) -> Vec<u8> {
    *stamp += 1;
    let mut out = format!("record {stamp} ")
        .repeat(size as usize / 16 + 1)
        .into_bytes();
    let half = out.len() / 2;
    staddle_base::Seed(*stamp)
        .stream("noise")
        .fill(&mut out[half..]);
    out.truncate(size as usize);
    out
}

fn run(runtime: &Runtime, device: &Arc<dyn Device>, options: Options, steps: Vec<Step>) {
    let mut set = Records::create(runtime, Arc::clone(device), options).unwrap();
    let (mut model, mut flushed, mut stamp) = (Model::default(), Model::default(), 0);
    let mut snapshots: Vec<(String, Model)> = Vec::new();
    // A batch of the past, which nothing may change.
    let mut kept: Vec<(staddle_record::Batch, Vec<Option<Vec<u8>>>)> = Vec::new();
    for step in steps {
        let pick =
            |at: u32, model: &Model| (!model.0.is_empty()).then(|| at as usize % model.0.len());
        match step {
            Step::Append(size) => {
                let record = record(&mut stamp, size);
                assert_eq!(set.append(&record).unwrap(), model.0.len() as u64);
                model.append(record);
            }
            Step::Extend(ref sizes) => {
                let records: Vec<Vec<u8>> =
                    sizes.iter().map(|size| record(&mut stamp, *size)).collect();
                let start = model.0.len() as u64;
                assert_eq!(
                    set.extend(&records).unwrap(),
                    start..start + records.len() as u64
                );
                records.into_iter().for_each(|record| model.append(record));
            }
            Step::Update(at, size) => match pick(at, &model) {
                Some(at) => {
                    let record = record(&mut stamp, size);
                    set.update(at as u64, &record).unwrap();
                    model.0[at] = Some(record);
                }
                None => assert!(set.update(u64::from(at), b"x").is_err()),
            },
            Step::Delete(at) => match pick(at, &model) {
                Some(at) => assert_eq!(set.delete(at as u64).unwrap(), model.delete(at)),
                None => assert!(set.delete(u64::from(at)).is_err()),
            },
            Step::Tombstone(at) => {
                if let Some(at) = pick(at, &model) {
                    set.tombstone(at as u64).unwrap();
                    model.0[at] = None;
                }
            }
            Step::Flush => set.flush().unwrap(),
            Step::Checkpoint => set.checkpoint().unwrap(),
            Step::Compact => drop(set.compact(false).unwrap()),
            Step::Rebalance => drop(set.rebalance(false).unwrap()),
            Step::Snapshot => {
                let name = format!("s{}", snapshots.len());
                set.snapshot(&name).unwrap();
                snapshots.push((name, model.clone()));
            }
            Step::Read => {
                same(&contents(&set), &model.0);
                assert_eq!(set.live().unwrap(), model.0.iter().flatten().count() as u64);
                let all: Vec<u64> = (0..model.0.len() as u64).rev().collect();
                let rows = model.0.iter().rev().cloned().collect();
                kept.push((set.gather(&all).unwrap(), rows));
            }
            Step::Reopen => {
                set.close().unwrap();
                set = Records::open(runtime, Arc::clone(device), OpenOptions::default()).unwrap();
                same(&contents(&set), &model.0);
            }
            Step::Crash => {
                // The process is gone: nothing is flushed, the lock is free.
                drop(set);
                model = flushed.clone();
                set = Records::open(runtime, Arc::clone(device), OpenOptions::default()).unwrap();
                same(&contents(&set), &model.0);
            }
        }
        if matches!(
            step,
            Step::Flush
                | Step::Checkpoint
                | Step::Compact
                | Step::Rebalance
                | Step::Snapshot
                | Step::Reopen
        ) {
            flushed = model.clone();
        }
    }
    same(&contents(&set), &model.0);
    set.flush().unwrap();
    let report = set.verify(|_, _| ()).unwrap();
    assert!(report.bad.is_empty(), "{:?}", report.bad);
    for (name, model) in snapshots {
        let how = OpenOptions {
            snapshot: Some(name),
            ..Default::default()
        };
        let past = Records::open(runtime, Arc::clone(device), how).unwrap();
        same(&contents(&past), &model.0);
    }
    for (batch, rows) in kept {
        let now: Vec<_> = batch
            .iter()
            .map(|record| record.map(<[u8]>::to_vec))
            .collect();
        same(&now, &rows);
    }
    // The index rebuilt from chunks alone is the same, once a writer has cut off what a stopped one never published.
    set.checkpoint().unwrap();
    set.close().unwrap();
    device.remove("HEAD").unwrap();
    staddle_record::repair(runtime, Arc::clone(device)).unwrap();
    let set = Records::open(runtime, Arc::clone(device), OpenOptions::default()).unwrap();
    same(&contents(&set), &model.0);
}

fn options() -> impl Strategy<Value = Options> {
    let codec = prop_oneof![
        2 => Just(CodecChoice::None),
        1 => Just(CodecChoice::Deflate),
        1 => Just(CodecChoice::Lz4),
        1 => Just(CodecChoice::Zstd),
        1 => Just(CodecChoice::Auto),
    ];
    (
        codec,
        1usize..4,
        prop_oneof![Just(8u32), Just(64), Just(4096)],
        proptest::option::of(1u64..40),
        any::<bool>(),
    )
        .prop_map(
            |(codec, writers, align, chunk_records, dictionary)| Options {
                codec,
                writers,
                align,
                chunk_records,
                chunk_bytes: 1 << 16,
                dictionary: dictionary && codec == CodecChoice::Zstd,
                ..Default::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn on_a_simulated_disk(options in options(), steps in proptest::collection::vec(step(), 0..60), seed in any::<u64>()) {
        run(&still(seed), &simulated(seed), options, steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, ..ProptestConfig::default() })]

    #[test]
    fn on_a_real_file_system(options in options(), steps in proptest::collection::vec(step(), 0..60)) {
        let place = OnDisk::new();
        run(&place.runtime, &place.device, options, steps);
    }
}
