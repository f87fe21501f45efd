//! testing/bench
