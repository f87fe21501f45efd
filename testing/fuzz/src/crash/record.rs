//! The record store, driven.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use staddle_base::{Error, ManualClock, Result, Seed};
use staddle_record::format::{Head, head::SLOT_BYTES, names};
use staddle_record::{CodecChoice, Durability, OpenOptions, Options, Records};
use staddle_runtime::io::device::Device;
use staddle_runtime::{EngineChoice, Runtime};
use staddle_sim::{Call, Op as Called, SimDisk};

use super::model::{Answer, Contents, State};
use super::program::Op;
use super::store::{Commit, Mode, Store};

/// An open record set.
#[derive(Debug)]
pub struct RecordStore(Records);

/// A runtime that computes in the caller, one thing after the other.
fn runtime() -> Result<Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime.clone());
    }
    let options = staddle_runtime::Options {
        memory: Some(1 << 30),
        engine: EngineChoice::Pread,
        threads: 1,
        io_threads: 1,
        deterministic: true,
        clock: Arc::new(ManualClock::default()),
        seed: Seed(1),
        ..staddle_runtime::Options::default()
    };
    let runtime = Runtime::new(options)?;
    Ok(RUNTIME.get_or_init(|| runtime).clone())
}

/// Options that make small sets go through what large ones go through.
pub fn options(seed: Seed) -> Options {
    let mut rng = seed.stream("options");
    Options {
        codec: [
            CodecChoice::None,
            CodecChoice::None,
            CodecChoice::Lz4,
            CodecChoice::Zstd,
            CodecChoice::Deflate,
        ][rng.index(5)],
        chunk_bytes: 1 << 16,
        chunk_records: [None, Some(1), Some(3), Some(10), Some(50)][rng.index(5)],
        align: [8, 8, 64, 4096][rng.index(4)],
        writers: [1, 1, 2, 3][rng.index(4)],
        durability: if rng.chance(1, 6) {
            Durability::Call
        } else {
            Durability::Flush
        },
        ..Options::default()
    }
}

fn contents(records: &Records) -> Result<Contents> {
    (0..records.len()?)
        .map(|index| Ok(records.get(index)?.map(Into::into)))
        .collect()
}

impl Store for RecordStore {
    const NAME: &'static str = "record";

    const PATHS: &'static [&'static str] = &[
        "HEAD: the newest slot was torn",
        "HEAD: a slot was still empty",
        "recovery cut a chunk",
        "recovery cut the log",
        "recovery removed a stray chunk",
        "recovery removed a stray segment",
        "recovery removed a stray log",
        "recovery removed a stray manifest",
    ];

    fn create(device: Arc<dyn Device>, seed: Seed) -> Result<Self> {
        Records::create(&runtime()?, device, options(seed)).map(Self)
    }

    fn open(device: Arc<dyn Device>, mode: Mode) -> Result<Self> {
        let how = OpenOptions {
            read_only: mode == Mode::Read,
            ..OpenOptions::default()
        };
        Records::open(&runtime()?, device, how).map(Self)
    }

    fn apply(&self, op: &Op) -> Result<Answer> {
        let set = &self.0;
        match op {
            Op::Append(bytes) => set.append(bytes).map(Answer::Index),
            Op::Extend(many) => set
                .extend(many)
                .map(|range| Answer::Indices(vec![range.start, range.end])),
            Op::Update(index, bytes) => set.update(*index, bytes).map(|()| Answer::None),
            Op::Delete(index) => set.delete(*index).map(Answer::Index),
            Op::DeleteMany(indices) => set.delete_many(indices).map(Answer::Indices),
            Op::Tombstone(index) => set.tombstone(*index).map(|()| Answer::None),
            Op::Flush => set.flush().map(|()| Answer::None),
            Op::Checkpoint => set.checkpoint().map(|()| Answer::None),
            Op::Compact => set.compact(false).map(|_| Answer::None),
            Op::Rebalance => set.rebalance(false).map(|_| Answer::None),
            Op::Snapshot(name) => set.snapshot(name).map(|()| Answer::None),
            Op::DropSnapshot(name) => set.drop_snapshot(name).map(|()| Answer::None),
            Op::Read(indices) => {
                let batch = set.gather(indices)?;
                let records =
                    (0..indices.len()).map(|at| Ok::<_, Error>(batch.get(at).map(Into::into)));
                records.collect::<Result<_>>().map(Answer::Records)
            }
            Op::ReadAll => contents(set).map(Answer::Records),
            Op::Reopen | Op::Abandon => Err(Error::internal("the session does this")),
        }
    }

    fn commits(&self, op: &Op) -> Commit {
        match op {
            Op::Read(_) | Op::ReadAll => Commit::No,
            Op::Flush | Op::Checkpoint | Op::Snapshot(_) | Op::Reopen => Commit::Yes,
            _ if self.0.options().durability == Durability::Call => Commit::Yes,
            Op::Compact | Op::Rebalance => Commit::Perhaps,
            _ => Commit::No,
        }
    }

    fn state(&self) -> Result<State> {
        let mut snapshots = BTreeMap::new();
        for snapshot in self.0.snapshots()? {
            let how = OpenOptions {
                read_only: true,
                snapshot: Some(snapshot.name.clone()),
                ..OpenOptions::default()
            };
            let set = Records::open(&runtime()?, Arc::clone(self.0.device()), how)?;
            snapshots.insert(snapshot.name, contents(&set)?);
        }
        Ok(State {
            records: contents(&self.0)?,
            snapshots,
        })
    }

    fn verify(&self) -> Result<()> {
        let report = self.0.verify(|_, _| {})?;
        match report.bad.first() {
            None => Ok(()),
            Some(damage) => Err(Error::corrupt(format!(
                "verify found {} damages, first {damage:?}",
                report.bad.len()
            ))),
        }
    }

    fn close(self) -> Result<()> {
        self.0.close()
    }

    fn recovery(image: &SimDisk, calls: &[Call]) -> Vec<&'static str> {
        if calls.is_empty() {
            return slots(image);
        }
        let named = |call: &Call, folder: &str| call.path.starts_with(folder);
        let paths = calls.iter().filter_map(|call| match call.op {
            Called::SetLen if named(call, "chunk/") => Some("recovery cut a chunk"),
            Called::SetLen if named(call, "log/") => Some("recovery cut the log"),
            Called::Remove if named(call, "chunk/") => Some("recovery removed a stray chunk"),
            Called::Remove if named(call, "offset/") => Some("recovery removed a stray segment"),
            Called::Remove if named(call, "log/") => Some("recovery removed a stray log"),
            Called::Remove if named(call, "manifest/") => Some("recovery removed a stray manifest"),
            _ => None,
        });
        let mut paths: Vec<_> = paths.collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }
}

/// What the slots of HEAD look like.
fn slots(image: &SimDisk) -> Vec<&'static str> {
    let Some(head) = image.read(names::HEAD) else {
        return Vec::new();
    };
    let slots: Vec<&[u8]> = head.chunks(SLOT_BYTES).collect();
    if slots.iter().any(|slot| slot.iter().all(|byte| *byte == 0)) {
        return vec!["HEAD: a slot was still empty"];
    }
    match slots.iter().any(|slot| Head::decode(slot).is_err()) {
        true => vec!["HEAD: the newest slot was torn"],
        false => Vec::new(),
    }
}
