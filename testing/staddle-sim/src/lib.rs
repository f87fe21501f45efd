//! A disk that forgets: seeded devices, crash images and faults for tests.
//!
//! [`SimDisk`] is a [`Device`](staddle_runtime::io::device::Device) in memory, without host I/O and without threads. It
//! keeps apart what a program *sees* (the page cache) from what is *durable*, so a test can cut the power between any two
//! calls and look at every disk that could be left behind.
//!
//! ```text
//!   write_at ──► live sectors ──┐                      ┌─► image: all arrived
//!                pending sectors├─ sync ─► durable ────┼─► image: none arrived
//!   set_len  ──► pending lengths┘                      ├─► image: a prefix, the last sector torn
//!   rename   ──► pending entries ── sync_dir ─► durable├─► image: all but one
//!   create …                                           └─► image: any subset, in any order
//! ```
//!
//! # What the model assumes, and what it does not
//! * A sync that returned `Ok` is durable. `File::sync` covers that file's bytes and length, **not** its name;
//!   `Device::sync_dir` covers the names of one folder, not what is in the files.
//! * Nothing is ordered between two syncs: a later write may arrive without an earlier one, a length without its bytes
//!   (they read as zero), a rename without the bytes of the file it renames.
//! * Sectors of 512 bytes can tear: a byte that a pending write *changes* may be old, new or garbage. A byte that a write
//!   does not touch, or writes again with the same value, stays as it is.
//! * A file whose folder entry did not arrive is gone, whatever was synced in it.
//! * A failed sync marks pages clean and loses them, as ext4, XFS and Btrfs do: reads still see the new bytes, the next
//!   sync succeeds, and the bytes are never written.
//!
//! # Use
//! * [`SimDisk::power_off_at`]: the writer meets `Unavailable` errors from the k-th mutating call on;
//!   [`SimDisk::crash_image`] then gives a disk as it may come back.
//! * [`SimDisk::watch`]: a hook at every mutating call, at the moment when the power could go. One run of a program
//!   yields the images of all its crash points, which makes crash tests linear in the number of calls.
//! * [`SimDisk::inject`]: errors by call number or rate, bit rot, misdirected writes.
//! * [`SimDisk::trace`]: a hash of all calls; the same seed must give the same trace.

#![forbid(unsafe_code)]

mod call;
mod content;
mod disk;
mod fault;
mod file;
mod folders;
mod image;
mod inode;
mod lock;
mod ranges;
mod state;

pub use call::{Call, Op};
pub use content::SECTOR_BYTES;
pub use disk::SimDisk;
pub use fault::{Fault, On, Rule, When};
pub use image::Survivors;
pub use state::Moment;
