//! The threads behind object stores: one tokio runtime a process, started by the first request.
//!
//! Callers are ordinary threads. They hand a future over and wait on a channel, which works from any thread, also from
//! one that another tokio runtime owns. A forked child starts its own runtime.

use std::future::Future;

use staddle_base::{Error, Result};

use crate::process::PerProcess;

/// Threads for TLS, copies and parsing; requests in flight are tasks, not threads.
const THREADS: usize = 2;

static RUNTIME: PerProcess<std::result::Result<tokio::runtime::Runtime, String>> =
    PerProcess::new(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(16)
            .thread_name("staddle-net")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())
    });

/// Starts a future.
pub(super) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    match RUNTIME.get() {
        Ok(runtime) => {
            runtime.spawn(future);
            Ok(())
        }
        Err(why) => Err(Error::exhausted(format!(
            "the system gives no threads for network requests: {why}"
        ))),
    }
}

/// Runs a future to its end while the caller waits.
pub(super) fn wait<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    let (send, receive) = crossbeam_channel::bounded(1);
    spawn(async move {
        // The receiver waits below, so this cannot block and fails only if it is gone.
        let _ = send.send(future.await);
    })?;
    receive
        .recv()
        .map_err(|_| Error::internal("a network task panicked"))
}
