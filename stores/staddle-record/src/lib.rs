//! Opaque records by index: append, update, delete, and gather them shuffled without copying.
//!
//! A record set keeps 10^5 to 10^10 byte strings (images, documents, token sequences) and gives any of them by index. It
//! is made for training: each epoch reads all of them, shuffled, in batches; meanwhile samples are added, replaced and
//! removed; jobs die and must go on exactly where they were.
//!
//! # What lies on disk
//! ```text
//!   HEAD ── two slots of 4 KiB; the newest good one says what is in force
//!    │
//!    ├─► manifest/N.json    segments, sealed chunks, dictionaries, options
//!    ├─► log/N.log          entries that changed since the last checkpoint
//!    │
//!    ├─► offset/SEG.VER.seg       16 B a record: chunk, offset, length, codec ──┐
//!    │       entry i at base + 16 i                                             │
//!    └─► chunk/ID.zr        ┌────────┬───────┬────────┬───────┬─────┐           │
//!                           │ header │ frame │payload │ frame │ …   │ ◄─────────┘
//!                           └────────┴───────┴────────┴───────┴─────┘
//! ```
//! A frame before each payload carries lengths, checksum, index, sequence and operation, so the table can be rebuilt from
//! the chunks alone. [`mod@format`] has the structures, `docs/format/record.md` the byte tables, an example in hex and
//! the crash argument, `rfcs/0003-record-format.md` the reasons.
//!
//! # Reading
//! [`Records::gather`] is the one read primitive; a single record, a slice and a range are gathers. Indices are checked,
//! resolved through overlay and table with the table prefetched ahead, and handed out in input order: what is mapped and
//! not compressed as slices of the map, everything else decompressed or read into pooled buffers. A [`Batch`] owns what it
//! points to, whatever happens to the set. [`Records::gather_packed`] copies all of it into one buffer with offsets.
//!
//! A reader holds a [`Generation`]: table, overlay, chunks and dictionaries of one commit, immutable, shared without a
//! lock. It is pinned by a lock on one byte of `LOCK`, which the kernel drops with the process; no file of it is removed
//! while it is pinned. [`Records::refresh`] moves on.
//!
//! # Writing
//! One process writes at a time; its first change takes the writer lock. A change puts a frame into a *lane* (an open
//! chunk and its buffer) and an entry into the tail of the table or, where a published slot changes, into log and
//! overlay. [`Records::flush`] makes it durable and publishes it: lanes, table, log and manifest are synced, then the
//! older slot of HEAD is overwritten. Published bytes never change, so a stop at any point leaves the commit before or the
//! new one, whole. [`maintain`] has what is done seldom: checkpoint, compact, rebalance, verify, repair, snapshots.
//!
//! # Loading
//! A [`Loader`] walks over epochs in an order that is a function of seed, epoch and number of records. Its state is six
//! numbers; it resumes exactly, on any number of ranks and workers, and says so when the set has changed in a way that
//! makes that impossible.
//!
//! # What it costs
//! * 40 bytes a record: an entry of 16 and a frame of 24, and the gap to the next multiple of 8.
//! * Memory: the map of the table, 1 bit a record that was checked, and the overlay: 24 bytes for each changed slot
//!   since the last checkpoint.
//! * A flush: three syncs with one lane, 4 KiB of HEAD, and a manifest when a chunk was sealed.
//! * An update or delete: its frame, 40 bytes of log, and the old frame, which stays until [`Records::compact`].
//!
//! # Example
//! ```text
//! let runtime = Runtime::global();
//! let device = runtime.io().device("imgs.rec", &BTreeMap::new())?;
//! let set = Records::create(&runtime, device, Options::default())?;
//! set.extend(&["cat", "dog", "stork"])?;      // indices 0..3
//! set.update(1, b"wolf")?;
//! set.flush()?;                               // from here on a crash takes nothing back
//! let batch = set.gather(&[2, 0, 2])?;        // "stork", "cat", "stork", where they lie
//! let loader = set.loader(LoaderOptions { batch_size: 2, shuffle: Shuffle::Global, ..Default::default() })?;
//! for step in loader.iter()? {
//!     let step = step?;                       // step.rows, step.indices, step.valid
//! }
//! let state = loader.state()?;                // save it with the model
//! ```
//! A whole program, which is run as a test, stands at the top of the `staddle` crate.
//!
//! # Where to look
//! | File or folder | The question it answers |
//! |---|---|
//! | `records.rs` | what can a user do with a set |
//! | [`options`] | what may a user choose |
//! | [`mod@format`], [`manifest`] | which bytes mean what |
//! | [`reader`] | how does an index become bytes |
//! | [`writer`] | how does a change become durable |
//! | [`maintain`] | what is done seldom, and what after a disaster |
//! | [`loader`] | which record comes when |
//! | [`adopt`], [`import`], [`aligned`] | how do other people's files come in |
//! | [`codec`] | how are payloads compressed |
//! | [`stats`], [`dump`] | what does a set say about itself |
#![forbid(unsafe_code)]

pub mod adopt;
pub mod aligned;
pub mod codec;
pub mod concat;
pub mod dump;
pub mod export;
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
