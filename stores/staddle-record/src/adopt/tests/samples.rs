//! WebDataset's convention, name by name.

use staddle_base::ErrorKind;

use super::super::samples::{FIELDS_MAX, Piece, Samples, split_name};
use super::super::tar::Tar;
use super::super::window::{Reach, Window};
use super::super::{Adopter, Item};
use super::golden;

#[test]
fn names_split_at_the_first_dot_of_the_last_part() {
    for (name, expected) in [
        ("a.jpg", Some(("a", "jpg"))),
        ("a/b.c/d.seg.PNG", Some(("a/b.c/d", "seg.png"))),
        ("./0001.cls", Some(("./0001", "cls"))),
        ("README", None),
        (".hidden", None),
        ("a/.hidden.txt", None),
        ("a.", None),
        ("", None),
        ("a/b/", None),
        ("__meta.x__", None),
    ] {
        let split = split_name(name.as_bytes());
        let split = split
            .as_ref()
            .map(|(key, field)| (std::str::from_utf8(key).unwrap(), field.as_str()));
        assert_eq!(split, expected, "{name}");
    }
    assert_eq!(split_name(b"a.\xff"), None);
    assert_eq!(split_name(b"\xff.jpg"), Some((&b"\xff"[..], "jpg".into())));
}

#[test]
fn an_archive_becomes_columns_with_holes() {
    let bytes = golden!("samples.tar").to_vec();
    let mut samples = Samples::default();
    Tar::default()
        .scan(&mut Window::new(&bytes, Reach::LOCAL), &mut |item| {
            samples.add(&item)
        })
        .unwrap();
    let text = |piece: &Option<Piece>| {
        piece.map(|piece| {
            let at = usize::try_from(piece.offset).unwrap();
            let len = usize::try_from(piece.len).unwrap();
            String::from_utf8(bytes[at..at + len].to_vec()).unwrap()
        })
    };
    let column =
        |name: &str| -> Vec<Option<String>> { samples.column(name).iter().map(text).collect() };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        samples.names().collect::<Vec<_>>(),
        ["jpg", "cls", "seg.png"]
    );
    assert_eq!(
        column("jpg"),
        [some("jpg 1"), some("jpg 2"), None, some("")]
    );
    assert_eq!(column("cls"), [some("1"), None, some("3"), some("4")]);
    assert_eq!(column("seg.png"), [None, some("png 2"), None, None]);
    assert_eq!(column("txt"), [None, None, None, None]);
    assert_eq!(samples.keys()[3], b"train/0004");
    assert_eq!(samples.skipped(), 1);
}

fn add(samples: &mut Samples, name: &str) -> staddle_base::Result<()> {
    samples.add(&Item {
        name: name.as_bytes(),
        offset: 0,
        len: 0,
    })
}

#[test]
fn a_field_twice_and_too_many_fields_are_refused() {
    let mut samples = Samples::default();
    add(&mut samples, "a.jpg").unwrap();
    assert_eq!(
        add(&mut samples, "a.JPG").unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    assert_eq!(
        add(&mut samples, "a.__key__").unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    for n in 1..FIELDS_MAX {
        add(&mut samples, &format!("a.{n}")).unwrap();
    }
    assert_eq!(
        add(&mut samples, "a.more").unwrap_err().kind(),
        ErrorKind::Exhausted
    );
    add(&mut samples, "b.jpg").unwrap();
    assert_eq!(samples.len(), 2);
}
