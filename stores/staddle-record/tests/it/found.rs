//! Mistakes that the crash driver found, each as the shortest program that shows it.

use std::sync::Arc;

use staddle_base::Seed;
use staddle_record::{OpenOptions, Options, Records};
use staddle_runtime::io::device::Device;
use staddle_sim::SimDisk;

use crate::common::still;

/// Cause: dropping a snapshot removed every file that no commit names, and a chunk begun since the last commit is named
/// by none yet. Symptom: the next flush was acknowledged and named a chunk that was gone. Fix: a writer keeps what its
/// working state names.
#[test]
fn dropping_a_snapshot_leaves_unflushed_chunks_alone() {
    let runtime = still(1);
    let disk: Arc<dyn Device> = Arc::new(SimDisk::new(Seed(1)));
    let options = Options {
        chunk_records: Some(1),
        ..Options::default()
    };
    let set = Records::create(&runtime, Arc::clone(&disk), options).unwrap();
    set.append(b"one").unwrap();
    set.snapshot("s").unwrap();
    set.append(b"two").unwrap();
    set.update(0, b"three").unwrap();
    set.drop_snapshot("s").unwrap();
    set.flush().unwrap();
    drop(set);
    let set = Records::open(&runtime, disk, OpenOptions::default()).unwrap();
    assert_eq!(set.get(0).unwrap().unwrap(), b"three");
    assert_eq!(set.get(1).unwrap().unwrap(), b"two");
    assert_eq!(set.verify(|_, _| {}).unwrap().bad, Vec::new());
}
