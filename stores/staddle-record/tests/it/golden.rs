//! Golden files: every format version stays readable, and the current writer's bytes change only on purpose.
//!
//! `testing/golden/record/vN/SET/` holds the files of small sets as format N was written. Today's writer must make the
//! bytes of the newest version again (fixed seed, clock and uuid; `UPDATE=1` writes them anew), and today's reader must
//! read all of them. `docs/format/record.md` quotes some of these bytes; they are compared here too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use staddle_base::Seed;
use staddle_record::{CodecChoice, DumpOptions, OpenOptions, Options, Records};
use staddle_runtime::io::device::{Device, LocalDevice};
use staddle_sim::SimDisk;

use crate::common::{contents, same, still};

const UUID: [u8; 16] = *b"golden record v1";
const NEWEST: &str = "v1";

type Rows = Vec<Option<Vec<u8>>>;

/// A snapshot: its name, and what it holds.
type Kept = (&'static str, fn() -> Rows);

/// A small set: how it is made, and what it holds then.
struct Golden {
    name: &'static str,
    options: fn() -> Options,
    make: fn(&Records),
    rows: fn() -> Rows,
    /// What its snapshot holds.
    snapshot: Option<Kept>,
}

const SETS: &[Golden] = &[
    Golden {
        name: "example",
        options: small,
        make: |set| {
            set.extend(&["hello", "", "two words"]).unwrap();
            set.flush().unwrap();
            set.update(1, b"not empty").unwrap();
        },
        rows: || vec![row("hello"), row("not empty"), row("two words")],
        snapshot: None,
    },
    Golden {
        name: "edits",
        options: || Options {
            chunk_records: Some(4),
            align: 64,
            writers: 2,
            user: BTreeMap::from([("purpose".into(), "golden".into())]),
            ..small()
        },
        make: edits,
        rows: || {
            vec![
                row("h"),
                row("b, changed"),
                None,
                row("d"),
                Some((0..=255).collect()),
                row("appended"),
                row("last"),
            ]
        },
        snapshot: Some(("before", || {
            "abcdefgh".chars().map(|c| row(&c.to_string())).collect()
        })),
    },
    Golden {
        name: "lz4",
        options: || compressed(CodecChoice::Lz4),
        make: |set| {
            set.extend(&texts()).unwrap();
        },
        rows: || texts().into_iter().map(Some).collect(),
        snapshot: None,
    },
    Golden {
        name: "deflate",
        options: || compressed(CodecChoice::Deflate),
        make: |set| {
            set.extend(&texts()).unwrap();
        },
        rows: || texts().into_iter().map(Some).collect(),
        snapshot: None,
    },
    Golden {
        name: "dictionary",
        options: || Options {
            dictionary: true,
            ..compressed(CodecChoice::Zstd)
        },
        make: |set| {
            set.extend(&lines()).unwrap();
            set.flush().unwrap();
            set.update(3, &lines()[4]).unwrap();
        },
        rows: || {
            let mut rows = lines();
            rows[3] = rows[4].clone();
            rows.into_iter().map(Some).collect()
        },
        snapshot: None,
    },
];

fn row(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

fn small() -> Options {
    Options {
        chunk_bytes: 1 << 16,
        ..Options::default()
    }
}

fn compressed(codec: CodecChoice) -> Options {
    Options {
        codec,
        level: 9,
        ..small()
    }
}

/// Records that get much smaller, and some that do not.
fn texts() -> Vec<Vec<u8>> {
    vec![
        b"over and over ".repeat(20),
        Vec::new(),
        vec![0x5a],
        (0..=255).collect(),
        vec![0; 300],
    ]
}

/// Records that are alike, and two that no codec makes smaller.
fn lines() -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = (0..96)
        .map(|i| format!("{{\"id\":{i},\"kind\":\"golden\",\"even\":{}}}", i % 2 == 0).into_bytes())
        .collect();
    lines[40] = Vec::new();
    lines[41] = vec![0x5a];
    lines
}

fn edits(set: &Records) {
    set.extend(&["a", "b", "c", "d", "e", "f", "g", "h"])
        .unwrap();
    set.snapshot("before").unwrap();
    set.update(1, b"b, changed").unwrap();
    set.tombstone(2).unwrap();
    set.delete(0).unwrap();
    set.flush().unwrap();
    set.delete(6).unwrap();
    set.checkpoint().unwrap();
    set.append(b"appended").unwrap();
    set.update(4, &(0..=255).collect::<Vec<u8>>()).unwrap();
    set.flush().unwrap();
    set.delete(5).unwrap();
    set.append(b"last").unwrap();
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/golden/record")
}

/// What the writer of today makes: every file but the lock, which holds the process id.
fn made(golden: &Golden) -> BTreeMap<String, Vec<u8>> {
    let disk = SimDisk::new(Seed(1));
    let device: Arc<dyn Device> = Arc::new(disk.clone());
    let set = Records::create_as(&still(1), device, (golden.options)(), UUID).unwrap();
    (golden.make)(&set);
    set.close().unwrap();
    disk.files()
        .into_iter()
        .filter(|(path, _)| path != "LOCK")
        .map(|(path, _)| (path.clone(), disk.read(&path).unwrap()))
        .collect()
}

/// The files below a folder, by path.
fn committed(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                out.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    out
}

#[test]
fn the_writer_makes_the_same_bytes() {
    for golden in SETS {
        let root = folder().join(NEWEST).join(golden.name);
        let now = made(golden);
        if std::env::var_os("UPDATE").is_some() {
            let _ = std::fs::remove_dir_all(&root);
            for (path, bytes) in &now {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, bytes).unwrap();
            }
        }
        let then = committed(&root);
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            names(&now),
            names(&then),
            "{}: which files there are",
            golden.name
        );
        for (path, bytes) in &now {
            let at = bytes.iter().zip(&then[path]).position(|(a, b)| a != b);
            let same = at.is_none() && bytes.len() == then[path].len();
            assert!(
                same,
                "{}/{path} differs at byte {at:?}, {} and {} bytes; if the format changed on purpose, it needs a new version",
                golden.name,
                bytes.len(),
                then[path].len()
            );
        }
    }
}

#[test]
fn the_reader_reads_every_version() {
    let mut versions: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    versions.sort();
    assert!(versions.iter().any(|path| path.ends_with(NEWEST)));
    for version in versions {
        for golden in SETS {
            read(&version.join(golden.name), golden);
        }
    }
}

/// A set with the committed files, in a folder of its own.
fn unpack(root: &Path) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let home = place.path().join("set.rec");
    for (path, bytes) in committed(root) {
        let path = home.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    (place, home)
}

fn read(root: &Path, golden: &Golden) {
    let (_place, home) = unpack(root);
    let runtime = still(2);
    let device: Arc<dyn Device> = Arc::new(LocalDevice::new(&home).unwrap());
    let open = |how| Records::open(&runtime, Arc::clone(&device), how).unwrap();
    let set = open(OpenOptions::default());
    let mut rows = (golden.rows)();
    same(&contents(&set), &rows);
    assert_eq!(set.verify(|_, _| ()).unwrap().bad, []);
    if let Some((name, rows)) = golden.snapshot {
        let past = open(OpenOptions {
            snapshot: Some(name.into()),
            ..OpenOptions::default()
        });
        same(&contents(&past), &rows());
    }
    // And today's writer goes on with it.
    set.append(b"today").unwrap();
    set.update(0, b"changed today").unwrap();
    set.checkpoint().unwrap();
    set.rebalance(false).unwrap();
    set.close().unwrap();
    rows.push(row("today"));
    rows[0] = row("changed today");
    same(&contents(&open(OpenOptions::default())), &rows);
}

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format/record.md");
    std::fs::read_to_string(page).unwrap()
}

/// The lines of each block of the format page that begins with ```` ```KIND ```` and something more.
fn blocks<'a>(page: &'a str, kind: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let fence = line
            .strip_prefix("```")
            .and_then(|rest| rest.strip_prefix(kind));
        if let Some(subject) = fence.map(str::trim).filter(|subject| !subject.is_empty()) {
            let block = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((subject, block));
        }
    }
    blocks
}

/// Blocks ```` ```hex SET/PATH ```` quote golden bytes, sixteen a line, with words after three blanks.
#[test]
fn the_format_page_quotes_these_bytes() {
    let mut quoted = 0;
    for (path, lines) in blocks(&page(), "hex") {
        let bytes = std::fs::read(folder().join(NEWEST).join(path)).unwrap();
        for line in lines {
            let (at, rest) = line.split_once("  ").unwrap();
            let at: usize = at.parse().unwrap();
            let digits = rest.split("   ").next().unwrap();
            let wanted: Vec<u8> = digits
                .split_whitespace()
                .map(|pair| u8::from_str_radix(pair, 16).unwrap())
                .collect();
            assert!(!wanted.is_empty(), "{line}");
            assert_eq!(&bytes[at..at + wanted.len()], wanted, "{line}");
            quoted += wanted.len();
        }
    }
    assert!(quoted > 300, "the page quotes only {quoted} bytes");
}

/// The block ```` ```text dump SET ```` holds lines of that set's dump, in order.
#[test]
fn the_format_page_quotes_this_dump() {
    let page = page();
    let dumps = blocks(&page, "text dump");
    assert!(!dumps.is_empty());
    for (name, lines) in dumps {
        let (_place, home) = unpack(&folder().join(NEWEST).join(name));
        let device: Arc<dyn Device> = Arc::new(LocalDevice::new(&home).unwrap());
        let set = Records::open(&still(3), device, OpenOptions::default()).unwrap();
        let mut text = Vec::new();
        let what = DumpOptions {
            frames: true,
            entries: true,
            bytes: 32,
            ..DumpOptions::default()
        };
        set.dump(&mut text, what).unwrap();
        let text = String::from_utf8(text).unwrap();
        let mut printed = text.lines();
        for line in lines {
            assert!(
                printed.any(|found| found == line),
                "the dump of {name} has no line, after those before it: {line}\n{text}"
            );
        }
    }
}
