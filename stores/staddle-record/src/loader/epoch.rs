//! One walk over an epoch: steps in order, the next ones gathered on background threads.
//!
//! Each step is one job, and its result waits in a channel of its own, so a slow step delays no other and the order
//! needs no sorting. At most `prefetch` steps beyond the one asked for are under way. Dropping the walk tells the jobs
//! to stop; one that is running already finishes, finds nobody waiting, and frees its buffers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use staddle_base::{Error, ErrorKind, Result};
use staddle_runtime::process::OwnerProcess;

use super::split::Split;
use super::{Holes, Layout, Loader, Plan};
use crate::reader::{Batch, Packed};
use crate::records::Records;

/// The rows of a step.
#[derive(Debug)]
pub enum Rows {
    /// As [`Layout::Batch`] asks for.
    Batch(Batch),
    /// As [`Layout::Packed`] asks for.
    Packed(Packed),
}

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Batch(batch) => batch.len(),
            Self::Packed(packed) => packed.len(),
        }
    }

    /// Whether the step has no rows: all of them were holes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a row; `None` for a hole that was kept, or past the end.
    pub fn get(&self, position: usize) -> Option<&[u8]> {
        match self {
            Self::Batch(batch) => batch.get(position),
            Self::Packed(packed) => match &packed.present {
                Some(present) if !present.get(position).copied().unwrap_or(false) => None,
                _ => packed.get(position),
            },
        }
    }
}

/// One step of one rank.
#[derive(Debug)]
pub struct Step {
    /// The records.
    pub rows: Rows,
    /// Their indices.
    pub indices: Vec<u64>,
    /// How many of them count; the ones after fill the batch up and are rows of another step too.
    pub valid: usize,
    /// The epoch.
    pub epoch: u64,
    /// Rows of the epoch that all ranks have had with this step.
    pub consumed: u64,
}

/// What the walk and its jobs share.
struct Shared {
    records: Records,
    plan: Arc<Plan>,
    split: Split,
    start: u64,
    layout: Layout,
    holes: Holes,
    stopped: AtomicBool,
}

impl Shared {
    /// Whether an index is to be in the step.
    fn keeps(&self, index: u64) -> Result<bool> {
        let plan = &self.plan;
        if !plan.sparse {
            return Ok(true);
        }
        if index >= plan.view.head.n {
            return Ok(false);
        }
        Ok(self.holes == Holes::Keep || plan.view.entry(index)?.0.is_present())
    }

    fn indices(&self, step: u64) -> Result<(Vec<u64>, usize)> {
        let plan = &self.plan;
        let share = self.split.share(plan.rows(), self.start, step);
        let mut indices = Vec::new();
        plan.order.indices(share.rows, &mut indices);
        let mut valid = indices.len();
        for position in share.padding {
            let again = position % plan.rows().max(1);
            plan.order.indices(again..again + 1, &mut indices);
        }
        if plan.sparse {
            let mut kept = Vec::with_capacity(indices.len());
            let counted = valid;
            for (at, index) in indices.into_iter().enumerate() {
                if self.keeps(index)? {
                    kept.push(index);
                } else if at < counted {
                    valid -= 1;
                }
            }
            indices = kept;
        }
        Ok((indices, valid))
    }

    fn gather(&self, step: u64) -> Result<Step> {
        let (indices, valid) = self.indices(step)?;
        let view = &self.plan.view;
        let rows = match self.layout {
            Layout::Batch => Rows::Batch(self.records.gather_in(view, &indices)?),
            Layout::Packed => Rows::Packed(self.records.gather_packed_in(view, &indices)?),
        };
        Ok(Step {
            rows,
            indices,
            valid,
            epoch: self.plan.epoch,
            consumed: self.split.consumed(self.plan.rows(), self.start, step + 1),
        })
    }
}

/// A step under way.
enum Pending {
    Waiting(Receiver<Result<Step>>),
    Arrived(Result<Step>),
}

/// One walk over an epoch, or over the rest of one. An error stays: the walk is over then, and says why again.
pub struct Epoch {
    loader: Loader,
    run: u64,
    shared: Arc<Shared>,
    prefetch: usize,
    /// This worker takes steps `worker`, `worker + workers`, … of `steps`.
    worker: u64,
    workers: u64,
    steps: u64,
    /// The next step to yield, and the next to start gathering.
    next: u64,
    ahead: u64,
    pending: VecDeque<Pending>,
    owner: OwnerProcess,
    failed: Option<Error>,
}

impl Epoch {
    pub(super) fn new(
        loader: &Loader,
        run: u64,
        plan: Arc<Plan>,
        start: u64,
        worker: u64,
        workers: u64,
    ) -> Self {
        let (inner, options) = (&loader.0, loader.options());
        let mut walk = Self {
            run,
            prefetch: options.prefetch,
            worker,
            workers,
            steps: inner.split.steps(plan.rows(), start),
            next: worker,
            ahead: worker,
            pending: VecDeque::new(),
            owner: OwnerProcess::here(),
            failed: None,
            shared: Arc::new(Shared {
                records: inner.records.clone(),
                plan,
                split: inner.split,
                start,
                layout: options.layout,
                holes: options.holes,
                stopped: AtomicBool::new(false),
            }),
            loader: loader.clone(),
        };
        walk.look_ahead();
        walk
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.shared.plan.epoch
    }

    /// Steps still to come.
    pub fn remaining(&self) -> u64 {
        self.steps.saturating_sub(self.next).div_ceil(self.workers)
    }

    /// Starts gathering until `prefetch` steps are under way.
    fn look_ahead(&mut self) {
        while self.pending.len() < self.prefetch && self.ahead < self.steps {
            let (send, receive) = bounded(1);
            let (shared, step) = (Arc::clone(&self.shared), self.ahead);
            let job = move || {
                if !shared.stopped.load(Ordering::Relaxed) {
                    // Nobody waits any more if this fails.
                    let _ = send.send(shared.gather(step));
                }
            };
            let workers = self.shared.records.runtime().workers();
            if workers.spawn("prefetch", job).is_err() {
                // No thread to be had: steps are gathered when asked for.
                break;
            }
            self.pending.push_back(Pending::Waiting(receive));
            self.ahead += self.workers;
        }
    }

    /// In a forked child the jobs are the parent's: what it waits for would never come.
    fn adopt(&mut self) {
        if self.owner.is_here() {
            return;
        }
        // Not dropped: a thread that is gone here may have held a lock inside.
        Box::leak(Box::new(std::mem::take(&mut self.pending)));
        self.ahead = self.next;
        self.owner = OwnerProcess::here();
        self.look_ahead();
    }

    /// Waits at most `time` for the next step to be gathered; true when [`Iterator::next`] has nothing to wait for in the
    /// background. For callers that look after signals while they wait.
    pub fn ready_within(&mut self, time: Duration) -> bool {
        self.adopt();
        let Some(Pending::Waiting(receive)) = self.pending.front() else {
            return true;
        };
        let arrived = match receive.recv_timeout(time) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => Err(lost()),
        };
        self.pending.pop_front();
        self.pending.push_front(Pending::Arrived(arrived));
        true
    }

    fn take(&mut self) -> Result<Step> {
        self.shared.records.check_open()?;
        self.adopt();
        let front = self.pending.pop_front();
        if front.is_none() {
            // Also where a thread could not be had for it.
            self.ahead = self.next + self.workers;
        }
        self.look_ahead();
        let step = match front {
            Some(Pending::Arrived(step)) => step,
            Some(Pending::Waiting(receive)) => receive.recv().unwrap_or_else(|_| Err(lost())),
            None => return self.shared.gather(self.next),
        };
        match step {
            Err(e) if e.kind() == ErrorKind::Exhausted => self.take_alone(),
            step => step,
        }
    }

    /// The next step again, after the ones gathered ahead have given back the memory that it lacked. From here on fewer
    /// are gathered ahead.
    fn take_alone(&mut self) -> Result<Step> {
        for pending in self.pending.drain(..) {
            if let Pending::Waiting(receive) = pending {
                let _ = receive.recv();
            }
        }
        self.ahead = self.next + self.workers;
        self.prefetch /= 2;
        self.shared.gather(self.next)
    }
}

/// The job of a step ended without a result.
#[cold]
fn lost() -> Error {
    Error::internal("gathering a batch ahead failed").hint("the log says why: the job panicked")
}

impl Iterator for Epoch {
    type Item = Result<Step>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(e) = &self.failed {
            return Some(Err(e.duplicate()));
        }
        let split = &self.shared.split;
        let rows = self.shared.plan.rows();
        if self.next >= self.steps {
            if self.workers == 1 {
                self.loader.ended(self.run);
            }
            return None;
        }
        // A worker among several goes on after the whole round in which its last step lay.
        let round_end = self.next - self.worker + self.workers;
        let reached = split.consumed(rows, self.shared.start, round_end);
        let over = self.workers == 1 && split.is_over(rows, reached);
        match self.take() {
            Ok(step) => {
                self.next += self.workers;
                if over {
                    self.loader.ended(self.run);
                } else {
                    self.loader.passed(self.run, reached);
                }
                Some(Ok(step))
            }
            Err(e) => {
                self.shared.stopped.store(true, Ordering::Relaxed);
                self.failed = Some(e.duplicate());
                Some(Err(e))
            }
        }
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        if !self.owner.is_here() {
            Box::leak(Box::new(std::mem::take(&mut self.pending)));
        }
    }
}

impl std::fmt::Debug for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Epoch({}, {} of {} steps left)",
            self.epoch(),
            self.remaining(),
            self.steps
        )
    }
}
