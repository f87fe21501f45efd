//! What a user may choose about the runtime: plain settings, and the components that tests replace.

use std::sync::Arc;

use staddle_base::settings::Spec;
use staddle_base::{Clock, Error, Result, Seed, SystemClock, size, suggest};

/// The least memory limit that lets every store make progress, bytes.
pub const MEMORY_MIN: u64 = 16 << 20;

/// The settings, as `staddle.toml` and `STADDLE_RUNTIME__…` name them.
pub const SPECS: &[Spec] = &[
    Spec {
        name: "runtime.memory",
        default: "auto",
        help: "memory limit of this process, as \"8GB\"; auto is half of what the machine or its cgroup has",
    },
    Spec {
        name: "runtime.engine",
        default: "auto",
        help: "how local files are read: auto, pread or uring",
    },
    Spec {
        name: "runtime.threads",
        default: "0",
        help: "worker threads for computing; 0 is one per core, 1 computes in the caller",
    },
    Spec {
        name: "runtime.io_threads",
        default: "8",
        help: "threads of the pread engine",
    },
    Spec {
        name: "runtime.io_depth",
        default: "0",
        help: "reads in flight on one ring of the uring engine; 0 is what a probe found, else 64",
    },
    Spec {
        name: "runtime.remote_requests",
        default: "16",
        help: "requests in flight to one object store",
    },
];

/// Which engine reads local files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// io_uring where the system allows it, else pread.
    #[default]
    Auto,
    /// Blocking reads on a thread pool.
    Pread,
    /// io_uring, or an error when the runtime is made.
    Uring,
}

/// Settings and components of a [`Runtime`](crate::Runtime).
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory limit in bytes; `None` is half of what the machine or its cgroup has.
    pub memory: Option<u64>,
    /// Which engine reads local files.
    pub engine: EngineChoice,
    /// Worker threads for computing; 0 is one per core, 1 computes in the caller.
    pub threads: usize,
    /// Threads of the pread engine.
    pub io_threads: usize,
    /// Reads in flight on one ring of the uring engine; 0 is what a probe found, else 64.
    pub io_depth: u32,
    /// Requests in flight to one object store.
    pub remote_requests: usize,
    /// Run background jobs in the caller, one after the other, so that a seed replays a run. For simulations only: a
    /// job that waits for its caller would wait for ever.
    pub deterministic: bool,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub seed: Seed,
}

impl Default for Options {
    fn default() -> Self {
        let clock = SystemClock::new();
        let seed = Seed(clock.wall_ns() ^ u64::from(std::process::id()).rotate_left(40));
        Self {
            memory: None,
            engine: EngineChoice::Auto,
            threads: 0,
            io_threads: 8,
            io_depth: 0,
            remote_requests: 16,
            deterministic: false,
            clock: Arc::new(clock),
            seed,
        }
    }
}

impl Options {
    /// Sets one of [`SPECS`] from text, with or without the `runtime.` in front.
    ///
    /// # Errors
    /// `Invalid` for an unknown name or a value that does not parse.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let short = name.strip_prefix("runtime.").unwrap_or(name);
        match short {
            "memory" if value == "auto" => self.memory = None,
            "memory" => self.memory = Some(size::parse(value)?),
            "engine" => self.engine = EngineChoice::parse(value)?,
            "threads" => self.threads = count(name, value)?,
            "io_threads" => self.io_threads = count(name, value)?,
            "io_depth" => self.io_depth = count(name, value)?,
            "remote_requests" => self.remote_requests = count(name, value)?,
            _ => {
                let known: Vec<&str> = SPECS.iter().map(|spec| spec.name).collect();
                return Err(Error::invalid(format!("unknown setting `{name}`"))
                    .hint(suggest::hint(&format!("runtime.{short}"), &known)));
            }
        }
        Ok(())
    }

    /// The same options with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same options with another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: Seed) -> Self {
        self.seed = seed;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if let Some(memory) = self.memory.filter(|memory| *memory < MEMORY_MIN) {
            return Err(Error::invalid(format!(
                "a memory limit of {} is too small",
                size::human(memory)
            ))
            .hint(format!("give at least {}", size::human(MEMORY_MIN))));
        }
        let counts = [
            ("runtime.threads", self.threads, 0, 4096),
            ("runtime.io_threads", self.io_threads, 1, 4096),
            (
                "runtime.io_depth",
                usize::try_from(self.io_depth).unwrap_or(usize::MAX),
                0,
                4096,
            ),
            ("runtime.remote_requests", self.remote_requests, 1, 4096),
        ];
        for (name, value, least, most) in counts {
            if value < least || value > most {
                return Err(Error::invalid(format!("{name} is {value}"))
                    .hint(format!("give a number from {least} to {most}")));
            }
        }
        Ok(())
    }
}

impl EngineChoice {
    const NAMES: &[&str] = &["auto", "pread", "uring"];

    /// Parses `auto`, `pread` or `uring`.
    ///
    /// # Errors
    /// `Invalid` with the choices.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "pread" => Ok(Self::Pread),
            "uring" | "io_uring" => Ok(Self::Uring),
            _ => Err(Error::invalid(format!("unknown engine `{text}`"))
                .hint(suggest::hint(text, Self::NAMES))),
        }
    }
}

fn count<T: std::str::FromStr>(name: &str, value: &str) -> Result<T> {
    value.trim().parse().map_err(|_| {
        Error::invalid(format!("`{value}` is not a number")).with("setting", name.to_owned())
    })
}

#[cfg(test)]
mod tests;
