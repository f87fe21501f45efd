//! Settings parse, defaults agree with their description, and nonsense is refused with a hint.

use super::*;

#[test]
fn every_described_setting_exists_and_its_default_is_the_default() {
    let plain = Options::default();
    let mut options = Options::default();
    for spec in SPECS {
        options.set(spec.name, spec.default).unwrap();
        assert!(!spec.help.is_empty());
    }
    assert_eq!(
        (
            options.memory,
            options.engine,
            options.threads,
            options.io_threads,
            options.io_depth,
            options.remote_requests
        ),
        (
            plain.memory,
            plain.engine,
            plain.threads,
            plain.io_threads,
            plain.io_depth,
            plain.remote_requests
        )
    );
    options.check().unwrap();
}

#[test]
fn settings_are_set_by_their_long_and_short_names() {
    let mut options = Options::default();
    options.set("runtime.memory", "2GiB").unwrap();
    options.set("engine", "uring").unwrap();
    options.set("threads", " 3 ").unwrap();
    assert_eq!(
        (options.memory, options.engine, options.threads),
        (Some(2 << 30), EngineChoice::Uring, 3)
    );
    options.set("memory", "auto").unwrap();
    assert_eq!(options.memory, None);
}

#[test]
fn nonsense_is_refused_with_a_hint() {
    let mut options = Options::default();
    let error = options.set("memroy", "1GB").unwrap_err();
    assert!(
        error.to_string().contains("did you mean `runtime.memory`"),
        "{error}"
    );
    assert!(
        options
            .set("engine", "urnig")
            .unwrap_err()
            .to_string()
            .contains("did you mean `uring`")
    );
    assert!(options.set("threads", "many").is_err());
    assert!(options.set("threads", "-1").is_err());
    for wrong in [
        Options {
            memory: Some(MEMORY_MIN - 1),
            ..Options::default()
        },
        Options {
            io_threads: 0,
            ..Options::default()
        },
        Options {
            io_depth: 5000,
            ..Options::default()
        },
        Options {
            remote_requests: 0,
            ..Options::default()
        },
        Options {
            threads: 5000,
            ..Options::default()
        },
    ] {
        let error = wrong.check().unwrap_err();
        assert_eq!(error.kind(), staddle_base::ErrorKind::Invalid);
        assert!(error.hint_text().unwrap().starts_with("give "), "{error}");
    }
}

#[test]
fn two_runtimes_draw_different_randomness_unless_seeded() {
    assert_eq!(Options::default().with_seed(Seed(4)).seed, Seed(4));
}
