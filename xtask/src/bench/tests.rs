//! The result file is where the caller asked for it.
use super::*;

#[test]
fn the_json_file_is_relative_to_the_caller() {
    let args = [
        "--quick".to_owned(),
        "--json".to_owned(),
        "out.json".to_owned(),
        "--case".to_owned(),
    ];
    let made = absolute(&args).unwrap();
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        made,
        [
            "--quick".to_owned(),
            "--json".to_owned(),
            here.join("out.json").display().to_string(),
            "--case".to_owned()
        ]
    );
    assert_eq!(
        absolute(&["--json=/tmp/a".to_owned()]).unwrap(),
        ["--json=/tmp/a"]
    );
}
