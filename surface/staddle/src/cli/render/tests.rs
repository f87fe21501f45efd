//! Tests of the renderers.

use serde_json::json;

use super::*;

#[test]
fn base64_matches_the_rfc() {
    let pairs = [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="),
    ];
    for (plain, coded) in pairs {
        assert_eq!(base64(plain.as_bytes()), coded);
    }
    assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
}

#[test]
fn a_preview_never_holds_a_control_character() {
    assert_eq!(preview(b"plain", 20), "plain");
    assert_eq!(preview(b"two\nlines", 20), "two\\nlines");
    assert_eq!(preview(&[0x1b, b'[', b'2', b'J'], 30), "1b 5b 32 4a");
    assert_eq!(preview(b"a long line of text", 8), "a long …");
    assert_eq!(preview(&[0xff; 100], 12), "ff ff ff ff …");
    assert_eq!(preview("äöü".repeat(40).as_bytes(), 5), "äöüä…");
}

#[test]
fn fields_are_aligned_and_lists_become_tables() {
    let document = json!({
        "kind": "records", "bytes": 1_500_000, "n": 12345, "utilization": 0.984,
        "chunks": [{"id": 0, "live_bytes": 1000}, {"id": 11, "live_bytes": 5}],
    });
    let shown = fields(&document);
    assert_eq!(
        shown,
        "bytes        1.50 MB\nkind         records\nn            12,345\nutilization  98.4 %\n\nchunks\n\
         id  live_bytes\n 0     1.00 kB\n11         5 B"
    );
}
