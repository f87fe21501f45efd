//! Whole adoptions: files on disk become sets, and stay true to the files.
#![expect(
    clippy::disallowed_methods,
    reason = "the test plays the user who changes files behind a set's back"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use staddle_base::{ErrorKind, Result};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, LocalDevice};

use super::super::run::remove_all;
use super::super::{AdoptOptions, AdoptReport, Adopted, Split, adopt};
use super::golden;
use crate::aligned::Aligned;
use crate::options::{Dtype, OpenOptions};
use crate::progress::silent;
use crate::records::Records;

fn device(path: &Path) -> Arc<dyn Device> {
    Arc::new(LocalDevice::new(path).unwrap())
}

fn put(dir: &Path, name: &str, bytes: &[u8]) -> String {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn run(dir: &Path, sources: &[String], options: &AdoptOptions) -> Result<(Adopted, AdoptReport)> {
    let set = device(&dir.join("out.rec"));
    adopt(&Runtime::global(), sources, &set, options, &mut silent)
}

fn plain(adopted: Adopted) -> Records {
    match adopted {
        Adopted::Set(records) => records,
        Adopted::Aligned(aligned) => panic!("{aligned:?}"),
    }
}

fn all(records: &Records) -> Vec<Option<Vec<u8>>> {
    let indices: Vec<u64> = (0..records.len().unwrap()).collect();
    let batch = records.gather(&indices).unwrap();
    batch.iter().map(|r| r.map(<[u8]>::to_vec)).collect()
}

fn some(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

const UNSPLIT: fn() -> AdoptOptions = || AdoptOptions {
    split: Split::Never,
    ..AdoptOptions::default()
};

#[test]
fn members_of_archives_are_records_in_order() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "s-1.tar", golden!("samples.tar"));
    put(dir.path(), "s-0.tar", golden!("ustar.tar"));
    let pattern = dir.path().join("s-*.tar").to_str().unwrap().to_owned();
    let (adopted, report) = run(dir.path(), &[pattern], &UNSPLIT()).unwrap();
    let records = plain(adopted);
    assert_eq!((report.files, report.records), (2, 14));
    let found = all(&records);
    assert_eq!(found[0], some("hello"));
    assert_eq!(found[1], some(""));
    assert_eq!(found[3].as_ref().unwrap().len(), 513);
    assert_eq!(found[6], some("jpg 1"));
    let batch = records.gather(&[6, 0]).unwrap();
    assert_eq!(batch.copied(), None);

    // New records go to chunks of the set itself, and the set moves with its files.
    records.append(b"own").unwrap();
    records.close().unwrap();
    let moved = dir.path().join("elsewhere");
    std::fs::create_dir(&moved).unwrap();
    for name in ["out.rec", "s-0.tar", "s-1.tar"] {
        std::fs::rename(dir.path().join(name), moved.join(name)).unwrap();
    }
    let how = OpenOptions::default();
    let records = Records::open(&Runtime::global(), device(&moved.join("out.rec")), how).unwrap();
    let again = all(&records);
    assert_eq!(again[..14], found[..]);
    assert_eq!(again[14], some("own"));
}

#[test]
fn webdataset_shards_become_aligned_sets_with_holes() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "a-000.tar", golden!("ustar.tar"));
    put(dir.path(), "a-001.tar", golden!("samples.tar"));
    let pattern = dir
        .path()
        .join("a-{000..001}.tar")
        .to_str()
        .unwrap()
        .to_owned();
    let (adopted, report) = run(dir.path(), &[pattern], &AdoptOptions::default()).unwrap();
    let Adopted::Aligned(aligned) = adopted else {
        panic!("not aligned");
    };
    // The first archive has two members with an extension; the others belong to no sample.
    let fields: Vec<&str> = aligned.fields().map(|(name, _)| name).collect();
    assert_eq!(fields, ["__key__", "txt", "jpg", "cls", "seg.png"]);
    assert_eq!(aligned.len().unwrap(), 6);
    assert_eq!(report.records, 6);
    assert_eq!(report.skipped, 5);
    let counts: BTreeMap<String, u64> = report.fields.into_iter().collect();
    assert_eq!((counts["txt"], counts["jpg"], counts["seg.png"]), (2, 3, 1));

    let field = |name: &str| all(aligned.field(name).unwrap());
    assert_eq!(field("__key__")[2], some("train/0001"));
    assert_eq!(
        field("txt"),
        [some("hello"), some("ä"), None, None, None, None]
    );
    assert_eq!(
        field("jpg"),
        [None, None, some("jpg 1"), some("jpg 2"), None, some("")]
    );
    assert_eq!(field("seg.png")[3], some("png 2"));
    assert_eq!(aligned.field("jpg").unwrap().live().unwrap(), 3);

    let rows = aligned.gather(&[4, 2]).unwrap();
    let (name, batch) = &rows[3];
    assert_eq!(*name, "cls");
    assert_eq!(batch.get(0), Some(&b"3"[..]));
    assert_eq!(batch.get(1), Some(&b"1"[..]));

    // Opened anew, the fields may follow the archives, which lie beside the whole.
    let root = device(&dir.path().join("out.rec"));
    assert!(Aligned::is_aligned(root.as_ref()).unwrap());
    let again = Aligned::open(&Runtime::global(), &root, &OpenOptions::default()).unwrap();
    assert_eq!(again.get(2).unwrap()[2].1, some("jpg 1"));
}

#[test]
fn tfrecords_carry_their_checksums_along() {
    let dir = tempfile::tempdir().unwrap();
    let path = put(dir.path(), "x.tfrecord", golden!("three.tfrecord"));
    put(dir.path(), "empty.tfrecord", b"");
    let sources = [
        path.clone(),
        dir.path().join("e*").to_str().unwrap().to_owned(),
    ];
    let (adopted, report) = run(dir.path(), &sources, &AdoptOptions::default()).unwrap();
    assert_eq!((report.files, report.records), (2, 3));
    let records = plain(adopted);
    assert_eq!(all(&records)[1], some("one"));
    records.close().unwrap();

    // The same size and time, another byte: only the payload's checksum can tell.
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut bytes = golden!("three.tfrecord").to_vec();
    bytes[29] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_modified(time).unwrap();
    let set = device(&dir.path().join("out.rec"));
    let records = Records::open(&Runtime::global(), set, OpenOptions::default()).unwrap();
    assert_eq!(records.get(0).unwrap(), some(""));
    let error = records.get(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert_eq!(error.get("index"), Some("1"));
    assert_eq!(
        records.gather(&[2, 1]).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    assert_eq!(
        records.gather_packed(&[1]).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
}

#[test]
fn megatron_brings_its_element_type() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "tokens.bin", golden!("tokens.bin"));
    put(dir.path(), "tokens.idx", golden!("tokens.idx"));
    for name in ["tokens.bin", "tokens.idx", "tokens"] {
        let source = dir.path().join(name).to_str().unwrap().to_owned();
        let (adopted, _) = run(dir.path(), &[source], &AdoptOptions::default()).unwrap();
        let records = plain(adopted);
        assert_eq!(records.options().dtype, Some(Dtype::U16));
        assert_eq!(records.get(0).unwrap(), Some(vec![1, 0, 2, 0, 3, 0]));
        assert_eq!(records.get(1).unwrap(), some(""));
        assert_eq!(records.lengths(&[0, 1, 2, 3]).unwrap(), [6, 0, 4, 2]);
        records.close().unwrap();
        remove_all(device(&dir.path().join("out.rec")).as_ref(), "", false).unwrap();
    }
}

#[test]
fn a_file_that_changed_is_told_with_its_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let path = put(dir.path(), "s.tar", golden!("ustar.tar"));
    let (adopted, _) = run(dir.path(), std::slice::from_ref(&path), &UNSPLIT()).unwrap();
    plain(adopted).close().unwrap();
    let open = || {
        let set = device(&dir.path().join("out.rec"));
        Records::open(&Runtime::global(), set, OpenOptions::default()).unwrap()
    };
    std::fs::write(&path, golden!("gnu.tar")).unwrap();
    let error = open().get(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(
        (error.get("then"), error.get("now")),
        (Some("10240"), Some("20480"))
    );
    std::fs::remove_file(&path).unwrap();
    assert_eq!(open().get(0).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn files_elsewhere_need_leave() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = put(there.path(), "s.tar", golden!("ustar.tar"));
    let link = here.path().join("link.tar");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let source = link.to_str().unwrap().to_owned();
    let (adopted, _) = run(here.path(), &[source], &UNSPLIT()).unwrap();
    let records = plain(adopted);
    assert_eq!(records.get(0).unwrap(), some("hello"));
    records.close().unwrap();
    let open = |external_anywhere| {
        let how = OpenOptions {
            external_anywhere,
            ..OpenOptions::default()
        };
        let set = device(&here.path().join("out.rec"));
        Records::open(&Runtime::global(), set, how).unwrap()
    };
    assert_eq!(open(false).get(0).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(open(true).get(0).unwrap(), some("hello"));
}

#[test]
fn what_cannot_be_adopted_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let good = put(dir.path(), "a.tar", golden!("samples.tar"));
    let cut = put(dir.path(), "b.tar", &golden!("gnu.tar")[..3000]);
    let gz = put(dir.path(), "c.tar.gz", b"\x1f\x8b\x08\0\0\0\0\0");
    let text = put(dir.path(), "d.txt", b"plain text");
    put(dir.path(), "e.idx", golden!("tokens.idx"));
    let half = dir.path().join("e.idx").to_str().unwrap().to_owned();
    let folder = dir.path().to_str().unwrap().to_owned();
    for (source, kind) in [
        (cut, ErrorKind::Corrupt),
        (gz, ErrorKind::Unsupported),
        (text, ErrorKind::Unsupported),
        (half, ErrorKind::NotFound),
        (format!("{folder}/none-*.tar"), ErrorKind::NotFound),
        (format!("{folder}/none.tar"), ErrorKind::NotFound),
        (folder, ErrorKind::Invalid),
    ] {
        for options in [UNSPLIT(), AdoptOptions::default()] {
            let sources = [good.clone(), source.clone()];
            let error = run(dir.path(), &sources, &options).unwrap_err();
            assert_eq!(error.kind(), kind, "{source}: {error:?}");
            assert!(!dir.path().join("out.rec").exists(), "{source}");
        }
    }
    put(dir.path(), "out.rec/mine", b"precious");
    let error = run(dir.path(), &[good], &AdoptOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(dir.path().join("out.rec/mine").exists());
}

#[test]
fn a_listener_can_stop_it() {
    let dir = tempfile::tempdir().unwrap();
    let good = put(dir.path(), "a.tar", golden!("samples.tar"));
    let set = device(&dir.path().join("out.rec"));
    let stop = &mut |_: &crate::progress::Progress| {
        Err(staddle_base::Error::new(ErrorKind::Cancelled, "stopped"))
    };
    let options = AdoptOptions::default();
    let error = adopt(&Runtime::global(), &[good], &set, &options, stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(!dir.path().join("out.rec").exists());
}

#[test]
fn a_hash_taken_at_adoption_finds_what_nothing_else_would() {
    let dir = tempfile::tempdir().unwrap();
    let path = put(dir.path(), "s.tar", golden!("ustar.tar"));
    let options = AdoptOptions {
        digest: true,
        ..UNSPLIT()
    };
    let (adopted, _) = run(dir.path(), std::slice::from_ref(&path), &options).unwrap();
    let records = plain(adopted);
    assert_eq!(records.verify(|_, _| ()).unwrap().bad, []);
    records.close().unwrap();
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut bytes = golden!("ustar.tar").to_vec();
    bytes[512] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_modified(time).unwrap();
    let set = device(&dir.path().join("out.rec"));
    let records = Records::open(&Runtime::global(), set, OpenOptions::default()).unwrap();
    let bad = records.verify(|_, _| ()).unwrap().bad;
    assert_eq!(bad.len(), 1);
    assert!(
        bad[0].what.contains("not those that were adopted"),
        "{bad:?}"
    );
}
