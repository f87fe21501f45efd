//! The mutator: seeded, so that a seed replays a run.

use staddle_base::{Rng, Seed};

/// Integers at which parsers go wrong.
const INTERESTING: [u64; 24] = [
    0,
    1,
    2,
    7,
    8,
    16,
    24,
    40,
    63,
    64,
    255,
    256,
    4095,
    4096,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    (1 << 40) - 1,
    (1 << 48) - 1,
    i64::MAX as u64,
    u64::MAX,
];

/// Makes new inputs from old ones.
#[derive(Debug)]
pub struct Mutator {
    rng: Rng,
    corpus: Vec<Vec<u8>>,
    seeds: usize,
    words: &'static [&'static [u8]],
    len_max: usize,
}

/// Inputs kept besides the seeds.
const KEPT_MAX: usize = 2048;

impl Mutator {
    /// A mutator over `seeds`.
    pub fn new(
        seed: Seed,
        name: &str,
        seeds: Vec<Vec<u8>>,
        words: &'static [&'static [u8]],
    ) -> Self {
        let longest = seeds.iter().map(Vec::len).max().unwrap_or(0);
        let mut corpus = seeds;
        corpus.push(Vec::new());
        Self {
            rng: seed.stream(name),
            seeds: corpus.len(),
            corpus,
            words,
            len_max: (2 * longest + 4096).min(1 << 20),
        }
    }

    /// Keeps an input that made the target answer in a new way.
    pub fn keep(&mut self, input: &[u8]) {
        if self.corpus.len() < self.seeds + KEPT_MAX {
            self.corpus.push(input.to_vec());
        } else {
            let at = self.seeds + self.rng.index(KEPT_MAX);
            if let Some(old) = self.corpus.get_mut(at) {
                *old = input.to_vec();
            }
        }
    }

    /// The next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.any();
        // Mostly few changes: a parser stops at the first thing it does not like.
        let changes = 1 << self.rng.below(5);
        for _ in 0..1 + self.rng.below(changes) {
            self.change(&mut input);
        }
        input.truncate(self.len_max);
        input
    }

    /// True three times out of four: whether to repair checksums.
    pub fn repairs(&mut self) -> bool {
        self.rng.chance(3, 4)
    }

    fn any(&mut self) -> Vec<u8> {
        // Half of the time a seed, so that the corpus cannot drift into nonsense.
        let bound = if self.rng.chance(1, 2) {
            self.seeds
        } else {
            self.corpus.len()
        };
        let at = self.rng.index(bound);
        self.corpus.get(at).cloned().unwrap_or_default()
    }

    /// A position in `input`, often near its start, where headers are.
    fn place(&mut self, len: usize) -> usize {
        let bound = if self.rng.chance(1, 4) {
            len.min(64)
        } else {
            len
        };
        self.rng.index(bound)
    }

    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.place(len);
        let longest = if self.rng.chance(3, 4) { 64 } else { 4096 };
        start..start + 1 + self.rng.index(longest.min(len.saturating_sub(start)))
    }

    fn integer(&mut self, len: usize) -> u64 {
        let len = len as u64;
        match self.rng.below(8) {
            0 => len,
            1 => len.wrapping_sub(1),
            2 => len.wrapping_add(1),
            3 => self.rng.below(len.max(1)),
            4 => self.rng.next_u64() >> self.rng.below(64),
            _ => {
                let at = self.rng.index(INTERESTING.len());
                let value = INTERESTING.get(at).copied().unwrap_or(0);
                value.wrapping_add(self.rng.below(3)).wrapping_sub(1)
            }
        }
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let kind = self.rng.below(16);
        let len = input.len();
        if len == 0 || kind == 15 {
            return self.insert(input);
        }
        match kind {
            0 | 1 => {
                let at = self.place(len);
                input[at] ^= 1 << self.rng.below(8);
            }
            2 => {
                let at = self.place(len);
                input[at] = self.rng.next_u64() as u8;
            }
            3..=6 => self.overwrite_integer(input),
            7 => self.nudge_integer(input),
            8 => input.truncate(self.place(len + 1)),
            9 => {
                let range = self.range(len);
                input.drain(range);
            }
            10 => {
                let range = self.range(len);
                let copy = input[range].to_vec();
                let at = self.place(len + 1);
                input.splice(at..at, copy);
            }
            11 => {
                let range = self.range(len);
                let copy = input[range].to_vec();
                let at = self.place(len);
                let end = (at + copy.len()).min(len);
                input[at..end].copy_from_slice(&copy[..end - at]);
            }
            12 => {
                let range = self.range(len);
                let fill = if self.rng.chance(1, 2) { 0 } else { 0xff };
                input[range].fill(fill);
            }
            13 => {
                let other = self.any();
                let (cut, from) = (self.place(len + 1), self.rng.index(other.len() + 1));
                let from = if self.rng.chance(1, 2) {
                    cut.min(other.len())
                } else {
                    from
                };
                input.truncate(cut);
                input.extend_from_slice(&other[from..]);
            }
            _ => self.word(input),
        }
    }

    fn overwrite_integer(&mut self, input: &mut [u8]) {
        let value = self.integer(input.len()).to_le_bytes();
        let width = 1 << self.rng.below(4);
        let mut at = self.place(input.len());
        if self.rng.chance(3, 4) {
            at -= at % width;
        }
        let end = (at + width).min(input.len());
        input[at..end].copy_from_slice(&value[..end - at]);
        if self.rng.chance(1, 16) {
            input[at..end].reverse();
        }
    }

    fn nudge_integer(&mut self, input: &mut [u8]) {
        let width = 1 << self.rng.below(4);
        let at = self.place(input.len());
        let at = at - at % width;
        let end = (at + width).min(input.len());
        let mut value = [0; 8];
        value[..end - at].copy_from_slice(&input[at..end]);
        let step = (1 + self.rng.below(16)) << (8 * self.rng.below(width as u64));
        let value = u64::from_le_bytes(value);
        let value = if self.rng.chance(1, 2) {
            value.wrapping_add(step)
        } else {
            value.wrapping_sub(step)
        };
        input[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
    }

    fn insert(&mut self, input: &mut Vec<u8>) {
        let longest = if self.rng.chance(7, 8) { 16 } else { 8192 };
        let mut bytes = vec![0; 1 + self.rng.index(longest)];
        if self.rng.chance(1, 2) {
            self.rng.fill(&mut bytes);
        }
        let at = if self.rng.chance(1, 2) {
            input.len()
        } else {
            self.place(input.len() + 1)
        };
        input.splice(at..at, bytes);
    }

    fn word(&mut self, input: &mut Vec<u8>) {
        let at = self.rng.index(self.words.len());
        let Some(word) = self.words.get(at) else {
            return self.overwrite_integer(input);
        };
        let at = self.place(input.len() + 1);
        let end = if self.rng.chance(1, 2) {
            at
        } else {
            (at + word.len()).min(input.len())
        };
        input.splice(at..end, word.iter().copied());
    }
}
