//! The manifest of a record set.
//!
//! Strategy: mutate the JSON of real manifests; repair the checksum line.
//! Invariants: what decodes encodes to something that decodes to the same, and the page for people can be written.

use staddle_base::ErrorKind;
use staddle_record::Options;
use staddle_record::manifest::{DictionaryInfo, External, Manifest, SealedChunk, SegmentInfo};

use super::{head, repair};
use crate::target::{Signal, Target};

pub(super) const TARGET: Target = Target {
    name: "manifest",
    run,
    seeds,
    fix: Some(repair::json_line),
    words: &[
        b"\"segments\": [",
        b"\"sealed\": [",
        b"\"external\": {",
        b"\"codec\": \"zstd\"",
        b"18446744073709551615",
        b"-1",
        b"1e400",
        b"null",
        b"true",
        b"[[[[",
        b"\"../x\"",
        b"\\u0000",
        b"\\ud800",
        b"crc32c:00000000\n",
    ],
};

fn run(input: &[u8]) -> Signal {
    match Manifest::decode(input) {
        Ok(manifest) => {
            let again = manifest.encode().and_then(|bytes| Manifest::decode(&bytes));
            assert_eq!(again.as_ref().ok(), Some(&manifest));
            let people = manifest.for_people(&head::sample(5, 2));
            assert!(people.is_ok());
            Signal::of(&[
                1,
                manifest.segments.len() as u64,
                manifest.sealed.len() as u64,
                manifest.dictionaries.len() as u64,
            ])
        }
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
                "{error:?}"
            );
            Signal::error(&error)
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let empty = Manifest::new(&[7; 16], Options::default());
    let mut full = empty.clone();
    full.segments = (0..3)
        .map(|no| SegmentInfo {
            no,
            version: no + 1,
            summed: 1 << 20,
            sum: 0x1234,
        })
        .collect();
    full.next_version = 4;
    full.sealed = (0..4)
        .map(|id| SealedChunk {
            id,
            bytes: 1 << 20,
            records: 100,
            digest: u64::MAX,
            external: None,
        })
        .collect();
    if let Some(last) = full.sealed.last_mut() {
        last.external = Some(External {
            uri: "shard-0.tar".into(),
            kind: "tar".into(),
            size: 1 << 20,
            mtime_ns: 1,
            etag: Some("e".into()),
            xxh3: None,
        });
    }
    full.next_chunk = 4;
    full.dictionaries = vec![DictionaryInfo {
        slot: 1,
        bytes: 100,
        xxh3: 5,
    }];
    full.dictionary_in_use = 1;
    full.options.user.insert("made by".into(), "a test".into());
    [empty, full]
        .iter()
        .filter_map(|manifest| manifest.encode().ok())
        .collect()
}
