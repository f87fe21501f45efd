//! Times and failures read well.
use super::*;

#[test]
fn durations_read_as_people_say_them() {
    assert_eq!(seconds(Duration::from_millis(420)), "0.4 s");
    assert_eq!(seconds(Duration::from_secs(248)), "4 min 08 s");
}

#[test]
fn a_failure_says_what_and_how_to_fix_it() {
    let failure = Failure::new("no venv module").hint("apt install python3-venv");
    assert_eq!(
        failure.to_string(),
        "no venv module\n  to fix it: apt install python3-venv"
    );
    assert_eq!(failure.code, 1);
    assert_eq!(Failure::usage("what?").code, 2);
}
