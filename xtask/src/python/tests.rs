//! Old interpreters are refused with the way out.
use super::*;

#[test]
fn versions_compare_as_numbers() {
    assert!(check_version("python3", "3.11.0").is_ok());
    assert!(check_version("python3", "3.14.2").is_ok());
    assert!(check_version("python3", "4.0.0").is_ok());
    let failure = check_version("python3", "3.9.18").unwrap_err();
    assert!(failure.what.contains("3.9.18") && failure.hint.unwrap().contains("PYTHON="));
    assert!(check_version("python3", "").is_err());
}
