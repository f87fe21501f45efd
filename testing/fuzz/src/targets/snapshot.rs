//! A named snapshot of a record set.
//!
//! Strategy: mutate a real snapshot file; repair the checksum line, and in half of the inputs the CRC of the HEAD slot
//! inside, which stands there as hexadecimal digits.
//! Invariants: a name that is accepted stays inside its folder; the slot inside encodes and decodes to itself.

use staddle_base::{ErrorKind, Seed};
use staddle_record::format::{Head, head::SLOT_BYTES, names};
use staddle_record::maintain::snapshot;
use staddle_runtime::io::device::Device;
use staddle_sim::SimDisk;

use super::repair;
use crate::target::{Signal, Target};

pub(super) const TARGET: Target = Target {
    name: "snapshot",
    run,
    seeds,
    fix: Some(fix),
    words: &[
        b"\"name\": \"../x\"",
        b"\"head\": \"",
        b"\"generation\": 18446744073709551615",
        b"5354414452454331",
    ],
};

fn run(input: &[u8]) -> Signal {
    match snapshot::decode(input) {
        Ok(snapshot) => {
            assert!(names::check(&snapshot.name).is_ok());
            assert_eq!(
                Head::decode(&snapshot.head.encode()).ok(),
                Some(snapshot.head)
            );
            Signal::of(&[1, snapshot.name.len() as u64])
        }
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
                "{error:?}"
            );
            Signal::error(&error)
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let disk = SimDisk::new(Seed(1));
    let made = disk
        .create_dir("snap")
        .and_then(|()| snapshot::add(&disk, "run7", &super::head::sample(5, 2)));
    made.ok()
        .and_then(|()| disk.read(&names::snapshot("run7")))
        .into_iter()
        .collect()
}

fn fix(input: &mut Vec<u8>) {
    let key = b"\"head\": \"";
    let digits = input
        .windows(key.len())
        .position(|window| window == key)
        .map(|at| at + key.len());
    if let Some(digits) = digits.and_then(|at| input.get_mut(at..at + 2 * SLOT_BYTES)) {
        let nibble = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
        let mut slot: Vec<u8> = digits
            .as_chunks::<2>()
            .0
            .iter()
            .map(|[a, b]| nibble(*a) * 16 + nibble(*b))
            .collect();
        repair::crc_at(&mut slot, SLOT_BYTES - 4);
        for (to, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(slot) {
            let [high, low] = [byte >> 4, byte & 15].map(|n| b"0123456789abcdef"[usize::from(n)]);
            *to = [high, low];
        }
    }
    repair::json_line(input);
}
