//! One entry for every format.

use std::ffi::OsString;
use std::sync::Arc;

use staddle_base::ErrorKind;
use staddle_record::import::{ImportOptions, Imported, import};
use staddle_record::progress::silent;
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, MemoryDevice};

use super::*;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testing/golden");

fn run(format: Format, source: &str, options: &SourceOptions) -> Result<Vec<Vec<u8>>> {
    let runtime = Runtime::global();
    let sources = [OsString::from(source)];
    let reader = reader(&runtime, format, &sources, None, options)?;
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("memory://"));
    let how = ImportOptions::default();
    let (made, report) = import(&runtime, reader, &device, &how, &mut silent)?;
    let Imported::Set(records) = made else {
        panic!("one set is expected");
    };
    let all: Vec<u64> = (0..report.records).collect();
    let batch = records.gather(&all)?;
    Ok(batch
        .iter()
        .map(|r| r.unwrap_or_default().to_vec())
        .collect())
}

#[test]
fn every_format_is_reached_by_its_name() {
    let plain = SourceOptions::default();
    let golden = |path: &str| format!("{GOLDEN}/{path}");
    let first = |name: &str, source: &str| {
        let records = run(Format::parse(name).unwrap(), &golden(source), &plain).unwrap();
        (records.len(), records[0].clone())
    };
    assert_eq!(first("tar", "foreign/ustar.tar"), (6, b"hello".to_vec()));
    assert_eq!(first("tfrecord", "foreign/*.tfrecord").0, 3);
    assert_eq!(first("megatron", "foreign/tokens").0, 4);
    assert_eq!(first("lmdb", "lmdb/format-3.mdb"), (4, Vec::new()));
    let many = SourceOptions {
        database: Some("many".into()),
        ..SourceOptions::default()
    };
    assert_eq!(
        run(Format::Lmdb, &golden("lmdb/format-1.mdb"), &many)
            .unwrap()
            .len(),
        342
    );

    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), "[1]\n[2]\n").unwrap();
    let here = dir.path().to_str().unwrap();
    let (file, all) = (format!("{here}/a"), format!("file://{here}"));
    assert_eq!(run(Format::Files, here, &plain).unwrap(), [b"[1]\n[2]\n"]);
    assert_eq!(run(Format::Files, &all, &plain).unwrap().len(), 1);
    assert_eq!(run(Format::Jsonl, &file, &plain).unwrap(), [b"[1]", b"[2]"]);
}

#[test]
fn what_cannot_be_imported_is_told() {
    let plain = SourceOptions::default();
    let error = Format::parse("parket").unwrap_err();
    assert!(error.hint_text().unwrap().contains("parquet"), "{error}");
    let kind = |format, source: &str| run(format, source, &plain).unwrap_err().kind();
    assert_eq!(kind(Format::Files, "/does/not/exist"), ErrorKind::NotFound);
    assert_eq!(kind(Format::Tar, "/does/not/exist"), ErrorKind::NotFound);
    let runtime = Runtime::global();
    let two = [OsString::from("a"), OsString::from("b")];
    for (format, sources) in [(Format::Lmdb, &two[..]), (Format::Files, &[])] {
        let error = reader(&runtime, format, sources, None, &plain);
        assert_eq!(error.err().map(|e| e.kind()), Some(ErrorKind::Invalid));
    }
}

#[test]
fn trees_of_files_follow_each_other_and_their_names_stay_apart() {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in [("b/x", "b x"), ("a/y", "a y"), ("a/x", "a x")] {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
    let trees = ["b", "link"].map(|name| dir.path().join(name).into_os_string());
    let runtime = Runtime::global();
    let source = reader(
        &runtime,
        Format::Files,
        &trees,
        None,
        &SourceOptions::default(),
    )
    .unwrap();
    assert_eq!(source.totals(), (Some(3), Some(9)));
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("memory://"));
    let how = ImportOptions {
        names: true,
        ..ImportOptions::default()
    };
    let (made, _) = import(&runtime, source, &device, &how, &mut silent).unwrap();
    let Imported::Aligned(aligned) = made else {
        panic!("names were asked for");
    };
    let column = |name: &str| {
        let batch = aligned.field(name).unwrap().gather(&[0, 1, 2]).unwrap();
        batch
            .iter()
            .map(|r| String::from_utf8_lossy(r.unwrap()).into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(column("__key__"), ["b/x", "link/x", "link/y"]);
    assert_eq!(column("data"), ["b x", "a x", "a y"]);
}
