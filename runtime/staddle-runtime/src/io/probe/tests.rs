//! A probe measures, leaves nothing behind, and its file may be lost or damaged.

use staddle_base::SystemClock;

use super::*;

fn probe(device: u64, depth: u32) -> Probe {
    Probe {
        device,
        engine: "pread".into(),
        reads_per_second: BTreeMap::from([(1, 10.0), (4, 40.0)]),
        depth,
        latency_us: 100.0,
        cached: false,
    }
}

#[test]
fn a_probe_measures_every_depth_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    for uring in [false, true] {
        let probe = run_on(4 << 20, dir.path(), &SystemClock::new(), Seed(1), uring).unwrap();
        assert_eq!(
            probe.reads_per_second.keys().copied().collect::<Vec<_>>(),
            DEPTHS
        );
        assert!(probe.reads_per_second.values().all(|rate| *rate > 0.0));
        assert!(DEPTHS.contains(&probe.depth) && probe.latency_us > 0.0);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(
        run(
            &dir.path().join("none"),
            &SystemClock::new(),
            Seed(1),
            false
        )
        .is_err()
    );
}

#[test]
fn probes_are_kept_one_per_device() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("deep/er");
    assert_eq!(saved(&folder), []);
    save(&folder, &probe(1, 4)).unwrap();
    save(&folder, &probe(2, 16)).unwrap();
    save(&folder, &probe(1, 1)).unwrap();
    assert_eq!(saved(&folder), [probe(2, 16), probe(1, 1)]);
    assert_eq!(deepest(&saved(&folder)), Some(16));
}

#[test]
fn a_damaged_file_is_as_good_as_none() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &probe(1, 4)).unwrap();
    let good = std::fs::read(dir.path().join(FILE)).unwrap();
    for cut in 0..good.len() {
        std::fs::write(dir.path().join(FILE), &good[..cut]).unwrap();
        assert_eq!(saved(dir.path()), []);
    }
    assert_eq!(
        deepest(&[probe(1, 1_000_000), probe(2, 0)]),
        None,
        "nonsense is not believed"
    );
    let kept_in_memory = Probe {
        cached: true,
        ..probe(3, 64)
    };
    assert_eq!(deepest(&[kept_in_memory]), None);
}
