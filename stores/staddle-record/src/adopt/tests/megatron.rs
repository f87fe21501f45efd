//! Megatron's `.idx` against a writer of our own, a file that Python wrote, and damage.

use proptest::prelude::*;
use staddle_base::ErrorKind;

use super::super::megatron::{Header, Megatron};
use super::super::window::{Reach, Window};
use super::{check_hostile, damage, damages, golden, scan};
use crate::options::Dtype;

struct Idx {
    version: u64,
    code: u8,
    sequences: Vec<(i32, i64)>,
    documents: Vec<i64>,
    modes: Option<Vec<i8>>,
}

impl Idx {
    /// Sequences back to back, one document each.
    fn packed(code: u8, width: i64, lengths: &[i32]) -> (Self, u64) {
        let mut at = 0;
        let sequences: Vec<(i32, i64)> = lengths
            .iter()
            .map(|len| {
                let start = at;
                at += i64::from(*len) * width;
                (*len, start)
            })
            .collect();
        let documents = (0..=lengths.len())
            .map(|n| i64::try_from(n).unwrap())
            .collect();
        let idx = Self {
            version: 1,
            code,
            sequences,
            documents,
            modes: None,
        };
        (idx, u64::try_from(at).unwrap())
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"MMIDIDX\0\0".to_vec();
        out.extend_from_slice(&self.version.to_le_bytes());
        out.push(self.code);
        out.extend_from_slice(&(self.sequences.len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.documents.len() as u64).to_le_bytes());
        out.extend(self.sequences.iter().flat_map(|(len, _)| len.to_le_bytes()));
        out.extend(self.sequences.iter().flat_map(|(_, at)| at.to_le_bytes()));
        out.extend(self.documents.iter().flat_map(|at| at.to_le_bytes()));
        out.extend(self.modes.iter().flatten().map(|mode| mode.cast_unsigned()));
        out
    }
}

#[test]
fn a_file_of_another_writer_is_read() {
    let bin = golden!("tokens.bin");
    let idx = golden!("tokens.idx").to_vec();
    let header = Header::read(&mut Window::new(&idx, Reach::LOCAL)).unwrap();
    assert_eq!(header.dtype, Dtype::U16);
    assert_eq!((header.sequences, header.documents), (4, 3));
    assert_eq!(header.modes_at, None);
    let adopter = Megatron {
        bin_bytes: bin.len() as u64,
    };
    let (found, _) = scan(&adopter, &idx).unwrap();
    let places: Vec<(u64, u64)> = found.iter().map(|(_, at, len)| (*at, *len)).collect();
    assert_eq!(places, [(0, 6), (6, 0), (6, 4), (10, 2)]);
}

#[test]
fn modes_are_recognised_by_the_size() {
    let (mut idx, bin_bytes) = Idx::packed(4, 4, &[1, 2, 3]);
    idx.modes = Some(vec![0, 1, -1]);
    let bytes = idx.bytes();
    let header = Header::read(&mut Window::new(&bytes, Reach::LOCAL)).unwrap();
    assert_eq!(header.modes_at, Some(bytes.len() as u64 - 3));
    assert_eq!(scan(&Megatron { bin_bytes }, &bytes).unwrap().0.len(), 3);
}

#[test]
fn what_cannot_be_is_refused() {
    let good = || Idx::packed(4, 4, &[1, 2, 3]);
    let (_, bin_bytes) = good();
    let adopter = Megatron { bin_bytes };
    let check = |idx: Idx, kind: ErrorKind, word: &str| {
        let error = scan(&adopter, &idx.bytes()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.message().contains(word), "{error}");
    };
    for (code, version) in [(0, 1), (9, 1), (4, 2), (4, u64::MAX)] {
        let (mut idx, _) = good();
        (idx.code, idx.version) = (code, version);
        let word = if version == 1 {
            "element type"
        } else {
            "version"
        };
        check(idx, ErrorKind::Unsupported, word);
    }
    for place in [
        (-1, 0),
        (4, 12),
        (1, -4),
        (1, 24),
        (i32::MAX, i64::MAX),
        (1, i64::MIN),
    ] {
        let (mut idx, _) = good();
        idx.sequences[1] = place;
        check(idx, ErrorKind::Corrupt, "outside the .bin");
    }
    for documents in [vec![-1], vec![0, 4], vec![2, 1], vec![i64::MAX]] {
        let (mut idx, _) = good();
        idx.documents = documents;
        check(idx, ErrorKind::Corrupt, "document boundary");
    }
}

#[test]
fn counts_beyond_the_file_are_refused_before_memory_is_taken() {
    let (idx, bin_bytes) = Idx::packed(4, 4, &[1, 2, 3]);
    let adopter = Megatron { bin_bytes };
    for at in [18, 26] {
        for count in [u64::MAX, 1 << 63, 1 << 61, 1 << 32, 5] {
            let mut bytes = idx.bytes();
            bytes[at..at + 8].copy_from_slice(&count.to_le_bytes());
            let error = scan(&adopter, &bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
        }
    }
    let bytes = idx.bytes();
    for cut in 0..bytes.len() {
        assert!(scan(&adopter, &bytes[..cut]).is_err(), "cut at {cut}");
    }
    for (head, kind) in [
        (&b"TNTIDX\0\0"[..], ErrorKind::Unsupported),
        (b"\x1f\x8b\x08\0", ErrorKind::Unsupported),
        (b"MMIDIDX\0\x01", ErrorKind::Corrupt),
    ] {
        assert_eq!(scan(&adopter, head).unwrap_err().kind(), kind);
    }
}

#[test]
fn more_sequences_than_a_block_are_read_in_order() {
    let lengths: Vec<i32> = (0..10_000).map(|n| n % 7).collect();
    let (idx, bin_bytes) = Idx::packed(8, 2, &lengths);
    let (found, _) = scan(&Megatron { bin_bytes }, &idx.bytes()).unwrap();
    let expected: Vec<(Vec<u8>, u64, u64)> = idx
        .sequences
        .iter()
        .map(|(len, at)| {
            (
                Vec::new(),
                u64::try_from(*at).unwrap(),
                u64::try_from(*len).unwrap() * 2,
            )
        })
        .collect();
    assert_eq!(found, expected);
}

proptest! {
    #[test]
    fn damage_never_leads_outside(damages in damages(), bin_bytes in 0..100_u64) {
        let (idx, _) = Idx::packed(4, 4, &[1, 2, 3, 0, 9]);
        let bytes = damage(&idx.bytes(), &damages);
        check_hostile(&Megatron { bin_bytes }, &bytes, bin_bytes);
    }
}
