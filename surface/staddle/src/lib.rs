//! Staddle: the storage and I/O engine that model training stands on.
//!
//! This crate is what an application uses: it opens a store by path or URI, and re-exports the parts.
//!
//! ```
//! use staddle::{LoaderOptions, Location, Options, Shuffle, Store};
//!
//! # fn main() -> staddle::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! let runtime = staddle::runtime()?;
//! let place = Location::new(folder.path().join("words.rec"));
//!
//! let words = staddle::create(&runtime, &place, Options::default(), &Default::default())?;
//! words.extend(&["granary", "stone", "staddle"])?;
//! words.close()?;
//!
//! let Store::Records(words) = staddle::open(&runtime, &place, Default::default(), &Default::default())? else {
//!     unreachable!("it was made as records above");
//! };
//! let batch = words.gather(&[2, 0])?; // input order, nothing copied
//! assert_eq!(batch.get(0), Some("staddle".as_bytes()));
//!
//! let options = LoaderOptions { batch_size: 2, shuffle: Shuffle::Global, ..Default::default() };
//! let loader = words.loader(options.clone())?;
//! let first = loader.iter()?.next().expect("three words are two steps")?;
//! let state = loader.state()?; // six numbers: save them with the model
//!
//! let resumed = words.loader(options)?;
//! resumed.load_state(&state, true)?;
//! let rest = resumed.iter()?.next().expect("one step is left")?;
//! assert_eq!(first.rows.len() + rest.rows.len(), 3);
//! # Ok(())
//! # }
//! ```
//!
//! | Module | The question it answers |
//! |---|---|
//! | [`open`](mod@open) | which store lies at this path or URI |
//! | [`describe`] | how are facts about a store put into words |
//! | [`import`] | what can records be imported from |
//! | [`settings`] | where did this setting come from |
//! | `cli` (feature) | what does `staddle VERB` do |
#![forbid(unsafe_code)]

pub mod describe;
pub mod import;
pub mod open;
pub mod settings;

#[cfg(feature = "cli")]
pub mod cli;

pub use open::{Location, StorageOptions, Store, create, open};
pub use settings::runtime;
pub use staddle_base::{Error, ErrorKind, Result};
pub use staddle_record::{
    Aligned, Batch, Loader, LoaderOptions, LoaderState, OpenOptions, Options, Records, Shuffle,
};
pub use staddle_runtime::Runtime;
