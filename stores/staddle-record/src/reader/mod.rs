//! Reading: from an index to bytes.
//!
//! `index → overlay or table → entry → chunk → bytes`. A [`Generation`] holds one consistent set of all four, so a
//! reader needs no lock and sees no change; a [`Batch`] keeps its generation alive, so what it points to stays valid.

pub mod batch;
pub mod chunks;
pub mod cold;
pub mod decode;
pub mod gather;
pub mod generation;
pub mod overlay;
pub mod pin;
pub mod table;

pub use batch::{Batch, Packed};
pub use generation::Generation;
