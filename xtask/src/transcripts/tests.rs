//! Pages are cut into blocks, and wild cards match what they should and nothing else.
use super::*;

#[test]
fn a_page_becomes_python_and_transcripts() {
    let page = "# Title\n```python\nimport staddle as sd\n```\ntext\n```text\nnot run\n```\n\
                ```console\n$ staddle info a.rec\nrecords  3\n$ cargo x demo\n```\n";
    let found = blocks(page);
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[0],
        (2, Block::Python("import staddle as sd\n".into()))
    );
    let Block::Console(exchanges) = &found[1].1 else {
        panic!("a transcript")
    };
    assert_eq!(exchanges[0].command, "staddle info a.rec");
    assert_eq!(exchanges[0].expected, ["records  3"]);
    assert!(exchanges[1].expected.is_empty());
}

#[test]
fn dots_stand_for_lines_and_brackets_for_characters() {
    let page = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| (*line).to_owned())
            .collect::<Vec<_>>()
    };
    assert!(matches(&page(&["a", "...", "z"]), &["a", "b", "c", "z"]));
    assert!(matches(&page(&["a", "...", "z"]), &["a", "z"]));
    assert!(!matches(&page(&["a", "...", "z"]), &["a", "b"]));
    assert!(!matches(&page(&["a"]), &["a", "b"]));
    assert!(line_matches(
        "3 records, [..] MiB/s",
        "3 records, 512.3 MiB/s"
    ));
    assert!(line_matches("took [..]", "took 3 s"));
    assert!(line_matches("[..]", ""));
    assert!(!line_matches(
        "3 records, [..] MiB/s",
        "4 records, 512.3 MiB/s"
    ));
    assert!(!line_matches("a[..]b", "a-b-c"));
    assert!(!line_matches("exact", "exactly"));
}

#[test]
fn a_comment_may_prepare_what_the_page_is_about() {
    let page =
        "<!-- runs first:\npaths = []\n-->\n<!-- only a remark -->\n```python\nlen(paths)\n```\n";
    let python = |code: &str| Block::Python(code.to_owned());
    assert_eq!(
        blocks(page),
        [(1, python("paths = []\n")), (5, python("len(paths)\n"))]
    );
}
