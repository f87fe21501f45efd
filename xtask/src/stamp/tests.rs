//! A step runs once per set of inputs, and again when they change or when it failed.
use super::*;
use crate::step::Failure;

fn scratch(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("staddle-x-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(&root).unwrap();
    root
}

#[test]
fn values_do_not_run_together() {
    let hash = |parts: &[&str]| {
        let mut print = Fingerprint::new();
        for part in parts {
            print.add(part);
        }
        print.hex()
    };
    assert_eq!(hash(&["ab", "c"]), hash(&["ab", "c"]));
    assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
}

#[test]
fn work_runs_once_per_fingerprint_and_again_after_a_failure_or_a_deletion() {
    let root = scratch("stamp");
    let folder = root.join("made");
    let mut print = Fingerprint::new();
    let mut runs = 0;
    let mut go = |print: &Fingerprint, fail: bool| {
        let _ = unless_fresh(&folder.join("stamp"), print, "work", || {
            runs += 1;
            if fail {
                Err(Failure::new("no"))
            } else {
                Ok(())
            }
        });
    };
    go(&print, true);
    go(&print, false);
    go(&print, false);
    print.add("change");
    go(&print, false);
    std::fs::remove_dir_all(root.join("made")).unwrap();
    go(&print, false);
    go(&print, false);
    assert_eq!(runs, 4, "failed, made, fresh, remade, remade, fresh");
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_changed_file_changes_the_tree_and_a_build_product_does_not() {
    let root = scratch("tree");
    let file = root.join("a.rs");
    std::fs::write(&file, "one").unwrap();
    let hash = || Fingerprint::new().add_tree(&root).unwrap().hex();
    let before = hash();
    std::fs::write(root.join("native.so"), "binary").unwrap();
    assert_eq!(before, hash());
    std::fs::write(&file, "two").unwrap();
    assert_ne!(before, hash());
    std::fs::remove_dir_all(&root).unwrap();
}
