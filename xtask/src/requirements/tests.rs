//! Parts of a hashed requirements file keep their hashes; a missing pin is an error.
use super::*;

const FILE: &str = "\
a==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:ab
    # via b
b==2.0 \\
    --hash=sha256:bb
";

#[test]
fn a_subset_keeps_all_hashes_and_drops_comments() {
    assert_eq!(
        subset(FILE, &["a"]).unwrap(),
        "a==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:ab\n"
    );
}

#[test]
fn a_missing_pin_is_named() {
    assert!(subset(FILE, &["a", "c"]).unwrap_err().what.contains("`c`"));
}

#[test]
fn the_real_file_pins_what_the_commands_ask_for() {
    let text = include_str!("../../../requirements-dev.txt");
    for names in [crate::python::RUN, crate::torch::TOOLS] {
        subset(text, names).unwrap();
    }
}
