//! What the tests share: places to put a set, and the obvious model of one.

use std::sync::Arc;

use staddle_base::{ManualClock, Seed};
use staddle_record::{OpenOptions, Options, Records};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, LocalDevice};
use staddle_sim::SimDisk;

/// A runtime without threads whose clock stands still: a run is a function of its seed.
pub fn still(seed: u64) -> Runtime {
    let options = staddle_runtime::Options {
        threads: 1,
        ..Default::default()
    };
    Runtime::new(
        options
            .with_clock(Arc::new(ManualClock::default()))
            .with_seed(Seed(seed)),
    )
    .unwrap()
}

/// The runtime of a user.
pub fn real() -> Runtime {
    Runtime::new(staddle_runtime::Options::default()).unwrap()
}

/// A set on a real file system; the folder goes with it.
pub struct OnDisk {
    pub runtime: Runtime,
    pub device: Arc<dyn Device>,
    pub folder: tempfile::TempDir,
}

impl OnDisk {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = Arc::new(LocalDevice::new(&folder.path().join("set.rec")).unwrap());
        Self {
            runtime: real(),
            device,
            folder,
        }
    }

    pub fn create(&self, options: Options) -> Records {
        Records::create(&self.runtime, Arc::clone(&self.device), options).unwrap()
    }

    pub fn open(&self) -> Records {
        self.open_with(OpenOptions::default())
    }

    pub fn open_with(&self, how: OpenOptions) -> Records {
        Records::open(&self.runtime, Arc::clone(&self.device), how).unwrap()
    }
}

/// A simulated disk.
pub fn simulated(seed: u64) -> Arc<dyn Device> {
    Arc::new(SimDisk::new(Seed(seed)))
}

/// What a set should hold: the obvious way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model(pub Vec<Option<Vec<u8>>>);

impl Model {
    pub fn append(&mut self, record: Vec<u8>) {
        self.0.push(Some(record));
    }

    pub fn delete(&mut self, index: usize) -> u64 {
        self.0.swap_remove(index);
        self.0.len() as u64
    }
}

/// Everything a set holds, by one gather and, for the first few, by single reads too.
pub fn contents(set: &Records) -> Vec<Option<Vec<u8>>> {
    let all: Vec<u64> = (0..set.len().unwrap()).collect();
    let batch = set.gather(&all).unwrap();
    let rows: Vec<Option<Vec<u8>>> = batch
        .iter()
        .map(|record| record.map(<[u8]>::to_vec))
        .collect();
    for index in all.iter().take(5) {
        assert_eq!(set.get(*index).unwrap(), rows[*index as usize]);
    }
    let packed = set.gather_packed(&all).unwrap();
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(packed.get(at).unwrap(), row.as_deref().unwrap_or_default());
        let present = packed.present.as_ref().is_none_or(|present| present[at]);
        assert_eq!(present, row.is_some());
    }
    rows
}

/// Fails with the first difference, in words that fit a screen.
#[track_caller]
pub fn same(found: &[Option<Vec<u8>>], wanted: &[Option<Vec<u8>>]) {
    let show = |record: Option<&Option<Vec<u8>>>| match record {
        None => "nothing".to_owned(),
        Some(None) => "a hole".to_owned(),
        Some(Some(bytes)) => format!(
            "{} bytes {}",
            bytes.len(),
            bytes
                .escape_ascii()
                .take(24)
                .map(char::from)
                .collect::<String>()
        ),
    };
    for at in 0..found.len().max(wanted.len()) {
        let (left, right) = (found.get(at), wanted.get(at));
        assert!(
            left == right,
            "record {at} is {}, should be {} (lengths {} and {})",
            show(left),
            show(right),
            found.len(),
            wanted.len()
        );
    }
}
