//! Stable hashing, and the keyed permutation behind every shuffle.

/// SplitMix64's finalizer: a bijection of `u64` that mixes every bit.
#[inline]
pub fn mix64(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hashes two words into one.
#[inline]
pub fn mix2(a: u64, b: u64) -> u64 {
    mix64(mix64(a) ^ b.rotate_left(32))
}

/// A keyed pseudo-random permutation of `[0, n)`: constant memory, constant-time access to any position.
///
/// A balanced Feistel network over the smallest even number of bits that holds `n`, with cycle walking: an output
/// outside `[0, n)` is fed back in. The domain is less than `4n`, so fewer than four evaluations are expected, and
/// termination is certain because a permutation's cycle through a point of `[0, n)` returns to it.
/// (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    half_bits: u32,
    mask: u64,
    keys: [u64; Self::ROUNDS],
}

impl Permutation {
    const ROUNDS: usize = 6;

    /// The permutation of `[0, n)` that `key` selects.
    pub fn new(n: u64, key: u64) -> Self {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        let mut keys = [0; Self::ROUNDS];
        for (round, slot) in (0u64..).zip(keys.iter_mut()) {
            *slot = mix2(key, round);
        }
        Self {
            n,
            half_bits,
            mask: u64::MAX >> (64 - half_bits),
            keys,
        }
    }

    /// Where position `position` of the shuffled order points; `position` must be below `n`.
    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        debug_assert!(position < self.n);
        if self.n <= 1 {
            return 0;
        }
        let mut value = position;
        loop {
            value = self.round_trip(value);
            if value < self.n {
                return value;
            }
        }
    }

    /// The position that points to `value`: the inverse of [`Permutation::at`]; `value` must be below `n`.
    #[inline]
    pub fn position_of(&self, value: u64) -> u64 {
        debug_assert!(value < self.n);
        if self.n <= 1 {
            return 0;
        }
        let mut position = value;
        loop {
            position = self.round_trip_back(position);
            if position < self.n {
                return position;
            }
        }
    }

    #[inline]
    fn round_trip(&self, value: u64) -> u64 {
        let (mut left, mut right) = (value >> self.half_bits, value & self.mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix64(right ^ key) & self.mask));
        }
        (left << self.half_bits) | right
    }

    #[inline]
    fn round_trip_back(&self, value: u64) -> u64 {
        let (mut left, mut right) = (value >> self.half_bits, value & self.mask);
        for key in self.keys.iter().rev() {
            (left, right) = (right ^ (mix64(left ^ key) & self.mask), left);
        }
        (left << self.half_bits) | right
    }

    /// The size of the domain.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Whether the domain is empty.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_domain_is_permuted() {
        for n in (0..70).chain([255, 256, 257, 1000, 4097]) {
            let permutation = Permutation::new(n, 42);
            let mut seen = vec![false; usize::try_from(n).unwrap()];
            for position in 0..n {
                let value = usize::try_from(permutation.at(position)).unwrap();
                assert!(
                    !std::mem::replace(&mut seen[value], true),
                    "n={n} repeats {value}"
                );
                assert_eq!(permutation.position_of(permutation.at(position)), position);
            }
        }
    }

    #[test]
    fn the_key_matters_and_the_order_is_not_the_identity() {
        let (a, b) = (Permutation::new(1000, 1), Permutation::new(1000, 2));
        let same = (0..1000).filter(|i| a.at(*i) == b.at(*i)).count();
        let fixed = (0..1000).filter(|i| a.at(*i) == *i).count();
        assert!(same < 20 && fixed < 20, "same {same}, fixed {fixed}");
    }

    #[test]
    fn the_full_domain_works() {
        let permutation = Permutation::new(u64::MAX, 7);
        assert_ne!(permutation.at(0), permutation.at(1));
        assert_eq!(permutation.position_of(permutation.at(5)), 5);
    }
}
