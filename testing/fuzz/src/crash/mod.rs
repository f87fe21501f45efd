//! Crash tests: random programs over a disk that forgets, and a look at everything a power cut could leave behind.
//!
//! ```text
//!   program (seed) ─► store ─► SimDisk ── at every mutating call ──► 4 images
//!        │                                                           │
//!        ▼                                                           ▼
//!   model: the states that a crash may leave            open read-only: one of those states, nothing written
//!   (the last acknowledged commit, and any              open to write: recover, go on, verify
//!   commit begun since)                                   └─ images of that too: a crash in recovery
//! ```
//!
//! | File | The question it answers |
//! |---|---|
//! | [`program`] | what do users do with a store |
//! | [`model`] | what must be there afterwards |
//! | [`store`] | what does a store offer to be driven |
//! | [`driver`] | which images are looked at, and what is checked |
//! | [`record`] | how the record store is driven |
//!
//! A violation prints the seed of its program and the number of the call; both replay it.

pub mod driver;

pub mod model;
pub mod program;
pub mod record;
pub mod session;
pub mod store;
