//! Imports of real files, in the order they must have, with everything that can be wrong with them.
#![expect(
    clippy::indexing_slicing,
    reason = "a test that goes out of bounds is a failing test"
)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use staddle_base::{ErrorKind, Result};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, LocalDevice, MemoryDevice, Open};

use super::*;
use crate::adopt::Kind;
use crate::adopt::source::{Found, find_all};
use crate::progress::silent;

fn put(dir: &Path, name: &[u8], bytes: &[u8]) {
    let path = dir.join(OsStr::from_bytes(name));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn find(dir: &Path, pattern: &str) -> Vec<Found> {
    let pattern = format!("{}/{pattern}", dir.display());
    find_all(&Runtime::global(), &[pattern], &BTreeMap::new()).unwrap()
}

fn memory() -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new("memory://"))
}

fn run(reader: impl Reader + 'static) -> Result<(Vec<String>, ImportReport)> {
    let options = ImportOptions::default();
    let reader = Box::new(reader);
    let (made, report) = import(&Runtime::global(), reader, &memory(), &options, &mut silent)?;
    let Imported::Set(records) = made else {
        panic!("one set is expected");
    };
    assert_eq!(report.records, records.len().unwrap());
    Ok((texts(&records), report))
}

fn texts(records: &Records) -> Vec<String> {
    let all: Vec<u64> = (0..records.len().unwrap()).collect();
    let batch = records.gather(&all).unwrap();
    batch
        .iter()
        .map(|record| String::from_utf8_lossy(record.unwrap()).into_owned())
        .collect()
}

#[test]
fn a_tree_becomes_records_in_order_of_its_paths() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    for name in [&b"b/1"[..], b"b.txt", b"a", b"b/\xff.bin", b"z/y/x"] {
        put(&root, name, name);
    }
    put(&root, b"empty", b"");
    std::os::unix::fs::symlink("a", root.join("link")).unwrap();
    let reader = FilesReader::local(&root, None, false).unwrap();
    assert_eq!(reader.totals().0, Some(6));
    let (records, report) = run(reader).unwrap();
    assert_eq!(
        records,
        ["a", "b.txt", "b/1", "b/\u{fffd}.bin", "", "z/y/x"]
    );
    assert_eq!(report.skipped.links, 1);
    assert_eq!(report.skipped.unreadable, 0);
}

#[test]
fn names_are_kept_when_asked_for_and_the_set_itself_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), b"b/\xff", b"two");
    put(dir.path(), b"a", b"one");
    put(dir.path(), b"out.rec.txt", b"three");
    let target = dir.path().join("out.rec");
    let device: Arc<dyn Device> = Arc::new(LocalDevice::new(&target).unwrap());
    std::fs::create_dir(&target).unwrap();
    let options = ImportOptions {
        names: true,
        ..ImportOptions::default()
    };
    let reader = FilesReader::local(dir.path(), Some(&target), true).unwrap();
    let reader = Box::new(reader);
    let (made, _) = import(&Runtime::global(), reader, &device, &options, &mut silent).unwrap();
    let Imported::Aligned(aligned) = made else {
        panic!("aligned sets are expected");
    };
    let rows: Vec<_> = (0..3).map(|i| aligned.get(i).unwrap()).collect();
    let row = |key: &[u8], data: &[u8]| {
        vec![
            (KEY_FIELD, Some(key.to_vec())),
            (DATA_FIELD, Some(data.to_vec())),
        ]
    };
    assert_eq!(rows[0], row(b"a", b"one"));
    assert_eq!(rows[1], row(b"b/\xff", b"two"));
    assert_eq!(rows[2], row(b"out.rec.txt", b"three"));
}

#[test]
fn files_that_vanish_are_counted_or_end_a_strict_import() {
    for strict in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), b"a", b"1");
        put(dir.path(), b"b", b"2");
        let reader = FilesReader::local(dir.path(), None, strict).unwrap();
        std::fs::remove_file(dir.path().join("a")).unwrap();
        let result = run(reader);
        if strict {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::NotFound);
        } else {
            let (records, report) = result.unwrap();
            assert_eq!(records, ["2"]);
            assert_eq!(report.skipped.unreadable, 1);
            assert!(report.skipped.reasons[0].contains("/a"), "{report:?}");
        }
    }
}

#[test]
fn many_small_and_some_large_files_come_in_order() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..6000 {
        put(
            dir.path(),
            format!("{n:05}").as_bytes(),
            format!("{n}").as_bytes(),
        );
    }
    let big = vec![b'x'; usize::try_from(PORTION_BYTES).unwrap() + 1];
    put(dir.path(), b"00003x", &big);
    let mut seen = Vec::new();
    let reader = FilesReader::local(dir.path(), None, true).unwrap();
    let mut listen = |progress: &Progress| {
        seen.push(*progress);
        Ok(())
    };
    let options = ImportOptions::default();
    let (made, report) = import(
        &Runtime::global(),
        Box::new(reader),
        &memory(),
        &options,
        &mut listen,
    )
    .unwrap();
    let Imported::Set(records) = made else {
        panic!("one set is expected");
    };
    assert_eq!(records.get(4).unwrap().unwrap().len(), big.len());
    assert_eq!(records.get(6000).unwrap().unwrap(), b"5999");
    assert!(seen.is_sorted_by_key(|progress| progress.records));
    let last = seen.last().unwrap();
    assert_eq!(last.records_total, Some(last.records));
    assert_eq!(last.bytes_total, Some(last.bytes));
    assert_eq!(report.bytes, last.bytes);
}

#[test]
fn lines_are_records_and_blank_ones_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    put(
        dir.path(),
        b"a.jsonl",
        b"\xef\xbb\xbf{\"t\": \"x\"}\r\n\n  \n[1, 2]\nnull",
    );
    put(dir.path(), b"b.jsonl", b"");
    put(
        dir.path(),
        b"c.jsonl",
        "{\"t\": \"\u{e4}\\n\"}\n".as_bytes(),
    );
    let files = find(dir.path(), "*.jsonl");
    let whole = JsonlReader::new(files.clone(), JsonlOptions::default());
    let (records, report) = run(whole).unwrap();
    assert_eq!(
        records,
        ["{\"t\": \"x\"}", "[1, 2]", "null", "{\"t\": \"ä\\n\"}"]
    );
    assert_eq!(report.skipped.blank, 2);

    let field = JsonlOptions {
        field: Some("t".into()),
        unchecked: false,
    };
    let error = run(JsonlReader::new(files.clone(), field.clone())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KeyMissing);
    assert_eq!(error.get("line"), Some("4"));
    let (records, _) = run(JsonlReader::new(vec![files[2].clone()], field)).unwrap();
    assert_eq!(records, ["ä\n"]);
}

#[test]
fn lines_longer_than_a_block_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!("\"{}\"", "y".repeat(20 << 20));
    let text = format!("1\n{long}\n2\n{long}");
    put(dir.path(), b"a.jsonl", text.as_bytes());
    let reader = JsonlReader::new(find(dir.path(), "a.jsonl"), JsonlOptions::default());
    let (records, _) = run(reader).unwrap();
    let expected: Vec<&str> = text.split('\n').collect();
    assert!(records == expected);
}

#[test]
fn lines_that_are_no_json_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let deep = "[".repeat(200);
    for (text, kind) in [
        (&b"1\n{\"a\": }\n"[..], ErrorKind::Corrupt),
        (b"1\n\"\xff\"\n", ErrorKind::Corrupt),
        (b"1\n{\"a\": 1} {\"a\": 2}\n", ErrorKind::Corrupt),
        (deep.as_bytes(), ErrorKind::Corrupt),
        (b"\x1f\x8b\x08\0\0", ErrorKind::Unsupported),
        (b"\x28\xb5\x2f\xfd", ErrorKind::Unsupported),
    ] {
        put(dir.path(), b"a.jsonl", text);
        let files = find(dir.path(), "a.jsonl");
        let checked = run(JsonlReader::new(files.clone(), JsonlOptions::default()));
        let error = checked.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.get("file").is_some());
        if kind == ErrorKind::Corrupt {
            let unchecked = JsonlOptions {
                unchecked: true,
                ..JsonlOptions::default()
            };
            assert!(run(JsonlReader::new(files, unchecked)).is_ok());
        }
    }
}

/// A golden file of `testing/golden/foreign`.
fn golden(name: &str) -> Vec<Found> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testing/golden/foreign");
    find(Path::new(folder), name)
}

#[test]
fn foreign_files_are_copied() {
    let tar = ForeignReader::new(golden("{ustar,samples}.tar"), Kind::Tar, false);
    let (records, _) = run(tar).unwrap();
    assert_eq!(records.len(), 14);
    assert_eq!(
        (records[0].as_str(), records[6].as_str()),
        ("hello", "jpg 1")
    );

    let links = ForeignReader::new(golden("links.tar"), Kind::Tar, false);
    assert_eq!(run(links).unwrap_err().kind(), ErrorKind::Unsupported);
    let (records, report) = run(ForeignReader::new(golden("links.tar"), Kind::Tar, true)).unwrap();
    assert_eq!(records, ["1", "2"]);
    assert_eq!(report.skipped.links, 3);

    let (records, _) = run(ForeignReader::new(
        golden("three.tfrecord"),
        Kind::TfRecord,
        false,
    ))
    .unwrap();
    assert_eq!(records[..2], ["", "one"]);
    let (records, _) = run(ForeignReader::new(
        golden("tokens.idx"),
        Kind::Megatron,
        false,
    ))
    .unwrap();
    assert_eq!(records[0], "\u{1}\0\u{2}\0\u{3}\0");
    assert_eq!(records.len(), 4);
}

#[test]
fn a_damaged_payload_ends_the_import_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testing/golden/foreign/three.tfrecord"
    ))
    .to_vec();
    bytes[29] ^= 1;
    put(dir.path(), b"x.tfrecord", &bytes);
    let device = memory();
    let reader = ForeignReader::new(find(dir.path(), "x.tfrecord"), Kind::TfRecord, false);
    let options = ImportOptions::default();
    let reader = Box::new(reader);
    let error = import(&Runtime::global(), reader, &device, &options, &mut silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        device
            .stat("")
            .unwrap()
            .is_none_or(|_| device.list("").unwrap().is_empty())
    );
}

/// Yields numbers for ever.
struct Endless(u64);

impl Reader for Endless {
    fn next(&mut self, _: &Means) -> Result<Portion> {
        self.0 += 1;
        let bytes = self.0.to_string().into_bytes();
        let name = Vec::new();
        Ok(Portion {
            items: vec![Incoming::new(name, bytes)],
            ..Portion::default()
        })
    }

    fn totals(&self) -> (Option<u64>, Option<u64>) {
        (None, None)
    }
}

#[test]
fn a_listener_stops_an_import_and_appending_goes_on_after_what_was_there() {
    let runtime = Runtime::global();
    let device = memory();
    let mut stop = |progress: &Progress| {
        if progress.records < 10 {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Cancelled, "stopped"))
    };
    let options = ImportOptions::default();
    let endless = || Box::new(Endless(0));
    let error = import(&runtime, endless(), &device, &options, &mut stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);

    let options = ImportOptions {
        append: true,
        ..ImportOptions::default()
    };
    let missing = import(&runtime, endless(), &device, &options, &mut silent).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let records = Records::create(&runtime, Arc::clone(&device), Options::default()).unwrap();
    records.append(b"first").unwrap();
    records.close().unwrap();
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), b"a", b"second");
    let reader = Box::new(FilesReader::local(dir.path(), None, true).unwrap());
    let (made, _) = import(&runtime, reader, &device, &options, &mut silent).unwrap();
    let Imported::Set(records) = made else {
        panic!("one set is expected");
    };
    assert_eq!(texts(&records), ["first", "second"]);
}

#[test]
fn a_panic_in_a_reader_is_an_error() {
    struct Broken;
    impl Reader for Broken {
        fn next(&mut self, _: &Means) -> Result<Portion> {
            panic!("a bug in a reader");
        }
        fn totals(&self) -> (Option<u64>, Option<u64>) {
            (None, None)
        }
    }
    assert_eq!(run(Broken).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn files_on_a_device_are_imported_too() {
    let device = memory();
    device.create_dir("x/y").unwrap();
    for name in ["x/y/b", "x/a"] {
        let file = device.open(name, Open::Create).unwrap();
        file.write_at(name.as_bytes(), 0).unwrap();
    }
    let (records, _) = run(FilesReader::on(device, true).unwrap()).unwrap();
    assert_eq!(records, ["x/a", "x/y/b"]);
}
