//! A forked child works with what it inherited and builds anew what it must.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use staddle_base::ErrorKind;
use staddle_runtime::io::device::{Device, LocalDevice, LockKind, MemoryDevice, Open};
use staddle_runtime::{Options, Runtime};

/// Runs `child` in a forked process and returns its exit code; 99 is a panic, an alarm ends it after 15 s.
pub(crate) fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `child` and leaves by `_exit` without unwinding into the test harness.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: plain system calls; `_exit` ends this process at once.
        unsafe {
            libc::alarm(15);
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
            libc::_exit(code)
        }
    }
    assert!(pid > 0);
    let mut status = 0;
    // SAFETY: `pid` is our child and `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(
        libc::WIFEXITED(status),
        "the child hung or was killed: {status}"
    );
    libc::WEXITSTATUS(status)
}

fn options() -> Options {
    Options {
        memory: Some(64 << 20),
        threads: 2,
        ..Options::default()
    }
}

#[test]
fn a_child_computes_reads_and_takes_buffers() {
    let runtime = Runtime::new(options()).unwrap();
    let work = || -> Vec<u64> {
        let items: Vec<u64> = (0..100).collect();
        runtime.workers().map("square", items, |n| n * n).unwrap()
    };
    let expected = work();
    let client = runtime.memory().root().child("client", None);
    let held = runtime.memory().pool().take(&client, 100_000).unwrap();
    let large = runtime.memory().pool().take(&client, 3 << 20).unwrap();
    let (send, receive) = crossbeam_channel::bounded(1);
    runtime
        .workers()
        .spawn("hello", move || send.send(1).unwrap())
        .unwrap();
    assert_eq!(receive.recv(), Ok(1));

    let code = in_child(|| {
        if work() != expected {
            return 1;
        }
        // Buffers and clients of the parent are dropped and used without touching the parent's free lists.
        drop((held, large));
        let pool = runtime.memory().pool();
        let Ok(buffer) = pool.take(&client, 5000) else {
            return 2;
        };
        let own = runtime.memory().root().child("own", None);
        if pool.take(&own, 5000).is_err() || buffer.iter().any(|b| *b != 0) {
            return 3;
        }
        let stats = runtime.stats();
        if stats.pid == std::os::unix::process::parent_id() || stats.memory.pool.taken != 2 {
            return 4;
        }
        let (send, receive) = crossbeam_channel::bounded(1);
        let spawned = runtime
            .workers()
            .spawn("hello", move || send.send(1).unwrap());
        i32::from(spawned.is_err() || receive.recv() != Ok(1)) * 5
    });
    assert_eq!(code, 0);
    assert_eq!(work(), expected);
}

#[test]
fn children_forked_from_a_busy_parent_do_not_hang() {
    let runtime = Runtime::new(options()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let client = runtime.memory().root().child("busy", None);
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    drop(runtime.memory().pool().take(&client, 20_000).unwrap());
                    drop(runtime.memory().root().child("short-lived", None));
                }
            });
        }
        let client = runtime.memory().root().child("forked", None);
        for _ in 0..30 {
            let held = runtime.memory().pool().take(&client, 20_000).unwrap();
            let code = in_child(|| {
                drop(held);
                let child = client.child("grandchild", None);
                let taken = runtime.memory().pool().take(&child, 20_000);
                let grown = client.try_grow(10);
                i32::from(taken.is_err() || grown.is_err())
            });
            assert_eq!(code, 0);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn the_global_runtime_works_in_a_child() {
    let runtime = Runtime::global();
    let error = Runtime::configure_global(options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    drop(
        runtime
            .memory()
            .pool()
            .take(runtime.memory().root(), 1)
            .unwrap(),
    );
    let code = in_child(|| {
        let runtime = Runtime::global();
        let root = runtime.memory().root();
        i32::from(root.used() != 0 || runtime.memory().pool().take(root, 1).is_err())
    });
    assert_eq!(code, 0);
}

#[test]
fn a_lock_excludes_other_processes_until_its_holder_dies() {
    let dir = tempfile::tempdir().unwrap();
    let device = LocalDevice::new(dir.path()).unwrap();
    let file = device.open("lock", Open::Create).unwrap();
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    // SAFETY: the child leaves by signal or `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let file = device.open("lock", Open::Write).unwrap();
        let got = file.try_lock(0, 1, LockKind::Exclusive).unwrap();
        theirs.write_all(&[u8::from(got)]).unwrap();
        let _ = theirs.read(&mut [0]);
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) }
    }
    drop(theirs);
    let mut got = [0];
    ours.read_exact(&mut got).unwrap();
    assert_eq!(got, [1]);
    assert!(!file.try_lock(0, 1, LockKind::Exclusive).unwrap());
    assert!(file.is_locked(0, 1, LockKind::Shared).unwrap());
    // SAFETY: `pid` is our child.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    assert!(file.try_lock(0, 1, LockKind::Exclusive).unwrap());
}

#[test]
fn a_child_neither_takes_nor_frees_its_parents_lock() {
    let dir = tempfile::tempdir().unwrap();
    for device in [
        Box::new(LocalDevice::new(dir.path()).unwrap()) as Box<dyn Device>,
        Box::new(MemoryDevice::new("memory://fork-locks")),
    ] {
        let file = device.open("lock", Open::Create).unwrap();
        assert!(file.try_lock(0, 1, LockKind::Exclusive).unwrap());
        let code = in_child(|| {
            let refused = file.try_lock(0, 1, LockKind::Exclusive).unwrap_err();
            let quiet = file.unlock(0, 1).is_ok();
            let second = device.open("lock", Open::Write).unwrap();
            let visible = second.is_locked(0, 1, LockKind::Shared).unwrap();
            i32::from(refused.kind() != ErrorKind::Closed || !quiet || !visible)
        });
        assert_eq!(code, 0, "{device:?}");
        let other = device.open("lock", Open::Write).unwrap();
        assert!(
            other.is_locked(0, 1, LockKind::Shared).unwrap(),
            "{device:?}"
        );
    }
}

#[test]
fn a_child_reads_maps_and_memory_files_of_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let local = LocalDevice::new(dir.path()).unwrap();
    let file = local.open("f", Open::Create).unwrap();
    file.write_at(b"mapped", 0).unwrap();
    let map = file.map(1 << 20).unwrap();
    let memory = MemoryDevice::new("memory://fork-reads");
    let inherited = memory.open("f", Open::Create).unwrap();
    inherited.write_at(b"inherited", 0).unwrap();
    let code = in_child(|| {
        let mut bytes = [0; 9];
        let again = MemoryDevice::new("memory://fork-reads")
            .open("f", Open::Read)
            .unwrap();
        again.read_exact_at(&mut bytes, 0).unwrap();
        i32::from(map.bytes(0, 6) != Some(b"mapped") || &bytes != b"inherited")
    });
    assert_eq!(code, 0);
}
