//! Order and split against the obvious way: a list of positions, cut into pieces.

use proptest::prelude::*;

use super::order::{Order, Shuffle};
use super::split::{Split, Uneven};

fn all(order: &Order) -> Vec<u64> {
    let mut out = Vec::new();
    order.indices(0..order.rows(), &mut out);
    out
}

fn shuffles() -> impl Strategy<Value = Shuffle> {
    prop_oneof![
        Just(Shuffle::None),
        Just(Shuffle::Global),
        (1u64..40, 1u64..6).prop_map(|(block_rows, window_blocks)| Shuffle::Block {
            block_rows,
            window_blocks
        }),
    ]
}

fn unevens() -> impl Strategy<Value = Uneven> {
    prop_oneof![Just(Uneven::Wrap), Just(Uneven::Drop), Just(Uneven::Short)]
}

proptest! {
    #[test]
    fn every_row_stands_at_one_position(shuffle in shuffles(), rows in 0u64..700, seed: u64, epoch in 0u64..4) {
        let order = Order::new(shuffle, rows, seed, epoch);
        let mut seen = all(&order);
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..rows).collect::<Vec<_>>());
    }

    #[test]
    fn any_piece_of_an_order_is_that_piece_of_the_whole(
        shuffle in shuffles(), rows in 1u64..700, seed: u64, cut in (0u64..700, 0u64..700),
    ) {
        let order = Order::new(shuffle, rows, seed, 3);
        let (a, b) = (cut.0 % (rows + 1), cut.1 % (rows + 1));
        let (from, to) = (a.min(b), a.max(b));
        let mut piece = Vec::new();
        order.indices(from..to, &mut piece);
        prop_assert_eq!(piece.as_slice(), &all(&order)[from as usize..to as usize]);
    }

    #[test]
    fn rows_of_a_window_come_from_its_blocks(
        block_rows in 1u64..30, window_blocks in 1u64..5, rows in 1u64..700, seed: u64,
    ) {
        let order = Order::new(Shuffle::Block { block_rows, window_blocks }, rows, seed, 0);
        let mut blocks_seen = std::collections::HashSet::new();
        let mut rest = all(&order);
        while !rest.is_empty() {
            // A window ends where the rows of all its blocks have come: find it the slow way.
            let mut blocks = std::collections::BTreeMap::new();
            let mut taken = 0;
            for index in &rest {
                let block = index / block_rows;
                if !blocks.contains_key(&block) && blocks.len() as u64 == window_blocks {
                    break;
                }
                let size = block_rows.min(rows - block * block_rows);
                *blocks.entry(block).or_insert(size) -= 1;
                taken += 1;
            }
            prop_assert!(blocks.values().all(|left| *left == 0), "a window ends inside a block: {blocks:?}");
            for block in blocks.keys() {
                prop_assert!(blocks_seen.insert(*block), "block {block} is in two windows");
            }
            rest.drain(..taken);
        }
    }

    #[test]
    fn the_ranks_of_a_split_cover_the_epoch(
        rows in 0u64..300, start in 0u64..300, batch in 1usize..9, world in 1usize..6, drop_last: bool, uneven in unevens(),
    ) {
        let start = start.min(rows);
        let splits: Vec<_> = (0..world).map(|rank| Split::new(batch, rank, world, drop_last, uneven).unwrap()).collect();
        let stride = (batch * world) as u64;
        let steps = splits.iter().map(|split| split.steps(rows, start)).max().unwrap();
        let mut at = start;
        for step in 0..steps {
            for split in &splits {
                if step >= split.steps(rows, start) {
                    continue;
                }
                let share = split.share(rows, start, step);
                prop_assert_eq!(share.rows.start, at.min(rows), "a rank leaves a gap");
                at = share.rows.end.max(at);
                let len = (share.rows.end - share.rows.start) + (share.padding.end - share.padding.start);
                prop_assert!(len <= batch as u64);
                if step + 1 < steps {
                    prop_assert_eq!(len, batch as u64);
                    prop_assert!(share.padding.is_empty());
                }
            }
            prop_assert_eq!(splits[0].consumed(rows, start, step + 1), (start + (step + 1) * stride).min(rows));
        }
        let left_out = if drop_last || (world > 1 && uneven == Uneven::Drop) { (rows - start) % stride } else { 0 };
        prop_assert_eq!(at, rows - left_out);
        for split in &splits {
            prop_assert!(split.is_over(rows, splits[0].consumed(rows, start, steps)));
            prop_assert_eq!(split.is_over(rows, start), steps == 0);
            let same = split.steps(rows, start) == steps;
            prop_assert!(same || (uneven == Uneven::Short && !drop_last && world > 1));
        }
    }
}

#[test]
fn epochs_and_seeds_differ() {
    for shuffle in [Shuffle::Global, Shuffle::BLOCK] {
        let order = |seed, epoch| all(&Order::new(shuffle, 5000, seed, epoch));
        assert_ne!(order(0, 0), order(0, 1));
        assert_ne!(order(0, 0), order(1, 0));
        assert_eq!(order(7, 9), order(7, 9));
    }
}

#[test]
fn the_short_block_is_not_always_last() {
    // 1000 rows are 3 blocks of 256 and one of 232: where it stands must depend on the seed.
    let last = |seed| {
        *all(&Order::new(
            Shuffle::Block {
                block_rows: 256,
                window_blocks: 1,
            },
            1000,
            seed,
            0,
        ))
        .last()
        .unwrap()
    };
    let short_last = (0..40).filter(|seed| last(*seed) >= 768).count();
    assert!((2..25).contains(&short_last), "{short_last} of 40");
}

#[test]
fn impossible_sizes_are_refused() {
    assert!(Split::new(0, 0, 1, false, Uneven::Wrap).is_err());
    assert!(Split::new(1, 0, 0, false, Uneven::Wrap).is_err());
    assert!(Split::new(1, 2, 2, false, Uneven::Wrap).is_err());
    assert!(Split::new(usize::MAX, 0, 3, false, Uneven::Wrap).is_err());
    let block = |block_rows, window_blocks| Shuffle::Block {
        block_rows,
        window_blocks,
    };
    assert!(block(0, 1).check().is_err());
    assert!(block(1, 0).check().is_err());
    assert!(block(u64::MAX, 2).check().is_err());
    assert!(Shuffle::BLOCK.check().is_ok());
}
