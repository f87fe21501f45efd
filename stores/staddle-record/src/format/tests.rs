//! Every structure comes back as it was written, and every changed byte of it is noticed.

#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use proptest::prelude::*;
use staddle_base::ErrorKind;
use staddle_base::checksum::crc32c;

use super::*;
use crate::codec::Codec;

fn head() -> Head {
    Head {
        uuid: [7; 16],
        generation: 5,
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
        time_ns: 1,
        open: vec![OpenChunk {
            id: 3,
            end: 4096,
            records: 11,
            sequence_max: 76,
            digest: 0xabcd,
        }],
    }
}

#[test]
fn the_newest_good_slot_wins() {
    let mut older = head();
    older.generation = 4;
    let mut file = older.encode();
    file.extend(head().encode());
    assert_eq!(Head::newest(&file).unwrap(), head());
    file[SLOT + 100] ^= 1;
    assert_eq!(Head::newest(&file).unwrap(), older);
    file[100] ^= 1;
    let error = Head::newest(&file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("staddle repair"), "{error}");
}

const SLOT: usize = head::SLOT_BYTES;

#[test]
fn a_newer_format_is_unsupported_even_if_the_other_slot_is_old() {
    let mut newer = head().encode();
    newer[8] = 99;
    let crc = crc32c(&newer[..4092]);
    newer[4092..].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(
        Head::decode(&newer).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    let mut file = newer;
    file.extend(head().encode());
    assert_eq!(
        Head::newest(&file).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn every_bit_of_a_head_slot_matters() {
    let good = head().encode();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Head::decode(&bad).is_err(), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn frames_come_back(
        payload in proptest::collection::vec(any::<u8>(), 0..200),
        raw_length in any::<u32>(),
        sequence_delta in any::<u32>(),
        index in 0..RECORDS_MAX,
        dictionary in any::<u8>(),
        op in 1u8..5,
        codec in 0u8..4,
    ) {
        let frame = Frame {
            physical_length: payload.len() as u32,
            raw_length,
            sequence_delta,
            index,
            op: Op::from_id(op).unwrap(),
            codec: Codec::from_id(codec).unwrap(),
            dictionary,
        };
        let (bytes, crc) = frame.encode(crc32c(&payload));
        prop_assert_eq!(Frame::decode(&bytes).unwrap(), (frame, crc));
        prop_assert!(Frame::check(&bytes, &payload));
        for at in 0..bytes.len() {
            let mut bad = bytes;
            bad[at] ^= 0x10;
            prop_assert!(!Frame::check(&bad, &payload), "byte {}", at);
        }
    }

    #[test]
    fn entries_keep_their_fields(chunk in any::<u32>(), offset in 0..=Entry::OFFSET_MAX, length in any::<u32>(), slot in any::<u8>(), codec in 0u8..4) {
        let codec = Codec::from_id(codec).unwrap();
        let entry = Entry::new(chunk, offset, length, codec, slot);
        let back = Entry::from_bytes(entry.to_bytes());
        prop_assert_eq!(back, entry);
        prop_assert_eq!(
            (back.chunk(), back.offset(), back.physical_length(), back.codec().unwrap(), back.dictionary()),
            (chunk, offset, length, codec, slot)
        );
        prop_assert!(back.is_present() && !back.is_external());
        prop_assert_eq!(back.is_raw(), codec == Codec::None);
    }

    #[test]
    fn log_records_come_back(op in 1u8..5, sequence in any::<u64>(), index in any::<u64>(), chunk in any::<u32>()) {
        let record = LogRecord { op: Op::from_id(op).unwrap(), sequence, index, entry: Entry::new(chunk, 64, 5, Codec::Lz4, 0) };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(bytes.len(), LogRecord::BYTES);
        prop_assert_eq!(log::decode_all(&bytes).unwrap(), vec![record]);
        bytes[20] ^= 1;
        prop_assert!(LogRecord::decode(&bytes).is_err());
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
        let _ = Head::newest(&bytes);
        let _ = ChunkHeader::decode(&bytes);
        let _ = ChunkFooter::decode(&bytes);
        let _ = LogHeader::decode(&bytes);
        let _ = log::decode_all(&bytes);
        let _ = crate::manifest::Manifest::decode(&bytes);
    }
}

#[test]
fn chunk_and_log_headers_come_back() {
    let header = ChunkHeader {
        id: 3,
        uuid: [1; 16],
        base_sequence: 9,
        generation: 2,
        alignment: 64,
    };
    let bytes = header.encode();
    assert_eq!(bytes.len(), ChunkHeader::BYTES);
    assert_eq!(ChunkHeader::decode(&bytes).unwrap(), header);
    let footer = ChunkFooter {
        frames: 1,
        bytes: 2,
        sequence_min: 3,
        sequence_max: 4,
        digest: 5,
    };
    let bytes = footer.encode();
    assert_eq!(bytes.len(), ChunkFooter::BYTES);
    assert_eq!(ChunkFooter::decode(&bytes).unwrap(), footer);
    let log = LogHeader {
        uuid: [2; 16],
        number: 4,
        generation: 8,
    };
    let bytes = log.encode();
    assert_eq!(bytes.len(), LogHeader::BYTES);
    assert_eq!(LogHeader::decode(&bytes).unwrap(), log);
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    for bad in ["", ".hidden", "..", "a/b", "a\0", "ä", &"x".repeat(129)] {
        assert!(names::check(bad).is_err(), "{bad}");
    }
    names::check("run-7_v1.0").unwrap();
}
