//! Progress of long commands: a bar on a terminal, else a plain line every ten seconds, nothing with `--json`.

use std::cell::Cell;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use staddle_base::{Clock, SystemClock, size};

use super::output::Output;

const LINE_EVERY_NS: u64 = 10_000_000_000;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes, shown as sizes.
    Bytes,
    /// Records, shown as numbers.
    Records,
}

/// Progress of one long job.
pub(crate) struct Progress {
    what: &'static str,
    unit: Unit,
    bar: Option<ProgressBar>,
    lines: bool,
    clock: SystemClock,
    started: u64,
    last: Cell<u64>,
}

impl Progress {
    /// Progress of `what`, drawn as `out` allows.
    pub(crate) fn new(out: &Output, what: &'static str, unit: Unit) -> Self {
        let clock = SystemClock::new();
        let started = clock.steady_ns();
        let bar = out.may_draw().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(style(unit, false));
            bar.set_message(what);
            bar
        });
        Self {
            what,
            unit,
            bar,
            lines: !out.quiet() && !out.json(),
            clock,
            started,
            last: Cell::new(started),
        }
    }

    /// Says how far the job is; `total` may be 0 while it is not known.
    pub(crate) fn set(&self, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            if total > 0 && bar.length() != Some(total) {
                bar.set_length(total);
                bar.set_style(style(self.unit, true));
            }
            bar.set_position(done);
            return;
        }
        let now = self.clock.steady_ns();
        if self.lines && now.saturating_sub(self.last.get()) >= LINE_EVERY_NS {
            self.last.set(now);
            self.say(done, total, now);
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    #[expect(
        clippy::print_stderr,
        reason = "a plain progress line is for people who watch a log"
    )]
    fn say(&self, done: u64, total: u64, now: u64) {
        let seconds = (now - self.started) as f64 / 1e9;
        let of = if total > 0 {
            format!(" of {}", self.amount(total))
        } else {
            String::new()
        };
        let rate = self.amount((done as f64 / seconds.max(1e-3)) as u64);
        eprintln!("{}: {}{of}, {rate}/s", self.what, self.amount(done));
    }

    fn amount(&self, value: u64) -> String {
        match self.unit {
            Unit::Bytes => size::human(value),
            Unit::Records => size::thousands(value),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

fn style(unit: Unit, known: bool) -> ProgressStyle {
    let template = match (unit, known) {
        (Unit::Bytes, true) => "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        (Unit::Bytes, false) => "{msg} {spinner} {bytes} {bytes_per_sec}",
        (Unit::Records, true) => "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
        (Unit::Records, false) => "{msg} {spinner} {human_pos} {per_sec}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
