//! The driver: programs, images of their crash points, and what is checked of each image.

use std::collections::BTreeMap;
use std::path::PathBuf;

use staddle_base::hash::mix2;
use staddle_base::{ErrorKind, Rng, Seed};
use staddle_sim::SimDisk;

use super::model::{Promise, State};
use super::program::{Generator, KINDS, Op};
use super::session::{Capture, Sampling, Session, Stop, quietly};
use super::store::{Mode, Store};

/// Images of each crash point.
const IMAGES: usize = 4;
/// Points wanted of each program.
const POINTS_PER_PROGRAM: u64 = 150;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the first program; the next ones count up.
    pub seed: u64,
    /// Crash points to look at.
    pub points: u64,
    /// Only this point of the first program.
    pub only: Option<u64>,
    /// Where to write the files of an image that breaks a promise.
    pub save: Option<PathBuf>,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The program.
    pub seed: u64,
    /// The mutating call, if it is about a crash.
    pub point: Option<u64>,
    /// What happened.
    pub what: String,
}

/// What a run did and found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Programs run.
    pub programs: u64,
    /// Crash points looked at.
    pub points: u64,
    /// Images checked, those of crashes in recovery included.
    pub images: u64,
    /// Images that were written to after recovery.
    pub recoveries: u64,
    /// How often each operation was applied and each outcome seen.
    pub reached: BTreeMap<&'static str, u64>,
    /// Broken promises.
    pub violations: Vec<Violation>,
}

/// Outcomes that a long run must see, besides operations and the store's own recovery paths.
pub const OUTCOMES: [&str; 7] = [
    "the acknowledged commit was found",
    "a commit not yet acknowledged was found",
    "no set was found, and one was made",
    "an empty set was found before it was acknowledged",
    "a crash in recovery was recovered from",
    "a writer met the power cut",
    "a killed writer was followed by another",
];

impl Report {
    fn reach(&mut self, what: &'static str) {
        *self.reached.entry(what).or_default() += 1;
    }

    /// What a long run should have reached and did not.
    pub fn missing<S: Store>(&self) -> Vec<&'static str> {
        let all = KINDS.iter().chain(&OUTCOMES).chain(S::PATHS);
        all.copied()
            .filter(|what| !self.reached.contains_key(what))
            .collect()
    }

    /// Adds another run.
    pub fn merge(&mut self, other: Self) {
        self.programs += other.programs;
        self.points += other.points;
        self.images += other.images;
        self.recoveries += other.recoveries;
        for (what, count) in other.reached {
            *self.reached.entry(what).or_default() += count;
        }
        self.violations.extend(other.violations);
    }
}

/// Runs programs until enough crash points were looked at; stops after ten violations.
pub fn run<S: Store>(plan: &Plan, progress: &mut dyn FnMut(&Report)) -> Report {
    let mut report = Report::default();
    let mut seed = plan.seed;
    while report.points < plan.points && report.violations.len() < 10 {
        let rng = Seed(seed).stream("driver");
        let mut program = Program {
            seed,
            plan,
            report: &mut report,
            rng,
        };
        program.run::<S>();
        if plan.only.is_none() && seed.is_multiple_of(4) {
            program.run_into_power_cut::<S>();
        }
        report.programs += 1;
        progress(&report);
        seed += 1;
        if plan.only.is_some() {
            break;
        }
    }
    report
}

struct Program<'a> {
    seed: u64,
    plan: &'a Plan,
    report: &'a mut Report,
    rng: Rng,
}

impl Program<'_> {
    fn violation(&mut self, point: Option<u64>, what: String) {
        self.report.violations.push(Violation {
            seed: self.seed,
            point,
            what,
        });
    }

    fn session<S: Store>(&self, sampling: Sampling) -> Session<S> {
        Session::new(
            SimDisk::new(Seed(self.seed)),
            Promise::default(),
            State::default(),
            sampling,
            self.seed,
        )
    }

    fn length(&self) -> u64 {
        30 + mix2(self.seed, 1) % 90
    }

    /// The program as it goes when nothing goes wrong, with images on the way.
    fn run<S: Store>(&mut self) {
        let sampling = match self.plan.only {
            Some(point) => Sampling::Only(point, IMAGES),
            None => Sampling::OneIn(3, IMAGES),
        };
        let mut session = self.session::<S>(sampling);
        let mut generator = Generator::new(Seed(self.seed).stream("program"));
        let enough = self.report.points + POINTS_PER_PROGRAM;
        let mut done = session.create(Seed(self.seed), &mut |captures, promise| {
            self.look::<S>(captures, promise, &"create")
        });
        for _ in 0..self.length() {
            if done.is_err() || self.report.points >= enough.min(self.plan.points) {
                break;
            }
            let op = generator.next_op(&session.state);
            self.report.reach(op.kind());
            if matches!(op, Op::Abandon) {
                self.report.reach("a killed writer was followed by another");
            }
            done = session.step(&op, &mut |captures, promise| {
                self.look::<S>(captures, promise, &op)
            });
            done = done.map_err(|stop| Stop::Violation(format!("{op}: {}", stop.in_words())));
        }
        let ended = done
            .and_then(|()| session.compare())
            .and_then(|()| verify(session.store.as_ref()));
        if let Err(stop) = ended {
            self.violation(None, stop.in_words());
        }
    }

    /// The same program meeting a power cut: the writer must end with an error and leave a disk like any other.
    fn run_into_power_cut<S: Store>(&mut self) {
        let mut session = self.session::<S>(Sampling::Off);
        let mut generator = Generator::new(Seed(self.seed).stream("program"));
        let point = 1 + self.rng.below(400);
        session.disk.power_off_at(point);
        let mut nothing = |_: Vec<Capture>, _: &Promise| {};
        let mut done = session.create(Seed(self.seed), &mut nothing);
        let mut last = String::from("create");
        for _ in 0..self.length() {
            if done.is_err() {
                break;
            }
            let op = generator.next_op(&session.state);
            done = session.step(&op, &mut nothing);
            last = op.to_string();
        }
        match done {
            Ok(()) if session.disk.is_off() => {
                self.violation(
                    Some(point),
                    format!("{last} succeeded although the power was cut"),
                );
            }
            Ok(()) => return,
            Err(Stop::Violation(what)) => self.violation(Some(point), format!("{last}: {what}")),
            Err(Stop::Failed(error)) if error.kind() != ErrorKind::Unavailable => {
                self.violation(
                    Some(point),
                    format!("{last} met the power cut with {error:?}"),
                );
            }
            Err(Stop::Failed(_)) => self.report.reach("a writer met the power cut"),
        }
        // What it does after the error must not panic, and must not succeed.
        for op in [
            Op::Append([1; 10].as_slice().into()),
            Op::Flush,
            Op::ReadAll,
        ] {
            if let Some(Err(Stop::Violation(what))) = session
                .store
                .as_ref()
                .map(|store| quietly(|| store.apply(&op)))
            {
                self.violation(Some(point), format!("{op} after the power cut: {what}"));
            }
        }
        session.store = None;
        let draw = mix2(self.seed, point);
        let captures = (0..IMAGES as u64).map(|no| {
            let survivors = staddle_sim::Survivors::EACH[(no + draw) as usize % 5];
            let image = session.disk.crash_image(survivors, Seed(mix2(draw, no)));
            Capture {
                point,
                call: last.clone(),
                survivors,
                image,
            }
        });
        self.look::<S>(captures.collect(), &session.promise, &"a power cut");
    }

    /// Checks images, and of some what happens when they are used and crash again.
    fn look<S: Store>(
        &mut self,
        captures: Vec<Capture>,
        promise: &Promise,
        during: &dyn std::fmt::Display,
    ) {
        let mut last_point = 0;
        for capture in captures {
            if capture.point != last_point {
                self.report.points += 1;
                last_point = capture.point;
            }
            let Capture {
                point,
                call,
                survivors,
                image,
            } = capture;
            // Drawn apart for each image, so that a replay of this point alone does the same.
            self.rng = Seed(mix2(self.seed, point)).stream(&format!("{survivors:?}"));
            let again = self.rng.chance(1, 2) || self.plan.only.is_some();
            let kept = self
                .plan
                .save
                .as_ref()
                .map(|_| image.crash_image(staddle_sim::Survivors::All, Seed(0)));
            if let Err(what) = self.check::<S>(&image, promise, again) {
                let what = format!(
                    "during {during}, power cut at {}, {survivors:?} survived: {what}",
                    call.trim()
                );
                if let (Some(folder), Some(kept)) = (&self.plan.save, kept) {
                    save(
                        &kept,
                        &folder.join(format!("{}-{point}-{survivors:?}", self.seed)),
                    );
                }
                self.violation(Some(point), what);
            }
        }
    }

    /// Checks one image.
    fn check<S: Store>(
        &mut self,
        image: &SimDisk,
        promise: &Promise,
        again: bool,
    ) -> Result<(), String> {
        self.report.images += 1;
        for path in S::recovery(image, &[]) {
            self.report.reach(path);
        }
        let found = match read::<S>(image) {
            Err(Stop::Failed(_)) if promise.may_be_missing() => return self.make_anew::<S>(image),
            other => other.map_err(|stop| stop.in_words())?,
        };
        if promise.check(&found)? {
            self.report.reach("the acknowledged commit was found");
        } else if promise.may_be_missing() {
            self.report
                .reach("an empty set was found before it was acknowledged");
        } else {
            self.report.reach("a commit not yet acknowledged was found");
        }
        if again {
            self.go_on::<S>(image, found)
        } else {
            Ok(())
        }
    }

    /// Before its first commit was acknowledged a set may be missing; then it must be possible to make it.
    fn make_anew<S: Store>(&mut self, image: &SimDisk) -> Result<(), String> {
        let mut session: Session<S> = Session::new(
            image.clone(),
            Promise::default(),
            State::default(),
            Sampling::Off,
            0,
        );
        session
            .create(Seed(self.seed), &mut |_, _| {})
            .and_then(|()| session.compare())
            .map_err(|stop| {
                format!("there is no set, and none can be made: {}", stop.in_words())
            })?;
        self.report.reach("no set was found, and one was made");
        Ok(())
    }

    /// Goes on with a recovered set, looking at crashes on the way.
    fn go_on<S: Store>(&mut self, image: &SimDisk, found: State) -> Result<(), String> {
        self.report.recoveries += 1;
        let seed = self.rng.next_u64();
        let mut promise = Promise::default();
        promise.acknowledge(&found);
        image.keep_log();
        let mut session: Session<S> =
            Session::new(image.clone(), promise, found, Sampling::OneIn(12, 1), seed);
        let mut inner = Vec::new();
        let mut look = |captures: Vec<Capture>, promise: &Promise| {
            for capture in captures {
                let result = read::<S>(&capture.image).map_err(|stop| stop.in_words());
                let result = result.and_then(|found| promise.check(&found));
                inner.push(result.map_err(|what| {
                    format!(
                        "and again at {}, {:?} survived: {what}",
                        capture.call.trim(),
                        capture.survivors
                    )
                }));
            }
        };
        let mut generator = Generator::new(Seed(seed).stream("after recovery"));
        // The first mutation is where a writer recovers.
        let first = Op::Append(b"after recovery".as_slice().into());
        let mut done = session
            .open(&mut look)
            .and_then(|()| session.step(&first, &mut look));
        let calls = image.log();
        done = done.and_then(|()| session.step(&Op::Flush, &mut look));
        let mut story = String::from("append, flush");
        for _ in 0..self.rng.below(8) {
            if done.is_err() {
                break;
            }
            let op = generator.next_op(&session.state);
            done = session.step(&op, &mut look);
            story += &format!(", {op}");
        }
        done = done
            .and_then(|()| session.step(&Op::Flush, &mut look))
            .and_then(|()| session.compare());
        let ended = done.and_then(|()| verify(session.store.as_ref()));
        image.unwatch();
        for path in S::recovery(image, &calls) {
            self.report.reach(path);
        }
        self.report.images += inner.len() as u64;
        for result in inner {
            result.map_err(|what| format!("then {story}, {what}"))?;
            self.report.reach("a crash in recovery was recovered from");
        }
        ended.map_err(|stop| format!("after recovery and {story}: {}", stop.in_words()))
    }
}

impl Stop {
    /// What happened.
    pub fn in_words(&self) -> String {
        match self {
            Self::Violation(what) => what.clone(),
            Self::Failed(error) => format!("{error:?}"),
        }
    }
}

fn verify<S: Store>(store: Option<&S>) -> Result<(), Stop> {
    quietly(|| store.map_or(Ok(()), Store::verify))
}

/// Reads all that a crash left, which must change nothing.
fn read<S: Store>(image: &SimDisk) -> Result<State, Stop> {
    let before = image.calls();
    let state = quietly(|| S::open(std::sync::Arc::new(image.clone()), Mode::Read)?.state())?;
    if image.calls() != before {
        return Err(Stop::Violation("a reader changed the disk".into()));
    }
    Ok(state)
}

/// Writes the files of an image into a folder, for a closer look.
fn save(image: &SimDisk, folder: &std::path::Path) {
    for (path, _) in image.files() {
        let target = folder.join(&path);
        let made = target.parent().map(std::fs::create_dir_all);
        if matches!(made, Some(Ok(()))) {
            let _ = std::fs::write(target, image.read(&path).unwrap_or_default());
        }
    }
}
