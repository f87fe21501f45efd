//! The mutator and the guard find what they should.

use staddle_base::Seed;
use staddle_fuzz::{Signal, Target, fuzzer, guard};

fn one_seed() -> Vec<Vec<u8>> {
    vec![vec![0; 64]]
}

static PANICS_DEEP: Target = Target {
    name: "panics_deep",
    // Three conditions, each visible as a new answer: only a mutator that keeps new answers gets through in time.
    run: |input| {
        let mut depth = 0;
        for (at, wanted) in [(3, 0x7f), (9, 0xff), (20, 0x01)] {
            if input.get(at) != Some(&wanted) {
                break;
            }
            depth += 1;
        }
        assert!(depth < 3, "deep enough");
        Signal::of(&[depth])
    },
    seeds: one_seed,
    fix: None,
    words: &[],
};

static TRUSTS_A_SUM: Target = Target {
    name: "trusts_a_sum",
    run: |input| {
        let Some((sum, body)) = input.split_first() else {
            return Signal::of(&[0]);
        };
        let right = body.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) == *sum;
        assert!(!right || body.first() == Some(&0), "got past the sum");
        Signal::of(&[u64::from(right)])
    },
    seeds: one_seed,
    fix: Some(|input| {
        if let Some((sum, body)) = input.split_first_mut() {
            *sum = body.iter().fold(0, |sum, byte| sum.wrapping_add(*byte));
        }
    }),
    words: &[],
};

static NEEDS_A_WORD: Target = Target {
    name: "needs_a_word",
    run: |input| {
        assert!(
            !input.windows(8).any(|window| window == b"OPENSESA"),
            "the word"
        );
        Signal::of(&[1])
    },
    seeds: one_seed,
    fix: None,
    words: &[b"OPENSESA"],
};

static GREEDY: Target = Target {
    name: "greedy",
    run: |input| {
        let held = vec![1_u8; 3 * usize::from(input.len() > 10) * 1000 * 1000];
        Signal::of(&[held.len() as u64])
    },
    seeds: one_seed,
    fix: None,
    words: &[],
};

#[test]
fn answers_that_are_new_lead_deeper() {
    let failure = fuzzer::run(&PANICS_DEEP, Seed(1), 400_000).unwrap_err();
    assert!(failure.what.contains("deep enough"), "{}", failure.what);
    assert_eq!(failure.input.len(), 21, "shrunk to what matters");
    assert_eq!(
        (failure.input[3], failure.input[9], failure.input[20]),
        (0x7f, 0xff, 1)
    );
    assert_eq!(failure.input.iter().filter(|byte| **byte != 0).count(), 3);
}

#[test]
fn repairs_lead_past_checksums_and_words_are_used() {
    assert!(fuzzer::run(&TRUSTS_A_SUM, Seed(1), 10_000).is_err());
    assert!(fuzzer::run(&NEEDS_A_WORD, Seed(1), 10_000).is_err());
}

#[test]
fn a_seed_replays_a_run() {
    let runs = |seed| {
        fuzzer::run(&PANICS_DEEP, Seed(seed), 400_000)
            .unwrap_err()
            .input
    };
    assert_eq!(runs(5), runs(5));
}

#[test]
fn memory_within_the_limit_is_allowed_and_counted_again_for_each_run() {
    for _ in 0..20 {
        guard::run(&GREEDY, &[0; 64]).unwrap();
    }
    assert!(guard::allowed_bytes(0) < 64 << 20);
}
