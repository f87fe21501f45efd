//! Choosing an engine, and saying why.

use std::io;

use super::*;

fn chosen(choice: EngineChoice, errno: i32) -> EngineReport {
    let pread = Arc::new(PreadEngine::new(2));
    let refuse = || Err(io::Error::from_raw_os_error(errno));
    let (engine, report) = choose(choice, &pread, refuse);
    assert_eq!(engine.name(), report.name);
    report
}

#[test]
fn a_refused_ring_means_pread_and_a_reason() {
    for (errno, word) in [
        (libc::EPERM, "io_uring is "),
        (libc::ENOSYS, "kernel"),
        (libc::ENOMEM, "locked memory"),
        (libc::EMFILE, "open files"),
        (libc::EIO, "set-up failed"),
    ] {
        let report = chosen(EngineChoice::Auto, errno);
        assert_eq!(report.name, "pread");
        let why = report
            .why
            .replace("the system disables io_uring", "io_uring is disabled");
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn the_setting_pread_never_asks_the_kernel() {
    let pread = Arc::new(PreadEngine::new(2));
    let (engine, report) = choose(EngineChoice::Pread, &pread, || panic!("asked"));
    assert_eq!((engine.name(), report.name), ("pread", "pread"));
}
