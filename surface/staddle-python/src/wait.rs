//! Waiting without holding the interpreter lock, and with an ear for Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use staddle_base::{Error, Result};
use staddle_runtime::Runtime;

use crate::errors::{OrRaise, guard};

/// How often a wait looks for signals.
const POLL: Duration = Duration::from_millis(50);

/// Tells a running job that the user wants it to stop.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether the job should stop.
    pub(crate) fn wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs `work` on a background thread while this one waits, without the interpreter lock, and looks for signals. On
/// Ctrl-C the job is told to stop, this call waits until it has, and `KeyboardInterrupt` is raised.
///
/// # Errors
/// Those of the job, `InternalError` when it panicked, or whatever a signal handler raised.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    runtime: &Runtime,
    name: &'static str,
    work: impl FnOnce(&Stop) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    guard(py, || {
        let stop = Stop::default();
        let (send, receive) = crossbeam_channel::bounded(1);
        let theirs = stop.clone();
        let job = move || {
            // The waiting side may be gone only if its thread died; then nobody wants the result.
            let _ = send.send(work(&theirs));
        };
        runtime.workers().spawn(name, job).or_raise(py)?;
        let mut interrupted = None;
        loop {
            match py.detach(|| receive.recv_timeout(POLL)) {
                Ok(result) => {
                    return match interrupted {
                        Some(why) => Err(why),
                        None => result.or_raise(py),
                    };
                }
                Err(crossbeam_channel::RecvTimeoutError::Timeout) => {
                    if interrupted.is_none()
                        && let Err(why) = py.check_signals()
                    {
                        stop.0.store(true, Ordering::Relaxed);
                        interrupted = Some(why);
                    }
                }
                Err(crossbeam_channel::RecvTimeoutError::Disconnected) => {
                    let error =
                        Error::internal(format!("a bug in Staddle: the job `{name}` panicked"))
                            .hint("reopen the store; please report this with what you were doing");
                    return Err(crate::errors::raise(py, &error));
                }
            }
        }
    })
}
