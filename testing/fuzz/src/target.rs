//! What a fuzz target is.

use staddle_base::Error;

/// A parser under attack.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Runs one input. Panics on a broken invariant.
    pub run: fn(&[u8]) -> Signal,
    /// Inputs to start from, made by the real writers.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Repairs checksums, so that not only the checksum is fuzzed.
    pub fix: Option<fn(&mut Vec<u8>)>,
    /// Words of the format that random bytes would never hit.
    pub words: &'static [&'static [u8]],
}

/// How a target answered: inputs that give a new signal are kept and mutated further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(u64);

impl Signal {
    /// As a number, to make part of another signal.
    pub fn as_number(self) -> u64 {
        self.0 >> 1
    }

    /// An answer described by some numbers; large ones count by magnitude.
    pub fn of(parts: &[u64]) -> Self {
        let magnitude = |part: &u64| {
            if *part < 8 {
                *part
            } else {
                64 + u64::from(part.ilog2())
            }
        };
        Self(parts.iter().fold(1, |hash, part| {
            staddle_base::hash::mix2(hash, magnitude(part))
        }))
    }

    /// An error: its kind and message count, the numbers in it do not.
    ///
    /// # Panics
    /// On kinds that no input may cause.
    pub fn error(error: &Error) -> Self {
        use staddle_base::ErrorKind as Kind;
        let blames_the_input = !matches!(
            error.kind(),
            Kind::Internal | Kind::Closed | Kind::Cancelled | Kind::Deadline
        );
        assert!(blames_the_input, "an input caused {error:?}");
        let words: String = error
            .to_string()
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .take(60)
            .collect();
        Self(staddle_base::checksum::xxh3(words.as_bytes()))
    }
}
