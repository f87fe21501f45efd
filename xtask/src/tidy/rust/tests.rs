//! Each rule about Rust files refuses a file that breaks it and passes one that does not.
use super::*;

const WITH_UNSAFE: &str = "runtime/staddle-runtime/";

fn check(path: &str, text: &str) -> Vec<String> {
    complaints(
        &Source {
            path: path.into(),
            text: text.into(),
        },
        &[WITH_UNSAFE.to_owned()],
    )
}

#[test]
fn a_file_begins_with_a_line_for_newcomers() {
    assert!(check("stores/a/src/b.rs", "use x;\n")[0].contains("`//!`"));
    assert!(check("stores/a/src/b.rs", "//! What b is.\nuse x;\n").is_empty());
}

#[test]
fn unfinished_work_is_refused_in_code_and_ignored_in_prose() {
    let unfinished = format!("//! B.\nfn f() {{ {}!() }}\n", "todo");
    assert!(check("stores/a/src/b.rs", &unfinished)[0].contains("unfinished"));
    assert!(
        check(
            "stores/a/src/b.rs",
            "//! B.\n// todo!() is refused\nconst A: &str = \"todo!\";\n"
        )
        .is_empty()
    );
    assert!(
        check("stores/a/tests/it/b.rs", "//! B.\n#[ignore]\nfn f() {}\n")[0].contains("ignored")
    );
}

#[test]
fn unsafe_stays_in_the_crates_that_may_hold_it() {
    let text = "//! B.\n// SAFETY: checked above.\nlet a = unsafe { b() };\n";
    assert!(check("stores/a/src/b.rs", text)[0].contains("only"));
    assert!(check("runtime/staddle-runtime/src/b.rs", text).is_empty());
}

#[test]
fn unsafe_needs_its_argument_nearby() {
    let path = "runtime/staddle-runtime/src/b.rs";
    assert!(check(path, "//! B.\nlet a = unsafe { b() };\n")[0].contains("SAFETY"));
    let far = "//! B.\n// SAFETY: too far.\nlet a = 1;\nlet b = 2;\nlet c = 3;\nlet d = unsafe { e() };\n";
    assert_eq!(check(path, far).len(), 1);
    let long = "//! B.\n// SAFETY: a long\n// argument\n// of\n// five\n// lines.\nunsafe impl Send for X {}\n";
    assert!(check(path, long).is_empty());
    assert!(
        check(
            path,
            "//! B.\n/// # Safety\n/// The caller promises.\nunsafe fn f() {}\n"
        )
        .is_empty()
    );
    assert!(check(path, "//! B.\ntype F = unsafe extern \"C\" fn(u32);\n").is_empty());
}

#[test]
fn a_crate_without_unsafe_says_so() {
    assert!(check("stores/a/src/lib.rs", "//! A.\n")[0].contains("forbid"));
    assert!(check("stores/a/src/lib.rs", "//! A.\n#![forbid(unsafe_code)]\n").is_empty());
    assert!(check("runtime/staddle-runtime/src/lib.rs", "//! A.\n").is_empty());
}

#[test]
fn data_files_are_opened_in_one_place() {
    let text = "//! B.\nlet f = std::fs::File::open(path);\n";
    assert!(check("stores/a/src/b.rs", text)[0].contains("opens data files"));
    assert!(check("runtime/staddle-runtime/src/memory/b.rs", text)[0].contains("opens data files"));
    for allowed in [
        "runtime/staddle-runtime/src/io/device/local.rs",
        "stores/a/src/b/tests.rs",
        "stores/a/tests/it/main.rs",
        "testing/fuzz/src/a.rs",
        "surface/staddle/src/import/files.rs",
    ] {
        assert!(check(allowed, text).is_empty(), "{allowed}");
    }
}

#[test]
fn every_exception_gives_its_reason() {
    assert!(
        OPENING_ALLOWED
            .iter()
            .all(|(path, reason)| !path.is_empty() && reason.len() > 10)
    );
}
