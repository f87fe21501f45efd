//! The `uring` engine: many reads in flight from one thread, through io_uring.
//!
//! A batch borrows a ring from a small pool, keeps up to `depth` reads in flight, continues short ones, and does not
//! return before the kernel has let go of every buffer, whatever fails. Rings belong to one process: a forked child
//! makes its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::Errno;
use staddle_base::Result;

use super::pread::{PreadEngine, read_job_from, slices_from};
use super::{Engine, Job, Part};
use crate::lock::Lock;

/// Rings at most; batches beyond that use the pread engine.
const RINGS_MAX: usize = 8;
/// How often the kernel may have no room for a request, with nothing under way that would make some.
const BUSY_MAX: u32 = 100_000;
/// Bytes that one request may ask for; longer ones are continued like short reads.
const REQUEST_BYTES_MAX: usize = 1 << 30;

/// io_uring with a pread engine for single reads and for more batches at once than there are rings.
pub struct UringEngine {
    depth: u32,
    idle: Lock<Vec<IoUring>>,
    rings: AtomicUsize,
    pread: Arc<PreadEngine>,
}

impl UringEngine {
    /// An engine with one ring to begin with.
    ///
    /// # Errors
    /// What the kernel says when it refuses a ring; [`why_not`] puts it into words.
    pub fn new(depth: u32, pread: Arc<PreadEngine>) -> io::Result<Self> {
        let ring = make_ring(depth)?;
        Ok(Self {
            depth,
            idle: Lock::new(vec![ring]),
            rings: AtomicUsize::new(1),
            pread,
        })
    }

    fn take_ring(&self) -> Option<IoUring> {
        if let Some(ring) = self.idle.lock().pop() {
            return Some(ring);
        }
        let made = self.rings.fetch_add(1, Ordering::Relaxed);
        let ring = if made < RINGS_MAX {
            make_ring(self.depth).ok()
        } else {
            None
        };
        if ring.is_none() {
            self.rings.fetch_sub(1, Ordering::Relaxed);
        }
        ring
    }
}

impl Engine for UringEngine {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn read(&self, jobs: &mut [Job<'_>]) -> Result<()> {
        if jobs.len() <= 1 {
            return self.pread.read(jobs);
        }
        let Some(mut ring) = self.take_ring() else {
            return self.pread.read(jobs);
        };
        let depth = usize::try_from(self.depth).unwrap_or(usize::MAX);
        let (result, healthy) = run(&mut ring, jobs, depth);
        if healthy {
            self.idle.lock().push(ring);
        } else {
            // A ring that broke has let go of every buffer; plain calls start over.
            self.rings.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!("a ring broke, reading without it: {result:?}");
            return self.pread.read(jobs);
        }
        result
    }
}

impl std::fmt::Debug for UringEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UringEngine(depth {})", self.depth)
    }
}

fn make_ring(depth: u32) -> io::Result<IoUring> {
    let cooperative = IoUring::builder()
        .setup_clamp()
        .setup_coop_taskrun()
        .build(depth);
    let ring = match cooperative {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            IoUring::builder().setup_clamp().build(depth)?
        }
        other => other?,
    };
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Readv::CODE) {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    Ok(ring)
}

/// Why the kernel refused a ring, in words.
pub fn why_not(error: &io::Error) -> String {
    let disabled = crate::kernel::text("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    match (error.raw_os_error(), disabled.trim()) {
        (Some(libc::EPERM), level @ ("1" | "2")) => {
            format!("the system disables io_uring (kernel.io_uring_disabled = {level})")
        }
        (Some(libc::EPERM | libc::EACCES), _) => {
            "io_uring is blocked here, as containers do by default".into()
        }
        (Some(libc::ENOSYS), _) => "this kernel has no io_uring that can read".into(),
        (Some(libc::ENOMEM), _) => {
            "the limit on locked memory is too small for io_uring (ulimit -l)".into()
        }
        (Some(libc::EMFILE | libc::ENFILE), _) => {
            "too many open files for io_uring (ulimit -n)".into()
        }
        _ => format!("io_uring set-up failed: {error}"),
    }
}

/// One job's progress.
#[derive(Default)]
struct Slot {
    len: usize,
    done: usize,
    vector: Vec<libc::iovec>,
    discard: Vec<u8>,
}

/// Reads in flight on one ring. Dropping it waits for the kernel to let go of them.
struct Flight<'r> {
    ring: &'r mut IoUring,
    pushed: usize,
    healthy: bool,
}

/// Runs a batch; also says whether the ring can be used again.
fn run(ring: &mut IoUring, jobs: &mut [Job<'_>], depth: usize) -> (Result<()>, bool) {
    let mut slots: Vec<Slot> = jobs
        .iter()
        .map(|job| Slot {
            len: job.len(),
            ..Slot::default()
        })
        .collect();
    // Declared after `slots` and `jobs`, so dropped before them: no buffer goes away while the kernel writes to it.
    let mut flight = Flight {
        ring,
        pushed: 0,
        healthy: true,
    };
    let result = fly(&mut flight, jobs, &mut slots, depth);
    flight.land();
    (result, flight.healthy)
}

fn fly(
    flight: &mut Flight<'_>,
    jobs: &mut [Job<'_>],
    slots: &mut [Slot],
    depth: usize,
) -> Result<()> {
    let mut fresh = 0..jobs.len();
    let mut again: Vec<usize> = Vec::new();
    let mut first_error = None;
    loop {
        while first_error.is_none() && flight.pushed < depth {
            let Some(index) = again.pop().or_else(|| fresh.next()) else {
                break;
            };
            let (Some(job), Some(slot)) = (jobs.get_mut(index), slots.get_mut(index)) else {
                continue;
            };
            if slot.done < slot.len && !flight.push(index, job, slot) {
                again.push(index);
                break;
            }
        }
        if flight.pushed == 0 {
            return first_error.map_or(Ok(()), Err);
        }
        if let Err(errno) = flight.wait() {
            let error = staddle_base::Error::unavailable("waiting for io_uring failed");
            return Err(error.source(io::Error::from(errno)));
        }
        while let Some((index, result)) = flight.next() {
            let (Some(job), Some(slot)) = (jobs.get_mut(index), slots.get_mut(index)) else {
                continue;
            };
            match usize::try_from(result) {
                Ok(0) => first_error = first_error.or_else(|| Some(job.short(slot.done))),
                Ok(got) => {
                    slot.done += got;
                    again.push(index);
                }
                Err(_) => match Errno::from_raw_os_error(-result) {
                    // The ring cannot do this read without blocking, or at all; a plain call can.
                    Errno::AGAIN
                    | Errno::INTR
                    | Errno::CANCELED
                    | Errno::INVAL
                    | Errno::OPNOTSUPP => {
                        if let Err(error) = read_job_from(job, slot.done) {
                            first_error = first_error.or(Some(error));
                        }
                    }
                    errno => first_error = first_error.or_else(|| Some(job.failed(errno))),
                },
            }
        }
    }
}

impl Flight<'_> {
    /// Queues the rest of a job; false when the queue is full.
    fn push(&mut self, index: usize, job: &mut Job<'_>, slot: &mut Slot) -> bool {
        let fd = types::Fd(std::os::fd::AsRawFd::as_raw_fd(&job.fd));
        let offset = job.offset.saturating_add(slot.done as u64);
        let entry = match job.parts.as_mut_slice() {
            [Part::Into(into)] => {
                let rest = into.get_mut(slot.done..).unwrap_or_default();
                let len = u32::try_from(rest.len().min(REQUEST_BYTES_MAX)).unwrap_or(0);
                opcode::Read::new(fd, rest.as_mut_ptr(), len)
                    .offset(offset)
                    .build()
            }
            parts => {
                let slices = slices_from(parts, slot.done, &mut slot.discard);
                slot.vector = slices
                    .into_iter()
                    .map(|mut slice| libc::iovec {
                        iov_base: slice.as_mut_ptr().cast(),
                        iov_len: slice.len(),
                    })
                    .collect();
                let len = u32::try_from(slot.vector.len()).unwrap_or(0);
                opcode::Readv::new(fd, slot.vector.as_ptr(), len)
                    .offset(offset)
                    .build()
            }
        };
        let entry = entry.user_data(index as u64);
        // SAFETY: the buffers, the vector and the discarded bytes are borrowed or owned by `run`, which leaves them
        // alone until this job's completion has been seen and waits for all completions before it returns.
        let queued = unsafe { self.ring.submission().push(&entry) }.is_ok();
        self.pushed += usize::from(queued);
        queued
    }

    /// Hands the queue to the kernel and waits for at least one completion.
    fn wait(&mut self) -> Result<(), Errno> {
        for _ in 0..BUSY_MAX {
            let Err(error) = self.ring.submit_and_wait(1) else {
                return Ok(());
            };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                // Short of memory or of room for completions: what has completed makes room.
                Some(Errno::AGAIN | Errno::BUSY) if !self.ring.completion().is_empty() => {
                    return Ok(());
                }
                Some(Errno::AGAIN | Errno::BUSY) => std::thread::yield_now(),
                errno => {
                    self.healthy = false;
                    return Err(errno.unwrap_or(Errno::IO));
                }
            }
        }
        self.healthy = false;
        Err(Errno::BUSY)
    }

    /// The next completion: which job, and the kernel's result.
    fn next(&mut self) -> Option<(usize, i32)> {
        let entry = self.ring.completion().next()?;
        self.pushed = self.pushed.saturating_sub(1);
        Some((usize::try_from(entry.user_data()).ok()?, entry.result()))
    }

    /// Waits until the kernel has let go of everything.
    fn land(&mut self) {
        while self.pushed > 0 {
            if self.wait().is_err() {
                // The kernel takes nothing more. What it never took is forgotten with the ring; what it took completes
                // without being asked.
                let never_taken = self.ring.submission().len();
                while self.pushed > never_taken {
                    if self.next().is_none() {
                        std::thread::yield_now();
                    }
                }
                self.pushed = 0;
            }
            while self.next().is_some() {}
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.land();
    }
}
