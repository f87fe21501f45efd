//! Buffers are warm, counted, limited and given back.

use std::sync::Arc;

use staddle_base::{ErrorKind, ManualClock};

use super::super::{AllocatorRegistry, Reservation};
use super::*;

fn pool(limit: u64) -> (Reservation, Pool) {
    let root = Reservation::root("root", limit, Arc::new(ManualClock::default()));
    let pool = Pool::new(&root, AllocatorRegistry::global().system());
    (root, pool)
}

#[test]
fn sizes_are_powers_of_two_from_the_minimum() {
    for (len, block) in [
        (0, 8 << 10),
        (1, 8 << 10),
        (8191, 8 << 10),
        (8192, 8 << 10),
        (8193, 16 << 10),
        (65536, 64 << 10),
        (65537, 128 << 10),
        (3 << 20, 4 << 20),
    ] {
        let (root, pool) = pool(u64::MAX);
        let client = root.child("client", None);
        let buffer = pool.take(&client, len).unwrap();
        assert_eq!((buffer.len(), buffer.capacity()), (len, block));
        assert_eq!(client.used(), block as u64);
        assert!(buffer.iter().all(|b| *b == 0));
        drop(buffer);
        assert_eq!((client.used(), client.reservation()), (0, 0));
    }
    let (root, pool) = pool(u64::MAX);
    let error = pool
        .take(&root.child("client", None), (1 << 40) + 1)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert_eq!(
        pool.take(&root, usize::MAX).unwrap_err().kind(),
        ErrorKind::Exhausted
    );
}

#[test]
fn a_returned_block_is_served_again_with_its_pages() {
    let (root, pool) = pool(1 << 30);
    let client = root.child("client", None);
    let mut buffer = pool.take(&client, 100_000).unwrap();
    buffer.fill(7);
    let at = buffer.as_ptr();
    drop(buffer);
    assert_eq!(pool.stats().cached_bytes, 131_072);
    let again = pool.take(&client, 131_072).unwrap();
    assert_eq!(again.as_ptr(), at);
    assert!(
        again[..100_000].iter().all(|b| *b == 7),
        "a warm block is not zeroed"
    );
    assert_eq!((pool.stats().cached_bytes, pool.stats().reused), (0, 1));
}

#[test]
fn large_blocks_are_aligned_for_huge_pages() {
    let (root, pool) = pool(1 << 30);
    let small = pool.take(&root, 9000).unwrap();
    let large = pool.take(&root, 3 << 20).unwrap();
    assert_eq!(small.as_ptr().addr() % 4096, 0);
    assert_eq!(large.as_ptr().addr() % (2 << 20), 0);
}

#[test]
fn what_is_held_and_what_is_kept_never_exceed_the_limit() {
    let (root, pool) = pool(64 << 10);
    let client = root.child("client", None);
    let full = pool.take(&client, 64 << 10).unwrap();
    let error = pool.take(&client, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(
        error
            .get("holders")
            .unwrap()
            .contains("root/client 65.5 kB"),
        "{error}"
    );
    drop(full);
    assert_eq!(root.reservation(), 64 << 10, "the block is kept");
    // Another size needs the room: the kept block goes back to the system.
    let small: Vec<_> = (0..8)
        .map(|_| pool.take(&client, 8 << 10).unwrap())
        .collect();
    assert_eq!(root.reservation(), 64 << 10);
    assert_eq!(
        (pool.stats().cached_bytes, pool.stats().trimmed_bytes),
        (0, 64 << 10)
    );
    drop(small);
    assert_eq!(pool.trim(), 64 << 10);
    assert_eq!(root.reservation(), 0);
}

#[test]
fn a_client_limit_holds_though_the_root_has_room() {
    let (root, pool) = pool(1 << 30);
    let client = root.child("client", Some(16 << 10));
    let _held = pool.take(&client, 16 << 10).unwrap();
    assert!(
        pool.take(&client, 1)
            .unwrap_err()
            .message()
            .contains("`client` holds")
    );
    assert!(pool.take(&root.child("other", None), 1).is_ok());
}

#[test]
fn a_reserved_take_always_succeeds_and_keeps_the_reservation() {
    let (root, pool) = pool(1 << 20);
    let client = root.child("client", None);
    client.try_grow(512 << 10).unwrap();
    let others: Vec<_> = std::iter::from_fn(|| pool.take(&root, 8 << 10).ok()).collect();
    assert_eq!(others.len(), 64);
    let mine = pool.take(&client, 512 << 10).unwrap();
    assert_eq!(
        (client.reservation(), client.used()),
        (512 << 10, 512 << 10)
    );
    drop(mine);
    assert_eq!((client.reservation(), client.used()), (512 << 10, 0));
}

#[test]
fn a_buffer_can_be_shared_and_resized_within_its_block() {
    let (root, pool) = pool(1 << 20);
    let mut buffer = pool.take(&root, 10).unwrap();
    buffer.set_len(8192).unwrap();
    assert_eq!(buffer.set_len(8193).unwrap_err().kind(), ErrorKind::Invalid);
    let shared = buffer.freeze();
    let other = Arc::clone(&shared);
    drop(shared);
    assert_eq!((other.len(), root.used()), (8192, 8192));
    drop(other);
    assert_eq!(root.used(), 0);
}
