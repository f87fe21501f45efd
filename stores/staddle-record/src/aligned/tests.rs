//! Aligned sets: equal lengths, one index, and files that lie about them.

use std::sync::Arc;

use staddle_base::ErrorKind;
use staddle_runtime::Runtime;
use staddle_runtime::io::device::{Device, MemoryDevice, publish_file};

use super::{ALIGNED, Aligned, Field, decode, field_device, fields, folders, publish};
use crate::manifest::seal_json;
use crate::options::{OpenOptions, Options};
use crate::records::Records;

fn memory() -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new("memory://"))
}

fn set(device: &Arc<dyn Device>, folder: &str, records: &[&str]) -> Records {
    let device = field_device(device, folder).unwrap();
    let set = Records::create(&Runtime::global(), device, Options::default()).unwrap();
    set.extend(records).unwrap();
    set.flush().unwrap();
    set
}

fn open(device: &Arc<dyn Device>) -> staddle_base::Result<Aligned> {
    Aligned::open(&Runtime::global(), device, &OpenOptions::default())
}

#[test]
fn rows_come_from_all_fields() {
    let device = memory();
    let (a, b) = (
        set(&device, "a", &["1", "2", "3"]),
        set(&device, "b", &["x", "y", "z"]),
    );
    let zip = Aligned::zip(vec![("first".into(), a), ("second".into(), b)]).unwrap();
    publish(device.as_ref(), &folders(["a", "b"])).unwrap();
    for (aligned, names) in [
        (zip, ["first", "second"]),
        (open(&device).unwrap(), ["a", "b"]),
    ] {
        assert_eq!(aligned.len().unwrap(), 3);
        let rows = aligned.gather(&[2, 0, 2]).unwrap();
        let text: Vec<(&str, Vec<&[u8]>)> = rows
            .iter()
            .map(|(name, batch)| (*name, batch.iter().flatten().collect()))
            .collect();
        assert_eq!(text[0], (names[0], vec![&b"3"[..], b"1", b"3"]));
        assert_eq!(text[1], (names[1], vec![&b"z"[..], b"x", b"z"]));
        assert!(aligned.gather(&[]).unwrap()[0].1.is_empty());
        let error = aligned.gather(&[0, 3]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfRange);
        assert_eq!(aligned.normalize(-1).unwrap(), 2);
        assert_eq!(
            aligned.normalize(-4).unwrap_err().kind(),
            ErrorKind::OutOfRange
        );
        let missing = aligned.field("secon").unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::KeyMissing);
        let one = aligned.select(&[names[1]]).unwrap();
        assert_eq!(one.get(1).unwrap(), [(names[1], Some(b"y".to_vec()))]);
    }
}

#[test]
fn lengths_must_be_equal() {
    let device = memory();
    let (a, b) = (
        set(&device, "a", &["1", "2"]),
        set(&device, "b", &["x", "y"]),
    );
    publish(device.as_ref(), &folders(["a", "b"])).unwrap();
    open(&device).unwrap();
    a.append(b"3").unwrap();
    a.flush().unwrap();
    let error = Aligned::zip(vec![("a".into(), a.clone()), ("b".into(), b.clone())]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("a: 3, b: 2"), "{error}");
    assert_eq!(open(&device).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(Aligned::zip(vec![("a".into(), a.clone()), ("a".into(), a)]).is_err());
    assert!(Aligned::zip(Vec::new()).is_err());
}

#[test]
fn any_name_gets_a_folder() {
    let all = folders([
        "jpg", "__key__", "ä", "a/b", ".x", "field-2", ALIGNED, "jpg",
    ]);
    let names: Vec<&str> = all.iter().map(|field| field.folder.as_str()).collect();
    let expected = [
        "jpg", "__key__", "field-2", "field-3", "field-4", "field-5", "field-6", "field-7",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_forged_file_is_refused() {
    let device = memory();
    assert_eq!(
        fields(device.as_ref()).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert!(!Aligned::is_aligned(device.as_ref()).unwrap());
    let forged = |format: &str, version: u32, fields: Vec<Field>| {
        let format = format.into();
        let bytes = seal_json(&super::File {
            format,
            version,
            fields,
        });
        decode(&bytes.unwrap()).map_err(|e| e.kind())
    };
    let field = |name: &str, folder: &str| Field {
        name: name.into(),
        folder: folder.into(),
    };
    assert!(forged("staddle-aligned", 1, vec![field("a", "b")]).is_ok());
    for folder in ["..", ".", "", "/etc", "a/b", "a\0"] {
        let result = forged("staddle-aligned", 1, vec![field("a", folder)]);
        assert_eq!(result, Err(ErrorKind::Corrupt), "{folder}");
    }
    let twice = vec![field("a", "x"), field("a", "y")];
    assert_eq!(forged("staddle-aligned", 1, twice), Err(ErrorKind::Corrupt));
    let shared = vec![field("a", "x"), field("b", "x")];
    assert_eq!(
        forged("staddle-aligned", 1, shared),
        Err(ErrorKind::Corrupt)
    );
    assert_eq!(
        forged("staddle-aligned", 1, vec![]),
        Err(ErrorKind::Corrupt)
    );
    assert_eq!(
        forged("other", 1, vec![field("a", "a")]),
        Err(ErrorKind::Corrupt)
    );
    let newer = forged("staddle-aligned", 2, vec![field("a", "a")]);
    assert_eq!(newer, Err(ErrorKind::Unsupported));

    publish(device.as_ref(), &[field("a", "gone")]).unwrap();
    assert_eq!(open(&device).unwrap_err().kind(), ErrorKind::Corrupt);
    publish_file(device.as_ref(), ALIGNED, b"{}").unwrap();
    assert_eq!(
        fields(device.as_ref()).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
}
