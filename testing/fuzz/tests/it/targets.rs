//! Every target survives its seeds and a fixed run of mutations.

use staddle_base::Seed;
use staddle_fuzz::{TARGETS, fuzzer, guard};

fn survives(name: &str, runs: u64) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    for seed in (target.seeds)() {
        guard::run(target, &seed).unwrap();
    }
    match fuzzer::run(target, Seed(1), runs) {
        Ok(fuzzer) => assert!(
            fuzzer.answers() > 5,
            "{name} gave only {} different answers",
            fuzzer.answers()
        ),
        Err(failure) => {
            guard::report(name, &failure.input, &failure.what);
            panic!("{name}: {}", failure.what);
        }
    }
}

macro_rules! targets {
    ($($name:ident: $runs:expr),* $(,)?) => {
        $(#[test]
        fn $name() {
            survives(stringify!($name), $runs);
        })*

        #[test]
        fn every_target_is_in_this_list() {
            let listed = [$(stringify!($name)),*];
            let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(listed.as_slice(), known);
        }
    };
}

targets! {
    head: 40_000,
    manifest: 15_000,
    chunk: 40_000,
    log: 80_000,
    snapshot: 15_000,
    tar: 20_000,
    tfrecord: 60_000,
    megatron: 60_000,
}

/// A seed that the target refuses teaches the mutator nothing.
#[test]
fn seeds_are_accepted_and_repair_keeps_them() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{}", target.name);
        for seed in seeds {
            let mut fixed = seed.clone();
            if let Some(fix) = target.fix {
                fix(&mut fixed);
            }
            assert_eq!(
                fixed, seed,
                "{}: repairing a good file changed it",
                target.name
            );
        }
    }
}
