//! Fuzz targets and crash driver: everything that throws bad bytes and power cuts at the stores.
//!
//! # Fuzzing
//! Each file in [`targets`] is one parser under attack. A target is a function of bytes; it must return, within two
//! seconds of computing and within [`guard::allowed_bytes`] of memory, a result or a typed error, and what it accepts
//! must hold together (decode, encode, decode gives the same). `cargo x fuzz [TARGET] --seconds N` runs them with
//! [`mutate::Mutator`], which needs nothing but this crate: it starts from seeds that the real writers made, repairs
//! checksums in three of four inputs so that the code behind the checksum is reached, and keeps inputs that made the
//! parser answer in a new way. The same targets serve `cargo fuzz` where that is installed (`testing/fuzz/cargo-fuzz`).
//!
//! # Crashes
//! [`crash`] runs random programs over a simulated disk, looks at every disk that a power cut could leave behind, and
//! checks that reopening finds one commit not older than the last acknowledged one. `cargo x crash record --points N`.

pub mod alloc;
pub mod crash;
pub mod fuzzer;
pub mod guard;
pub mod mutate;
pub mod target;
pub mod targets;

pub use target::{Signal, Target};
pub use targets::TARGETS;
