//! Sets of several producers, put behind one another.

use std::sync::Arc;

use staddle_base::ErrorKind;
use staddle_record::concat::{ConcatReport, How, concat};
use staddle_record::progress::silent;
use staddle_record::{CodecChoice, OpenOptions, Options, Records};
use staddle_runtime::io::device::{Device, FolderDevice, LocalDevice};

use super::common::OnDisk;

type Model = Vec<Option<Vec<u8>>>;

fn all(records: &Records) -> Model {
    let indices: Vec<u64> = (0..records.len().unwrap()).collect();
    let batch = records.gather(&indices).unwrap();
    batch.iter().map(|r| r.map(<[u8]>::to_vec)).collect()
}

fn device(place: &OnDisk, name: &str) -> Arc<dyn Device> {
    let folder: Arc<dyn Device> = Arc::new(LocalDevice::new(place.folder.path()).unwrap());
    Arc::new(FolderDevice::new(folder, name).unwrap())
}

fn options(codec: CodecChoice, writers: usize) -> Options {
    Options {
        codec,
        writers,
        chunk_bytes: 1 << 16,
        ..Options::default()
    }
}

/// A record that hardly compresses.
fn text(name: &str, n: usize) -> Vec<u8> {
    let numbers = (1..2 + n % 40).map(|k| ((n + k) * (n + 7 * k) * 7919).to_string());
    format!("{name} {n} {}", numbers.collect::<String>()).into_bytes()
}

/// A set whose records say where they are from, with holes, updates and a swap.
fn source(place: &OnDisk, name: &str, options: Options, count: usize) -> (Records, Model) {
    let set = Records::create(&place.runtime, device(place, name), options).unwrap();
    let mut model: Model = (0..count).map(|n| Some(text(name, n))).collect();
    set.extend(&model.iter().flatten().collect::<Vec<_>>())
        .unwrap();
    set.flush().unwrap();
    set.tombstone(3).unwrap();
    model[3] = None;
    set.update(7, b"updated").unwrap();
    model[7] = Some(b"updated".to_vec());
    set.delete(11).unwrap();
    model.swap_remove(11);
    set.flush().unwrap();
    (set, model)
}

fn target(place: &OnDisk) -> Records {
    Records::create(&place.runtime, device(place, "all.rec"), Options::default()).unwrap()
}

fn check(report: &ConcatReport, model: &Model) {
    let holes = model.iter().filter(|record| record.is_none()).count() as u64;
    assert_eq!(report.holes, holes);
    assert_eq!(report.linked + report.copied + holes, model.len() as u64);
}

#[test]
fn records_stay_in_their_chunks_and_are_checked_there() {
    for codec in [CodecChoice::None, CodecChoice::Lz4] {
        for writers in [1, 3] {
            let place = OnDisk::new();
            let (a, mut model) = source(&place, "a.rec", options(codec, writers), 3000);
            let (b, more) = source(&place, "b.rec", options(codec, writers), 2000);
            model.extend(more);
            let all_of_them = target(&place);
            let report = concat(&all_of_them, &[a, b], How::Link, &mut silent).unwrap();
            check(&report, &model);
            assert!(report.linked > report.copied, "{report:?}");
            assert!(all(&all_of_them) == model);

            // The target goes on by itself: appends, edits, a new process, a verify.
            all_of_them.append(b"own").unwrap();
            model.push(Some(b"own".to_vec()));
            all_of_them.update(0, b"changed").unwrap();
            model[0] = Some(b"changed".to_vec());
            all_of_them.checkpoint().unwrap();
            all_of_them.close().unwrap();
            let how = OpenOptions::default();
            let again = Records::open(&place.runtime, device(&place, "all.rec"), how).unwrap();
            assert!(all(&again) == model);
            assert_eq!(again.verify(|_, _| ()).unwrap().bad, []);
        }
    }
}

#[test]
fn a_flipped_bit_in_a_linked_chunk_is_found() {
    let place = OnDisk::new();
    let (a, model) = source(&place, "a.rec", options(CodecChoice::None, 1), 3000);
    let set = target(&place);
    concat(&set, std::slice::from_ref(&a), How::Link, &mut silent).unwrap();
    set.close().unwrap();
    a.close().unwrap();
    let path = place.folder.path().join("a.rec/chunk/0.zr");
    let mut bytes = std::fs::read(&path).unwrap();
    let needle = text("a.rec", 25);
    let at = bytes
        .windows(needle.len())
        .position(|w| w == needle)
        .unwrap();
    bytes[at] ^= 1;
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, bytes).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_modified(time).unwrap();
    let set = Records::open(
        &place.runtime,
        device(&place, "all.rec"),
        OpenOptions::default(),
    )
    .unwrap();
    assert_eq!(set.get(25).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(set.get(26).unwrap(), model[26]);
    let bad = set.verify(|_, _| ()).unwrap().bad;
    assert_eq!(
        bad.iter()
            .filter_map(|damage| damage.index)
            .collect::<Vec<_>>(),
        [25]
    );
}

#[test]
fn everything_is_copied_on_request_and_the_sources_may_go() {
    let place = OnDisk::new();
    let (a, model) = source(&place, "a.rec", options(CodecChoice::Zstd, 1), 1500);
    let set = target(&place);
    let report = concat(&set, &[a], How::Copy, &mut silent).unwrap();
    check(&report, &model);
    assert_eq!((report.linked, report.chunks), (0, 0));
    std::fs::remove_dir_all(place.folder.path().join("a.rec")).unwrap();
    assert!(all(&set) == model);
}

#[test]
fn records_with_a_dictionary_are_copied() {
    let place = OnDisk::new();
    let how = Options {
        dictionary: true,
        ..options(CodecChoice::Zstd, 1)
    };
    let (a, model) = source(&place, "a.rec", how, 60_000);
    let set = target(&place);
    let report = concat(&set, &[a], How::Link, &mut silent).unwrap();
    check(&report, &model);
    assert!(report.copied > 0);
    assert!(all(&set) == model);
}

#[test]
fn linked_records_can_be_moved_in() {
    let place = OnDisk::new();
    let (a, model) = source(&place, "a.rec", options(CodecChoice::Lz4, 1), 3000);
    let set = target(&place);
    concat(&set, &[a], How::Link, &mut silent).unwrap();
    set.rebalance_while(false, true, || true).unwrap();
    std::fs::remove_dir_all(place.folder.path().join("a.rec")).unwrap();
    set.close().unwrap();
    let set = Records::open(
        &place.runtime,
        device(&place, "all.rec"),
        OpenOptions::default(),
    )
    .unwrap();
    assert!(all(&set) == model);
    assert_eq!(set.verify(|_, _| ()).unwrap().bad, []);
}

#[test]
fn sets_that_do_not_fit_are_refused() {
    let place = OnDisk::new();
    let (a, _) = source(&place, "a.rec", options(CodecChoice::None, 1), 20);
    let error = concat(&a, std::slice::from_ref(&a), How::Link, &mut silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let typed = Options {
        dtype: Some(staddle_record::Dtype::U8),
        ..Options::default()
    };
    let typed = Records::create(&place.runtime, device(&place, "t.rec"), typed).unwrap();
    let error = concat(&typed, &[a], How::Link, &mut silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(
        concat(&typed, &[], How::Link, &mut silent).unwrap(),
        ConcatReport::default()
    );
}

#[test]
fn a_repair_keeps_linked_records() {
    let place = OnDisk::new();
    let (a, model) = source(&place, "a.rec", options(CodecChoice::None, 1), 3000);
    let set = target(&place);
    concat(&set, &[a], How::Link, &mut silent).unwrap();
    set.close().unwrap();
    std::fs::write(place.folder.path().join("all.rec/HEAD"), [0; 8192]).unwrap();
    let device = device(&place, "all.rec");
    staddle_record::repair(&place.runtime, Arc::clone(&device)).unwrap();
    let set = Records::open(&place.runtime, device, OpenOptions::default()).unwrap();
    assert!(all(&set) == model);
}
