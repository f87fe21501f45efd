//! The `pread` engine: blocking reads on a pool of threads, for every kernel and file system.

use std::io::IoSliceMut;
use std::sync::OnceLock;

use rayon::prelude::*;
use rustix::io::Errno;
use staddle_base::Result;

use super::{Engine, Job, Part};

/// Buffers that one `preadv` call takes.
const VECTOR_MAX: usize = 1024;

/// Blocking reads on threads, which start with the first batch.
#[derive(Debug)]
pub struct PreadEngine {
    threads: usize,
    pool: OnceLock<Option<rayon::ThreadPool>>,
}

impl PreadEngine {
    /// An engine with up to `threads` reads at once.
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            pool: OnceLock::new(),
        }
    }

    /// The threads, or `None` where the system gives none or one is enough.
    pub(crate) fn pool(&self) -> Option<&rayon::ThreadPool> {
        let start = || {
            rayon::ThreadPoolBuilder::new()
                .num_threads(self.threads)
                .thread_name(|n| format!("staddle-io-{n}"))
                .build()
                .inspect_err(|error| {
                    tracing::warn!("no I/O threads, reading in the caller: {error}")
                })
                .ok()
        };
        if self.threads <= 1 {
            return None;
        }
        self.pool.get_or_init(start).as_ref()
    }
}

impl Engine for PreadEngine {
    fn name(&self) -> &'static str {
        "pread"
    }

    fn read(&self, jobs: &mut [Job<'_>]) -> Result<()> {
        if jobs.len() <= 1 {
            return jobs.iter_mut().try_for_each(read_job);
        }
        match self.pool() {
            Some(pool) => {
                pool.install(|| jobs.par_iter_mut().with_max_len(1).try_for_each(read_job))
            }
            None => jobs.iter_mut().try_for_each(read_job),
        }
    }
}

/// Reads one job, waiting for the disk.
pub(crate) fn read_job(job: &mut Job<'_>) -> Result<()> {
    read_job_from(job, 0)
}

/// Reads what follows the first `done` bytes of a job, waiting for the disk.
pub(crate) fn read_job_from(job: &mut Job<'_>, mut done: usize) -> Result<()> {
    let bytes = job.len();
    let mut discard = Vec::new();
    while done < bytes {
        let offset = job.offset.saturating_add(done as u64);
        let fd = job.fd;
        let mut slices = slices_from(&mut job.parts, done, &mut discard);
        match rustix::io::preadv(fd, &mut slices, offset) {
            Ok(0) => return Err(job.short(done)),
            Ok(got) => done += got,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(job.failed(errno)),
        }
    }
    Ok(())
}

/// Reads one job if the page cache holds all of it; false when the disk would be needed.
///
/// This asks the question and does the work in one call, so a cached read costs nothing extra.
pub(crate) fn read_if_cached(job: &mut Job<'_>) -> bool {
    let bytes = job.len();
    let mut discard = Vec::new();
    let (fd, offset) = (job.fd, job.offset);
    let mut slices = slices_from(&mut job.parts, 0, &mut discard);
    let flags = rustix::io::ReadWriteFlags::NOWAIT;
    rustix::io::preadv2(fd, &mut slices, offset, flags).is_ok_and(|got| got == bytes)
}

/// The buffers of `parts` from byte `done` on. At most one skipped piece is taken, since all share `discard`.
pub(crate) fn slices_from<'s>(
    parts: &'s mut [Part<'_>],
    mut done: usize,
    discard: &'s mut Vec<u8>,
) -> Vec<IoSliceMut<'s>> {
    let mut slices = Vec::new();
    let mut discard = Some(discard);
    for part in parts {
        let len = part.len();
        if done >= len {
            done -= len;
            continue;
        }
        match part {
            Part::Into(into) => slices.extend(into.get_mut(done..).map(IoSliceMut::new)),
            Part::Skip(bytes) => {
                let Some(discard) = discard.take() else {
                    break;
                };
                discard.resize(*bytes - done, 0);
                slices.push(IoSliceMut::new(discard));
            }
        }
        done = 0;
        if slices.len() >= VECTOR_MAX {
            break;
        }
    }
    slices
}
