//! The runtime as a whole: what it starts, what it reports, what it refuses.

use std::collections::BTreeMap;

use staddle_base::ErrorKind;
use staddle_runtime::io::device::{Open, publish_file};
use staddle_runtime::{EngineChoice, Options, Runtime};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn opening_and_reading_a_little_starts_no_thread() {
    // In a child, where no other test has threads.
    let started = || {
        open_and_read_a_little();
        i32::try_from(threads()).unwrap()
    };
    assert_eq!(super::forks::in_child(started), 1);
}

fn open_and_read_a_little() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(Options::default()).unwrap();
    let device = runtime
        .io()
        .device(dir.path().to_str().unwrap(), &BTreeMap::new())
        .unwrap();
    publish_file(&*device, "f", &[1; 10_000]).unwrap();
    let file = device.open("f", Open::Read).unwrap();
    let mut buffers = [[0; 10]; 20];
    let mut reads: Vec<_> = buffers
        .iter_mut()
        .enumerate()
        .map(|(n, into)| staddle_runtime::io::Read {
            file: &*file,
            offset: n as u64 * 100,
            into,
        })
        .collect();
    runtime.io().read_many(&mut reads).unwrap();
    let map = file.map(10_000).unwrap();
    assert_eq!(map.bytes(9_999, 1), Some(&[1][..]));
    drop(
        runtime
            .memory()
            .pool()
            .take(runtime.memory().root(), 1 << 20)
            .unwrap(),
    );
    runtime.workers().map("one", vec![1], |n| n).unwrap();
    let _ = (
        runtime.stats(),
        runtime.metrics_text(),
        format!("{runtime:?}"),
    );
    let remote = runtime
        .io()
        .device("s3://bucket/x", &BTreeMap::new())
        .unwrap();
    assert!(remote.capabilities().remote);
}

#[test]
fn settings_out_of_range_make_no_runtime() {
    let tiny = Options {
        memory: Some(1),
        ..Options::default()
    };
    assert_eq!(Runtime::new(tiny).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn figures_reach_stats_metrics_and_doctor() {
    let options = Options {
        memory: Some(64 << 20),
        engine: EngineChoice::Pread,
        threads: 3,
        ..Options::default()
    };
    let runtime = Runtime::new(options).unwrap();
    let client = runtime.memory().root().child("client", None);
    let _held = runtime.memory().pool().take(&client, 100_000).unwrap();
    let stats = runtime.stats();
    assert_eq!(
        (
            stats.memory.limit_bytes,
            stats.memory.reserved_bytes,
            stats.threads
        ),
        (64 << 20, 131_072, 3)
    );
    assert!(stats.engine.is_none(), "no read needed one yet");
    assert!(
        stats
            .memory
            .reservations
            .iter()
            .any(|row| row.name == "process/client" && row.used_bytes == 131_072)
    );
    let json = serde_json::to_value(&stats).unwrap();
    assert_eq!(json["memory"]["pool"]["taken"], 1);

    for _ in 0..2 {
        let text = runtime.metrics_text();
        for line in [
            "staddle_memory_reserved_bytes 131072\n",
            "staddle_pool_taken_buffers_total 1\n",
            "staddle_allocator_bytes_in_use{allocator=\"system\"} ",
            "staddle_allocator_num_allocs_total{allocator=\"system\"} ",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
    let report = runtime.doctor();
    assert!(
        report
            .get("I/O engine")
            .unwrap()
            .value
            .starts_with("pread: chosen")
    );
    assert_eq!(
        report.get("memory limit of Staddle").unwrap().value,
        "67.1 MB"
    );
}

#[test]
fn a_runtime_ends_with_its_last_handle() {
    let code = super::forks::in_child(|| {
        let runtime = Runtime::new(Options {
            threads: 2,
            ..Options::default()
        })
        .unwrap();
        let work = |runtime: &Runtime| {
            let items: Vec<u32> = (0..100).collect();
            runtime.workers().map("work", items, |n| n).unwrap().len()
        };
        work(&runtime);
        if threads() != 3 {
            return 1;
        }
        let other = runtime.clone();
        drop(runtime);
        work(&other);
        drop(other);
        while threads() > 1 {
            std::thread::yield_now();
        }
        0
    });
    assert_eq!(code, 0);
}
