//! Opaque records by index.
#![forbid(unsafe_code)]
pub mod adopt;
pub mod codec;
pub mod format;
pub mod manifest;
pub mod options;
