//! Model checking of the reservation counters: every interleaving that shuttle tries keeps the limits.
//!
//! The file under test is compiled here a second time, with shuttle's atomics in place of the real ones.

use shuttle::sync::Arc;
use shuttle::thread;

mod sync {
    pub(super) use shuttle::sync::atomic::{AtomicU64, Ordering};
}

#[path = "../../src/memory/account.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "only a part of the file is under test here"
)]
mod account;

use account::{Account, give_back, grant};

const SCHEDULES: usize = 3000;

/// root (limit 10) -> class (limit 8) -> a, b; and root -> c.
struct Tree {
    root: Account,
    class: Account,
    leaves: [Account; 3],
}

impl Tree {
    fn new() -> Self {
        Self {
            root: Account::new(10),
            class: Account::new(8),
            leaves: [
                Account::new(u64::MAX),
                Account::new(5),
                Account::new(u64::MAX),
            ],
        }
    }

    fn chain(&self, leaf: usize) -> Vec<&Account> {
        match leaf {
            2 => vec![&self.leaves[2], &self.root],
            _ => vec![&self.leaves[leaf], &self.class, &self.root],
        }
    }

    fn grant(&self, leaf: usize, bytes: u64) -> bool {
        let chain = self.chain(leaf);
        grant(chain.iter().copied(), bytes).is_ok()
    }

    fn give_back(&self, leaf: usize, bytes: u64) {
        give_back(self.chain(leaf).into_iter(), bytes);
    }

    fn check(&self) {
        assert!(
            self.root.reserved() <= 10
                && self.class.reserved() <= 8
                && self.leaves[1].reserved() <= 5
        );
    }
}

#[test]
fn no_level_ever_exceeds_its_limit_and_all_is_given_back() {
    let model = || {
        let tree = Arc::new(Tree::new());
        let threads: Vec<_> = [(0, 5), (1, 4), (2, 6)]
            .into_iter()
            .map(|(leaf, bytes)| {
                let tree = Arc::clone(&tree);
                thread::spawn(move || {
                    for _ in 0..2 {
                        if tree.grant(leaf, bytes) {
                            tree.check();
                            assert!(
                                tree.leaves[leaf].reserved() >= bytes,
                                "what is granted stays"
                            );
                            tree.give_back(leaf, bytes);
                        }
                        tree.check();
                    }
                })
            })
            .collect();
        tree.check();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(tree.root.reserved() + tree.class.reserved(), 0);
        assert!(tree.leaves.iter().all(|leaf| leaf.reserved() == 0));
        assert!(tree.root.peak() <= 10 && tree.class.peak() <= 8);
    };
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

#[test]
fn granted_bytes_never_sum_to_more_than_the_root() {
    let model = || {
        let tree = Arc::new(Tree::new());
        let threads: Vec<_> = [(0usize, 4), (1, 4), (2, 4)]
            .into_iter()
            .map(|(leaf, bytes)| {
                let tree = Arc::clone(&tree);
                thread::spawn(move || if tree.grant(leaf, bytes) { bytes } else { 0 })
            })
            .collect();
        let granted: u64 = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        assert!(granted <= 10);
        assert_eq!(tree.root.reserved(), granted);
    };
    shuttle::check_random(model, SCHEDULES);
}

#[test]
fn unused_bytes_are_taken_once() {
    let model = || {
        let account = Arc::new(Account::new(100));
        assert!(account.try_add(10));
        account.add_free(10);
        let threads: Vec<_> = [3, 4, 5]
            .into_iter()
            .map(|bytes| {
                let account = Arc::clone(&account);
                thread::spawn(move || {
                    let taken = account.take_free(bytes);
                    account.add_used(taken);
                    taken
                })
            })
            .collect();
        let taken: u64 = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        assert_eq!((taken, account.free(), account.used()), (10, 0, 10));
    };
    shuttle::check_random(model, SCHEDULES);
}

#[test]
fn a_reserved_client_always_gets_its_bytes() {
    let model = || {
        let tree = Arc::new(Tree::new());
        assert!(tree.grant(0, 5));
        tree.leaves[0].add_free(5);
        let hostile = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                for bytes in [5, 3, 1] {
                    if tree.grant(2, bytes) {
                        tree.give_back(2, bytes);
                    }
                }
            })
        };
        for _ in 0..3 {
            assert_eq!(tree.leaves[0].take_free(5), 5);
            tree.leaves[0].add_free(5);
        }
        hostile.join().unwrap();
        assert_eq!(tree.root.reserved(), 5);
    };
    shuttle::check_random(model, SCHEDULES);
}
