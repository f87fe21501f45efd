//! The loader: epochs of a set in shuffled batches, gathered ahead of use, that resume exactly.
//!
//! The order of an epoch is a function of seed, epoch and number of rows ([`order`]), a rank's share of it is arithmetic
//! ([`split`]), so a position is a number and a saved [`LoaderState`] is six of them. A loader pins the generation that
//! an epoch runs over: appends and edits show in the next epoch, and what was deleted stays readable until then.
//!
//! ```text
//!   state ─► epoch ─► step ─► positions ─► indices ─► gather, `prefetch` steps ahead on background threads
//!            pins     rank    split        order      in order, and only what was yielded counts as consumed
//! ```
//!
//! | File | The question it answers |
//! |---|---|
//! | [`order`] | which record stands at a position |
//! | [`split`] | which positions does a step of this rank take |
//! | [`state`] | does a set still hold what a state was saved about |
//! | [`epoch`] | who gathers ahead, and how far |

pub mod epoch;
pub mod order;
pub mod split;
pub mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use staddle_base::{Error, Result};

pub use self::epoch::{Epoch, Rows, Step};
pub use self::order::Shuffle;
pub use self::split::Uneven;
pub use self::state::LoaderState;

use self::order::Order;
use self::split::Split;
use crate::reader::Generation;
use crate::records::{Fingerprint, Records};

/// Steps gathered ahead at most.
const PREFETCH_MAX: usize = 1024;

/// What a step's rows come as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// A [`Batch`](crate::Batch): nothing copied that can be handed out as it lies.
    #[default]
    Batch,
    /// A [`Packed`](crate::Packed): one buffer and its offsets.
    Packed,
}

/// What a step does with indices that are holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holes {
    /// They are left out, so a step may have fewer rows.
    #[default]
    Skip,
    /// They are rows without a record, so that sets with one index stay in step.
    Keep,
}

/// How a loader walks over a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Rows a step of one rank.
    pub batch_size: usize,
    /// The order.
    pub shuffle: Shuffle,
    /// Decides the order, with the epoch.
    pub seed: u64,
    /// Leave out rows that do not fill a step of all ranks.
    pub drop_last: bool,
    /// Which of `world_size` this is.
    pub rank: usize,
    /// How many take turns.
    pub world_size: usize,
    /// Steps gathered ahead; 0 gathers when asked.
    pub prefetch: usize,
    /// What several ranks do with rows that do not fill a step of all of them.
    pub uneven: Uneven,
    /// What a step's rows come as.
    pub layout: Layout,
    /// What a step does with holes.
    pub holes: Holes,
    /// Load this named snapshot, whatever the set holds now.
    pub snapshot: Option<String>,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self {
            batch_size: 256,
            shuffle: Shuffle::None,
            seed: 0,
            drop_last: false,
            rank: 0,
            world_size: 1,
            prefetch: 2,
            uneven: Uneven::Wrap,
            layout: Layout::Batch,
            holes: Holes::Skip,
            snapshot: None,
        }
    }
}

/// Epochs of a set, in batches. Cloning is cheap; clones are one loader.
#[derive(Clone)]
pub struct Loader(Arc<Inner>);

struct Inner {
    records: Records,
    options: LoaderOptions,
    split: Split,
    /// The snapshot that was asked for.
    fixed: Option<Arc<Generation>>,
    seed: AtomicU64,
    runs: AtomicU64,
    phase: ArcSwap<Phase>,
}

/// Where a loader is.
#[derive(Clone)]
enum Phase {
    /// Before an epoch.
    Before { epoch: u64 },
    /// A state was loaded and the rest of its epoch not begun.
    Loaded { plan: Arc<Plan>, consumed: u64 },
    /// Within an epoch. `run` tells the iterators of an abandoned one apart.
    Within {
        run: u64,
        plan: Arc<Plan>,
        consumed: u64,
    },
}

/// What an epoch runs over.
struct Plan {
    view: Arc<Generation>,
    order: Order,
    seed: u64,
    epoch: u64,
    /// Whether some index may be a hole or gone.
    sparse: bool,
}

impl Plan {
    fn new(
        options: &LoaderOptions,
        view: Arc<Generation>,
        rows: u64,
        seed: u64,
        epoch: u64,
    ) -> Self {
        Self {
            order: Order::new(options.shuffle, rows, seed, epoch),
            sparse: view.head.live < view.head.n || view.head.n < rows,
            view,
            seed,
            epoch,
        }
    }

    fn rows(&self) -> u64 {
        self.order.rows()
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            length: self.rows(),
            ..Fingerprint::of(&self.view.head)
        }
    }
}

impl Records {
    /// A loader over this set.
    ///
    /// # Errors
    /// `Invalid` for options out of range, `NotFound` for a snapshot that does not exist, `Closed`.
    pub fn loader(&self, options: LoaderOptions) -> Result<Loader> {
        Loader::new(self, options)
    }
}

impl Loader {
    /// A loader at the start of epoch 0.
    ///
    /// # Errors
    /// As [`Records::loader`].
    pub fn new(records: &Records, options: LoaderOptions) -> Result<Self> {
        options.shuffle.check()?;
        let split = Split::new(
            options.batch_size,
            options.rank,
            options.world_size,
            options.drop_last,
            options.uneven,
        )?;
        if options.prefetch > PREFETCH_MAX {
            return Err(Error::invalid(format!(
                "prefetch of {} is out of range",
                options.prefetch
            ))
            .hint("use 0 to 1024 steps; 2 is a good default"));
        }
        records.check_open()?;
        let fixed = match &options.snapshot {
            Some(name) => Some(records.view_of(name)?),
            None => None,
        };
        Ok(Self(Arc::new(Inner {
            records: records.clone(),
            split,
            fixed,
            seed: AtomicU64::new(options.seed),
            runs: AtomicU64::new(0),
            phase: ArcSwap::from_pointee(Phase::Before { epoch: 0 }),
            options,
        })))
    }

    /// The set.
    pub fn records(&self) -> &Records {
        &self.0.records
    }

    /// How it was made. A state that was loaded may have brought another seed, see [`Loader::seed`].
    pub fn options(&self) -> &LoaderOptions {
        &self.0.options
    }

    /// The seed in force.
    pub fn seed(&self) -> u64 {
        self.0.seed.load(Ordering::Relaxed)
    }

    /// The epoch in progress, or the one to begin.
    pub fn epoch(&self) -> u64 {
        match self.0.phase.load().as_ref() {
            Phase::Before { epoch } => *epoch,
            Phase::Loaded { plan, .. } | Phase::Within { plan, .. } => plan.epoch,
        }
    }

    /// Chooses the epoch that the next walk begins with. A state loaded in the middle of that very epoch stays in force.
    pub fn set_epoch(&self, epoch: u64) {
        let stays = matches!(self.0.phase.load().as_ref(), Phase::Loaded { plan, .. } if plan.epoch == epoch);
        if !stays {
            self.0.phase.store(Arc::new(Phase::Before { epoch }));
        }
    }

    /// How many steps this rank has in a whole epoch: the one in progress, or the one to begin.
    ///
    /// # Errors
    /// As [`Records::len`].
    pub fn len(&self) -> Result<u64> {
        let rows = match self.0.phase.load().as_ref() {
            Phase::Before { .. } => match &self.0.fixed {
                Some(view) => view.head.n,
                None => self.0.records.len()?,
            },
            Phase::Loaded { plan, .. } | Phase::Within { plan, .. } => plan.rows(),
        };
        Ok(self.0.split.steps(rows, 0))
    }

    /// Whether an epoch has no steps.
    ///
    /// # Errors
    /// As [`Loader::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The view that an epoch begun now would run over. Own writes are flushed first: a state about records that a crash
    /// could take back would be worth nothing.
    fn view(&self) -> Result<Arc<Generation>> {
        match &self.0.fixed {
            Some(view) => {
                self.0.records.check_open()?;
                Ok(Arc::clone(view))
            }
            None => self.0.records.settled(),
        }
    }

    /// Walks over an epoch: the rest of the one whose state was loaded, otherwise a new one.
    ///
    /// # Errors
    /// `Closed`, and those of flushing own writes.
    pub fn iter(&self) -> Result<Epoch> {
        self.worker(0, 1)
    }

    /// As [`Loader::iter`], for one of several workers that share a rank's steps: worker k of K takes steps k, k + K, …,
    /// so a consumer that asks them in turn gets the order of one.
    ///
    /// # Errors
    /// `Invalid` for a worker that does not exist, and as [`Loader::iter`].
    pub fn worker(&self, worker: usize, workers: usize) -> Result<Epoch> {
        if worker >= workers {
            return Err(Error::invalid(format!(
                "there is no worker {worker} of {workers}"
            )));
        }
        let phase = self.0.phase.load_full();
        let (plan, start) = match phase.as_ref() {
            Phase::Loaded { plan, consumed }
                // One worker of several may have no step left where others have.
                if workers > 1 || !self.0.split.is_over(plan.rows(), *consumed) =>
            {
                (Arc::clone(plan), *consumed)
            }
            Phase::Before { epoch } => (self.plan(*epoch)?, 0),
            Phase::Loaded { plan, .. } | Phase::Within { plan, .. } => {
                (self.plan(plan.epoch + 1)?, 0)
            }
        };
        let run = self.0.runs.fetch_add(1, Ordering::Relaxed);
        self.0.phase.store(Arc::new(Phase::Within {
            run,
            plan: Arc::clone(&plan),
            consumed: start,
        }));
        Ok(Epoch::new(
            self,
            run,
            plan,
            start,
            worker as u64,
            workers as u64,
        ))
    }

    fn plan(&self, epoch: u64) -> Result<Arc<Plan>> {
        let view = self.view()?;
        let rows = view.head.n;
        Ok(Arc::new(Plan::new(
            &self.0.options,
            view,
            rows,
            self.seed(),
            epoch,
        )))
    }

    /// Where the loader is. After the last step of an epoch that is the start of the next.
    ///
    /// Of one worker among several it is where that worker goes on, which is the same for all of them only between rounds.
    ///
    /// # Errors
    /// As [`Loader::iter`].
    pub fn state(&self) -> Result<LoaderState> {
        match self.0.phase.load().as_ref() {
            Phase::Before { epoch } => self.state_at(*epoch, 0),
            Phase::Loaded { plan, consumed } | Phase::Within { plan, consumed, .. } => {
                Ok(self.state_of(plan.fingerprint(), plan.seed, plan.epoch, *consumed))
            }
        }
    }

    /// The state of a loader that has yielded `consumed` rows of an epoch: for whoever counts on behalf of workers in
    /// other processes. Take both numbers from the last [`Step`] that arrived.
    ///
    /// # Errors
    /// As [`Loader::iter`]; `Invalid` for more rows than there are.
    pub fn state_at(&self, epoch: u64, consumed: u64) -> Result<LoaderState> {
        let known = match self.0.phase.load().as_ref() {
            Phase::Loaded { plan, .. } | Phase::Within { plan, .. } if plan.epoch == epoch => {
                Some(plan.fingerprint())
            }
            _ => None,
        };
        let fingerprint = match known {
            Some(fingerprint) => fingerprint,
            None => Fingerprint::of(&self.view()?.head),
        };
        if consumed > fingerprint.length {
            return Err(Error::invalid(format!(
                "{consumed} rows of an epoch of {} cannot have been yielded",
                fingerprint.length
            )));
        }
        let (epoch, consumed) =
            if consumed > 0 && self.0.split.is_over(fingerprint.length, consumed) {
                (epoch + 1, 0)
            } else {
                (epoch, consumed)
            };
        Ok(self.state_of(fingerprint, self.seed(), epoch, consumed))
    }

    fn state_of(
        &self,
        fingerprint: Fingerprint,
        seed: u64,
        epoch: u64,
        consumed: u64,
    ) -> LoaderState {
        LoaderState::new(self.0.options.shuffle, fingerprint, seed, epoch, consumed)
    }

    /// Goes on where a state was saved: the next walk yields the rows that were not yielded yet, on any number of ranks
    /// and workers. The state's seed is in force from then on. When not `strict`, a set that has changed is gone on with
    /// in the same order: rows have the content of now, and those that are gone are left out.
    ///
    /// # Errors
    /// `Conflict` when the set has changed in a way that the table in [`state`] refuses, or when the order is another;
    /// `Unsupported` for a newer format; `Invalid` for a state that contradicts itself. The loader is as before then.
    pub fn load_state(&self, state: &LoaderState, strict: bool) -> Result<()> {
        state.check(self.0.options.shuffle)?;
        let view = self.view()?;
        let rows = state.fingerprint.length;
        let between = state.consumed == 0;
        let phase = if between {
            // No row of the epoch has been promised yet.
            if state.fingerprint.uuid != Fingerprint::of(&view.head).uuid {
                self.find_view(view, state, strict)?;
            }
            Phase::Before { epoch: state.epoch }
        } else {
            let view = self.find_view(view, state, strict)?;
            let plan = Plan::new(&self.0.options, view, rows, state.seed, state.epoch);
            Phase::Loaded {
                plan: Arc::new(plan),
                consumed: state.consumed,
            }
        };
        self.0.seed.store(state.seed, Ordering::Relaxed);
        self.0.phase.store(Arc::new(phase));
        Ok(())
    }

    fn find_view(
        &self,
        view: Arc<Generation>,
        state: &LoaderState,
        strict: bool,
    ) -> Result<Arc<Generation>> {
        let fixed = self.0.fixed.is_some();
        state::find_view(&self.0.records, view, fixed, state, strict)
    }

    /// Remembers how far the walk `run` has come, unless another has begun since.
    fn passed(&self, run: u64, reached: u64) {
        self.0.phase.rcu(|phase| match phase.as_ref() {
            Phase::Within {
                run: current, plan, ..
            } if *current == run => Arc::new(Phase::Within {
                run,
                plan: Arc::clone(plan),
                consumed: reached,
            }),
            _ => Arc::clone(phase),
        });
    }

    /// Remembers that the walk `run` is over, and lets go of what it ran over.
    fn ended(&self, run: u64) {
        self.0.phase.rcu(|phase| match phase.as_ref() {
            Phase::Within {
                run: current, plan, ..
            } if *current == run => Arc::new(Phase::Before {
                epoch: plan.epoch + 1,
            }),
            _ => Arc::clone(phase),
        });
    }
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let options = &self.0.options;
        write!(
            f,
            "Loader({}, batch_size={}, shuffle={}, seed={}, rank {} of {}, epoch {})",
            self.0.records.uri(),
            options.batch_size,
            options.shuffle,
            self.seed(),
            options.rank,
            options.world_size,
            self.epoch()
        )
    }
}

#[cfg(test)]
mod tests;
