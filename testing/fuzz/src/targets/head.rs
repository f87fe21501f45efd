//! HEAD of a record set.
//!
//! Strategy: mutate a file of two real slots; repair both CRCs.
//! Invariants: the newest good slot decodes to something that encodes and decodes to itself; counts do not contradict
//! each other; nothing past the open chunks' limit is taken for one.

use staddle_base::ErrorKind;
use staddle_record::format::head::{FILE_BYTES, SLOT_BYTES};
use staddle_record::format::{Head, OpenChunk};

use super::repair;
use crate::target::{Signal, Target};

pub(super) const TARGET: Target = Target {
    name: "head",
    run,
    seeds,
    fix: Some(fix),
    words: &[b"STADREC1"],
};

fn run(input: &[u8]) -> Signal {
    match Head::newest(input) {
        Ok(head) => {
            assert!(
                head.live <= head.n && head.open.len() <= Head::OPEN_MAX,
                "{head:?}"
            );
            assert_eq!(Head::decode(&head.encode()).as_ref().ok(), Some(&head));
            Signal::of(&[1, head.open.len() as u64, head.n, head.base_len])
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

/// A slot as a writer makes it.
pub(super) fn sample(generation: u64, chunks: u32) -> Head {
    let open = (0..chunks).map(|id| OpenChunk {
        id,
        end: 4096 + u64::from(id),
        records: 11,
        sequence_max: 76,
        digest: 0xabcd_ef01_2345_6789,
    });
    Head {
        uuid: [7; 16],
        generation,
        n: 10,
        live: 9,
        base_len: 12,
        manifest: 3,
        log: 2,
        log_end: 104,
        next_sequence: 77,
        changed_generation: 4,
        moved_generation: 2,
        live_bytes: 900,
        total_bytes: 4096,
        time_ns: 1_700_000_000_000_000_000,
        open: open.collect(),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let file = |chunks| {
        let mut file = sample(4, chunks).encode();
        file.extend(sample(5, chunks).encode());
        file
    };
    vec![file(0), file(1), file(64)]
}

fn fix(input: &mut Vec<u8>) {
    input.truncate(FILE_BYTES);
    for slot in input.chunks_mut(SLOT_BYTES) {
        repair::crc_at(slot, SLOT_BYTES - 4);
    }
}
