//! A step runs once per set of inputs, and again when they change or when it failed.
use super::*;
use crate::step::Failure;

fn scratch(name: &str) -> Place {
    let root = std::env::temp_dir().join(format!("staddle-x-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(&root).unwrap();
    Place {
        target: root.clone(),
        x: root.join("x"),
        root,
    }
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
fn work_runs_once_per_fingerprint_and_again_after_a_failure() {
    let place = scratch("stamp");
    let mut print = Fingerprint::new();
    let mut runs = 0;
    let mut go = |print: &Fingerprint, fail: bool| {
        let _ = unless_fresh(&place, "s", print, "work", || {
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
    assert_eq!(runs, 3, "failed, made, fresh, remade");
    std::fs::remove_dir_all(&place.root).unwrap();
}

#[test]
fn a_changed_file_changes_the_tree_and_a_build_product_does_not() {
    let place = scratch("tree");
    let file = place.root.join("a.rs");
    std::fs::write(&file, "one").unwrap();
    let hash = || Fingerprint::new().add_tree(&place.root).unwrap().hex();
    let before = hash();
    std::fs::write(place.root.join("native.so"), "binary").unwrap();
    assert_eq!(before, hash());
    std::fs::write(&file, "two").unwrap();
    assert_ne!(before, hash());
    std::fs::remove_dir_all(&place.root).unwrap();
}
