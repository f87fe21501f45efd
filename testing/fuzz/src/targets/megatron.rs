//! Megatron `.idx` files, adopted with their `.bin` in place.
//!
//! Strategy: mutate a real index; the first eight bytes of an input are the size of the `.bin`.
//! Invariants: every sequence lies inside the `.bin`; each window size sees the same.

use staddle_record::adopt::megatron::Megatron;

use super::scan;
use crate::target::{Signal, Target};

pub(super) const TARGET: Target = Target {
    name: "megatron",
    run,
    seeds,
    fix: None,
    words: &[b"MMIDIDX\0\0", b"\x01\0\0\0\0\0\0\0"],
};

fn run(input: &[u8]) -> Signal {
    let Some((size, index)) = input.split_first_chunk::<8>() else {
        return Signal::of(&[0]);
    };
    let bin_bytes = u64::from_le_bytes(*size);
    scan::check(&Megatron { bin_bytes }, index, bin_bytes)
}

fn seeds() -> Vec<Vec<u8>> {
    let lengths = [5_u32, 0, 100, 3];
    let items = |dtype: u8, bytes: u64, modes: bool| {
        let total: u64 = lengths.iter().map(|len| u64::from(*len) * bytes).sum();
        let mut out = total.to_le_bytes().to_vec();
        out.extend_from_slice(b"MMIDIDX\0\0");
        out.extend_from_slice(&1_u64.to_le_bytes());
        out.push(dtype);
        out.extend_from_slice(&(lengths.len() as u64).to_le_bytes());
        out.extend_from_slice(&2_u64.to_le_bytes());
        lengths
            .iter()
            .for_each(|len| out.extend_from_slice(&len.to_le_bytes()));
        let mut pointer = 0_u64;
        for len in lengths {
            out.extend_from_slice(&pointer.to_le_bytes());
            pointer += u64::from(len) * bytes;
        }
        [0_u64, 4]
            .iter()
            .for_each(|document| out.extend_from_slice(&document.to_le_bytes()));
        if modes {
            out.extend_from_slice(&[0; 4]);
        }
        out
    };
    vec![items(4, 4, false), items(8, 2, true)]
}
