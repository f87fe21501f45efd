//! The words every layer of Staddle shares.
//!
//! | Module | The question it answers |
//! |---|---|
//! | [`error`] | what went wrong, where, why, and what to do now |
//! | [`wire`] | how do untrusted bytes become integers without a panic |
//! | [`checksum`] | are these the bytes that were written |
//! | [`aligned`] | memory that devices and SIMD accept |
//! | [`hash`] | stable hashes and the keyed permutation behind every shuffle |
//! | [`clock`] | what time is it, in a way a test can set |
//! | [`seed`] | randomness that replays |
//! | [`size`] | `"8GB"` and back |
//! | [`suggest`] | did you mean … |
//! | [`metrics`] | counters a dashboard can scrape |
//! | [`settings`] | where did this setting come from |
//!
//! Nothing here does I/O, and nothing here knows a store.

pub mod aligned;
pub mod checksum;
pub mod clock;
pub mod error;
pub mod hash;
pub mod metrics;
pub mod seed;
pub mod settings;
pub mod size;
pub mod suggest;
pub mod wire;

pub use aligned::AlignedBuf;
pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, ErrorKind, Result};
pub use seed::{Rng, Seed};
