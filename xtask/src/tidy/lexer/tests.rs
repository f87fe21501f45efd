//! Code, comments and strings are told apart, in Rust and in Python.
use super::*;

fn code(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.code.as_str()).collect()
}

#[test]
fn rust_comments_and_strings_are_not_code() {
    let lines = rust(
        "let a = \"// unsafe \\\" still\"; // unsafe here\n/* one /* two */ unsafe */ let b = 1;",
    );
    assert_eq!(code(&lines), ["let a = \"\"; ", " let b = 1;"]);
    assert_eq!(lines[0].comment, "// unsafe here");
    assert!(lines[1].comment.contains("unsafe"));
}

#[test]
fn rust_raw_strings_run_over_lines() {
    let lines = rust("let a = r#\"todo!()\n\" unsafe\n\"#; let b = r; let xr = 2;");
    assert_eq!(
        code(&lines),
        ["let a = \"", "", "\"; let b = r; let xr = 2;"]
    );
}

#[test]
fn rust_characters_are_not_lifetimes() {
    let lines =
        rust("let q = '\"'; let e = '\\''; fn f<'a>(x: &'a str) {} let u = '\\u{7f}'; // end");
    assert_eq!(
        lines[0].code,
        "let q = ' '; let e = ' '; fn f<'a>(x: &'a str) {} let u = ' '; "
    );
    assert_eq!(lines[0].comment, "// end");
}

#[test]
fn python_docstrings_and_comments_are_not_code() {
    let lines = python("\"\"\"eval( in a docstring\nstill\"\"\"\nx = 'a#b'  # exec(\ny = eval(z)");
    assert_eq!(code(&lines), ["\"", "\"", "x = \"\"  ", "y = eval(z)"]);
    assert_eq!(lines[2].comment, "# exec(");
}

#[test]
fn words_stand_alone() {
    assert_eq!(words("unsafe_code unsafe { unsafely", "unsafe").count(), 1);
}
