//! The closing lines of each runner are understood, and a runner that dies without one is a failure.
use super::*;

#[test]
fn nextest_counts_failures_timeouts_and_what_did_not_run() {
    let text = "\
        PASS [   0.005s] (1/4) staddle-base wire::tests::a
        FAIL [   0.010s] (2/4) staddle-base wire::tests::b
     TIMEOUT [  60.010s] (3/4) staddle-base slow::c
────────────
     Summary [  60.100s] 4 tests run: 2 passed (1 slow), 1 failed, 1 timed out, 5 skipped
        FAIL [   0.010s] (2/4) staddle-base wire::tests::b
";
    let tally = nextest(text);
    assert_eq!((tally.passed, tally.failed, tally.skipped()), (2, 2, 5));
    assert_eq!(tally.failures.len(), 2, "{:?}", tally.failures);
    assert_eq!(
        nextest("     Summary [   0.1s] 1 test run: 1 passed, 0 skipped").passed,
        1
    );
}

#[test]
fn libtest_adds_up_several_binaries() {
    let text = "test a ... ok\ntest b ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s\n\
                test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.0s\n";
    let tally = libtest(text);
    assert_eq!((tally.passed, tally.failed, tally.skipped()), (4, 1, 3));
    assert_eq!(tally.failures, ["b"]);
}

#[test]
fn pytest_keeps_the_reasons_of_skips() {
    let text = "\
SKIPPED [2] tests/test_torch.py:3: torch is not installed
FAILED tests/test_a.py::test_b - assert 1 == 2
ERROR tests/test_c.py - ImportError
==== 1 failed, 7 passed, 2 skipped, 3 deselected, 1 xfailed, 1 error in 0.31s ====
";
    let tally = pytest(text);
    assert_eq!((tally.passed, tally.failed, tally.skipped()), (8, 2, 2));
    assert_eq!(tally.failures.len(), 2);
    assert!(tally.skips[0].reason.contains("torch is not installed"));
}

#[test]
fn a_runner_that_dies_before_counting_is_a_failure() {
    let heard = Listened {
        shown: "cargo nextest run".into(),
        text: String::new(),
        success: false,
        code: Some(101),
    };
    let tally = nextest(&heard.text).honest("Rust tests", &heard, &[]);
    assert_eq!(tally.failed, 1);
    let none = Listened {
        code: Some(5),
        ..heard
    };
    assert_eq!(pytest("").honest("Python tests", &none, &[5]).failed, 0);
}

#[test]
fn the_last_line_is_the_counts_alone() {
    let mut tally = Tally {
        passed: 3,
        ..Tally::default()
    };
    tally.fail("x: broke");
    tally.skip(2, "no torch");
    let closing = tally.closing();
    assert_eq!(
        closing.lines().last(),
        Some("3 passed, 1 failed, 2 skipped")
    );
    assert!(closing.contains("skipped 2: no torch") && closing.contains("failed: x: broke"));
}
