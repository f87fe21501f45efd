//! Runs cover their ranges, keep the caps and merge what is near.

use proptest::prelude::*;

use super::*;

const SMALL: Policy = Policy {
    gap_bytes: 10,
    run_bytes: 100,
};

fn spans(ranges: &[(u64, u64)], disjoint: bool) -> Vec<(usize, usize, u64, u64)> {
    let runs = plan(ranges, SMALL, disjoint);
    runs.iter()
        .map(|r| (r.first, r.last, r.offset, r.len))
        .collect()
}

#[test]
fn neighbours_within_the_gap_are_merged() {
    assert_eq!(
        spans(&[(0, 5), (15, 5), (31, 5)], true),
        [(0, 2, 0, 20), (2, 3, 31, 5)]
    );
    assert_eq!(spans(&[], true), []);
}

#[test]
fn the_cap_splits_and_a_long_range_stays_whole() {
    assert_eq!(
        spans(&[(0, 60), (60, 60), (120, 500)], true),
        [(0, 1, 0, 60), (1, 2, 60, 60), (2, 3, 120, 500)]
    );
    assert_eq!(spans(&[(0, 40), (40, 60)], true), [(0, 2, 0, 100)]);
}

#[test]
fn overlaps_merge_only_where_a_copy_follows() {
    assert_eq!(spans(&[(0, 50), (0, 50), (20, 10)], false), [(0, 3, 0, 50)]);
    assert_eq!(
        spans(&[(0, 50), (0, 50)], true),
        [(0, 1, 0, 50), (1, 2, 0, 50)]
    );
    assert_eq!(spans(&[(0, 500), (100, 10)], false), [(0, 2, 0, 500)]);
}

#[test]
fn the_end_of_the_number_line_does_not_overflow() {
    let runs = plan(&[(u64::MAX - 5, 5), (u64::MAX, 9)], SMALL, true);
    assert_eq!(runs.len(), 1);
}

proptest! {
    #[test]
    fn runs_cover_every_range_once_and_keep_the_cap(
        mut ranges in prop::collection::vec((0u64..2000, 0u64..150), 0..60),
        gap_bytes in 0u64..50,
        run_bytes in 1u64..400,
        disjoint: bool,
    ) {
        ranges.sort_unstable();
        let policy = Policy { gap_bytes, run_bytes };
        let runs = plan(&ranges, policy, disjoint);
        let mut next = 0;
        for run in &runs {
            prop_assert_eq!(run.first, next);
            prop_assert!(run.last > run.first);
            next = run.last;
            let inside = &ranges[run.first..run.last];
            let end = inside.iter().map(|(offset, len)| offset + len).max().unwrap();
            prop_assert_eq!((run.offset, run.len), (inside[0].0, end - inside[0].0));
            let longest = inside.iter().map(|(_, len)| *len).max().unwrap();
            prop_assert!(run.len <= run_bytes.max(longest));
            let mut reach = inside[0].0;
            for (offset, len) in inside {
                prop_assert!(offset.saturating_sub(reach) <= gap_bytes);
                prop_assert!(!disjoint || *offset >= reach);
                reach = reach.max(offset + len);
            }
        }
        prop_assert_eq!(next, ranges.len());
        // Two neighbouring runs could not have been one.
        for pair in runs.windows(2) {
            let end = pair[0].offset + pair[0].len;
            let (offset, len) = ranges[pair[1].first];
            let joined = end.max(offset + len) - pair[0].offset;
            let fits = joined <= run_bytes || joined == pair[0].len;
            prop_assert!(offset > end + gap_bytes || !fits || disjoint && offset < end);
        }
    }
}
