//! Long files, left-over work and machine paths are refused.
use super::*;

fn check(path: &str, text: &str) -> Vec<String> {
    complaints(&Source {
        path: path.into(),
        text: text.into(),
    })
}

#[test]
fn a_file_has_at_most_nine_hundred_lines() {
    assert!(check("stores/a/src/b.rs", &"x\n".repeat(900)).is_empty());
    assert!(check("stores/a/src/b.rs", &"x\n".repeat(901))[0].contains("longer"));
    assert!(check("docs/long.md", &"x\n".repeat(2000)).is_empty());
}

#[test]
fn left_over_work_is_refused() {
    for word in LEFT_OVER {
        assert!(
            check("stores/a/src/b.rs", &format!("// {word} later\n"))[0].contains("issue"),
            "{word}"
        );
    }
}

#[test]
fn paths_of_one_machine_are_refused() {
    for line in [
        "see /home/ann/src",
        "`/work/staddle`",
        "\"/root/.cargo\"",
        "/Users/bob",
    ] {
        assert_eq!(check("docs/a.md", line).len(), 1, "{line}");
    }
    for line in [
        "~/work/a",
        "the /work/ folder",
        "docs/home/page",
        "$HOME/root/x",
        "https://a.b/work/c",
    ] {
        assert!(check("docs/a.md", line).is_empty(), "{line}");
    }
}

#[test]
fn a_committed_conflict_is_refused() {
    assert_eq!(
        check("docs/a.md", &format!("{} HEAD\n", "<".repeat(7))).len(),
        1
    );
}
