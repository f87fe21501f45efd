//! Devices keep their promises, and a local one stays inside its folder.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use staddle_base::ErrorKind;
use staddle_base::metrics::Registry;
use staddle_runtime::io::device::{
    Device, Fault, FaultDevice, FaultPlan, File, FolderDevice, LocalDevice, MemoryDevice, Op, Open,
    Rule, StatsDevice, conformance, publish_file, read_file,
};

fn local() -> (tempfile::TempDir, Arc<dyn Device>) {
    let dir = tempfile::tempdir().unwrap();
    let device = LocalDevice::new(dir.path()).unwrap();
    (dir, Arc::new(device))
}

#[test]
fn every_device_conforms() {
    let (_dir, device) = local();
    let wrapped = FaultDevice::wrap(Arc::clone(&device), FaultPlan::new());
    let counted = StatsDevice::wrap(Arc::clone(&device), &Registry::default(), "local");
    let memory: Arc<dyn Device> = Arc::new(MemoryDevice::new("memory://"));
    let folder: Arc<dyn Device> = Arc::new(MemoryDevice::new("memory://conformance/deep/er"));
    device.create_dir("inner").unwrap();
    let inner: Arc<dyn Device> = Arc::new(FolderDevice::new(Arc::clone(&device), "inner").unwrap());
    conformance::check(&*inner).unwrap();
    device.remove_dir("inner").unwrap();
    for device in [device, wrapped, counted, memory, folder] {
        if let Err(error) = conformance::check(&*device) {
            panic!("{device:?}: {error:?}");
        }
    }
}

#[test]
fn a_root_may_be_any_bytes_and_need_not_exist() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join(OsStr::from_bytes(b"not \xff utf-8/deep"));
    let device = LocalDevice::new(&root).unwrap();
    assert!(device.stat("").unwrap().is_none());
    assert_eq!(
        device.open("f", Open::Create).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    conformance::check(&device).unwrap();
    assert!(root.is_dir());
}

#[test]
fn links_are_not_followed_and_only_regular_files_open() {
    let (dir, device) = local();
    check_links(&dir, &*device);
}

#[test]
fn a_kernel_without_openat2_is_as_strict() {
    let (dir, device) = local();
    for errno in [libc::ENOSYS, libc::EPERM] {
        let code = super::forks::in_child(|| {
            super::seccomp::refuse(libc::SYS_openat2, errno);
            let empty = dir.path().join(format!("empty{errno}"));
            conformance::check(&LocalDevice::new(&empty).unwrap()).unwrap();
            std::fs::remove_dir(empty).unwrap();
            0
        });
        assert_eq!(code, 0);
    }
    let code = super::forks::in_child(|| {
        super::seccomp::refuse(libc::SYS_openat2, libc::ENOSYS);
        check_links(&dir, &*device);
        0
    });
    assert_eq!(code, 0);
}

fn check_links(dir: &tempfile::TempDir, device: &dyn Device) {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "s").unwrap();
    std::fs::write(dir.path().join("inside"), "i").unwrap();
    symlink(outside.path().join("secret"), dir.path().join("link")).unwrap();
    symlink("inside", dir.path().join("near")).unwrap();
    symlink(outside.path(), dir.path().join("dir")).unwrap();
    let fifo = std::ffi::CString::new(dir.path().join("fifo").as_os_str().as_bytes()).unwrap();
    // SAFETY: a valid C string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();

    for path in ["link", "near", "dir/secret", "fifo", "socket"] {
        for how in [Open::Read, Open::Write] {
            let error = device.open(path, how).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{path}: {error:?}");
        }
    }
    for result in [
        device.create_dir("dir/new"),
        device.remove("dir/secret"),
        device.rename("inside", "dir/inside"),
        device.rename("dir/secret", "stolen"),
        device.copy("dir/secret", "stolen"),
        device.sync_dir("dir"),
        device.list("dir").map(drop),
        device.stat("dir/secret").map(drop),
        device.open("dir/new", Open::Create).map(drop),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Denied);
    }
    assert!(outside.path().join("secret").exists());
    // A link can be removed and replaced; what it pointed to stays.
    device.remove("link").unwrap();
    device.rename("inside", "near").unwrap();
    assert_eq!(read_file(device, "near", 1).unwrap(), b"i");
}

#[test]
fn a_relative_root_survives_a_change_of_folder() {
    // A process of its own, since the current folder belongs to all threads.
    let dir = tempfile::tempdir().unwrap();
    let code = super::forks::in_child(|| {
        std::env::set_current_dir(dir.path()).unwrap();
        let device = LocalDevice::new("set".as_ref()).unwrap();
        device.create_dir("").unwrap();
        std::env::set_current_dir("/").unwrap();
        publish_file(&device, "f", b"x").unwrap();
        i32::from(!dir.path().join("set/f").exists() || device.uri() != "set")
    });
    assert_eq!(code, 0);
}

#[test]
fn a_wrong_path_says_which() {
    let (_dir, device) = local();
    let error = device.open("no/such.file", Open::Read).unwrap_err();
    assert_eq!(
        error.get("path"),
        Some(&*format!("{}/no/such.file", device.uri()))
    );
    publish_file(&*device, "file", b"").unwrap();
    let error = device.open("file/below", Open::Read).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.hint_text().unwrap().contains("not a folder"),
        "{error}"
    );
}

#[test]
fn a_memory_name_means_the_same_files_everywhere() {
    let first = MemoryDevice::new("memory://shared-name");
    publish_file(&first, "f", b"x").unwrap();
    let second = MemoryDevice::new("memory://shared-name");
    assert_eq!(read_file(&second, "f", 1).unwrap(), b"x");
    assert!(MemoryDevice::new("memory://").stat("f").unwrap().is_none());
    assert!(
        MemoryDevice::new("memory://other")
            .stat("f")
            .unwrap()
            .is_none()
    );
}

#[test]
fn the_nth_call_of_a_kind_fails_as_told() {
    let (_dir, inner) = local();
    let plan = FaultPlan::new();
    let device = FaultDevice::wrap(inner, plan.clone());
    let file = device.open("f", Open::Create).unwrap();
    plan.fail_nth(Op::Write, 2, Fault::IO);
    plan.fail_nth(Op::Write, 3, Fault::Short);
    file.write_at(b"aaaa", 0).unwrap();
    assert_eq!(
        file.write_at(b"bbbb", 0).unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(
        file.write_at(b"cccc", 0).unwrap_err().kind(),
        ErrorKind::Exhausted
    );
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"ccaa", "a short write leaves half");
    plan.fail_nth(Op::Read, 1, Fault::Short);
    assert_eq!(
        file.read_exact_at(&mut bytes, 0).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    plan.add(Rule {
        op: None,
        path_contains: "g".into(),
        nth: 1,
        times: 1,
        fault: Fault::NO_SPACE,
    });
    file.sync().unwrap();
    assert_eq!(
        device.open("g", Open::Create).unwrap_err().kind(),
        ErrorKind::Exhausted
    );
    assert!(device.open("g", Open::Create).is_ok());
    assert_eq!(
        (plan.calls(Op::Write), plan.calls(Op::Create), plan.fired()),
        (3, 3, 4)
    );
}

#[test]
fn a_failed_sync_poisons_the_file() {
    let (_dir, inner) = local();
    let plan = FaultPlan::new();
    let device = FaultDevice::wrap(inner, plan.clone());
    let file = device.open("f", Open::Create).unwrap();
    plan.fail_nth(Op::Sync, 1, Fault::IO);
    for result in [
        file.sync(),
        file.sync(),
        file.write_at(b"x", 0),
        file.set_len(0),
        file.allocate(0, 1),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(file.read_at(&mut [0], 0).unwrap(), 0, "reading goes on");
    device.open("f", Open::Write).unwrap().sync().unwrap();
}

#[test]
fn publishing_is_all_or_nothing_at_every_failing_call() {
    for fault in [Fault::IO, Fault::NO_SPACE, Fault::Short] {
        let mut failures = 0;
        for nth in 1.. {
            let (_dir, inner) = local();
            publish_file(&*inner, "f", b"old contents").unwrap();
            let plan = FaultPlan::new();
            let device = FaultDevice::wrap(Arc::clone(&inner), plan.clone());
            plan.fail_nth_call(nth, fault);
            let result = publish_file(&*device, "f", b"new");
            if plan.fired() == 0 {
                result.unwrap();
                break;
            }
            failures += usize::from(result.is_err());
            let found = read_file(&*inner, "f", 100).unwrap();
            assert!(
                found == b"old contents" || found == b"new",
                "{fault:?} at call {nth}: {found:?}"
            );
            assert!(result.is_err() || found == b"new");
        }
        assert!(failures >= 4, "{fault:?}: {failures}");
    }
}

#[test]
fn a_stats_device_counts() {
    let (_dir, inner) = local();
    let registry = Registry::default();
    let device = StatsDevice::wrap(inner, &registry, "local");
    let file: Arc<dyn File> = device.open("f", Open::Create).unwrap();
    file.write_at(b"12345", 0).unwrap();
    file.sync().unwrap();
    file.read_at(&mut [0; 9], 1).unwrap();
    let counters = device.counters();
    assert_eq!(
        (
            counters.opens,
            counters.reads,
            counters.read_bytes,
            counters.writes,
            counters.written_bytes,
            counters.syncs
        ),
        (1, 1, 4, 1, 5, 1)
    );
    assert!(
        registry
            .text()
            .contains("staddle_io_bytes_total{device=\"local\",dir=\"read\"} 4\n")
    );
}
