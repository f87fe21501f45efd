//! What the adopters' targets share: scanning one file through several windows.

use staddle_base::ErrorKind;
use staddle_record::adopt::window::Reach;
use staddle_record::adopt::{Adopter, Item, Window};

use crate::target::Signal;

/// Windows of every temper must see the same file.
const REACHES: [Reach; 3] = [
    Reach::LOCAL,
    Reach { min: 1, max: 7 },
    Reach { min: 512, max: 512 },
];

/// Scans `input`; every record must lie below `bound`.
pub(super) fn check(adopter: &dyn Adopter, input: &[u8], bound: u64) -> Signal {
    let source = input.to_vec();
    let mut answers = REACHES.iter().map(|reach| {
        let mut names = 0_u64;
        let mut count = 0_u64;
        let mut found = |item: Item<'_>| {
            let end = item.offset.checked_add(item.len);
            assert!(
                end.is_some_and(|end| end <= bound),
                "{item:?} of {bound} bytes"
            );
            assert!(item.name.len() as u64 <= bound);
            names += item.name.len() as u64;
            count += 1;
            Ok(())
        };
        match adopter.scan(&mut Window::new(&source, *reach), &mut found) {
            Ok(scanned) => {
                assert_eq!(scanned.items, count);
                Signal::of(&[
                    1,
                    count,
                    names,
                    scanned.skipped,
                    u64::from(scanned.unterminated),
                ])
            }
            Err(error) => {
                let kinds = [
                    ErrorKind::Corrupt,
                    ErrorKind::Unsupported,
                    ErrorKind::Exhausted,
                ];
                assert!(kinds.contains(&error.kind()), "{error:?}");
                Signal::error(&error)
            }
        }
    });
    let first = answers.next().unwrap_or_else(|| Signal::of(&[0]));
    assert!(
        answers.all(|answer| answer == first),
        "windows of different sizes see different files"
    );
    first
}
