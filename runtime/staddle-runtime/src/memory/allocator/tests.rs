//! Allocators hand out memory of their own, aligned, and count it; the registry finds them.

use proptest::prelude::*;
use staddle_base::ErrorKind;

use super::*;

fn built_in() -> Vec<Box<dyn Allocator>> {
    vec![
        Box::new(SystemAllocator::default()),
        Box::new(ArenaAllocator::default()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn blocks_are_aligned_disjoint_and_keep_their_bytes(
        steps in prop::collection::vec((0usize..200_000, 0u32..14, any::<bool>(), any::<u8>()), 1..80)
    ) {
        for allocator in built_in() {
            let mut held: Vec<(NonNull<u8>, Layout, u8)> = Vec::new();
            for (bytes, align, zeroed, tag) in &steps {
                // A third of the steps free something instead.
                if *bytes % 3 == 0 && !held.is_empty() {
                    let (start, layout, tag) = held.swap_remove(bytes % held.len());
                    // SAFETY: `start` came from `allocate` with this layout, and was filled below.
                    let kept = unsafe { std::slice::from_raw_parts(start.as_ptr(), layout.size()) };
                    prop_assert!(kept.iter().all(|b| *b == tag));
                    // SAFETY: as above; it is not used again.
                    unsafe { allocator.free(start, layout) };
                    continue;
                }
                let layout = Layout::from_size_align(bytes + 1, 1 << align).unwrap();
                let start = if *zeroed {
                    let start = allocator.allocate_zeroed(layout).unwrap();
                    // SAFETY: `start` has this many zeroed bytes.
                    let fresh = unsafe { std::slice::from_raw_parts(start.as_ptr(), layout.size()) };
                    prop_assert!(fresh.iter().all(|b| *b == 0));
                    start
                } else {
                    allocator.allocate(layout).unwrap()
                };
                prop_assert_eq!(start.as_ptr().addr() % layout.align(), 0);
                // SAFETY: `start` has this many writable bytes.
                unsafe { start.as_ptr().write_bytes(*tag, layout.size()) };
                held.push((start, layout, *tag));
            }
            let stats = allocator.stats();
            let asked: usize = held.iter().map(|(_, layout, _)| layout.size()).sum();
            prop_assert!(stats.bytes_in_use >= asked as u64);
            prop_assert!(stats.bytes_reserved >= stats.bytes_in_use);
            for (start, layout, tag) in held {
                // SAFETY: as above.
                let kept = unsafe { std::slice::from_raw_parts(start.as_ptr(), layout.size()) };
                prop_assert!(kept.iter().all(|b| *b == tag));
                // SAFETY: as above; it is not used again.
                unsafe { allocator.free(start, layout) };
            }
            prop_assert_eq!(allocator.stats().bytes_in_use, 0);
        }
    }
}

#[test]
fn the_six_figures_have_their_names_and_values() {
    let allocator = SystemAllocator::default();
    let layout = Layout::from_size_align(1000, 64).unwrap();
    let large = Layout::from_size_align(3 << 20, 4096).unwrap();
    let (a, b) = (
        allocator.allocate(layout).unwrap(),
        allocator.allocate(large).unwrap(),
    );
    assert_eq!(
        b.as_ptr().addr() % HUGE_BYTES,
        0,
        "a large block comes from the kernel"
    );
    // SAFETY: `b` came from this allocator with this layout and is not used again.
    unsafe { allocator.free(b, large) };
    let stats = allocator.stats();
    assert_eq!(
        serde_json::to_value(&stats).unwrap(),
        serde_json::json!({
            "name": "system",
            "num_allocs": 2,
            "bytes_in_use": 1000,
            "peak_bytes_in_use": 1000 + (3 << 20),
            "largest_alloc_size": 3 << 20,
            "bytes_reserved": 1000,
            "peak_bytes_reserved": 1000 + (3 << 20),
        })
    );
    // SAFETY: as above.
    unsafe { allocator.free(a, layout) };
    assert_eq!(allocator.stats().bytes_in_use, 0);
}

#[test]
fn an_arena_reuses_what_was_freed() {
    let arena = ArenaAllocator::default();
    let layout = Layout::from_size_align(5000, 64).unwrap();
    let first = arena.allocate(layout).unwrap();
    // SAFETY: `first` came from this arena with this layout and is not used again.
    unsafe { arena.free(first, layout) };
    let again = arena
        .allocate(Layout::from_size_align(5050, 64).unwrap())
        .unwrap();
    assert_eq!(first, again, "the same step of size");
    assert_eq!(arena.stats().bytes_reserved, 2 << 20);
}

#[test]
fn impossible_sizes_are_refused() {
    for allocator in built_in() {
        let huge = Layout::from_size_align(isize::MAX as usize - 4096, 64).unwrap();
        assert_eq!(
            allocator.allocate(huge).unwrap_err().kind(),
            ErrorKind::Exhausted
        );
    }
    let nothing = Layout::from_size_align(0, 1).unwrap();
    assert_eq!(
        SystemAllocator::default()
            .allocate(nothing)
            .unwrap_err()
            .kind(),
        ErrorKind::Invalid
    );
}

#[test]
fn the_registry_selects_by_name_or_priority() {
    let registry = AllocatorRegistry::global();
    assert_eq!(registry.get("TensorPoolAllocator").unwrap().name(), "arena");
    assert_eq!(registry.best().unwrap().name(), "arena");
    assert_eq!(registry.system().name(), "system");
    let error = registry.get("arean").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("did you mean `arena`"),
        "{error}"
    );

    let clash = registry.register("system", 1000, || Err(Error::internal("never made")));
    assert_eq!(clash.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(registry.best().unwrap().name(), "arena");

    #[derive(Debug)]
    struct Mine(SystemAllocator);
    impl Allocator for Mine {
        fn allocate(&self, layout: Layout) -> Result<NonNull<u8>> {
            self.0.allocate(layout)
        }
        unsafe fn free(&self, start: NonNull<u8>, layout: Layout) {
            // SAFETY: the caller's promise is passed on.
            unsafe { self.0.free(start, layout) }
        }
        fn stats(&self) -> AllocatorStats {
            self.0.stats()
        }
        fn name(&self) -> &str {
            "mine"
        }
    }
    registry
        .register("mine", 1000, || {
            Ok(Arc::new(Mine(SystemAllocator::default())))
        })
        .unwrap();
    assert_eq!(registry.best().unwrap().name(), "mine");
    assert!(registry.names().contains(&"mine".to_owned()));
    assert!(registry.stats().iter().any(|stats| stats.name == "system"));
    let (a, b) = (registry.get("mine").unwrap(), registry.get("mine").unwrap());
    assert!(Arc::ptr_eq(&a, &b), "made once");
}
