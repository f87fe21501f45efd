//! The runtime from the outside: devices, engines, forks and models.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "these tests play the outside world: they make files, threads and links, and fail by panicking"
)]

mod devices;
mod engines;
mod forks;
mod handle;
mod httpd;
mod model;
mod remote;
mod seccomp;
