//! Wrong words end with exit code 2 and a way on; the help names every command.
use super::*;

#[test]
fn an_unknown_command_is_a_usage_error_with_a_guess() {
    let failure = dispatch(&["tests".to_owned()]).unwrap_err();
    assert_eq!(failure.code, 2);
    assert!(failure.what.contains("did you mean `test`"), "{failure}");
    assert!(
        !dispatch(&["zzz".to_owned()])
            .unwrap_err()
            .what
            .contains("did you mean")
    );
}

#[test]
fn a_command_without_arguments_refuses_them() {
    let failure = dispatch(&["check".to_owned(), "--fast".to_owned()]).unwrap_err();
    assert_eq!(failure.code, 2);
    assert!(failure.what.contains("--fast"));
}

#[test]
fn the_help_names_every_command() {
    for command in [
        "demo", "test", "check", "fmt", "tidy", "bench", "fuzz", "crash", "services", "audit",
    ] {
        assert!(HELP.contains(&format!("cargo x {command}")), "{command}");
    }
}
