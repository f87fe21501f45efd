//! One store on one disk: operations are applied to store and model, and each image taken on the way is handed out with
//! the promise that held at that moment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use staddle_base::hash::mix2;
use staddle_base::{Error, Result, Rng, Seed};
use staddle_runtime::io::device::Device;
use staddle_sim::{SimDisk, Survivors};

use super::model::{Answer, Promise, State, difference};
use super::program::Op;
use super::store::{Commit, Mode, Store};

/// An image taken at a call.
#[derive(Debug)]
pub struct Capture {
    /// The number of the mutating call.
    pub point: u64,
    /// The call, in words.
    pub call: String,
    /// The strategy.
    pub survivors: Survivors,
    /// The image.
    pub image: SimDisk,
}

/// Which calls images are taken at, and how many.
#[derive(Clone, Copy, Debug)]
pub enum Sampling {
    /// None.
    Off,
    /// At one call in so many, this many images.
    OneIn(u64, usize),
    /// At this call, this many.
    Only(u64, usize),
}

/// Why a step ended the session.
#[derive(Debug)]
pub enum Stop {
    /// A promise was broken.
    Violation(String),
    /// The store gave an error; whether it may is the caller's business.
    Failed(Error),
}

/// A store at work.
#[derive(Debug)]
pub struct Session<S> {
    /// The disk.
    pub disk: SimDisk,
    /// The open handle; `None` before the first open and after a failed one.
    pub store: Option<S>,
    /// What the model says is in the set.
    pub state: State,
    /// What has been promised.
    pub promise: Promise,
    captures: Arc<Mutex<Vec<Capture>>>,
}

impl<S: Store> Session<S> {
    /// A session on a disk; images are drawn from `seed`.
    pub fn new(
        disk: SimDisk,
        promise: Promise,
        state: State,
        sampling: Sampling,
        seed: u64,
    ) -> Self {
        let captures: Arc<Mutex<Vec<Capture>>> = Arc::default();
        let sink = Arc::clone(&captures);
        if !matches!(sampling, Sampling::Off) {
            disk.watch(move |moment| {
                let point = moment.call().number;
                let draw = mix2(seed, point);
                let (taken, count) = match sampling {
                    Sampling::Off => (false, 0),
                    Sampling::OneIn(rate, count) => (draw.is_multiple_of(rate), count),
                    Sampling::Only(only, count) => (only == point, count),
                };
                for no in 0..if taken { count } else { 0 } {
                    let survivors = strategy(draw >> 20, no, count);
                    let image = moment.image(survivors, Seed(mix2(draw, no as u64)));
                    sink.lock().push(Capture {
                        point,
                        call: moment.call().to_string(),
                        survivors,
                        image,
                    });
                }
            });
        }
        Self {
            disk,
            store: None,
            state,
            promise,
            captures,
        }
    }

    /// The disk as a device.
    pub fn device(&self) -> Arc<dyn Device> {
        Arc::new(self.disk.clone())
    }

    /// The images taken since the last call.
    pub fn take_captures(&self) -> Vec<Capture> {
        std::mem::take(&mut self.captures.lock())
    }

    /// Makes the set.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn create(
        &mut self,
        seed: Seed,
        look: &mut dyn FnMut(Vec<Capture>, &Promise),
    ) -> Result<(), Stop> {
        self.promise.begin(&self.state);
        let device = self.device();
        let made = quietly(|| S::create(device, seed));
        look(self.take_captures(), &self.promise);
        self.store = Some(made?);
        self.promise.acknowledge(&self.state);
        Ok(())
    }

    /// Opens the set for writing.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn open(&mut self, look: &mut dyn FnMut(Vec<Capture>, &Promise)) -> Result<(), Stop> {
        let device = self.device();
        let opened = quietly(|| S::open(device, Mode::Write));
        look(self.take_captures(), &self.promise);
        self.store = Some(opened?);
        Ok(())
    }

    fn store(&self) -> Result<&S, Stop> {
        self.store
            .as_ref()
            .ok_or_else(|| Stop::Violation("the driver has no open store".into()))
    }

    /// Applies one operation to store and model and compares their answers.
    ///
    /// # Errors
    /// See [`Stop`]. After `Failed` the model has not changed, and what the operation may have committed is possible.
    pub fn step(
        &mut self,
        op: &Op,
        look: &mut dyn FnMut(Vec<Capture>, &Promise),
    ) -> Result<(), Stop> {
        match op {
            Op::Reopen => return self.reopen(look),
            Op::Abandon => return self.abandon(look),
            _ => {}
        }
        let mut after = self.state.clone();
        let expected = after.apply(op);
        let commits = self.store()?.commits(op);
        if commits != Commit::No {
            self.promise.begin(&after);
        }
        if let Op::Snapshot(name) | Op::DropSnapshot(name) = op
            && let Some(contents) = self
                .state
                .snapshots
                .get(name)
                .or_else(|| after.snapshots.get(name))
        {
            self.promise.doubt(name, contents);
        }
        let answer = quietly(|| self.store.as_ref().map(|store| store.apply(op)).transpose());
        look(self.take_captures(), &self.promise);
        let answer = answer?.unwrap_or(Answer::None);
        if answer != expected {
            let words = match (&answer, &expected) {
                (Answer::Records(found), Answer::Records(expected)) => difference(found, expected),
                _ => format!("{answer:?}, expected {expected:?}"),
            };
            return Err(Stop::Violation(format!("{op} answered: {words}")));
        }
        self.state = after;
        if commits == Commit::Yes {
            self.promise.acknowledge(&self.state);
        } else if matches!(op, Op::DropSnapshot(_)) {
            self.promise.acknowledge_snapshots(&self.state);
        }
        Ok(())
    }

    fn reopen(&mut self, look: &mut dyn FnMut(Vec<Capture>, &Promise)) -> Result<(), Stop> {
        self.promise.begin(&self.state);
        let closed = match self.store.take() {
            Some(store) => quietly(|| store.close()),
            None => Ok(()),
        };
        look(self.take_captures(), &self.promise);
        closed?;
        self.promise.acknowledge(&self.state);
        self.open(look)?;
        self.compare()
    }

    /// Drops the handle as a killed process does; the page cache lives on.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn abandon(&mut self, look: &mut dyn FnMut(Vec<Capture>, &Promise)) -> Result<(), Stop> {
        self.store = None;
        self.open(look)?;
        let found =
            quietly(|| self.store.as_ref().map(Store::state).transpose())?.unwrap_or_default();
        self.promise
            .check(&found)
            .map_err(|what| Stop::Violation(format!("after a kill: {what}")))?;
        self.state = found;
        Ok(())
    }

    /// Compares all that is in the set with the model.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn compare(&self) -> Result<(), Stop> {
        let found =
            quietly(|| self.store.as_ref().map(Store::state).transpose())?.unwrap_or_default();
        if found.records != self.state.records {
            let words = difference(&found.records, &self.state.records);
            return Err(Stop::Violation(format!(
                "the set is not what the model says: {words}"
            )));
        }
        if found.snapshots != self.state.snapshots {
            return Err(Stop::Violation(
                "the snapshots are not what the model says".into(),
            ));
        }
        Ok(())
    }
}

/// The strategy of image `no` of `count`: with four, one each of all or none, prefix, all but one, random.
fn strategy(draw: u64, no: usize, count: usize) -> Survivors {
    match (no % 4, count) {
        (0, 4..) if draw.is_multiple_of(2) => Survivors::All,
        (0, 4..) => Survivors::None,
        (1, 4..) => Survivors::Prefix,
        (2, 4..) => Survivors::AllButOne,
        (_, 4..) => Survivors::Random,
        _ => {
            Survivors::EACH[Rng::clone(&Seed(draw).stream("strategy")).index(Survivors::EACH.len())]
        }
    }
}

/// Runs a call of the store; a panic is a violation.
pub fn quietly<R>(call: impl FnOnce() -> Result<R>) -> Result<R, Stop> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(Stop::Failed),
        Err(panic) => {
            let words = panic
                .downcast_ref::<&str>()
                .map(|words| (*words).to_owned());
            let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(Stop::Violation(format!(
                "a panic: {}",
                words.unwrap_or_default()
            )))
        }
    }
}
