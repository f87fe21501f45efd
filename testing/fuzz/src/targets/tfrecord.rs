//! TFRecord files, adopted in place.
//!
//! Strategy: mutate a file of real records; repair the masked CRCs of lengths, and of payloads where they fit.
//! Invariants: every record lies inside the file; records do not overlap; each window size sees the same.

use staddle_base::checksum::crc32c_masked;
use staddle_record::adopt::tfrecord::TfRecord;

use crate::target::{Signal, Target};

pub(super) const TARGET: Target = Target {
    name: "tfrecord",
    run,
    seeds,
    fix: Some(|input| fix(input)),
    words: &[],
};

fn run(input: &[u8]) -> Signal {
    let size = input.len() as u64;
    let lengths = super::scan::check(&TfRecord { verify: false }, input, size);
    let verified = super::scan::check(&TfRecord { verify: true }, input, size);
    Signal::of(&[lengths.as_number(), verified.as_number()])
}

fn seeds() -> Vec<Vec<u8>> {
    let mut file = Vec::new();
    for len in [0_usize, 1, 12, 100, 1000] {
        let payload = vec![len as u8; len];
        let length = (len as u64).to_le_bytes();
        file.extend_from_slice(&length);
        file.extend_from_slice(&crc32c_masked(&length).to_le_bytes());
        file.extend_from_slice(&payload);
        file.extend_from_slice(&crc32c_masked(&payload).to_le_bytes());
    }
    vec![file]
}

fn fix(input: &mut [u8]) {
    let mut at = 0;
    while let Some((length, rest)) = input
        .get_mut(at..)
        .and_then(|rest| rest.split_first_chunk_mut::<8>())
    {
        let Some((sum, rest)) = rest.split_first_chunk_mut::<4>() else {
            return;
        };
        *sum = crc32c_masked(length).to_le_bytes();
        let Ok(len) = usize::try_from(u64::from_le_bytes(*length)) else {
            return;
        };
        let Some((payload, rest)) = rest.split_at_mut_checked(len) else {
            return;
        };
        let Some(sum) = rest.first_chunk_mut::<4>() else {
            return;
        };
        *sum = crc32c_masked(payload).to_le_bytes();
        at += 16 + len;
    }
}
