//! The loop: mutate, repair, run, keep what is new.

use std::collections::BTreeSet;

use staddle_base::Seed;

use crate::guard::{self, Keep};
use crate::mutate::Mutator;
use crate::target::{Signal, Target};

/// A run over one target.
#[derive(Debug)]
pub struct Fuzzer {
    target: &'static Target,
    mutator: Mutator,
    signals: BTreeSet<Signal>,
    fresh: Vec<Vec<u8>>,
    keep: Option<Keep>,
    runs: u64,
}

/// An input that broke the target.
#[derive(Debug)]
pub struct Failure {
    /// The smallest failing input found.
    pub input: Vec<u8>,
    /// What it did.
    pub what: String,
}

impl Fuzzer {
    /// A run that starts with the target's seeds; `keep` gets each input before it runs.
    pub fn new(target: &'static Target, seed: Seed, keep: Option<Keep>) -> Self {
        let seeds = (target.seeds)();
        let mut fresh = seeds.clone();
        fresh.push(Vec::new());
        fresh.reverse();
        let mutator = Mutator::new(seed, target.name, seeds, target.words);
        Self {
            target,
            mutator,
            signals: BTreeSet::new(),
            fresh,
            keep,
            runs: 0,
        }
    }

    /// Inputs run so far.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Different answers so far.
    pub fn answers(&self) -> usize {
        self.signals.len()
    }

    /// Runs the next input: first the seeds as they are, then mutations.
    ///
    /// # Errors
    /// The input, made smaller, when the target failed.
    pub fn step(&mut self) -> Result<(), Failure> {
        let input = self.fresh.pop().unwrap_or_else(|| {
            let mut input = self.mutator.next_input();
            if let Some(fix) = self.target.fix.filter(|_| self.mutator.repairs()) {
                fix(&mut input);
            }
            input
        });
        if let Some(keep) = &self.keep {
            // Without it a signal cannot be traced to its input; the run itself is not in danger.
            let _ = keep.put(&input);
        }
        self.runs += 1;
        match guard::run(self.target, &input) {
            Ok(signal) => {
                if self.signals.insert(signal) {
                    self.mutator.keep(&input);
                }
                Ok(())
            }
            Err(_) => Err(self.shrink(input)),
        }
    }

    /// Cuts pieces from a failing input, and zeroes others, as long as it still fails.
    fn shrink(&self, mut input: Vec<u8>) -> Failure {
        let fails = |input: &[u8]| guard::run(self.target, input).err();
        let mut size = input.len().div_ceil(2);
        let mut tries = 0;
        while size > 0 && tries < 2000 {
            let mut at = 0;
            while at < input.len() && tries < 2000 {
                tries += 1;
                let end = (at + size).min(input.len());
                let mut shorter = input.clone();
                shorter.drain(at..end);
                let mut plainer = input.clone();
                plainer[at..end].fill(0);
                if fails(&shorter).is_some() {
                    input = shorter;
                } else {
                    if plainer != input && fails(&plainer).is_some() {
                        input = plainer;
                    }
                    at += size;
                }
            }
            size /= 2;
        }
        let what = fails(&input).unwrap_or_else(|| "it failed once and not again".into());
        Failure { input, what }
    }
}

/// Runs a fixed number of inputs, as the test suite does.
///
/// # Errors
/// The first failure.
pub fn run(target: &'static Target, seed: Seed, runs: u64) -> Result<Fuzzer, Failure> {
    let mut fuzzer = Fuzzer::new(target, seed, None);
    (0..runs).try_for_each(|_| fuzzer.step())?;
    Ok(fuzzer)
}
