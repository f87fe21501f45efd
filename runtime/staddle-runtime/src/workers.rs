//! The threads that compute and the threads that wait, started when first needed and never before.
//!
//! [`Workers::map`] spreads a list over the cores on the runtime's own rayon pool. [`Workers::spawn`] runs one job on a
//! background thread that may block; idle background threads end after a while. A panic in a job becomes an error with
//! the job's name: it poisons the job, not the process.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use rayon::prelude::*;
use staddle_base::{Error, Result};

/// Background threads at most; further jobs wait for one to end.
const BACKGROUND_MAX: usize = 256;
/// How long an idle background thread waits for another job.
const IDLE: Duration = Duration::from_secs(10);

type Job = (&'static str, Box<dyn FnOnce() + Send>);

/// The worker threads of one process.
pub struct Workers {
    threads: usize,
    deterministic: bool,
    compute: OnceLock<Option<rayon::ThreadPool>>,
    background: OnceLock<Background>,
}

struct Background {
    send: Sender<Job>,
    shared: Arc<BackgroundState>,
}

struct BackgroundState {
    receive: Receiver<Job>,
    idle: AtomicUsize,
    threads: AtomicUsize,
    panics: AtomicU64,
}

impl Workers {
    pub(crate) fn new(threads: usize, deterministic: bool) -> Self {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        Self {
            threads,
            deterministic,
            compute: OnceLock::new(),
            background: OnceLock::new(),
        }
    }

    /// How many threads compute at once; 1 means in the caller.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Applies `f` to every item, in parallel where there are several threads and items; results keep the order.
    ///
    /// # Errors
    /// `Internal` naming `name` when `f` panicked.
    pub fn map<T: Send, R: Send>(
        &self,
        name: &'static str,
        items: Vec<T>,
        f: impl Fn(T) -> R + Sync,
    ) -> Result<Vec<R>> {
        let run = |item| {
            catch_unwind(AssertUnwindSafe(|| f(item))).map_err(|panic| panicked(name, &*panic))
        };
        if self.threads <= 1 || items.len() <= 1 {
            return items.into_iter().map(run).collect();
        }
        match self.compute.get_or_init(|| compute_pool(self.threads)) {
            Some(pool) => pool.install(|| items.into_par_iter().map(run).collect()),
            None => items.into_iter().map(run).collect(),
        }
    }

    /// Runs `job` on a background thread, which may block. A panic in it is caught, logged and counted.
    ///
    /// # Errors
    /// `Exhausted` when the system gives no thread and none is running.
    pub fn spawn(&self, name: &'static str, job: impl FnOnce() + Send + 'static) -> Result<()> {
        if self.deterministic {
            run_job(name, Box::new(job), &AtomicU64::new(0));
            return Ok(());
        }
        let background = self.background.get_or_init(Background::new);
        background.submit(name, Box::new(job))
    }

    /// How many background jobs panicked.
    pub fn panics(&self) -> u64 {
        self.background
            .get()
            .map_or(0, |b| b.shared.panics.load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Workers({} threads)", self.threads)
    }
}

impl Background {
    fn new() -> Self {
        let (send, receive) = crossbeam_channel::unbounded();
        Self {
            send,
            shared: Arc::new(BackgroundState {
                receive,
                idle: AtomicUsize::new(0),
                threads: AtomicUsize::new(0),
                panics: AtomicU64::new(0),
            }),
        }
    }

    /// Queues the job, then starts a thread unless an idle one can take it.
    fn submit(&self, name: &'static str, job: Box<dyn FnOnce() + Send>) -> Result<()> {
        let gone = || Error::internal("the background threads are gone");
        self.send.send((name, job)).map_err(|_| gone())?;
        let waiting = self.send.len();
        if waiting <= self.shared.idle.load(Ordering::SeqCst) {
            return Ok(());
        }
        let threads = self.shared.threads.fetch_add(1, Ordering::SeqCst);
        if threads >= BACKGROUND_MAX {
            self.shared.threads.fetch_sub(1, Ordering::SeqCst);
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        #[expect(
            clippy::disallowed_methods,
            reason = "these are the runtime's background threads"
        )]
        let started = std::thread::Builder::new()
            .name("staddle-background".into())
            .spawn(move || shared.work());
        match started {
            Ok(_) => Ok(()),
            Err(error) => {
                let before = self.shared.threads.fetch_sub(1, Ordering::SeqCst);
                if before > 1 {
                    return Ok(());
                }
                Err(
                    Error::exhausted("the system gives no thread for a background job")
                        .with("job", name)
                        .source(error),
                )
            }
        }
    }
}

impl BackgroundState {
    fn work(&self) {
        loop {
            self.idle.fetch_add(1, Ordering::SeqCst);
            let next = self.receive.recv_timeout(IDLE);
            self.idle.fetch_sub(1, Ordering::SeqCst);
            match next {
                Ok((name, job)) => run_job(name, job, &self.panics),
                Err(_) => {
                    // A job may have been queued for this thread just as it gave up: look once more after leaving.
                    self.threads.fetch_sub(1, Ordering::SeqCst);
                    match self.receive.try_recv() {
                        Ok((name, job)) => {
                            self.threads.fetch_add(1, Ordering::SeqCst);
                            run_job(name, job, &self.panics);
                        }
                        Err(_) => return,
                    }
                }
            }
        }
    }
}

fn run_job(name: &'static str, job: Box<dyn FnOnce() + Send>, panics: &AtomicU64) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
        panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!("background job {}", panicked(name, &*panic));
    }
}

fn compute_pool(threads: usize) -> Option<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|n| format!("staddle-worker-{n}"))
        .build()
        .inspect_err(|error| tracing::warn!("no worker threads, computing in the caller: {error}"))
        .ok()
}

/// The error for a job that panicked.
pub(crate) fn panicked(name: &str, panic: &(dyn Any + Send)) -> Error {
    let words = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    Error::internal(format!("`{name}` panicked: {words}"))
        .with("job", name.to_owned())
        .hint("this is a bug in Staddle; the job failed, the process goes on")
}

#[cfg(test)]
mod tests;
