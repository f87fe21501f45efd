//! The log of redirects.
//!
//! Strategy: mutate a real log; repair the header's and every record's CRC.
//! Invariants: an accepted log encodes to the bytes it came from.

use staddle_base::ErrorKind;
use staddle_base::checksum::crc32c;
use staddle_record::codec::Codec;
use staddle_record::format::{Entry, LogHeader, LogRecord, Op, log};

use super::repair;
use crate::target::{Signal, Target};

pub(super) const TARGET: Target = Target {
    name: "log",
    run,
    seeds,
    fix: Some(|input| fix(input)),
    words: &[b"STADLOG1"],
};

fn run(input: &[u8]) -> Signal {
    let decoded = LogHeader::decode(input).and_then(|header| {
        let records = log::decode_all(input.get(LogHeader::BYTES..).unwrap_or_default())?;
        Ok((header, records))
    });
    match decoded {
        Ok((header, records)) => {
            assert_eq!(LogHeader::decode(&header.encode()).ok(), Some(header));
            let mut again = Vec::new();
            records.iter().for_each(|record| record.encode(&mut again));
            assert_eq!(again.as_slice(), &input[LogHeader::BYTES..]);
            Signal::of(&[1, records.len() as u64])
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
    let mut log = LogHeader {
        uuid: [7; 16],
        number: 3,
        generation: 9,
    }
    .encode();
    for (sequence, op) in (5..).zip([Op::Put, Op::SwapDelete, Op::Tombstone, Op::Put]) {
        let entry = Entry::new(2, 4096 * sequence, 100, Codec::None, 0);
        LogRecord {
            op,
            sequence,
            index: sequence * 3,
            entry,
        }
        .encode(&mut log);
    }
    vec![log]
}

fn fix(input: &mut [u8]) {
    repair::crc_at(input, LogHeader::BYTES - 4);
    for record in input
        .get_mut(LogHeader::BYTES..)
        .unwrap_or_default()
        .chunks_exact_mut(LogRecord::BYTES)
    {
        if let Some((sum, body)) = record.split_first_chunk_mut::<4>() {
            *sum = crc32c(body).to_le_bytes();
        }
    }
}
