//! Bad input, line by line of the design's table: a named error that says what to do, or a correct result.

use std::sync::Arc;

use staddle_base::ErrorKind;
use staddle_record::{Dtype, OpenOptions, Options, Records, Verify};
use staddle_runtime::io::device::{Device, LocalDevice};

use crate::common::{OnDisk, contents};

fn filled(place: &OnDisk, records: u32) -> Records {
    let set = place.create(Options::default());
    for at in 0..records {
        set.append(format!("record number {at}").repeat(20).as_bytes())
            .unwrap();
    }
    set.flush().unwrap();
    set
}

/// Changes a byte of a file of the set behind its back.
fn flip(place: &OnDisk, path: &str, offset: u64) {
    use std::os::unix::fs::FileExt as _;
    let path = place.folder.path().join("set.rec").join(path);
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], offset).unwrap();
}

#[test]
fn a_missing_path_and_a_folder_that_is_no_set() {
    let place = OnDisk::new();
    let error = Records::open(
        &place.runtime,
        Arc::clone(&place.device),
        OpenOptions::default(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().contains("there is nothing here"),
        "{error}"
    );
    std::fs::create_dir(place.folder.path().join("set.rec")).unwrap();
    let error = Records::open(
        &place.runtime,
        Arc::clone(&place.device),
        OpenOptions::default(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("not a record set"), "{error}");
}

#[test]
fn a_second_set_in_the_same_place_is_a_conflict() {
    let place = OnDisk::new();
    let set = place.create(Options::default());
    let error = Records::create(
        &place.runtime,
        Arc::clone(&place.device),
        Options::default(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    drop(set);
}

#[test]
fn a_newer_format_says_so() {
    let place = OnDisk::new();
    filled(&place, 1).close().unwrap();
    let head = place.folder.path().join("set.rec/HEAD");
    let mut bytes = std::fs::read(&head).unwrap();
    for slot in bytes.chunks_mut(4096) {
        slot[8] = 9;
        let crc = staddle_base::checksum::crc32c(&slot[..4092]);
        slot[4092..].copy_from_slice(&crc.to_le_bytes());
    }
    std::fs::write(&head, bytes).unwrap();
    let error = Records::open(
        &place.runtime,
        Arc::clone(&place.device),
        OpenOptions::default(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("upgrade"), "{error}");
}

#[test]
fn a_second_writer_is_told_who_has_the_set() {
    let place = OnDisk::new();
    let first = filled(&place, 1);
    let second = place.open();
    let error = second.append(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(
        error
            .to_string()
            .contains(&format!("pid {}", std::process::id())),
        "{error}"
    );
    // Reading needs no lock, and a closed writer's lock is free at once.
    assert_eq!(second.len().unwrap(), 1);
    first.close().unwrap();
    second.append(b"x").unwrap();
}

#[test]
fn an_index_out_of_range_names_the_range_before_a_byte_moves() {
    let place = OnDisk::new();
    let set = filled(&place, 3);
    for error in [
        set.gather(&[0, 3]).unwrap_err(),
        set.get(3).unwrap_err(),
        set.update(3, b"x").unwrap_err(),
        set.delete(3).unwrap_err(),
        set.tombstone(3).unwrap_err(),
        set.delete_many(&[0, 3]).unwrap_err(),
        set.normalize(-4).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::OutOfRange);
        assert!(error.to_string().contains("-3..=2"), "{error}");
    }
    assert_eq!(set.len().unwrap(), 3);
}

#[test]
fn an_empty_gather_and_an_empty_set_are_fine() {
    let place = OnDisk::new();
    let set = place.create(Options::default());
    assert!(set.gather(&[]).unwrap().is_empty());
    assert_eq!(set.gather_packed(&[]).unwrap().offsets, [0]);
    assert_eq!(set.gather_into(&[], &mut [], &mut [7]).unwrap(), 0);
    assert!(contents(&set).is_empty());
    assert!(
        set.gather(&[0])
            .unwrap_err()
            .to_string()
            .contains("the store is empty")
    );
    set.rebalance(false).unwrap();
    set.compact(false).unwrap();
    set.checkpoint().unwrap();
}

#[test]
fn a_closed_set_refuses_and_its_batches_live_on() {
    let place = OnDisk::new();
    let set = filled(&place, 2);
    let batch = set.gather(&[1]).unwrap();
    set.close().unwrap();
    set.close().unwrap();
    assert_eq!(set.gather(&[0]).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(set.get(0).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(set.append(b"x").unwrap_err().kind(), ErrorKind::Closed);
    std::fs::remove_dir_all(place.folder.path().join("set.rec")).unwrap();
    assert!(batch.get(0).unwrap().starts_with(b"record number 1"));
}

#[test]
fn a_truncated_chunk_is_corrupt_and_located() {
    let place = OnDisk::new();
    filled(&place, 200).close().unwrap();
    let chunk = place.folder.path().join("set.rec/chunk/0.zr");
    let file = std::fs::OpenOptions::new().write(true).open(chunk).unwrap();
    file.set_len(5000).unwrap();
    let set = place.open();
    let error = set.gather(&[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        error.get("chunk") == Some("0") && error.get("size") == Some("5000"),
        "{error}"
    );
}

#[test]
fn a_flipped_bit_hits_one_record_and_no_other() {
    let place = OnDisk::new();
    filled(&place, 100).close().unwrap();
    flip(&place, "chunk/0.zr", 64 + 24 + 10);
    let set = place.open();
    let error = set.gather(&[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(
        (error.get("index"), error.get("chunk")),
        (Some("0"), Some("0"))
    );
    assert!(set.gather_packed(&[0]).is_err() && set.get(0).is_err());
    let others: Vec<u64> = (1..100).collect();
    assert_eq!(set.gather(&others).unwrap().len(), 99);
    let report = set.verify(|_, _| ()).unwrap();
    assert_eq!(report.bad.len(), 1);
    assert_eq!(report.bad[0].index, Some(0));
    let trusting = place.open_with(OpenOptions {
        verify: Verify::Never,
        ..Default::default()
    });
    assert!(
        trusting.get(0).unwrap().is_some(),
        "verify=never does what it says"
    );
}

#[test]
fn every_flipped_bit_of_a_small_set_is_noticed_or_harmless() {
    let place = OnDisk::new();
    let set = filled(&place, 40);
    set.update(3, b"changed").unwrap();
    set.checkpoint().unwrap();
    set.update(5, b"changed too").unwrap();
    set.delete(9).unwrap();
    set.close().unwrap();
    let right = contents(&place.open());
    let root = place.folder.path().join("set.rec");
    let mut noticed = 0;
    for dir in ["", "chunk", "offset", "log", "manifest"] {
        for file in std::fs::read_dir(root.join(dir)).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() || path.ends_with("LOCK") || path.ends_with("meta.json") {
                continue;
            }
            let good = std::fs::read(&path).unwrap();
            for at in (0..good.len()).step_by(7) {
                let mut bad = good.clone();
                bad[at] ^= 1 << (at % 8);
                std::fs::write(&path, &bad).unwrap();
                let opened = Records::open(
                    &place.runtime,
                    Arc::clone(&place.device),
                    OpenOptions::default(),
                );
                let Ok(set) = opened else {
                    noticed += 1;
                    continue;
                };
                // Falling back to the older HEAD slot gives an older commit, whole.
                let older = set.generation() < 6;
                for index in 0..set.len().unwrap() {
                    match set.get(index) {
                        Ok(record) => assert!(
                            older || record == right[index as usize],
                            "byte {at} of {}: record {index} is silently wrong",
                            path.display()
                        ),
                        Err(_) => noticed += 1,
                    }
                }
            }
            std::fs::write(&path, &good).unwrap();
        }
    }
    assert!(noticed > 100, "{noticed}");
}

#[test]
fn a_path_that_is_not_utf8_works() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"r\xe9cords.rec");
    let device: Arc<dyn Device> = Arc::new(LocalDevice::new(&folder.path().join(name)).unwrap());
    let runtime = crate::common::real();
    let set = Records::create(&runtime, Arc::clone(&device), Options::default()).unwrap();
    set.append(b"x").unwrap();
    set.close().unwrap();
    let set = Records::open(&runtime, device, OpenOptions::default()).unwrap();
    assert_eq!(set.get(0).unwrap().unwrap(), b"x");
}

#[test]
fn empty_records_and_holes_are_told_apart() {
    let place = OnDisk::new();
    let set = place.create(Options::default());
    set.extend(&[&b""[..], b"a", b""]).unwrap();
    set.tombstone(0).unwrap();
    assert_eq!(
        contents(&set),
        [None, Some(b"a".to_vec()), Some(Vec::new())]
    );
    set.close().unwrap();
    let set = place.open();
    assert_eq!(
        contents(&set),
        [None, Some(b"a".to_vec()), Some(Vec::new())]
    );
    assert_eq!((set.len().unwrap(), set.live().unwrap()), (3, 2));
}

#[test]
fn what_does_not_fit_a_typed_set_is_refused_and_earlier_items_stay() {
    let place = OnDisk::new();
    let options = Options {
        dtype: Some(Dtype::F32),
        shape: Some(vec![2, 2]),
        ..Default::default()
    };
    let set = place.create(options);
    let error = set
        .extend(&[&[0u8; 16][..], &[0; 12], &[0; 16]])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("shape [2, 2], 16 bytes each")
            && error.get("index") == Some("1"),
        "{error}"
    );
    assert_eq!(set.len().unwrap(), 1);
}

#[test]
fn bad_options_are_refused_before_a_file_is_made() {
    let place = OnDisk::new();
    for options in [
        Options {
            chunk_bytes: 10,
            ..Default::default()
        },
        Options {
            align: 7,
            ..Default::default()
        },
        Options {
            writers: 0,
            ..Default::default()
        },
        Options {
            level: 99,
            ..Default::default()
        },
        Options {
            dictionary: true,
            ..Default::default()
        },
        Options {
            shape: Some(vec![1]),
            ..Default::default()
        },
        Options {
            dtype: Some(Dtype::F64),
            shape: Some(vec![u64::MAX, 2]),
            ..Default::default()
        },
    ] {
        let error =
            Records::create(&place.runtime, Arc::clone(&place.device), options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert!(!place.folder.path().join("set.rec").exists());
}

#[test]
fn a_record_larger_than_a_chunk_gets_its_own() {
    let place = OnDisk::new();
    let set = place.create(Options {
        chunk_bytes: 1 << 16,
        ..Default::default()
    });
    let large: Vec<u8> = (0..5 << 20).map(|at| (at * 7 % 251) as u8).collect();
    set.append(b"before").unwrap();
    set.append(&large).unwrap();
    set.append(b"after").unwrap();
    assert_eq!(contents(&set)[1].as_deref(), Some(&large[..]));
    set.close().unwrap();
    let set = place.open();
    assert_eq!(
        contents(&set),
        [
            Some(b"before".to_vec()),
            Some(large),
            Some(b"after".to_vec())
        ]
    );
}

#[test]
fn chunks_are_filled_to_the_byte() {
    // Header 64, frame 24, payload, footer 64: with this payload the chunk is exactly full.
    const FULL: usize = 65_536 - 64 - 24 - 64;
    for (first, second, chunks) in [
        (FULL, 0, 2),
        (FULL - 32, 8, 1),
        (FULL - 32, 9, 2),
        (FULL + 1, 0, 2),
    ] {
        let place = OnDisk::new();
        let set = place.create(Options {
            chunk_bytes: 1 << 16,
            ..Default::default()
        });
        set.append(&vec![7; first]).unwrap();
        set.append(&vec![8; second]).unwrap();
        set.close().unwrap();
        assert_eq!(
            place.device.list("chunk").unwrap().len(),
            chunks,
            "{first} and {second}"
        );
        assert_eq!(
            contents(&place.open()),
            [Some(vec![7; first]), Some(vec![8; second])]
        );
    }
}

#[test]
fn ids_of_records_that_move_are_told() {
    let place = OnDisk::new();
    let set = place.create(Options::default());
    let names: Vec<Vec<u8>> = (0..6u8).map(|at| vec![at]).collect();
    set.extend(&names).unwrap();
    // Applied from the highest down: 4 takes 5, then 1 takes 5 again (the record once at 5 sits at 4).
    assert_eq!(set.delete_many(&[1, 4]).unwrap(), [4, 5]);
    assert_eq!(
        contents(&set),
        [Some(vec![0]), Some(vec![5]), Some(vec![2]), Some(vec![3])]
    );
    assert_eq!(
        set.delete_many(&[0, 0]).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(set.delete(3).unwrap(), 3);
    assert_eq!(set.len().unwrap(), 3);
}
