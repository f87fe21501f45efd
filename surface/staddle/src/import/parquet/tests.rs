//! Columns of Parquet files that the parquet crate wrote, and damaged ones.

use std::collections::BTreeMap;
use std::path::Path;

use arrow_array::{
    ArrayRef, BinaryArray, FixedSizeBinaryArray, Int32Array, LargeStringArray, StringArray,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use staddle_record::adopt::source::find_all;
use staddle_runtime::Runtime;

use super::*;

fn write(columns: Vec<(&str, ArrayRef)>, how: WriterProperties) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), Some(how)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    out
}

fn plain() -> WriterProperties {
    WriterProperties::builder().build()
}

fn files(dir: &Path) -> Vec<Found> {
    let pattern = format!("{}/*.parquet", dir.display());
    find_all(&Runtime::global(), &[pattern], &BTreeMap::new()).unwrap()
}

fn read(dir: &Path, column: Option<&str>, key: Option<&str>) -> Result<Vec<Incoming>> {
    let means = Means::new(&Runtime::global());
    let mut reader = ParquetReader::new(files(dir), column, key)?;
    let (rows, _) = reader.totals();
    let mut all = Vec::new();
    loop {
        let portion = reader.next(&means)?;
        if portion.items.is_empty() {
            assert_eq!(rows, Some(all.len() as u64));
            return Ok(all);
        }
        all.extend(portion.items);
    }
}

fn bytes(items: &[Incoming]) -> Vec<Option<&[u8]>> {
    let some = |item: &'_ Incoming| !item.missing;
    items
        .iter()
        .map(|item| some(item).then_some(item.bytes.as_slice()))
        .collect()
}

#[test]
fn values_of_every_layout_come_in_order_and_nulls_are_holes() {
    let many: Vec<Option<String>> = (0..20_000)
        .map(|n| (n % 11 != 0).then(|| format!("value {}", n % 97)))
        .collect();
    let layouts = [
        plain(),
        WriterProperties::builder()
            .set_dictionary_enabled(false)
            .build(),
        WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(3000))
            .build(),
        WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .build(),
    ];
    for how in layouts {
        let text: ArrayRef = Arc::new(StringArray::from(many.clone()));
        let large: ArrayRef = Arc::new(LargeStringArray::from(many.clone()));
        for array in [text, large] {
            let dir = tempfile::tempdir().unwrap();
            let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1; many.len()]));
            let file = write(vec![("n", numbers), ("t", array)], how.clone());
            std::fs::write(dir.path().join("a.parquet"), file).unwrap();
            let items = read(dir.path(), None, None).unwrap();
            let expected: Vec<Option<&[u8]>> = many
                .iter()
                .map(|v| v.as_ref().map(|v| v.as_bytes()))
                .collect();
            assert!(bytes(&items) == expected);
            assert_eq!(items[19_999].name, b"a.parquet:19999");
        }
    }
}

#[test]
fn columns_are_chosen_by_name_and_files_follow_each_other() {
    let dir = tempfile::tempdir().unwrap();
    for (name, values) in [("a", [&b"\xff\x00"[..], b""]), ("b", [b"x", b"yy"])] {
        let blob: ArrayRef = Arc::new(BinaryArray::from_iter_values(values));
        let id: ArrayRef = Arc::new(StringArray::from(vec!["k1", "k2"]));
        let fixed = FixedSizeBinaryArray::try_from_iter(values.iter().map(|v| [v.len() as u8; 4]));
        let fixed: ArrayRef = Arc::new(fixed.unwrap());
        let number: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let columns = vec![("blob", blob), ("id", id), ("fixed", fixed), ("n", number)];
        let path = dir.path().join(format!("{name}.parquet"));
        std::fs::write(path, write(columns, plain())).unwrap();
    }
    let items = read(dir.path(), Some("blob"), Some("id")).unwrap();
    let expected: [&[u8]; 4] = [b"\xff\x00", b"", b"x", b"yy"];
    assert_eq!(bytes(&items), expected.map(Some));
    assert_eq!(items[3].name, b"k2");
    let fixed = read(dir.path(), Some("fixed"), None).unwrap();
    assert_eq!(fixed[0].bytes, [2, 2, 2, 2]);

    for (column, kind, word) in [
        (None, ErrorKind::Invalid, "blob, id, fixed"),
        (Some("blub"), ErrorKind::KeyMissing, "blob"),
        (Some("n"), ErrorKind::Invalid, "Int32"),
    ] {
        let error = read(dir.path(), column, None).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn one_long_value_repeated_does_not_multiply() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(1 << 20);
    let array: ArrayRef = Arc::new(StringArray::from(vec![long.as_str(); 200]));
    let how = WriterProperties::builder()
        .set_dictionary_page_size_limit(4 << 20)
        .build();
    let file = write(vec![("t", array)], how);
    assert!(file.len() < 8 << 20);
    std::fs::write(dir.path().join("a.parquet"), file).unwrap();
    let means = Means::new(&Runtime::global());
    let mut reader = ParquetReader::new(files(dir.path()), None, None).unwrap();
    let mut rows = 0;
    loop {
        let portion = reader.next(&means).unwrap();
        if portion.items.is_empty() {
            break;
        }
        assert!(portion.source_bytes <= PORTION_BYTES + (1 << 20));
        assert!(portion.items.iter().all(|item| item.bytes.len() == 1 << 20));
        rows += portion.items.len();
    }
    assert_eq!(rows, 200);
}

#[test]
fn damaged_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let array: ArrayRef = Arc::new(StringArray::from(vec!["one", "two", "three"]));
    let whole = write(vec![("t", array)], plain());
    let check = |bytes: &[u8]| {
        std::fs::write(dir.path().join("a.parquet"), bytes).unwrap();
        match read(dir.path(), None, None) {
            Ok(_) => None,
            Err(error) => Some(error.kind()),
        }
    };
    assert_eq!(check(&whole), None);
    for cut in 0..whole.len() {
        assert_eq!(
            check(&whole[..cut]),
            Some(ErrorKind::Corrupt),
            "cut at {cut}"
        );
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        if let Some(kind) = check(&bytes) {
            let promised = matches!(
                kind,
                ErrorKind::Corrupt
                    | ErrorKind::Unsupported
                    | ErrorKind::Exhausted
                    | ErrorKind::Invalid
            );
            assert!(promised, "byte {at}: {kind:?}");
        }
    }
    let mut encrypted = whole.clone();
    let end = encrypted.len();
    encrypted[end - 4..].copy_from_slice(b"PARE");
    assert_eq!(check(&encrypted), Some(ErrorKind::Unsupported));
}
