//! Data never becomes code in the package; tests and tools may pickle.
use super::*;

const PACKAGE: &str = "surface/staddle-python/python/staddle/a.py";

fn check(path: &str, text: &str) -> Vec<String> {
    complaints(&Source {
        path: path.into(),
        text: text.into(),
    })
}

#[test]
fn a_file_begins_with_a_docstring() {
    assert!(check(PACKAGE, "import os\n")[0].contains("docstring"));
    assert!(check(PACKAGE, "\"\"\"What a is.\"\"\"\nimport os\n").is_empty());
    assert!(
        check(
            "testing/x/run.py",
            "#!/usr/bin/env python3\n\"\"\"Runs.\"\"\"\n"
        )
        .is_empty()
    );
    assert!(check(PACKAGE, "").is_empty(), "an empty marker file");
}

#[test]
fn the_package_never_turns_data_into_code() {
    for bad in [
        "import pickle",
        "from pickle import loads",
        "import os, marshal",
        "x = eval(y)",
        "exec(code)",
        "torch.load(f)",
    ] {
        assert_eq!(
            check(PACKAGE, &format!("\"\"\"A.\"\"\"\n{bad}\n")).len(),
            1,
            "{bad}"
        );
    }
    for good in [
        "# pickle is refused",
        "x = 'eval(1)'",
        "model.eval()",
        "def __reduce__(self): ...",
        "evaluate(x)",
    ] {
        assert!(
            check(PACKAGE, &format!("\"\"\"A.\"\"\"\n{good}\n")).is_empty(),
            "{good}"
        );
    }
    assert!(
        check(
            "surface/staddle-python/tests/test_a.py",
            "\"\"\"A.\"\"\"\nimport pickle\n"
        )
        .is_empty()
    );
}
