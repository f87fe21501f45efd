//! LMDB files that py-lmdb wrote, read without LMDB; and files that want to break the reader.
#![expect(
    clippy::indexing_slicing,
    reason = "a test that goes out of bounds is a failing test"
)]

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use staddle_base::ErrorKind;
use staddle_runtime::Runtime;

use super::*;

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../testing/golden/lmdb/",
            $name
        ))
    };
}

const FORMAT_1: &[u8] = golden!("format-1.mdb");
const FORMAT_3: &[u8] = golden!("format-3.mdb");

/// Reads a whole database through the importer's reader: the records, and the CRC-32 of all keys and values.
fn read_all(path: &Path, name: Option<&str>) -> Result<(Vec<Incoming>, u32)> {
    let runtime = Runtime::global();
    let found = find(&runtime, path.to_str().unwrap(), &BTreeMap::new())?;
    let mut reader = LmdbReader::new(found, name)?;
    let means = Means::new(&runtime);
    let (mut items, mut crc) = (Vec::new(), flate2::Crc::new());
    loop {
        let portion = reader.next(&means)?;
        if portion.items.is_empty() {
            return Ok((items, crc.sum()));
        }
        for item in portion.items {
            for len in [item.name.len(), item.bytes.len()] {
                crc.update(&u32::try_from(len).unwrap().to_le_bytes());
            }
            crc.update(&item.name);
            crc.update(&item.bytes);
            items.push(item);
        }
    }
}

#[test]
fn both_formats_are_read_as_lmdb_reads_them() {
    let folder = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testing/golden/lmdb"
    ));
    let values: BTreeMap<String, BTreeMap<String, (usize, u32)>> =
        serde_json::from_slice(golden!("values.json")).unwrap();
    for (file, databases) in values {
        let path = folder.join(format!("{file}.mdb"));
        for (name, expected) in databases {
            let name = Some(name.as_str()).filter(|name| !name.is_empty());
            let (items, crc) = read_all(&path, name).unwrap();
            assert_eq!((items.len(), crc), expected, "{file} {name:?}");
        }
        let source = std::fs::read(&path).unwrap();
        let all = names(&source).unwrap();
        assert_eq!(all, [&b"fixed"[..], b"many", b"nothing", b"several"]);
    }
}

#[test]
fn an_environment_is_a_folder_or_a_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("data.mdb"), FORMAT_1).unwrap();
    for path in [dir.path().to_owned(), dir.path().join("data.mdb")] {
        let (items, _) = read_all(&path, None).unwrap();
        assert_eq!(items[0].name, b"empty");
        assert_eq!(items.len(), 4);
    }
    let missing = read_all(&dir.path().join("other"), None).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let wrong = read_all(dir.path(), Some("man")).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::KeyMissing);
    assert!(wrong.hint_text().unwrap().contains("many"), "{wrong}");

    std::fs::write(dir.path().join("data.mdb"), golden!("empty.mdb")).unwrap();
    assert!(read_all(dir.path(), None).unwrap().0.is_empty());
}

#[test]
fn a_commit_meanwhile_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.mdb");
    std::fs::write(&path, FORMAT_1).unwrap();
    let runtime = Runtime::global();
    let found = find(&runtime, path.to_str().unwrap(), &BTreeMap::new()).unwrap();
    let mut reader = LmdbReader::new(found, None).unwrap();
    // The other meta page of a newer commit, written in place as LMDB does.
    let newest = reader.meta.transaction;
    let mut bytes = FORMAT_1.to_vec();
    let slot = if bytes[16 + 128..16 + 136] == newest.to_le_bytes() {
        4096
    } else {
        0
    };
    bytes[slot + 16 + 128..slot + 16 + 136].copy_from_slice(&(newest + 1).to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let error = reader.next(&Means::new(&runtime)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[test]
fn a_damaged_meta_page_leaves_the_other() {
    for (whole, version) in [(FORMAT_1, 20), (FORMAT_3, 28)] {
        for page in [0, 4096] {
            let mut bytes = whole.to_vec();
            bytes[page..page + 200].fill(0xee);
            assert!(check(&bytes, Some("many")).unwrap() > 0);
        }
        let mut bytes = whole.to_vec();
        bytes[..200].fill(0);
        bytes[4096..4296].fill(0);
        assert_eq!(check(&bytes, None).unwrap_err().kind(), ErrorKind::Corrupt);
        let mut newer = whole.to_vec();
        newer[version] = 9;
        newer[4096 + version] = 9;
        assert_eq!(
            check(&newer, None).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }
    for cut in [0, 1, 100, 159, 160, 4096, 5000, 8192, 100_000] {
        let kind = check(&FORMAT_1[..cut].to_vec(), None).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Corrupt, "cut at {cut}");
    }
}

fn check_hostile(bytes: &[u8]) {
    let bytes = bytes.to_vec();
    for name in [None, Some("many"), Some("several"), Some("fixed")] {
        if let Err(error) = check(&bytes, name) {
            let promised = matches!(
                error.kind(),
                ErrorKind::Corrupt
                    | ErrorKind::Unsupported
                    | ErrorKind::KeyMissing
                    | ErrorKind::Invalid
            );
            assert!(promised, "{error:?}");
        }
    }
}

#[test]
fn a_circle_of_pages_ends() {
    // Every child pointer of every branch leads back to the branch itself.
    for (whole, header, base) in [(FORMAT_1, 16, 0), (FORMAT_3, 24, 24)] {
        let mut bytes = whole.to_vec();
        let mut changed = 0;
        for page in (8192..bytes.len()).step_by(4096) {
            let flags = bytes[page + header - 6];
            if flags & 1 == 0 || flags & 4 != 0 {
                continue;
            }
            let number = u32::try_from(page / 4096).unwrap().to_le_bytes();
            let pointer = [bytes[page + header], bytes[page + header + 1]];
            let node = page + base + usize::from(u16::from_le_bytes(pointer));
            bytes[node..node + 4].copy_from_slice(&number);
            changed += 1;
        }
        assert!(changed > 0);
        assert_eq!(
            check(&bytes, Some("many")).unwrap_err().kind(),
            ErrorKind::Corrupt
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damage_gives_values_or_an_error(
        newer in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize, any::<u8>(), any::<bool>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = if newer { FORMAT_3 } else { FORMAT_1 }.to_vec();
        for (at, within, byte, near_header) in changes {
            let mut at = at.index(bytes.len());
            if near_header {
                at = at / 4096 * 4096 + within;
            }
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        check_hostile(&bytes);
    }
}
