//! Out of a set and back: formats, shards, copies of sets on other folders and behind HTTP.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use staddle_base::{ErrorKind, Result};
use staddle_record::adopt::source::find_all;
use staddle_record::adopt::{AdoptOptions, Adopted, Kind, Split, adopt};
use staddle_record::export::{
    ExportOptions, ExportReport, Format, JsonlAs, Rows, Target, clone_aligned, clone_set, export,
};
use staddle_record::import::{
    ForeignReader, ImportOptions, Imported, JsonlOptions, JsonlReader, Reader, import,
};
use staddle_record::progress::silent;
use staddle_record::{Aligned, CodecChoice, OpenOptions, Options, Records};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, LocalDevice, MemoryDevice};

use super::common::{OnDisk, real};
use super::web::Server;

fn local(path: &Path) -> Arc<dyn Device> {
    Arc::new(LocalDevice::new(path).unwrap())
}

fn all(records: &Records) -> Vec<Option<Vec<u8>>> {
    let indices: Vec<u64> = (0..records.len().unwrap()).collect();
    let batch = records.gather(&indices).unwrap();
    batch.iter().map(|r| r.map(<[u8]>::to_vec)).collect()
}

fn run(
    rows: &Rows,
    format: Format,
    folder: &Path,
    name: &str,
    options: &ExportOptions,
) -> Result<ExportReport> {
    export(rows, format, &local(folder), name, options, &mut silent)
}

fn import_back(runtime: &Runtime, reader: impl Reader + 'static) -> Vec<Option<Vec<u8>>> {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("memory://"));
    let options = ImportOptions::default();
    let (made, _) = import(runtime, Box::new(reader), &device, &options, &mut silent).unwrap();
    let Imported::Set(records) = made else {
        panic!("one set is expected");
    };
    all(&records)
}

fn json_lines() -> Vec<Vec<u8>> {
    let json = |n: usize| {
        format!(
            "{{\n \"n\": {n},\r\n \"text\": \"{}\\n\"}}",
            "ä".repeat(n % 200)
        )
    };
    (0..2500).map(|n| json(n).into_bytes()).collect()
}

#[test]
fn every_format_comes_back_as_it_was() {
    let place = OnDisk::new();
    let set = place.create(Options::default());
    let records = json_lines();
    set.extend(&records).unwrap();
    set.tombstone(7).unwrap();
    let rows = Rows::of(&set).unwrap();
    let out = place.folder.path().join("out");
    let plain = ExportOptions::default();
    let expected: Vec<Option<Vec<u8>>> = records
        .iter()
        .enumerate()
        .filter(|(n, _)| *n != 7)
        .map(|(_, record)| Some(record.clone()))
        .collect();
    let find = |name: &str| {
        let pattern = out.join(name).to_str().unwrap().to_owned();
        find_all(&place.runtime, &[pattern], &BTreeMap::new()).unwrap()
    };

    let report = run(&rows, Format::Tar, &out, "x.tar", &plain).unwrap();
    assert_eq!((report.records, report.holes), (2499, 1));
    assert_eq!(report.files, ["x.tar"]);
    let tar = ForeignReader::new(find("x.tar"), Kind::Tar, false);
    assert!(import_back(&place.runtime, tar) == expected);

    run(&rows, Format::TfRecord, &out, "x.tfrecord", &plain).unwrap();
    let tfrecord = ForeignReader::new(find("x.tfrecord"), Kind::TfRecord, false);
    assert!(import_back(&place.runtime, tfrecord) == expected);

    run(&rows, Format::Jsonl, &out, "x.jsonl", &plain).unwrap();
    let lines = import_back(
        &place.runtime,
        JsonlReader::new(find("x.jsonl"), JsonlOptions::default()),
    );
    let flat = |record: &Option<Vec<u8>>| {
        let text = String::from_utf8(record.clone().unwrap()).unwrap();
        Some(text.replace(['\n', '\r'], " ").into_bytes())
    };
    assert!(lines == expected.iter().map(flat).collect::<Vec<_>>());

    let text = ExportOptions {
        jsonl: JsonlAs::Text,
        ..ExportOptions::default()
    };
    run(&rows, Format::Jsonl, &out, "t.jsonl", &text).unwrap();
    let field = JsonlOptions {
        field: Some("text".into()),
        unchecked: false,
    };
    assert!(import_back(&place.runtime, JsonlReader::new(find("t.jsonl"), field)) == expected);

    let tree = place.folder.path().join("tree");
    run(&rows, Format::Files, &tree, "", &plain).unwrap();
    assert_eq!(std::fs::read(tree.join("0008.bin")).unwrap(), records[8]);
    assert!(!tree.join("0007.bin").exists());
    let again = run(&rows, Format::Files, &tree, "", &plain).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    let again = run(&rows, Format::Tar, &out, "x.tar", &plain).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
}

#[test]
fn shards_are_cut_by_size_and_nothing_is_left_of_a_failure() {
    let place = OnDisk::new();
    let set = place.create(Options::default());
    set.extend(&vec![vec![b'1'; 1000]; 95]).unwrap();
    let out = place.folder.path().join("out");
    let options = ExportOptions {
        shard_bytes: Some(10_000),
        ..ExportOptions::default()
    };
    let rows = Rows::of(&set).unwrap();
    let report = run(&rows, Format::Tar, &out, "s.tar", &options).unwrap();
    assert_eq!(report.files.len(), 10);
    assert_eq!(report.files[9], "s-000009.tar");
    let pattern = out.join("s-*.tar").to_str().unwrap().to_owned();
    let files = find_all(&place.runtime, &[pattern], &BTreeMap::new()).unwrap();
    let back = import_back(&place.runtime, ForeignReader::new(files, Kind::Tar, false));
    assert!(back == all(&set));

    set.append(b"{not json}").unwrap();
    let rows = Rows::of(&set).unwrap();
    let error = run(
        &rows,
        Format::Jsonl,
        &out,
        "x.jsonl",
        &ExportOptions::default(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.get("index"), Some("95"));
    assert!(!out.join("x.jsonl").exists() && !out.join("x.jsonl.tmp").exists());

    let empty = Records::create(
        &real(),
        Arc::new(MemoryDevice::new("memory://")),
        Options::default(),
    );
    let rows = Rows::of(&empty.unwrap()).unwrap();
    run(
        &rows,
        Format::Tar,
        &out,
        "empty.tar",
        &ExportOptions::default(),
    )
    .unwrap();
    assert_eq!(std::fs::read(out.join("empty.tar")).unwrap().len(), 1024);
}

/// Makes WebDataset shards in `folder` and adopts them as aligned sets.
fn adopted(place: &OnDisk) -> Aligned {
    let golden = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testing/golden/foreign/samples.tar"
    );
    std::fs::copy(golden, place.folder.path().join("s.tar")).unwrap();
    let source = place
        .folder
        .path()
        .join("s.tar")
        .to_str()
        .unwrap()
        .to_owned();
    let options = AdoptOptions::default();
    let adopted = adopt(
        &place.runtime,
        &[source],
        &place.device,
        &options,
        &mut silent,
    );
    let Adopted::Aligned(aligned) = adopted.unwrap().0 else {
        panic!("aligned sets are expected");
    };
    aligned
}

#[test]
fn aligned_sets_become_a_webdataset_again() {
    let place = OnDisk::new();
    let aligned = adopted(&place);
    let rows = Rows::of_aligned(&aligned).unwrap();
    let out = place.folder.path().join("out");
    run(
        &rows,
        Format::Tar,
        &out,
        "again.tar",
        &ExportOptions::default(),
    )
    .unwrap();
    let source = out.join("again.tar").to_str().unwrap().to_owned();
    let second = local(&place.folder.path().join("second.rec"));
    let options = AdoptOptions::default();
    let (again, _) = adopt(&place.runtime, &[source], &second, &options, &mut silent).unwrap();
    let Adopted::Aligned(again) = again else {
        panic!("aligned sets are expected");
    };
    let names: Vec<&str> = aligned.fields().map(|(name, _)| name).collect();
    for name in names {
        let (a, b) = (aligned.field(name).unwrap(), again.field(name).unwrap());
        assert_eq!(all(a), all(b), "{name}");
    }

    let error = run(
        &rows,
        Format::TfRecord,
        &out,
        "x",
        &ExportOptions::default(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let only = rows.clone().only("cls").unwrap();
    let report = run(
        &only,
        Format::TfRecord,
        &out,
        "x",
        &ExportOptions::default(),
    )
    .unwrap();
    assert_eq!((report.records, report.holes), (3, 1));
    assert_eq!(rows.only("clas").unwrap_err().kind(), ErrorKind::KeyMissing);
}

/// A set with everything: compressed, with a dictionary, sealed chunks, changes that are not folded in yet.
fn rich(place: &OnDisk) -> (Records, Vec<Option<Vec<u8>>>) {
    let set = place.create(Options {
        codec: CodecChoice::Zstd,
        dictionary: true,
        chunk_bytes: 1 << 16,
        writers: 2,
        ..Options::default()
    });
    let text = |n: usize| format!("record {n} of a set that compresses well, {}", n % 7).repeat(9);
    let mut model: Vec<Option<Vec<u8>>> = (0..30_000).map(|n| Some(text(n).into_bytes())).collect();
    set.extend(&model.iter().map(|r| r.clone().unwrap()).collect::<Vec<_>>())
        .unwrap();
    set.flush().unwrap();
    set.update(5, b"new").unwrap();
    model[5] = Some(b"new".to_vec());
    set.tombstone(9).unwrap();
    model[9] = None;
    set.delete(100).unwrap();
    model.swap_remove(100);
    (set, model)
}

#[test]
fn a_set_is_copied_to_a_folder_and_goes_on_there() {
    let place = OnDisk::new();
    let (set, mut model) = rich(&place);
    let copy = place.folder.path().join("copy.rec");
    let target = Target::Folder(local(&copy));
    let mut last = None;
    let mut listen = |progress: &staddle_record::Progress| {
        last = Some(*progress);
        Ok(())
    };
    let report = clone_set(&set, &target, &mut listen).unwrap();
    assert!(report.files > 10);
    assert_eq!(last.unwrap().bytes, report.bytes);
    let again = clone_set(&set, &target, &mut silent).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);

    let copied = Records::open(&place.runtime, local(&copy), OpenOptions::default()).unwrap();
    assert!(all(&copied) == model);
    assert_eq!(copied.fingerprint().unwrap(), set.fingerprint().unwrap());
    copied.append(b"later").unwrap();
    model.push(Some(b"later".to_vec()));
    copied.checkpoint().unwrap();
    copied.close().unwrap();
    let copied = Records::open(&place.runtime, local(&copy), OpenOptions::default()).unwrap();
    assert!(all(&copied) == model);
    assert_eq!(copied.verify(|_, _| ()).unwrap().bad.len(), 0);
}

#[test]
fn a_set_behind_http_is_read_by_ranges() {
    let place = OnDisk::new();
    let (set, model) = rich(&place);
    let server = Server::start();
    let storage = BTreeMap::from([("allow_http".to_owned(), "true".to_owned())]);
    let uri = format!("{}/bucket/set.rec", server.url);
    let target = Target::at(&place.runtime, &uri, &storage).unwrap();
    clone_set(&set, &target, &mut silent).unwrap();
    assert_eq!(server.writes.lock().last().unwrap(), "/bucket/set.rec/HEAD");
    let again = clone_set(&set, &target, &mut silent).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);

    let device = place.runtime.io().device(&uri, &storage).unwrap();
    let remote = Records::open(&place.runtime, device, OpenOptions::default()).unwrap();
    assert_eq!(remote.len().unwrap(), model.len() as u64);
    let indices = [5, 9, 100, 29_998, 12_345, 5];
    let batch = remote.gather(&indices).unwrap();
    for (position, index) in indices.into_iter().enumerate() {
        let expected = model[usize::try_from(index).unwrap()].as_deref();
        assert_eq!(batch.get(position), expected, "{index}");
    }
    let error = remote.append(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn copies_keep_following_their_adopted_files() {
    let place = OnDisk::new();
    let aligned = adopted(&place);
    let below = place.folder.path().join("deep/er");
    std::fs::create_dir_all(&below).unwrap();
    for folder in [place.folder.path(), &below] {
        let copy = local(&folder.join("copy.rec"));
        clone_aligned(&aligned, &Target::Folder(Arc::clone(&copy)), &mut silent).unwrap();
        let how = OpenOptions {
            external_anywhere: folder == below,
            ..OpenOptions::default()
        };
        let again = Aligned::open(&place.runtime, &copy, &how).unwrap();
        for (name, records) in aligned.fields() {
            assert_eq!(all(again.field(name).unwrap()), all(records), "{name}");
        }
    }
    let server = Server::start();
    let storage = BTreeMap::from([("allow_http".to_owned(), "true".to_owned())]);
    let target = Target::at(&place.runtime, &format!("{}/b", server.url), &storage).unwrap();
    let error = clone_aligned(&aligned, &target, &mut silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);

    let source = place
        .folder
        .path()
        .join("s.tar")
        .to_str()
        .unwrap()
        .to_owned();
    let options = AdoptOptions {
        split: Split::Never,
        ..AdoptOptions::default()
    };
    let plain = local(&place.folder.path().join("plain.rec"));
    let (set, _) = adopt(&place.runtime, &[source], &plain, &options, &mut silent).unwrap();
    let Adopted::Set(set) = set else {
        panic!("one set is expected");
    };
    let target = Target::Folder(local(&below.join("plain.rec")));
    clone_set(&set, &target, &mut silent).unwrap();
}

#[test]
fn a_copy_that_fails_leaves_nothing_behind() {
    let place = OnDisk::new();
    let (set, _) = rich(&place);
    set.flush().unwrap();
    std::fs::remove_file(place.folder.path().join("set.rec/chunk/0.zr")).unwrap();
    let copy = place.folder.path().join("copy.rec");
    let error = clone_set(&set, &Target::Folder(local(&copy)), &mut silent).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt),
        "{error:?}"
    );
    assert!(!copy.exists());
}

/// Against a real S3 protocol server, which `cargo x test` starts.
#[test]
fn a_set_in_an_s3_bucket_is_read_by_ranges() {
    let Ok(endpoint) = std::env::var("STADDLE_TEST_S3") else {
        eprintln!(
            "SKIPPED: S3 tests need STADDLE_TEST_S3=http://127.0.0.1:PORT, which `cargo x test` sets"
        );
        return;
    };
    let place = OnDisk::new();
    let (set, model) = rich(&place);
    let allow = BTreeMap::from([("allow_http".to_owned(), "true".to_owned())]);
    let name = format!("staddle-record-{}", std::process::id());
    // A bucket is made by a plain PUT, which the test server takes without a signature.
    let web = place.runtime.io().remote(&endpoint, &allow).unwrap();
    web.put(&name, Vec::new().into(), true).unwrap();
    let mut storage = allow;
    for (key, value) in [
        ("key", "testing"),
        ("secret", "testing"),
        ("region", "us-east-1"),
        ("endpoint_url", &endpoint),
    ] {
        storage.insert(key.to_owned(), value.to_owned());
    }
    let uri = format!("s3://{name}/sets/a.rec");
    let target = Target::at(&place.runtime, &uri, &storage).unwrap();
    clone_set(&set, &target, &mut silent).unwrap();
    let device = place.runtime.io().device(&uri, &storage).unwrap();
    let remote = Records::open(&place.runtime, device, OpenOptions::default()).unwrap();
    let indices: Vec<u64> = (0..model.len() as u64).step_by(997).collect();
    let batch = remote.gather(&indices).unwrap();
    for (position, index) in indices.into_iter().enumerate() {
        let expected = model[usize::try_from(index).unwrap()].as_deref();
        assert_eq!(batch.get(position), expected, "{index}");
    }
    let again = clone_set(&set, &target, &mut silent).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
}
