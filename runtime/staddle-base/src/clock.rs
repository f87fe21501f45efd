//! Time as something injected, so that a test can hold it still.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where time comes from. Correctness never reads [`Clock::wall_ns`]; it is for people.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since some fixed moment of this process; never goes back.
    fn steady_ns(&self) -> u64;
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    fn wall_ns(&self) -> u64;
    /// Waits.
    fn sleep(&self, time: Duration);
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose steady time begins now.
    pub fn new() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the clock that everything else asks"
        )]
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

fn saturating_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Clock for SystemClock {
    fn steady_ns(&self) -> u64 {
        saturating_ns(self.start.elapsed())
    }
    fn wall_ns(&self) -> u64 {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the clock that everything else asks"
        )]
        let now = SystemTime::now();
        saturating_ns(now.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
    fn sleep(&self, time: Duration) {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the clock that everything else asks"
        )]
        std::thread::sleep(time);
    }
}

/// A clock that moves only when told to; sleeping moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: AtomicU64,
}

impl ManualClock {
    /// Moves time forward.
    pub fn advance(&self, time: Duration) {
        self.now_ns
            .fetch_add(saturating_ns(time), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn steady_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }
    fn wall_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }
    fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_time_moves_only_when_told() {
        let clock = ManualClock::default();
        assert_eq!(clock.steady_ns(), 0);
        clock.sleep(Duration::from_micros(3));
        assert_eq!(clock.wall_ns(), 3000);
    }

    #[test]
    fn system_time_is_steady_and_after_2020() {
        let clock = SystemClock::new();
        let first = clock.steady_ns();
        assert!(clock.steady_ns() >= first);
        assert!(clock.wall_ns() > 1_577_836_800_000_000_000);
    }
}
