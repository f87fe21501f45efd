//! Jobs run, keep their order, survive panics and do not starve each other.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

use staddle_base::ErrorKind;

use super::*;

#[test]
fn map_keeps_the_order_on_any_number_of_threads() {
    for threads in [1, 2, 4] {
        let workers = Workers::new(threads, false);
        let items: Vec<u32> = (0..1000).collect();
        let doubled = workers.map("double", items.clone(), |n| n * 2).unwrap();
        assert_eq!(doubled, items.iter().map(|n| n * 2).collect::<Vec<_>>());
        assert!(
            workers
                .map("none", Vec::<u32>::new(), |n| n)
                .unwrap()
                .is_empty()
        );
    }
    assert!(Workers::new(0, false).threads() >= 1);
}

#[test]
fn one_thread_or_one_item_computes_in_the_caller() {
    let here = std::thread::current().id();
    let in_caller = |workers: &Workers, items| {
        let ids = workers
            .map("where", items, |_: u8| std::thread::current().id())
            .unwrap();
        ids.iter().all(|id| *id == here)
    };
    assert!(in_caller(&Workers::new(1, false), vec![1; 50]));
    let two = Workers::new(2, false);
    assert!(in_caller(&two, vec![1]));
    assert!(two.compute.get().is_none(), "no thread was started");
    assert!(!in_caller(&two, vec![1; 50]));
}

#[test]
fn a_panic_fails_the_job_by_name_and_nothing_else() {
    for threads in [1, 2] {
        let workers = Workers::new(threads, false);
        let error = workers
            .map("decode", (0..100).collect(), |n: u32| {
                assert!(n != 50, "bad record {n}")
            })
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(
            error.message().contains("`decode` panicked: bad record 50"),
            "{error}"
        );
        assert_eq!(
            workers.map("again", vec![1, 2], |n: u32| n + 1).unwrap(),
            [2, 3]
        );
    }
}

#[test]
fn maps_nest() {
    let workers = Workers::new(2, false);
    let sums = workers
        .map("outer", (0..20u64).collect(), |n| {
            let inner = workers.map("inner", (0..n).collect(), |m| m).unwrap();
            inner.iter().sum::<u64>()
        })
        .unwrap();
    assert_eq!(sums[19], 171);
}

#[test]
fn background_jobs_that_wait_for_each_other_all_run() {
    let workers = Workers::new(1, false);
    let barrier = Arc::new(Barrier::new(41));
    for _ in 0..40 {
        let barrier = Arc::clone(&barrier);
        let wait = move || {
            barrier.wait();
        };
        workers.spawn("wait", wait).unwrap();
    }
    barrier.wait();
}

#[test]
fn a_panic_in_the_background_is_counted_and_the_thread_goes_on() {
    let workers = Workers::new(1, false);
    let (send, receive) = crossbeam_channel::unbounded();
    for n in 0..20 {
        let send = send.clone();
        workers
            .spawn("sometimes", move || {
                let _on_the_way_out = Notify(send);
                assert!(n % 2 == 0, "odd");
            })
            .unwrap();
    }
    for _ in 0..20 {
        receive.recv().unwrap();
    }
    // The count follows the notification by the end of an unwind.
    while workers.panics() < 10 {
        std::thread::yield_now();
    }
    assert_eq!(workers.panics(), 10);
}

struct Notify(crossbeam_channel::Sender<()>);

impl Drop for Notify {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn deterministic_jobs_have_run_when_spawn_returns() {
    static RAN: AtomicBool = AtomicBool::new(false);
    let workers = Workers::new(1, true);
    workers
        .spawn("now", || RAN.store(true, Ordering::SeqCst))
        .unwrap();
    assert!(RAN.load(Ordering::SeqCst));
    workers.spawn("panics", || panic!("caught")).unwrap();
}
