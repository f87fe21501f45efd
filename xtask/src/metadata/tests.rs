//! Cargo's answer is read into the graph that the rules are checked on.
use super::*;

fn answer() -> Value {
    serde_json::json!({
        "workspace_root": "/w",
        "resolve": {"nodes": [{"id": "a"}, {"id": "b"}]},
        "packages": [
            {"id": "a", "name": "a", "version": "0.1.0", "source": null, "license": "MIT", "manifest_path": "/w/stores/a/Cargo.toml",
             "dependencies": [{"name": "b", "kind": null}, {"name": "c", "kind": "dev"}],
             "targets": [{"kind": ["bin"], "name": "tool", "doctest": false}, {"kind": ["lib"], "name": "a", "doctest": true}]},
            {"id": "b", "name": "b", "version": "1.2.3", "source": "registry", "license": null, "manifest_path": "/r/b/Cargo.toml",
             "dependencies": [], "targets": []},
            {"id": "unused", "name": "unused", "version": "9.0.0", "source": "registry", "license": null,
             "manifest_path": "/r/u/Cargo.toml", "dependencies": [], "targets": []},
        ]
    })
}

#[test]
fn members_sources_kinds_and_programs_are_told_apart() {
    let graph = Graph::parse(&answer()).unwrap();
    assert_eq!(
        graph.packages.len(),
        2,
        "a package that no target uses is left out"
    );
    let a = graph.members().next().unwrap();
    assert_eq!(graph.place_of(a), "stores/a");
    assert!(a.doctests);
    assert_eq!(a.dependencies[0].kind, Kind::Normal);
    assert_eq!(a.dependencies[1].kind, Kind::Dev);
}

#[test]
fn a_missing_program_is_named_with_what_there_is() {
    let graph = Graph::parse(&answer()).unwrap();
    assert!(graph.need_program("a", "tool").is_ok());
    assert!(
        graph
            .need_program("a", "other")
            .unwrap_err()
            .what
            .contains("tool")
    );
    assert!(graph.need_program("z", "tool").is_err());
}
