//! TFRecord against a writer of our own, a file that Python wrote, and damage.

use proptest::prelude::*;
use staddle_base::ErrorKind;
use staddle_base::checksum::crc32c_masked;

use super::super::tfrecord::TfRecord;
use super::{check_hostile, damage, damages, golden, scan};

const SCAN: TfRecord = TfRecord { verify: false };
const VERIFY: TfRecord = TfRecord { verify: true };

fn write(records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        let len = (record.len() as u64).to_le_bytes();
        out.extend_from_slice(&len);
        out.extend_from_slice(&crc32c_masked(&len).to_le_bytes());
        out.extend_from_slice(record);
        out.extend_from_slice(&crc32c_masked(record).to_le_bytes());
    }
    out
}

#[test]
fn a_file_of_another_writer_is_read_and_verified() {
    let (found, _) = scan(&VERIFY, golden!("three.tfrecord")).unwrap();
    let places: Vec<(u64, u64)> = found.iter().map(|(_, at, len)| (*at, *len)).collect();
    assert_eq!(places, [(12, 0), (28, 3), (47, 1280)]);
}

#[test]
fn an_empty_file_holds_no_records() {
    assert!(scan(&VERIFY, b"").unwrap().0.is_empty());
}

#[test]
fn compressed_files_are_named() {
    for (head, word) in [
        (&b"\x1f\x8b\x08\0\0\0\0\0\0\0\0\0\0"[..], "gzip"),
        (b"\x1f\x8b", "gzip"),
        (b"\x78\x9c\x01\0\0\0\0\0\0\0\0\0\0", "zlib"),
    ] {
        let error = scan(&SCAN, head).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(word), "{error}");
    }
    let plain = write(&[vec![7; 0x9c78]]);
    assert_eq!(plain[..2], [0x78, 0x9c]);
    assert_eq!(scan(&SCAN, &plain).unwrap().0.len(), 1);
}

#[test]
fn a_length_that_cannot_be_is_refused_even_with_a_right_checksum() {
    for len in [u64::MAX, u64::MAX - 11, 1 << 63, 1 << 32, 2] {
        let len = len.to_le_bytes();
        let mut bytes = len.to_vec();
        bytes.extend_from_slice(&crc32c_masked(&len).to_le_bytes());
        bytes.extend_from_slice(&[0; 5]);
        let error = scan(&SCAN, &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.get("record"), Some("0"));
    }
}

#[test]
fn every_flipped_bit_is_detected_by_verify() {
    let whole = write(&[b"alpha".to_vec(), Vec::new(), vec![1; 40]]);
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = scan(&VERIFY, &bytes).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
            "bit {bit}: {error:?}"
        );
    }
}

#[test]
fn a_file_cut_inside_a_record_is_refused() {
    let whole = write(&[b"alpha".to_vec(), b"beta".to_vec()]);
    let boundaries = [0, 21, whole.len()];
    for cut in 0..=whole.len() {
        let result = scan(&SCAN, &whole[..cut]);
        assert_eq!(result.is_ok(), boundaries.contains(&cut), "cut at {cut}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn places_are_where_the_payloads_are(records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..20)) {
        let bytes = write(&records);
        let (found, _) = scan(&VERIFY, &bytes).unwrap();
        let back: Vec<Vec<u8>> = found
            .iter()
            .map(|(_, at, len)| bytes[usize::try_from(*at).unwrap()..][..usize::try_from(*len).unwrap()].to_vec())
            .collect();
        prop_assert_eq!(back, records);
    }

    #[test]
    fn damage_never_leads_outside(damages in damages()) {
        let bytes = damage(&write(&[b"alpha".to_vec(), Vec::new(), vec![1; 700]]), &damages);
        check_hostile(&SCAN, &bytes, bytes.len() as u64);
        check_hostile(&VERIFY, &bytes, bytes.len() as u64);
    }
}
