//! A mutex whose state is its own word and nothing else, so that a forked child can use fresh ones safely.
//!
//! Most of Staddle locks with parking_lot, which keeps its waiting threads in one table for the whole process. A fork may
//! catch that table locked by a thread that does not exist in the child, and then even a fresh lock there could hang
//! once two threads contend for it. The runtime's own locks therefore are the standard library's, which wait on a futex
//! in the lock itself. A panic while one is held does not poison it: what they guard is whole between statements.

#![expect(
    clippy::disallowed_types,
    reason = "this is the wrapper that removes what the lint is about, poisoning"
)]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A mutex without poisoning and without process-wide state.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

/// What a [`Lock`] gives access through.
pub type LockGuard<'l, T> = MutexGuard<'l, T>;

impl<T> Lock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits until the value is free.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, which nobody else can have.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets holders of a [`Lock`] wait for each other.
#[derive(Debug, Default)]
pub struct Signal(Condvar);

impl Signal {
    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Gives up the lock until notified or `time` is over; says whether it was over.
    pub fn wait_for<'l, T>(
        &self,
        guard: LockGuard<'l, T>,
        time: Duration,
    ) -> (LockGuard<'l, T>, bool) {
        let (guard, result) = self
            .0
            .wait_timeout(guard, time)
            .unwrap_or_else(PoisonError::into_inner);
        (guard, result.timed_out())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_the_lock_usable() {
        let lock = Lock::new(1);
        std::thread::scope(|scope| {
            let panicked = scope.spawn(|| {
                let _held = lock.lock();
                panic!("while it is held");
            });
            assert!(panicked.join().is_err());
        });
        *lock.lock() += 1;
        assert_eq!(lock.into_inner(), 2);
    }

    #[test]
    fn a_waiter_is_woken_or_told_that_time_is_over() {
        let (lock, signal) = (Lock::new(false), Signal::default());
        let (guard, over) = signal.wait_for(lock.lock(), Duration::from_millis(1));
        assert!(over && !*guard);
        drop(guard);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *lock.lock() = true;
                signal.notify_all();
            });
            let mut guard = lock.lock();
            while !*guard {
                guard = signal.wait_for(guard, Duration::from_secs(10)).0;
            }
        });
    }
}
