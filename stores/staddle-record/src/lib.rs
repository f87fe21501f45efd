//! Opaque records by index: append, update, delete, and gather them shuffled without copying.
#![forbid(unsafe_code)]

pub mod adopt;
pub mod aligned;
pub mod codec;
pub mod dump;
pub mod format;
pub mod import;
pub mod loader;
pub mod maintain;
pub mod manifest;
pub mod options;
pub mod progress;
pub mod reader;
mod records;
pub mod stats;
pub mod writer;

pub use aligned::Aligned;
pub use dump::DumpOptions;
pub use loader::{Holes, Layout, Loader, LoaderOptions, LoaderState, Rows, Shuffle, Step, Uneven};
pub use maintain::compact::CompactReport;
pub use maintain::repair::{RepairReport, repair};
pub use maintain::snapshot::Snapshot;
pub use maintain::verify::{Damage, VerifyReport};
pub use options::{CodecChoice, Dtype, Durability, Io, OpenOptions, Options, Verify};
pub use progress::{OnProgress, Progress};
pub use reader::{Batch, Generation, Packed};
pub use records::{Fingerprint, Glance, Records};
pub use stats::{Info, Stats};
