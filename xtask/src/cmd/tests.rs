//! Commands report how they ended, and colours do not reach the parsers.
use super::*;

#[test]
fn colours_are_stripped() {
    assert_eq!(
        strip_ansi("\u{1b}[1;32m  PASS\u{1b}[0m 3 tests"),
        "  PASS 3 tests"
    );
    assert_eq!(strip_ansi("plain"), "plain");
}

#[test]
fn a_quiet_command_shows_its_output_only_when_it_fails() {
    assert!(
        Cmd::new("sh")
            .args(["-c", "echo fine"])
            .quietly("testing")
            .is_ok()
    );
    let failure = Cmd::new("sh")
        .args(["-c", "echo the reason >&2; exit 3"])
        .quietly("testing")
        .unwrap_err();
    assert!(failure.what.contains("the reason"), "{failure}");
}

#[test]
fn listening_returns_both_streams_and_the_code() {
    let heard = Cmd::new("sh")
        .args(["-c", "echo out; echo err >&2; exit 7"])
        .listen()
        .unwrap();
    assert!(heard.text.contains("out\n") && heard.text.contains("err\n"));
    assert_eq!((heard.success, heard.code), (false, Some(7)));
}

#[test]
fn a_missing_program_is_named() {
    let failure = Cmd::new("/nonexistent/tool")
        .arg("--flag")
        .run()
        .unwrap_err();
    assert!(failure.what.contains("tool --flag"), "{failure}");
}
