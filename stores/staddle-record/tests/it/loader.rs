//! The loader: whatever interrupts it, and on however many ranks and workers it goes on, the order is the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use staddle_base::ErrorKind;
use staddle_record::{
    CodecChoice, Holes, Layout, Loader, LoaderOptions, LoaderState, OpenOptions, Options, Records,
    Shuffle, Step, Uneven, loader::Epoch,
};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::Device;

use crate::common::{OnDisk, real, simulated, still};

/// A record that tells its index.
fn record(index: u64) -> Vec<u8> {
    format!("record {index}").into_bytes()
}

fn make(runtime: &Runtime, device: &Arc<dyn Device>, rows: u64) -> Records {
    let set = Records::create(runtime, Arc::clone(device), Options::default()).unwrap();
    set.extend(&(0..rows).map(record).collect::<Vec<_>>())
        .unwrap();
    set.flush().unwrap();
    set
}

fn small(rows: u64) -> Records {
    make(&still(1), &simulated(1), rows)
}

/// Indices of the rows that count, after checking that each row is the record that its index says.
#[track_caller]
fn counted(step: &Step) -> Vec<u64> {
    assert_eq!(step.rows.len(), step.indices.len());
    for (at, index) in step.indices.iter().enumerate() {
        assert_eq!(step.rows.get(at), Some(record(*index).as_slice()));
    }
    step.indices[..step.valid].to_vec()
}

fn whole_epoch(loader: &Loader) -> Vec<u64> {
    loader
        .iter()
        .unwrap()
        .flat_map(|step| counted(&step.unwrap()))
        .collect()
}

/// Passing a state on as a job does: as text.
fn through_text(state: &LoaderState) -> LoaderState {
    let text = serde_json::to_string(state).unwrap();
    assert!(text.len() < 500, "{} bytes: {text}", text.len());
    serde_json::from_str(&text).unwrap()
}

/// One way to run: how many ranks, and how many DataLoader workers each.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch_size: usize,
    world_size: usize,
    workers: usize,
    prefetch: usize,
}

/// All ranks and workers of a job, taking turns as a job's do.
struct Job {
    /// By rank, then by worker.
    loaders: Vec<Vec<Loader>>,
    walks: Vec<Vec<Epoch>>,
    /// Steps since the walks began.
    turn: usize,
    /// What a consumer that counts for its workers would save.
    state: LoaderState,
}

impl Job {
    fn start(
        set: &Records,
        base: &LoaderOptions,
        shape: Shape,
        state: Option<&LoaderState>,
    ) -> Self {
        let loader = |rank| {
            let loader = set
                .loader(LoaderOptions {
                    batch_size: shape.batch_size,
                    world_size: shape.world_size,
                    rank,
                    prefetch: shape.prefetch,
                    ..base.clone()
                })
                .unwrap();
            if let Some(state) = state {
                loader.load_state(&through_text(state), true).unwrap();
            }
            loader
        };
        let loaders: Vec<Vec<Loader>> = (0..shape.world_size)
            .map(|rank| (0..shape.workers).map(|_| loader(rank)).collect())
            .collect();
        let state = loaders[0][0].state().unwrap();
        let mut job = Self {
            loaders,
            walks: Vec::new(),
            turn: 0,
            state,
        };
        job.begin();
        job
    }

    fn begin(&mut self) {
        self.turn = 0;
        self.walks = self
            .loaders
            .iter()
            .map(|rank| {
                let workers = rank.len();
                rank.iter()
                    .enumerate()
                    .map(|(worker, loader)| loader.worker(worker, workers).unwrap())
                    .collect()
            })
            .collect();
    }

    /// One step of all ranks: the rows that count, in order. `None` at the end of an epoch.
    fn step(&mut self) -> Option<Vec<u64>> {
        let workers = self.walks[0].len();
        let turn = self.turn % workers;
        let mut rows = Vec::new();
        let mut marks = Vec::new();
        for rank in &mut self.walks {
            if let Some(step) = rank[turn].next() {
                let step = step.unwrap();
                rows.extend(counted(&step));
                marks.push((step.epoch, step.consumed));
            }
        }
        let (epoch, consumed) = *marks.first()?;
        assert!(
            marks.iter().all(|mark| *mark == (epoch, consumed)),
            "{marks:?}"
        );
        self.turn += 1;
        self.state = self.loaders[0][0].state_at(epoch, consumed).unwrap();
        if workers == 1 {
            for rank in &self.loaders {
                let own = rank[0].state().unwrap();
                let (own, said) = (
                    (own.epoch, own.consumed),
                    (self.state.epoch, self.state.consumed),
                );
                // With `short` a rank may be done a step before the others know.
                assert_eq!(own, said, "the ranks do not agree");
            }
        }
        Some(rows)
    }
}

fn shuffles() -> impl Strategy<Value = Shuffle> {
    prop_oneof![
        1 => Just(Shuffle::None),
        3 => Just(Shuffle::Global),
        2 => (1u64..9, 1u64..4).prop_map(|(block_rows, window_blocks)| Shuffle::Block { block_rows, window_blocks }),
    ]
}

/// Shapes whose steps have twelve rows.
fn shapes() -> impl Strategy<Value = Shape> {
    (
        prop_oneof![Just(1usize), Just(2), Just(3), Just(4), Just(6), Just(12)],
        1usize..=7,
        0usize..4,
    )
        .prop_map(|(world_size, workers, prefetch)| Shape {
            batch_size: 12 / world_size,
            world_size,
            workers,
            prefetch,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Three epochs, stopped anywhere, gone on with in any shape, again and again.
    #[test]
    fn any_interruption_gives_the_same_order(
        rows in 0u64..130,
        shuffle in shuffles(),
        seed: u64,
        uneven in prop_oneof![Just(Uneven::Wrap), Just(Uneven::Drop), Just(Uneven::Short)],
        drop_last: bool,
        first in shapes(),
        stops in proptest::collection::vec((0usize..14, shapes()), 0..8),
    ) {
        let set = small(rows);
        // One rank alone has no `uneven`; with several, dropping is what `drop_last` does too.
        let dropping = drop_last || uneven == Uneven::Drop;
        let base = LoaderOptions { shuffle, seed, uneven, drop_last: dropping, ..LoaderOptions::default() };
        let alone = set.loader(LoaderOptions { batch_size: 12, ..base.clone() }).unwrap();
        let mut wanted = Vec::new();
        for _ in 0..3 {
            let epoch = whole_epoch(&alone);
            let mut sorted = epoch.clone();
            sorted.sort_unstable();
            if dropping {
                sorted.dedup();
                prop_assert_eq!(sorted.len() as u64, rows - rows % 12);
            } else {
                prop_assert_eq!(sorted, (0..rows).collect::<Vec<_>>());
            }
            wanted.push(epoch);
        }

        let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut job = Job::start(&set, &base, first, None);
        let mut stops = stops.into_iter();
        let mut next = stops.next();
        let mut since = 0;
        let mut ends = 0;
        while job.state.epoch < 3 && ends < 4 {
            if let Some((after, shape)) = next && since == after {
                let state = job.state.clone();
                // Whatever was gathered ahead is lost with the process.
                drop(job);
                job = Job::start(&set, &base, shape, Some(&state));
                next = stops.next();
                since = 0;
                continue;
            }
            let epoch = job.walks[0][0].epoch();
            match job.step() {
                Some(rows) => found.entry(epoch).or_default().extend(rows),
                None => {
                    ends += 1;
                    let done = job.walks[0][0].epoch() + 1;
                    job.begin();
                    prop_assert_eq!(job.walks[0][0].epoch(), done);
                    job.state = job.loaders[0][0].state_at(done, 0).unwrap();
                }
            }
            since += 1;
        }
        for (epoch, wanted) in wanted.into_iter().enumerate() {
            let found = found.remove(&(epoch as u64)).unwrap_or_default();
            prop_assert_eq!(found, wanted, "epoch {}", epoch);
        }
    }

    /// A state saved under one step size goes on under any other: each row once.
    #[test]
    fn another_step_size_still_gives_every_row_once(
        rows in 1u64..200, shuffle in shuffles(), sizes in (1usize..20, 1usize..20), steps in 0usize..10,
    ) {
        let set = small(rows);
        let options = |batch_size| LoaderOptions { batch_size, shuffle, ..LoaderOptions::default() };
        let before = set.loader(options(sizes.0)).unwrap();
        let mut seen: Vec<u64> = before.iter().unwrap().take(steps).flat_map(|s| s.unwrap().indices).collect();
        let after = set.loader(options(sizes.1)).unwrap();
        let state = before.state().unwrap();
        after.load_state(&state, true).unwrap();
        if state.epoch == 0 {
            seen.extend(whole_epoch(&after));
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..rows).collect::<Vec<_>>());
    }

    /// torchdata's way: each worker keeps a state of its own and goes on by itself.
    #[test]
    fn workers_resume_from_their_own_states(
        rows in 0u64..120, workers in 1usize..=7, cut in 0usize..20, seed: u64,
    ) {
        let set = small(rows);
        let options = LoaderOptions { batch_size: 5, shuffle: Shuffle::Global, seed, prefetch: 1, ..LoaderOptions::default() };
        let wanted = whole_epoch(&set.loader(options.clone()).unwrap());
        let loaders: Vec<_> = (0..workers).map(|_| set.loader(options.clone()).unwrap()).collect();
        let mut walks: Vec<_> = loaders.iter().enumerate().map(|(k, l)| l.worker(k, workers).unwrap()).collect();
        let mut found = Vec::new();
        for turn in 0..cut {
            if let Some(step) = walks[turn % workers].next() {
                found.extend(counted(&step.unwrap()));
            }
        }
        let states: Vec<_> = loaders.iter().map(|loader| loader.state().unwrap()).collect();
        drop(walks);
        let resumed: Vec<_> = states.iter().map(|state| {
            let loader = set.loader(options.clone()).unwrap();
            loader.load_state(&through_text(state), true).unwrap();
            loader
        }).collect();
        if workers > 1 || cut * 5 < rows as usize {
            let mut walks: Vec<_> = resumed.iter().enumerate().map(|(k, l)| l.worker(k, workers).unwrap()).collect();
            for turn in cut..cut + 30 {
                if let Some(step) = walks[turn % workers].next() {
                    let step = step.unwrap();
                    // A worker that had not begun starts the epoch; one that was done stays done.
                    prop_assert_eq!(step.epoch, 0);
                    found.extend(counted(&step));
                }
            }
        }
        prop_assert_eq!(found, wanted);
    }
}

#[test]
fn the_last_step_is_filled_up_and_says_so() {
    let set = small(10);
    let steps = |uneven, rank| -> Vec<(Vec<u64>, usize)> {
        let options = LoaderOptions {
            batch_size: 4,
            world_size: 2,
            rank,
            uneven,
            ..LoaderOptions::default()
        };
        let loader = set.loader(options).unwrap();
        let steps: Vec<_> = loader.iter().unwrap().map(Result::unwrap).collect();
        assert_eq!(steps.len() as u64, loader.len().unwrap());
        steps
            .into_iter()
            .map(|step| (step.indices, step.valid))
            .collect()
    };
    assert_eq!(
        steps(Uneven::Wrap, 0),
        [(vec![0, 1, 2, 3], 4), (vec![8, 9, 0, 1], 2)]
    );
    assert_eq!(
        steps(Uneven::Wrap, 1),
        [(vec![4, 5, 6, 7], 4), (vec![2, 3, 4, 5], 0)]
    );
    assert_eq!(steps(Uneven::Drop, 0), [(vec![0, 1, 2, 3], 4)]);
    assert_eq!(
        steps(Uneven::Short, 0),
        [(vec![0, 1, 2, 3], 4), (vec![8, 9], 2)]
    );
    assert_eq!(steps(Uneven::Short, 1), [(vec![4, 5, 6, 7], 4)]);
}

#[test]
fn walks_begin_new_epochs_and_set_epoch_chooses() {
    let set = small(40);
    let loader = set
        .loader(LoaderOptions {
            batch_size: 8,
            shuffle: Shuffle::Global,
            ..LoaderOptions::default()
        })
        .unwrap();
    let epochs: Vec<_> = (0..3).map(|_| whole_epoch(&loader)).collect();
    assert_ne!(epochs[0], epochs[1]);
    assert_eq!(loader.epoch(), 3);
    loader.set_epoch(1);
    assert_eq!(whole_epoch(&loader), epochs[1]);
    // A walk that is left is over: the next one is the next epoch.
    loader.set_epoch(0);
    assert_eq!(loader.iter().unwrap().take(2).count(), 2);
    assert_eq!(whole_epoch(&loader), epochs[1]);
    // A script that sets the epoch before each walk does not undo a resume.
    loader.set_epoch(2);
    let mut walk = loader.iter().unwrap();
    walk.next();
    let state = loader.state().unwrap();
    assert_eq!((state.epoch, state.consumed), (2, 8));
    let resumed = set.loader(loader.options().clone()).unwrap();
    resumed.load_state(&state, true).unwrap();
    resumed.set_epoch(2);
    assert_eq!(whole_epoch(&resumed), &epochs[2][8..]);
    // An abandoned walk does not disturb the state of the one in progress.
    loader.set_epoch(0);
    let mut old = loader.iter().unwrap();
    let mut new = loader.iter().unwrap();
    new.next();
    (&mut old).take(3).for_each(|step| drop(step.unwrap()));
    assert_eq!(loader.state().unwrap().consumed, 8);
    assert_eq!(loader.state().unwrap().epoch, 1);
}

#[test]
fn prefetched_steps_do_not_count() {
    let set = small(100);
    let loader = set
        .loader(LoaderOptions {
            batch_size: 10,
            prefetch: 5,
            ..LoaderOptions::default()
        })
        .unwrap();
    let mut walk = loader.iter().unwrap();
    assert_eq!(loader.state().unwrap().consumed, 0);
    walk.next();
    walk.next();
    assert_eq!(loader.state().unwrap().consumed, 20);
    assert_eq!(walk.remaining(), 8);
}

#[test]
fn packed_and_compressed_steps_hold_the_same_rows() {
    for codec in [CodecChoice::None, CodecChoice::Zstd, CodecChoice::Lz4] {
        let place = OnDisk::new();
        let set = place.create(Options {
            codec,
            ..Options::default()
        });
        set.extend(&(0..300).map(record).collect::<Vec<_>>())
            .unwrap();
        for layout in [Layout::Batch, Layout::Packed] {
            let options = LoaderOptions {
                batch_size: 32,
                shuffle: Shuffle::Global,
                layout,
                prefetch: 3,
                ..LoaderOptions::default()
            };
            let mut rows = whole_epoch(&set.loader(options).unwrap());
            rows.sort_unstable();
            assert_eq!(rows, (0..300).collect::<Vec<_>>());
        }
    }
}

#[test]
fn holes_are_left_out_or_kept() {
    let set = small(20);
    for index in [3, 4, 11] {
        set.tombstone(index).unwrap();
    }
    let steps = |holes, layout| -> Vec<Step> {
        let options = LoaderOptions {
            batch_size: 8,
            holes,
            layout,
            ..LoaderOptions::default()
        };
        set.loader(options)
            .unwrap()
            .iter()
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    for layout in [Layout::Batch, Layout::Packed] {
        let skipped = steps(Holes::Skip, layout);
        assert_eq!(skipped[0].indices, [0, 1, 2, 5, 6, 7]);
        assert_eq!(skipped.iter().flat_map(counted).count(), 17);
        let kept = steps(Holes::Keep, layout);
        assert_eq!(kept[0].indices, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(kept[0].rows.get(3), None);
        assert_eq!(kept[0].rows.get(5), Some(record(5).as_slice()));
    }
}

#[test]
fn an_epoch_keeps_what_it_began_with() {
    let place = OnDisk::new();
    let set = make(&place.runtime, &place.device, 60);
    let loader = set
        .loader(LoaderOptions {
            batch_size: 10,
            shuffle: Shuffle::Global,
            ..LoaderOptions::default()
        })
        .unwrap();
    let mut walk = loader.iter().unwrap();
    let mut seen = counted(&walk.next().unwrap().unwrap());
    for index in 0..30 {
        set.delete(index).unwrap();
    }
    set.extend(&(100..110).map(record).collect::<Vec<_>>())
        .unwrap();
    set.rebalance(false).unwrap();
    seen.extend(walk.flat_map(|step| counted(&step.unwrap())));
    seen.sort_unstable();
    assert_eq!(seen, (0..60).collect::<Vec<_>>());
    // The next epoch has what is there now.
    let mut now: Vec<_> = loader
        .iter()
        .unwrap()
        .flat_map(|s| s.unwrap().indices)
        .collect();
    now.sort_unstable();
    assert_eq!(now, (0..40).collect::<Vec<_>>());
}

#[test]
fn an_error_stays_and_the_step_is_not_counted() {
    let disk = staddle_sim::SimDisk::new(staddle_base::Seed(3));
    let device: Arc<dyn Device> = Arc::new(disk.clone());
    let set = make(&still(3), &device, 40);
    set.close().unwrap();
    for prefetch in [0, 3] {
        let set = Records::open(&still(3), Arc::clone(&device), OpenOptions::default()).unwrap();
        let loader = set
            .loader(LoaderOptions {
                batch_size: 10,
                prefetch,
                ..LoaderOptions::default()
            })
            .unwrap();
        // Record 25 is damaged: its payload holds its own name.
        let chunk = disk.read("chunk/0.zr").unwrap();
        let at = chunk
            .windows(9)
            .position(|bytes| bytes == b"record 25")
            .unwrap();
        assert!(disk.flip_bit("chunk/0.zr", at as u64 * 8));
        let mut walk = loader.iter().unwrap();
        assert_eq!(
            counted(&walk.next().unwrap().unwrap()),
            (0..10).collect::<Vec<_>>()
        );
        assert_eq!(
            counted(&walk.next().unwrap().unwrap()),
            (10..20).collect::<Vec<_>>()
        );
        for _ in 0..3 {
            let error = walk.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert_eq!(error.get("index"), Some("25"));
        }
        assert_eq!(loader.state().unwrap().consumed, 20);
        // Repaired, the saved state goes on.
        assert!(disk.flip_bit("chunk/0.zr", at as u64 * 8));
        let resumed = set.loader(loader.options().clone()).unwrap();
        resumed.load_state(&loader.state().unwrap(), true).unwrap();
        assert_eq!(whole_epoch(&resumed), (20..40).collect::<Vec<_>>());
    }
}

#[test]
fn leaving_in_the_middle_frees_what_was_gathered_ahead() {
    let place = OnDisk::new();
    let set = place.create(Options {
        codec: CodecChoice::Zstd,
        ..Options::default()
    });
    let records: Vec<Vec<u8>> = (0..400).map(|i| record(i).repeat(2000)).collect();
    set.extend(&records).unwrap();
    set.flush().unwrap();
    let options = LoaderOptions {
        batch_size: 20,
        prefetch: 8,
        layout: Layout::Packed,
        ..LoaderOptions::default()
    };
    let loader = set.loader(options).unwrap();
    let used = || {
        let memory = place.runtime.memory().stats();
        memory.reserved_bytes - memory.pool.cached_bytes
    };
    let before = used();
    let mut walk = loader.iter().unwrap();
    let step = walk.next().unwrap().unwrap();
    assert!(used() > before);
    drop(walk);
    drop(step);
    drop(loader);
    // Jobs that were running finish first.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while used() > before {
        assert!(
            std::time::Instant::now() < deadline,
            "{} bytes stay in use",
            used() - before
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_tight_memory_limit_means_fewer_steps_ahead_not_an_error() {
    let place = OnDisk::new();
    let runtime = Runtime::new(staddle_runtime::Options {
        memory: Some(16 << 20),
        ..Default::default()
    })
    .unwrap();
    let set = Records::create(&runtime, Arc::clone(&place.device), Options::default()).unwrap();
    let payload = vec![7u8; 256 << 10];
    for _ in 0..60 {
        set.append(&payload).unwrap();
    }
    set.flush().unwrap();
    let options = LoaderOptions {
        batch_size: 12,
        prefetch: 8,
        layout: Layout::Packed,
        ..LoaderOptions::default()
    };
    let mut rows = 0;
    for step in set.loader(options).unwrap().iter().unwrap() {
        let step = step.unwrap();
        assert!((0..step.rows.len()).all(|at| step.rows.get(at) == Some(payload.as_slice())));
        rows += step.rows.len();
    }
    assert_eq!(rows, 60);
}

#[test]
fn waiting_can_be_cut_into_pieces() {
    let place = OnDisk::new();
    let set = make(&place.runtime, &place.device, 100);
    for prefetch in [0, 2] {
        let loader = set
            .loader(LoaderOptions {
                batch_size: 10,
                prefetch,
                ..LoaderOptions::default()
            })
            .unwrap();
        let mut walk = loader.iter().unwrap();
        let mut rows = Vec::new();
        loop {
            while !walk.ready_within(Duration::from_millis(1)) {}
            match walk.next() {
                Some(step) => rows.extend(counted(&step.unwrap())),
                None => break,
            }
        }
        assert_eq!(rows, (0..100).collect::<Vec<_>>());
    }
}

#[test]
fn a_runtime_that_replays_runs_jobs_in_the_caller() {
    let options = staddle_runtime::Options {
        threads: 1,
        deterministic: true,
        ..Default::default()
    };
    let runtime = Runtime::new(options).unwrap();
    let set = make(&runtime, &simulated(9), 50);
    let loader = set
        .loader(LoaderOptions {
            batch_size: 7,
            prefetch: 3,
            ..LoaderOptions::default()
        })
        .unwrap();
    assert_eq!(whole_epoch(&loader), (0..50).collect::<Vec<_>>());
}

#[test]
fn many_walks_side_by_side_do_not_mix() {
    let place = OnDisk::new();
    let set = make(&real(), &place.device, 2000);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let set = set.clone();
            scope.spawn(move || {
                let options = LoaderOptions {
                    batch_size: 33,
                    shuffle: Shuffle::BLOCK,
                    seed,
                    prefetch: 4,
                    ..LoaderOptions::default()
                };
                let mut rows = whole_epoch(&set.loader(options).unwrap());
                rows.sort_unstable();
                assert_eq!(rows, (0..2000).collect::<Vec<_>>());
            });
        }
    });
}

#[test]
fn bad_options_and_a_closed_set_are_named() {
    let set = small(10);
    let kind = |options: LoaderOptions| set.loader(options).unwrap_err().kind();
    let base = LoaderOptions::default;
    assert_eq!(
        kind(LoaderOptions {
            batch_size: 0,
            ..base()
        }),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind(LoaderOptions { rank: 1, ..base() }),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind(LoaderOptions {
            prefetch: 1 << 20,
            ..base()
        }),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind(LoaderOptions {
            snapshot: Some("none".into()),
            ..base()
        }),
        ErrorKind::NotFound
    );
    let loader = set
        .loader(LoaderOptions {
            batch_size: 2,
            ..base()
        })
        .unwrap();
    assert_eq!(loader.worker(2, 2).unwrap_err().kind(), ErrorKind::Invalid);
    let mut walk = loader.iter().unwrap();
    let step = walk.next().unwrap().unwrap();
    set.close().unwrap();
    assert_eq!(walk.next().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(loader.iter().unwrap_err().kind(), ErrorKind::Closed);
    // What was handed out stays.
    assert_eq!(counted(&step), [0, 1]);
}

#[test]
fn an_empty_set_has_empty_epochs() {
    let set = small(0);
    let loader = set
        .loader(LoaderOptions {
            shuffle: Shuffle::Global,
            ..LoaderOptions::default()
        })
        .unwrap();
    assert!(loader.is_empty().unwrap());
    assert!(whole_epoch(&loader).is_empty());
    assert_eq!(loader.epoch(), 1);
}
