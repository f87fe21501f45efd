//! One suite for both engines, and for batches over every kind of file.

use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use staddle_base::{ErrorKind, Seed};
use staddle_runtime::io::Read;
use staddle_runtime::io::device::{
    Device, FaultDevice, FaultPlan, File, LocalDevice, MemoryDevice, Open,
};
use staddle_runtime::io::engine::{Engine, Job, Part, PreadEngine, UringEngine};
use staddle_runtime::{EngineChoice, Options, Runtime};

/// The engines this machine can run. Without a ring the suite says so and runs on pread.
fn engines() -> Vec<Box<dyn Engine>> {
    let pread = Arc::new(PreadEngine::new(4));
    let mut engines: Vec<Box<dyn Engine>> =
        vec![Box::new(PreadEngine::new(1)), Box::new(PreadEngine::new(4))];
    for depth in [1, 4, 64] {
        match UringEngine::new(depth, Arc::clone(&pread)) {
            Ok(engine) => engines.push(Box::new(engine)),
            Err(error) => eprintln!("SKIPPED io_uring at depth {depth}: {error}"),
        }
    }
    engines
}

fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Seed(3).stream("pattern").fill(&mut bytes);
    bytes
}

struct Sample {
    _dir: tempfile::TempDir,
    device: Arc<dyn Device>,
    file: Arc<dyn File>,
    data: Vec<u8>,
}

fn sample(len: usize) -> Sample {
    let dir = tempfile::tempdir().unwrap();
    let device = LocalDevice::new(dir.path()).unwrap();
    let file = device.open("data", Open::Create).unwrap();
    let data = pattern(len);
    file.write_at(&data, 0).unwrap();
    file.sync().unwrap();
    let file = device.open("data", Open::Read).unwrap();
    Sample {
        _dir: dir,
        device: Arc::new(device),
        file,
        data,
    }
}

/// Drops a file's pages from the cache, where the file system can.
fn forget(file: &dyn File) {
    // SAFETY: the descriptor is open; advice changes no contents.
    unsafe {
        libc::posix_fadvise(
            file.fd().unwrap().as_raw_fd(),
            0,
            0,
            libc::POSIX_FADV_DONTNEED,
        )
    };
}

#[test]
fn scattered_jobs_are_read_exactly() {
    let sample = sample(3_000_000);
    let fd = sample.file.fd().unwrap();
    for engine in engines() {
        for jobs_wanted in [0, 1, 2, 300] {
            forget(&*sample.file);
            let mut rng = Seed(jobs_wanted).stream("jobs");
            // Each job: offset, then pieces (length, wanted).
            let plans: Vec<(usize, Vec<(usize, bool)>)> = (0..jobs_wanted)
                .map(|_| {
                    let pieces: Vec<(usize, bool)> = (0..1 + rng.index(5))
                        .map(|_| (rng.index(9000), rng.chance(3, 4)))
                        .collect();
                    let total: usize = pieces.iter().map(|(len, _)| len).sum();
                    (rng.index(sample.data.len() - total), pieces)
                })
                .collect();
            let mut buffers: Vec<Vec<Vec<u8>>> = plans
                .iter()
                .map(|(_, pieces)| {
                    pieces
                        .iter()
                        .map(|(len, wanted)| vec![0; if *wanted { *len } else { 0 }])
                        .collect()
                })
                .collect();
            let mut jobs: Vec<Job<'_>> = plans
                .iter()
                .zip(&mut buffers)
                .map(|((offset, pieces), buffers)| Job {
                    fd,
                    path: "data",
                    offset: *offset as u64,
                    parts: pieces
                        .iter()
                        .zip(buffers)
                        .map(|((len, wanted), buffer)| {
                            if *wanted {
                                Part::Into(buffer)
                            } else {
                                Part::Skip(*len)
                            }
                        })
                        .collect(),
                })
                .collect();
            engine.read(&mut jobs).unwrap();
            for ((offset, pieces), buffers) in plans.iter().zip(&buffers) {
                let mut at = *offset;
                for ((len, wanted), buffer) in pieces.iter().zip(buffers) {
                    if *wanted {
                        assert!(buffer == &sample.data[at..at + len], "{engine:?} at {at}");
                    }
                    at += len;
                }
            }
        }
    }
}

#[test]
fn a_file_that_ends_inside_a_range_is_corrupt_with_its_size() {
    let sample = sample(100_000);
    let fd = sample.file.fd().unwrap();
    for engine in engines() {
        let mut buffers = vec![vec![0; 1000]; 50];
        let mut jobs: Vec<Job<'_>> = buffers
            .iter_mut()
            .enumerate()
            .map(|(n, buffer)| Job {
                fd,
                path: "data",
                offset: if n == 30 { 99_500 } else { n as u64 * 1000 },
                parts: vec![Part::Into(buffer)],
            })
            .collect();
        let error = engine.read(&mut jobs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{engine:?}");
        assert_eq!(error.get("size"), Some("100000"), "{engine:?}");
        assert_eq!(error.get("offset"), Some("99500"), "{engine:?}");
        assert!(
            error.message().contains("500 of 1000"),
            "{engine:?}: {error}"
        );
        // The engine is as good as before.
        jobs.truncate(20);
        engine.read(&mut jobs).unwrap();
        assert!(buffers[19] == sample.data[19_000..20_000]);
    }
}

#[test]
fn a_descriptor_that_cannot_be_read_is_an_error_not_a_hang() {
    let dir = tempfile::tempdir().unwrap();
    let folder = std::fs::File::open(dir.path()).unwrap();
    let fd = std::os::fd::AsFd::as_fd(&folder);
    for engine in engines() {
        let mut buffers = [[0; 10]; 3];
        let mut jobs: Vec<Job<'_>> = buffers
            .iter_mut()
            .map(|buffer| Job {
                fd,
                path: "folder",
                offset: 0,
                parts: vec![Part::Into(buffer)],
            })
            .collect();
        let error = engine.read(&mut jobs).unwrap_err();
        assert_eq!(error.get("path"), Some("folder"), "{error:?}");
    }
}

#[test]
fn many_threads_share_an_engine() {
    let sample = sample(1_000_000);
    for engine in engines() {
        std::thread::scope(|scope| {
            for thread in 0..12 {
                let (engine, sample) = (&engine, &sample);
                scope.spawn(move || {
                    let mut rng = Seed(thread).stream("threads");
                    for _ in 0..20 {
                        let offsets: Vec<usize> = (0..40).map(|_| rng.index(990_000)).collect();
                        let mut buffers = vec![[0u8; 1000]; 40];
                        let mut jobs: Vec<Job<'_>> = offsets
                            .iter()
                            .zip(&mut buffers)
                            .map(|(offset, buffer)| Job {
                                fd: sample.file.fd().unwrap(),
                                path: "data",
                                offset: *offset as u64,
                                parts: vec![Part::Into(buffer)],
                            })
                            .collect();
                        engine.read(&mut jobs).unwrap();
                        for (offset, buffer) in offsets.iter().zip(&buffers) {
                            assert!(buffer[..] == sample.data[*offset..offset + 1000]);
                        }
                    }
                });
            }
        });
    }
}

fn runtimes() -> Vec<Runtime> {
    [EngineChoice::Pread, EngineChoice::Auto]
        .into_iter()
        .map(|engine| {
            let options = Options {
                engine,
                io_depth: 8,
                ..Options::default()
            };
            Runtime::new(options).unwrap()
        })
        .collect()
}

#[test]
fn a_batch_mixes_files_orders_overlaps_and_duplicates() {
    let sample = sample(2_000_000);
    let second = sample.device.open("second", Open::Create).unwrap();
    second.write_at(&sample.data[500_000..], 0).unwrap();
    let memory = MemoryDevice::new("memory://")
        .open("data", Open::Create)
        .unwrap();
    memory.write_at(&sample.data, 0).unwrap();
    let wrapped = FaultDevice::wrap(Arc::clone(&sample.device), FaultPlan::new());
    let wrapped = wrapped.open("data", Open::Read).unwrap();
    let files: [(&dyn File, usize); 4] = [
        (&*sample.file, 0),
        (&*second, 500_000),
        (&*memory, 0),
        (&*wrapped, 0),
    ];
    for runtime in runtimes() {
        for cold in [false, true] {
            let mut rng = Seed(9).stream("mixed");
            let mut plans: Vec<(usize, usize, usize)> = (0..300)
                .map(|_| (rng.index(4), rng.index(1_000_000), rng.index(5000)))
                .collect();
            plans.extend((0..50).map(|n| (0, 100_000 + n * 100, 100)));
            plans.extend([
                (0, 7, 0),
                (1, 1_400_000, 100_000),
                (0, 100_000, 100),
                (0, 100_000, 100),
            ]);
            if cold {
                forget(&*sample.file);
                forget(&*second);
            }
            let mut buffers: Vec<Vec<u8>> = plans.iter().map(|(_, _, len)| vec![0; *len]).collect();
            let mut reads: Vec<Read<'_>> = plans
                .iter()
                .zip(&mut buffers)
                .map(|((file, offset, _), into)| Read {
                    file: files[*file].0,
                    offset: *offset as u64,
                    into,
                })
                .collect();
            runtime.io().read_many(&mut reads).unwrap();
            for ((file, offset, len), buffer) in plans.iter().zip(&buffers) {
                let at = files[*file].1 + offset;
                assert!(
                    buffer == &sample.data[at..at + len],
                    "file {file} at {offset}, {len} bytes"
                );
            }
        }
        let text = runtime.metrics().text();
        assert!(
            text.contains("staddle_io_read_bytes_total{device=\"local\"}"),
            "{text}"
        );
    }
}

#[test]
fn a_batch_past_the_end_is_corrupt_whatever_the_file() {
    let sample = sample(10_000);
    let memory = MemoryDevice::new("memory://")
        .open("data", Open::Create)
        .unwrap();
    memory.write_at(&sample.data, 0).unwrap();
    for runtime in runtimes() {
        for file in [&*sample.file, &*memory] {
            for beyond in [9_991, 10_000, 1 << 40] {
                let (mut a, mut b) = ([0; 10], [0; 10]);
                let mut reads = [
                    Read {
                        file,
                        offset: 0,
                        into: &mut a,
                    },
                    Read {
                        file,
                        offset: beyond,
                        into: &mut b,
                    },
                ];
                let error = runtime.io().read_many(&mut reads[1..]).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                let error = runtime.io().read_many(&mut reads).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt);
            }
        }
        runtime.io().read_many(&mut []).unwrap();
    }
}

#[test]
fn residency_tells_cached_from_cold() {
    let sample = sample(1 << 20);
    let runtime = Runtime::new(Options::default()).unwrap();
    let io = runtime.io();
    let memory = MemoryDevice::new("memory://")
        .open("m", Open::Create)
        .unwrap();
    assert_eq!(
        io.residency(&*memory, 0, 10),
        None,
        "no page cache, no answer"
    );
    let Some(warm) = io.residency(&*sample.file, 0, 1 << 20) else {
        eprintln!("SKIPPED residency: this kernel has no cachestat");
        return;
    };
    assert!(warm > 0.99, "just written: {warm}");
    assert_eq!(io.residency(&*sample.file, 5, 0), Some(1.0));
    forget(&*sample.file);
    let cold = io.residency(&*sample.file, 0, 1 << 20).unwrap();
    assert!(
        cold < warm || cold > 0.99,
        "forgotten, or a file system that keeps pages: {cold}"
    );
}

#[test]
fn an_engine_that_is_insisted_on_runs_or_says_why_not() {
    let options = Options {
        engine: EngineChoice::Uring,
        ..Options::default()
    };
    match Runtime::new(options) {
        Ok(runtime) => assert_eq!(runtime.io().engine_report().name, "uring"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
    }
}

#[test]
fn a_blocked_ring_falls_back_to_pread_and_says_so() {
    let sample = sample(100_000);
    let code = super::forks::in_child(|| {
        super::seccomp::refuse(libc::SYS_io_uring_setup, libc::EPERM);
        let runtime = Runtime::new(Options::default()).unwrap();
        let mut buffers = vec![[0; 100]; 50];
        forget(&*sample.file);
        let mut reads: Vec<Read<'_>> = buffers
            .iter_mut()
            .enumerate()
            .map(|(n, into)| Read {
                file: &*sample.file,
                offset: n as u64 * 1000,
                into,
            })
            .collect();
        runtime.io().read_many(&mut reads).unwrap();
        let good = (0..50).all(|n| buffers[n][..] == sample.data[n * 1000..n * 1000 + 100]);
        let report = runtime.io().engine_report();
        let insisted = Options {
            engine: EngineChoice::Uring,
            ..Options::default()
        };
        let refused = Runtime::new(insisted).unwrap_err();
        i32::from(!good || report.name != "pread" || !report.why.contains("io_uring"))
            | i32::from(refused.kind() != ErrorKind::Unsupported) << 1
    });
    assert_eq!(code, 0);
}

#[test]
fn a_child_makes_its_own_ring() {
    let sample = sample(200_000);
    let runtime = Runtime::new(Options::default()).unwrap();
    let read = || {
        forget(&*sample.file);
        let mut buffers = vec![[0; 500]; 40];
        let mut reads: Vec<Read<'_>> = buffers
            .iter_mut()
            .enumerate()
            .map(|(n, into)| Read {
                file: &*sample.file,
                offset: n as u64 * 4999,
                into,
            })
            .collect();
        runtime.io().read_many(&mut reads).unwrap();
        (0..40).all(|n| buffers[n][..] == sample.data[n * 4999..n * 4999 + 500])
    };
    assert!(read());
    for _ in 0..5 {
        assert_eq!(super::forks::in_child(|| i32::from(!read() || !read())), 0);
        assert!(read());
    }
}

#[test]
fn kernels_without_the_newer_calls_read_the_same_bytes() {
    let sample = sample(100_000);
    for call in [libc::SYS_preadv2, 451] {
        let code = super::forks::in_child(|| {
            super::seccomp::refuse(call, libc::ENOSYS);
            let runtime = Runtime::new(Options::default()).unwrap();
            let mut buffers = vec![[0; 100]; 30];
            let mut reads: Vec<Read<'_>> = buffers
                .iter_mut()
                .enumerate()
                .map(|(n, into)| Read {
                    file: &*sample.file,
                    offset: n as u64 * 3000,
                    into,
                })
                .collect();
            runtime.io().read_many(&mut reads).unwrap();
            let good = (0..30).all(|n| buffers[n][..] == sample.data[n * 3000..n * 3000 + 100]);
            let asked = runtime.io().residency(&*sample.file, 0, 1000);
            i32::from(!good) | i32::from(call == 451 && asked.is_some()) << 1
        });
        assert_eq!(code, 0, "call {call}");
    }
}
