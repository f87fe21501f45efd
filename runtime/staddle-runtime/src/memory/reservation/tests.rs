//! Limits hold on every level, what is granted stays granted, and shortages are reclaimed or waited for.

use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use staddle_base::{ErrorKind, ManualClock, SystemClock};

use super::super::{AllocatorRegistry, Pool, PoolBuffer};
use super::*;

fn root(limit: u64) -> Reservation {
    Reservation::root("root", limit, Arc::new(ManualClock::default()))
}

#[test]
fn every_level_counts_and_refuses_by_name() {
    let root = root(100);
    let class = root.child("train", Some(60));
    let (a, b) = (class.child("a", None), class.child("b", None));
    a.try_grow(40).unwrap();
    b.try_grow(20).unwrap();
    assert_eq!(
        (root.reservation(), class.reservation(), a.reservation()),
        (60, 60, 40)
    );
    let error = b.try_grow(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(
        error
            .message()
            .contains("`root/train/b`: `train` holds 60 B of its limit of 60 B"),
        "{error}"
    );
    assert_eq!(
        error.get("holders"),
        Some("root/train/a 40 B, root/train/b 20 B")
    );
    root.child("other", None).try_grow(40).unwrap();
    assert_eq!(
        (b.reservation(), root.reservation()),
        (20, 60),
        "a refused grant and a dropped node leave nothing"
    );
    a.shrink(15);
    a.shrink(1000);
    assert_eq!(
        (a.reservation(), class.reservation(), root.reservation()),
        (0, 20, 20)
    );
    assert!(a.try_grow(u64::MAX).is_err());
    assert_eq!((class.peak(), a.limit(), a.name()), (60, u64::MAX, "a"));
}

#[test]
fn an_error_names_the_ten_largest_holders() {
    let root = root(1000);
    let clients: Vec<_> = (1..=20)
        .map(|n| root.child(&format!("c{n}"), None))
        .collect();
    for (n, client) in (1..=20).zip(&clients) {
        client.try_grow(n).unwrap();
    }
    let error = root.try_grow(1000).unwrap_err();
    let holders: Vec<&str> = error.get("holders").unwrap().split(", ").collect();
    assert_eq!(holders.len(), 10);
    assert_eq!((holders[0], holders[9]), ("root/c20 20 B", "root/c11 11 B"));
}

#[test]
fn a_transfer_changes_only_the_branches() {
    let root = root(100);
    let left = root.child("left", Some(50));
    let right = root.child("right", Some(30));
    let (a, b) = (left.child("a", None), right.child("b", None));
    a.try_grow(50).unwrap();
    root.child("rest", None).try_grow(50).unwrap();
    let held = root.child("held", None);
    held.try_grow(50).unwrap();
    assert_eq!(root.reservation(), 100, "the root is full");
    a.transfer_to(&b, 30).unwrap();
    assert_eq!(
        (
            a.reservation(),
            left.reservation(),
            b.reservation(),
            right.reservation(),
            root.reservation()
        ),
        (20, 20, 30, 30, 100)
    );
    assert_eq!(
        a.transfer_to(&b, 1).unwrap_err().kind(),
        ErrorKind::Exhausted,
        "right is full"
    );
    assert_eq!(
        a.transfer_to(&held, 21).unwrap_err().kind(),
        ErrorKind::Invalid,
        "a has 20"
    );
    let elsewhere = Reservation::root("x", 100, Arc::new(ManualClock::default()));
    assert_eq!(
        a.transfer_to(&elsewhere, 1).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    a.transfer_to(&left, 5).unwrap();
    left.transfer_to(&a, 5).unwrap();
    assert_eq!(
        (a.reservation(), left.reservation(), root.reservation()),
        (20, 20, 100)
    );
    a.transfer_to(&a, 20).unwrap();
    assert_eq!(a.reservation(), 20);
}

#[test]
fn shortages_ask_the_cheapest_cache_first_and_only_where_it_helps() {
    let root = root(100);
    let asked = Arc::new(Lock::new(Vec::new()));
    let cache = |parent: &Reservation, name: &'static str, cost| {
        let node = parent.child(name, None);
        node.try_grow(30).unwrap();
        let (weak, asked) = (node.clone(), Arc::clone(&asked));
        let guard = node.on_reclaim(cost, move |bytes| {
            asked.lock().push((name, bytes));
            let before = weak.reservation();
            weak.shrink(bytes);
            before - weak.reservation()
        });
        (node, guard)
    };
    let limited = root.child("limited", Some(40));
    let (dear, _dear) = cache(&root, "dear", 9);
    let (_cheap, cheap_guard) = cache(&root, "cheap", 1);
    let (inside, _inside) = cache(&limited, "inside", 5);

    let client = limited.child("client", None);
    client.try_grow(10).unwrap();
    assert!(asked.lock().is_empty(), "there was room");
    client.try_grow(20).unwrap();
    assert_eq!(
        std::mem::take(&mut *asked.lock()),
        [("inside", 20)],
        "others would not help"
    );
    assert_eq!(inside.reservation(), 10);

    let big = root.child("big", None);
    big.try_grow(30).unwrap();
    assert_eq!(std::mem::take(&mut *asked.lock()), [("cheap", 30)]);
    drop(cheap_guard);
    assert!(big.try_grow(100).is_err());
    assert_eq!(
        *asked.lock(),
        [("inside", 100), ("dear", 90)],
        "a callback taken back is not asked"
    );
    assert_eq!(dear.reservation(), 0);
}

#[test]
fn a_waiter_gets_what_another_gives_up() {
    let root = Reservation::root("root", 100, Arc::new(SystemClock::new()));
    let holder = root.child("holder", None);
    holder.try_grow(100).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| root.child("waiter", None).grow(60, Duration::from_secs(30)));
        while root.0.tree.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        holder.shrink(50);
        holder.shrink(10);
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(root.reservation(), 40, "the waiter's node is gone");
}

#[test]
fn waiters_are_served_in_order_and_none_overtakes() {
    let root = Reservation::root("root", 100, Arc::new(SystemClock::new()));
    let holder = root.child("holder", None);
    holder.try_grow(100).unwrap();
    let served = Lock::new(Vec::new());
    std::thread::scope(|scope| {
        for (n, bytes) in [(0usize, 80), (1, 10), (2, 10)] {
            let (root, served) = (&root, &served);
            scope.spawn(move || {
                let node = root.child("waiter", None);
                node.grow(bytes, Duration::from_secs(30)).unwrap();
                // Kept, so that the later ones fit beside it only once the holder has given up all.
                served.lock().push((n, node));
            });
            while root.0.tree.waiting.load(Ordering::SeqCst) <= n {
                std::thread::yield_now();
            }
        }
        for _ in 0..10 {
            holder.shrink(10);
        }
    });
    let served = served.into_inner();
    assert_eq!(served.len(), 3);
    assert_eq!(
        served[0].0, 0,
        "the large first request is not starved by small ones"
    );
    assert_eq!(root.reservation(), 100);
}

#[test]
fn a_waiter_gives_up_when_its_time_is_over() {
    let root = root(100);
    let holder = root.child("holder", None);
    holder.try_grow(100).unwrap();
    let error = root
        .child("waiter", None)
        .grow(1, Duration::from_millis(50))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(error.get("holders").unwrap().contains("root/holder 100 B"));
    let error = root.grow(101, Duration::from_secs(1_000_000)).unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Exhausted,
        "what can never fit is not waited for"
    );
    assert_eq!(root.0.tree.waiting.load(Ordering::SeqCst), 0);
    holder.shrink(1);
    root.child("next", None).try_grow(1).unwrap();
}

#[test]
fn the_tree_lists_parents_before_children() {
    let root = root(100);
    let a = root.child("a", Some(50));
    let _b = a.child("b", None);
    drop(root.child("gone", None));
    let rows = root.tree();
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["root", "root/a", "root/a/b"]);
    assert_eq!((rows[1].limit_bytes, rows[2].limit_bytes), (Some(50), None));
}

/// What a client of the model holds.
#[derive(Debug, Default)]
struct Client {
    free: u64,
    used: u64,
    buffers: Vec<(PoolBuffer, u8)>,
}

#[derive(Clone, Debug)]
enum Step {
    Grow(usize, u64),
    Shrink(usize, u64),
    Take(usize, usize),
    Drop(usize, usize),
    Move(usize, usize, u64),
    Trim,
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0usize..3;
    let bytes = prop_oneof![0u64..100_000, Just(8192), Just(65_536)];
    prop_oneof![
        (client.clone(), bytes.clone()).prop_map(|(c, n)| Step::Grow(c, n)),
        (client.clone(), bytes.clone()).prop_map(|(c, n)| Step::Shrink(c, n)),
        (client.clone(), 0usize..120_000).prop_map(|(c, n)| Step::Take(c, n)),
        (client.clone(), 0usize..1000).prop_map(|(c, n)| Step::Drop(c, n)),
        (client.clone(), client, bytes).prop_map(|(a, b, n)| Step::Move(a, b, n)),
        Just(Step::Trim),
    ]
}

const ROOT_LIMIT: u64 = 512 << 10;
const CLIENT_LIMITS: [u64; 3] = [u64::MAX, 256 << 10, 100_000];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Random clients against a model: exactly what fits is granted, sums never exceed a limit, contents survive.
    #[test]
    fn random_clients_match_the_model(steps in prop::collection::vec(step(), 1..120)) {
        let root = root(ROOT_LIMIT);
        let pool = Pool::new(&root, AllocatorRegistry::global().system());
        let nodes: Vec<Reservation> = CLIENT_LIMITS
            .iter()
            .map(|limit| root.child("client", (*limit != u64::MAX).then_some(*limit)))
            .collect();
        let mut model: Vec<Client> = (0..3).map(|_| Client::default()).collect();
        let mut tag = 0u8;
        for step in steps {
            let held: u64 = model.iter().map(|c| c.free + c.used).sum();
            let room = |c: usize| {
                let own = model[c].free + model[c].used;
                (CLIENT_LIMITS[c] - own).min(ROOT_LIMIT - held)
            };
            match step {
                Step::Grow(c, bytes) => {
                    let fits = bytes <= room(c);
                    prop_assert_eq!(nodes[c].try_grow(bytes).is_ok(), fits);
                    model[c].free += if fits { bytes } else { 0 };
                }
                Step::Shrink(c, bytes) => {
                    nodes[c].shrink(bytes);
                    model[c].free -= bytes.min(model[c].free);
                }
                Step::Take(c, len) => {
                    let block = len.next_power_of_two().max(8192) as u64;
                    let grown = block.saturating_sub(model[c].free);
                    let fits = grown <= room(c);
                    let taken = pool.take(&nodes[c], len);
                    prop_assert_eq!(taken.is_ok(), fits, "{:?}", taken);
                    if let Ok(mut buffer) = taken {
                        tag = tag.wrapping_add(1);
                        buffer.fill(tag);
                        model[c].free -= block - grown;
                        model[c].used += block;
                        prop_assert_eq!(buffer.grown(), grown);
                        model[c].buffers.push((buffer, tag));
                    }
                }
                Step::Drop(c, which) => {
                    let count = model[c].buffers.len();
                    if count > 0 {
                        let (buffer, tag) = model[c].buffers.swap_remove(which % count);
                        prop_assert!(buffer.iter().all(|b| *b == tag), "contents survive");
                        let (block, grown) = (buffer.capacity() as u64, buffer.grown());
                        drop(buffer);
                        model[c].used -= block;
                        model[c].free += block - grown;
                    }
                }
                Step::Move(a, b, bytes) => {
                    let own = |c: usize| model[c].free + model[c].used;
                    let fits = bytes <= model[a].free && (a == b || bytes <= CLIENT_LIMITS[b] - own(b));
                    prop_assert_eq!(nodes[a].transfer_to(&nodes[b], bytes).is_ok(), fits);
                    if fits {
                        model[a].free -= bytes;
                        model[b].free += bytes;
                    }
                }
                Step::Trim => {
                    pool.trim();
                    prop_assert_eq!(pool.stats().cached_bytes, 0);
                }
            }
            let mut sum = 0;
            for (node, client) in nodes.iter().zip(&model) {
                prop_assert_eq!((node.used(), node.reservation()), (client.used, client.used + client.free));
                sum += client.used + client.free;
            }
            prop_assert_eq!(root.reservation(), sum + pool.stats().cached_bytes);
            prop_assert!(root.reservation() <= ROOT_LIMIT);
        }
        drop((model, nodes));
        prop_assert_eq!(root.reservation(), pool.stats().cached_bytes);
        drop(pool);
        prop_assert_eq!(root.reservation(), 0);
    }
}

#[test]
fn threads_never_push_a_level_over_its_limit() {
    let root = root(1 << 20);
    let pool = Pool::new(&root, AllocatorRegistry::global().system());
    let class = root.child("class", Some(700 << 10));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                assert!(root.reservation() <= 1 << 20 && class.reservation() <= 700 << 10);
            }
        });
        // Reserved before any thread takes what is left.
        let clients: Vec<Reservation> = (0..4).map(|_| class.child("client", None)).collect();
        for client in &clients {
            client.try_grow(64 << 10).unwrap();
        }
        let threads: Vec<_> = (0u64..)
            .zip(clients)
            .map(|(thread, client)| {
                let pool = &pool;
                scope.spawn(move || {
                    let mut rng = staddle_base::Seed(thread).stream("stress");
                    let mut held: Vec<(PoolBuffer, u8)> = Vec::new();
                    for _ in 0..3000 {
                        if rng.chance(1, 2) || held.len() > 20 {
                            let len = rng.index(100_000);
                            let tag = u8::try_from(rng.below(256)).unwrap();
                            if let Ok(mut buffer) = pool.take(&client, len) {
                                buffer.fill(tag);
                                held.push((buffer, tag));
                            }
                        } else if !held.is_empty() {
                            let (buffer, tag) = held.swap_remove(rng.index(held.len()));
                            assert!(buffer.iter().all(|b| *b == tag));
                        }
                        // What was reserved and is not in use is there whatever the others do.
                        let from_reserved: u64 = held
                            .iter()
                            .map(|(buffer, _)| buffer.capacity() as u64 - buffer.grown())
                            .sum();
                        if from_reserved + 8192 <= 64 << 10 {
                            assert!(pool.take(&client, 8192).is_ok());
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::SeqCst);
        watcher.join().unwrap();
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(
        (class.reservation(), root.reservation()),
        (0, pool.stats().cached_bytes)
    );
}
