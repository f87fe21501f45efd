//! Determinism: the same seed gives the same calls, the same faults and the same images.

use staddle_base::Seed;
use staddle_sim::{Fault, On, Rule, SimDisk, Survivors, When};

use crate::toy::{Bug, Toy};

fn run(seed: u64, puts: u64) -> SimDisk {
    let disk = SimDisk::new(Seed(seed));
    disk.keep_log();
    let toy = Toy::create(&disk, Bug::None).unwrap();
    disk.inject(Rule {
        on: On::Mutating,
        when: When::Rate(1, 50),
        fault: Fault::Io,
    });
    let _ = (1..puts).try_for_each(|number| toy.put(number));
    disk
}

#[test]
fn the_same_seed_replays_calls_and_images() {
    let (a, b) = (run(7, 20), run(7, 20));
    assert_eq!(a.trace(), b.trace());
    assert_eq!(a.log().len(), b.log().len());
    assert_ne!(a.trace(), run(7, 3).trace());
    for seed in 0..50 {
        for survivors in Survivors::EACH {
            let (a, b) = (
                a.crash_image(survivors, Seed(seed)),
                b.crash_image(survivors, Seed(seed)),
            );
            assert_eq!(a.files(), b.files());
            for (path, _) in a.files() {
                assert_eq!(a.read(&path), b.read(&path));
            }
        }
    }
}

#[test]
fn the_log_numbers_the_crash_points() {
    let disk = run(1, 3);
    let log = disk.log();
    let numbers: Vec<u64> = log
        .iter()
        .filter(|call| call.op.mutates())
        .map(|call| call.number)
        .collect();
    assert_eq!(numbers, (1..=disk.calls()).collect::<Vec<_>>());
    assert_eq!(log[0].to_string(), "     1 Create data");
}
