//! Errors read as a sentence and keep their kind.

use super::*;

#[test]
fn a_message_says_what_where_and_what_to_do() {
    let error = Error::out_of_range(100, 10).with("uri", "imgs.rec");
    assert_eq!(
        error.to_string(),
        "index 100 is out of range (index=100, length=10, uri=imgs.rec); valid indices are -10..=9"
    );
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    assert_eq!(error.get("uri"), Some("imgs.rec"));
}

#[test]
fn the_first_value_of_a_context_key_is_kept() {
    let error = Error::corrupt("bad")
        .with("uri", "inner")
        .with("uri", "outer");
    assert_eq!(error.get("uri"), Some("inner"));
}

#[test]
fn no_space_is_exhausted_and_names_the_path() {
    let error = Error::io(
        "write",
        "a/b",
        std::io::Error::from_raw_os_error(libc::ENOSPC),
    );
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(
        error
            .to_string()
            .starts_with("write: no space left on device (path=a/b)"),
        "{error}"
    );
}
