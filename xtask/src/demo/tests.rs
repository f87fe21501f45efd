//! The default input is used exactly when the caller names none.
use super::*;

#[test]
fn an_input_of_the_callers_replaces_the_default() {
    let args = |list: &[&str]| list.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    assert!(names_input(&args(&["--json", "--input", "photos"])));
    assert!(names_input(&args(&["--input=photos"])));
    assert!(names_input(&args(&["--help"])));
    assert!(!names_input(&args(&["--json"])));
}
