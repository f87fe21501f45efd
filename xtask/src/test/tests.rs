//! Arguments of `cargo x test` narrow the run, and unknown ones are refused.
use super::*;

fn plan(args: &[&str]) -> Result<Plan> {
    Plan::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
}

#[test]
fn nothing_means_everything() {
    assert!(plan(&[]).unwrap().full());
    assert!(plan(&["--rust", "--python"]).unwrap().full());
}

#[test]
fn a_side_or_a_name_narrows_the_run() {
    let rust = plan(&["--rust"]).unwrap();
    assert!(rust.rust && !rust.python && !rust.full());
    let named = plan(&["gather"]).unwrap();
    assert!(named.rust && named.python && !named.full());
}

#[test]
fn an_unknown_flag_is_a_usage_error() {
    assert_eq!(plan(&["--fast"]).unwrap_err().code, 2);
}

#[test]
fn what_is_missing_is_a_skip_at_home_and_a_failure_in_ci() {
    let (mut home, mut ci) = (Tally::default(), Tally::default());
    missing(&mut home, false, "torch".into());
    missing(&mut ci, true, "torch".into());
    assert_eq!((home.failed, home.skipped()), (0, 1));
    assert_eq!((ci.failed, ci.skipped()), (1, 0));
}
