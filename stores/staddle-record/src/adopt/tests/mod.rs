//! The parsers against files that others wrote, and against files that want to break them.

#![expect(
    clippy::indexing_slicing,
    reason = "a test that goes out of bounds is a failing test"
)]

use proptest::prelude::*;
use staddle_base::{ErrorKind, Result};

use super::window::Reach;
use super::{Adopter, Item, Scanned, Window};

mod megatron;
mod run;
mod samples;
mod tar;
mod tfrecord;

/// Name, offset and length of each record.
type Found = Vec<(Vec<u8>, u64, u64)>;

/// Windows of every temper must see the same file.
const REACHES: [Reach; 3] = [Reach::LOCAL, Reach::REMOTE, Reach { min: 1, max: 7 }];

fn scan(adopter: &dyn Adopter, bytes: &[u8]) -> Result<(Found, Scanned)> {
    let source = bytes.to_vec();
    let results = REACHES.map(|reach| {
        let mut found = Vec::new();
        let mut keep = |item: Item<'_>| {
            found.push((item.name.to_vec(), item.offset, item.len));
            Ok(())
        };
        let scanned = adopter.scan(&mut Window::new(&source, reach), &mut keep)?;
        assert_eq!(scanned.items, found.len() as u64);
        Ok((found, scanned))
    });
    let text: Vec<String> = results.iter().map(|result| format!("{result:?}")).collect();
    assert_eq!(text[0], text[1]);
    assert_eq!(text[0], text[2]);
    let [first, ..] = results;
    first
}

/// What any file may do: be understood, with every record inside `bound`, or give one of the promised errors.
fn check_hostile(adopter: &dyn Adopter, bytes: &[u8], bound: u64) {
    match scan(adopter, bytes) {
        Ok((found, _)) => {
            for (_, offset, len) in found {
                assert!(offset.checked_add(len).is_some_and(|end| end <= bound));
            }
        }
        Err(error) => assert!(
            matches!(
                error.kind(),
                ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::Exhausted
            ),
            "{error:?}"
        ),
    }
}

/// A change that keeps most of a file, so that parsers get past the first field.
#[derive(Clone, Debug)]
enum Damage {
    Set(usize, u8),
    Number(usize, u64),
    Cut(usize),
    Insert(usize, Vec<u8>),
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let at = any::<usize>;
    let number = prop_oneof![
        Just(u64::MAX),
        Just(u64::MAX / 2),
        Just(1 << 31),
        Just((1 << 32) - 1),
        Just(0),
        any::<u64>()
    ];
    let damage = prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at(), number).prop_map(|(at, number)| Damage::Number(at, number)),
        at().prop_map(Damage::Cut),
        (at(), prop::collection::vec(any::<u8>(), 1..600))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
    ];
    prop::collection::vec(damage, 1..4)
}

fn damage(bytes: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for damage in damages {
        if bytes.is_empty() {
            break;
        }
        let len = bytes.len();
        match damage {
            Damage::Set(at, byte) => bytes[at % len] = *byte,
            Damage::Number(at, number) => {
                let at = at % len;
                let room = (len - at).min(8);
                bytes[at..at + room].copy_from_slice(&number.to_le_bytes()[..room]);
            }
            Damage::Cut(at) => bytes.truncate(at % len),
            Damage::Insert(at, new) => {
                let at = at % len;
                bytes.splice(at..at, new.iter().copied());
            }
        }
    }
    bytes
}

/// A golden file of `testing/golden/foreign`.
macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../testing/golden/foreign/",
            $name
        ))
        .as_slice()
    };
}
use golden;
