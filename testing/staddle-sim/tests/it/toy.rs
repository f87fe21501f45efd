//! A small store with the usual commit: append to a data file, sync it, then publish a pointer file by rename. Each
//! mistake of [`Bug`] is one that real stores have made.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use staddle_base::Result;
use staddle_base::checksum::crc32c;
use staddle_runtime::io::device::{Device, File, Open};
use staddle_sim::SimDisk;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// Acknowledges before the pointer is durable.
    EarlyAck,
    /// Never syncs the folder.
    NoDirSync,
    /// Renames the pointer file before it is synced.
    RenameBeforeSync,
    /// Publishes before the data is synced.
    PointerBeforeData,
    /// Rewrites the pointer in place instead of renaming.
    InPlace,
    /// Takes a failed sync for done after trying again.
    RetriedSync,
}

/// The value last acknowledged, and the value of the commit under way.
#[derive(Debug, Default)]
pub(crate) struct Promise {
    pub(crate) acknowledged: u64,
    pub(crate) under_way: u64,
}

pub(crate) struct Toy {
    disk: SimDisk,
    data: Arc<dyn File>,
    bug: Bug,
    pub(crate) promise: Arc<Mutex<Promise>>,
}

const RECORD: usize = 700;

fn record(number: u64) -> Vec<u8> {
    let mut out = number.to_le_bytes().repeat(RECORD / 8 + 1);
    out.truncate(RECORD);
    out
}

fn pointer(number: u64) -> Vec<u8> {
    let mut out = number.to_le_bytes().to_vec();
    // Wide enough to tear.
    out.extend_from_slice(&record(number));
    out.extend_from_slice(&crc32c(&out).to_le_bytes());
    out
}

impl Toy {
    pub(crate) fn create(disk: &SimDisk, bug: Bug) -> Result<Self> {
        let data = disk.open("data", Open::Create)?;
        let toy = Self {
            disk: disk.clone(),
            data,
            bug,
            promise: Arc::default(),
        };
        toy.publish(0)?;
        Ok(toy)
    }

    /// Appends record `number` and commits.
    pub(crate) fn put(&self, number: u64) -> Result<()> {
        self.promise.lock().under_way = number;
        self.data
            .write_at(&record(number), (number - 1) * RECORD as u64)?;
        if self.bug == Bug::EarlyAck {
            self.promise.lock().acknowledged = number;
        }
        match self.bug {
            Bug::PointerBeforeData => {}
            Bug::RetriedSync => self.data.sync().or_else(|_| self.data.sync())?,
            _ => self.data.sync()?,
        }
        self.publish(number)?;
        if self.bug == Bug::PointerBeforeData {
            self.data.sync()?;
        }
        self.promise.lock().acknowledged = number;
        Ok(())
    }

    fn publish(&self, number: u64) -> Result<()> {
        let bytes = pointer(number);
        if self.bug == Bug::InPlace && number > 0 {
            let file = self.disk.open("pointer", Open::Write)?;
            file.write_at(&bytes, 0)?;
            return file.sync();
        }
        self.disk.remove("tmp")?;
        let file = self.disk.open("tmp", Open::Create)?;
        file.write_at(&bytes, 0)?;
        if self.bug == Bug::RenameBeforeSync {
            self.disk.rename("tmp", "pointer")?;
            self.disk.sync_dir("")?;
            return file.sync();
        }
        file.sync()?;
        self.disk.rename("tmp", "pointer")?;
        match self.bug {
            Bug::NoDirSync => Ok(()),
            _ => self.disk.sync_dir(""),
        }
    }
}

/// What is on the disk: the number of the last commit, or what is wrong.
pub(crate) fn read(disk: &SimDisk) -> Result<u64, String> {
    let bytes = disk.read("pointer").ok_or("no pointer")?;
    let (body, crc) = bytes
        .split_last_chunk::<4>()
        .ok_or("the pointer is short")?;
    if crc32c(body).to_le_bytes() != *crc {
        return Err("the pointer is torn".into());
    }
    let number = u64::from_le_bytes(body[..8].try_into().unwrap());
    let data = disk.read("data").ok_or("no data")?;
    for (number, got) in (1..=number).zip(data.chunks(RECORD)) {
        if got != record(number) {
            return Err(format!("record {number} is not what was written"));
        }
    }
    if (data.len() as u64) < number * RECORD as u64 {
        return Err(format!(
            "{number} records do not fit into {} bytes",
            data.len()
        ));
    }
    Ok(number)
}

/// What an image breaks of the promise.
pub(crate) fn check(disk: &SimDisk, promise: &Promise) -> Option<String> {
    // Before the first commit was acknowledged there may be nothing.
    let possible: BTreeSet<u64> = [promise.acknowledged, promise.under_way].into();
    match read(disk) {
        Ok(number) if possible.contains(&number) => None,
        Ok(number) => Some(format!(
            "commit {number}, but acknowledged was {}",
            promise.acknowledged
        )),
        Err(what) => Some(what),
    }
}
