//! Scripts: what a set does and what then lies on disk, as text that a change of format shows up in.
//!
//! A file under `testscripts/` holds blocks: commands, `---`, and what they print. `UPDATE=1` writes what they print now.
//! Everything is fixed (a simulated disk, a clock that stands still, one seed, one uuid), so two runs print the same.
//!
//! ```text
//! append hello "two words" x*3
//! dump frames bytes=16
//! ---
//! 0..3
//! …
//! ```
//!
//! Words are split at blanks; quotes keep them together, `\n`, `\\`, `\"` and `\xNN` are escapes, and `word*N` is the word N
//! times. `name=value` are options of the command.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use staddle_base::{Result, Seed};
use staddle_record::{
    CodecChoice, DumpOptions, Durability, Loader, LoaderOptions, LoaderState, OpenOptions, Options,
    Records, Shuffle, Uneven,
};
use staddle_runtime::Runtime;
use staddle_runtime::io::device::Device;
use staddle_sim::SimDisk;

use crate::common::still;

const UUID: [u8; 16] = *b"script test uuid";

/// A command: its name, words, and options.
struct Command {
    name: String,
    words: Vec<Vec<u8>>,
    options: BTreeMap<String, String>,
}

impl Command {
    fn parse(line: &str) -> Self {
        let mut words = split(line);
        let name = String::from_utf8(words.remove(0).0).unwrap();
        let mut command = Self {
            name,
            words: Vec::new(),
            options: BTreeMap::new(),
        };
        for (word, quoted) in words {
            let text = String::from_utf8_lossy(&word).into_owned();
            match text.split_once('=') {
                Some((key, value)) if !quoted => {
                    command.options.insert(key.to_owned(), value.to_owned());
                }
                _ => command.words.push(word),
            }
        }
        command
    }

    fn numbers(&self) -> Vec<u64> {
        self.words
            .iter()
            .map(|word| std::str::from_utf8(word).unwrap().parse().unwrap())
            .collect()
    }

    fn text(&self, at: usize) -> &str {
        std::str::from_utf8(&self.words[at]).unwrap()
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word.as_bytes())
    }

    fn get<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        let value = self.options.get(key)?;
        match value.parse() {
            Ok(value) => Some(value),
            Err(_) => panic!("{key}={value} is not what it should be"),
        }
    }
}

/// Words of a line, and whether each was quoted.
fn split(line: &str) -> Vec<(Vec<u8>, bool)> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let quoted = rest.starts_with('"');
        let (mut word, after) = if quoted {
            unquote(&rest[1..])
        } else {
            let end = rest
                .find(|char: char| char.is_whitespace() || char == '*')
                .unwrap_or(rest.len());
            (rest.as_bytes()[..end].to_vec(), &rest[end..])
        };
        rest = after;
        if let Some(times) = rest.strip_prefix('*') {
            let end = times.find(char::is_whitespace).unwrap_or(times.len());
            word = word.repeat(times[..end].parse().unwrap());
            rest = &times[end..];
        }
        words.push((word, quoted));
        rest = rest.trim_start();
    }
    words
}

/// A quoted word, and what follows it.
fn unquote(text: &str) -> (Vec<u8>, &str) {
    let mut out = Vec::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (out, &text[at + 1..]),
            '\\' => match chars.next().unwrap().1 {
                'n' => out.push(b'\n'),
                'x' => {
                    let digits: String = [chars.next().unwrap().1, chars.next().unwrap().1]
                        .iter()
                        .collect();
                    out.push(u8::from_str_radix(&digits, 16).unwrap());
                }
                other => out.extend(other.to_string().bytes()),
            },
            other => out.extend(other.to_string().bytes()),
        }
    }
    panic!("a quote is not closed: {text}");
}

/// What a script works on.
struct Stage {
    runtime: Runtime,
    disk: SimDisk,
    device: Arc<dyn Device>,
    set: Option<Records>,
    loader: Option<Loader>,
    states: BTreeMap<String, LoaderState>,
}

impl Stage {
    fn new() -> Self {
        let disk = SimDisk::new(Seed(1));
        Self {
            runtime: still(1),
            device: Arc::new(disk.clone()),
            disk,
            set: None,
            loader: None,
            states: BTreeMap::new(),
        }
    }

    fn set(&self) -> &Records {
        self.set.as_ref().expect("no set is open")
    }

    fn run(&mut self, command: &Command) -> String {
        let mut out = String::new();
        if let Err(e) = self.act(command, &mut out) {
            let _ = writeln!(out, "{}: {e}", e.kind().name());
        }
        out
    }

    fn act(&mut self, command: &Command, out: &mut String) -> Result<()> {
        match command.name.as_str() {
            "create" => {
                self.set = None;
                let options = options(command)?;
                let device = Arc::clone(&self.device);
                self.set = Some(Records::create_as(&self.runtime, device, options, UUID)?);
            }
            "open" => {
                // Whatever was open is gone as if the process had been killed.
                self.loader = None;
                self.set = None;
                let how = OpenOptions {
                    snapshot: command.get("snapshot"),
                    generation: command.get("generation"),
                    read_only: command.has("read-only"),
                    ..OpenOptions::default()
                };
                let device = Arc::clone(&self.device);
                self.set = Some(Records::open(&self.runtime, device, how)?);
            }
            "repair" => {
                self.set = None;
                let report = staddle_record::repair(&self.runtime, Arc::clone(&self.device))?;
                let _ = writeln!(
                    out,
                    "{} chunks, {} frames, {} records, {} live",
                    report.chunks, report.frames, report.records, report.live
                );
                for warning in report.warnings {
                    let _ = writeln!(out, "warning: {warning}");
                }
            }
            "append" => {
                let range = self.set().extend(&command.words)?;
                let _ = writeln!(out, "{range:?}");
            }
            "update" => {
                let index = command.text(0).parse().unwrap();
                self.set().update(index, &command.words[1])?;
            }
            "delete" => {
                let moved = self.set().delete_many(&command.numbers())?;
                let _ = writeln!(out, "moved {moved:?}");
            }
            "tombstone" => {
                for index in command.numbers() {
                    self.set().tombstone(index)?;
                }
            }
            "get" => {
                let batch = self.set().gather(&command.numbers())?;
                for (index, record) in command.numbers().into_iter().zip(batch.iter()) {
                    show(out, index, record);
                }
            }
            "all" => {
                let all: Vec<u64> = (0..self.set().len()?).collect();
                let batch = self.set().gather(&all)?;
                for (index, record) in all.into_iter().zip(batch.iter()) {
                    show(out, index, record);
                }
            }
            "flush" => self.set().flush()?,
            "close" => self.set().close()?,
            "checkpoint" => self.set().checkpoint()?,
            "compact" | "rebalance" => {
                let report = if command.name == "compact" {
                    self.set().compact(command.has("dry-run"))?
                } else {
                    self.set().rebalance(command.has("dry-run"))?
                };
                let _ = writeln!(
                    out,
                    "{} of {} chunks, {} records, {} bytes, then {}",
                    report.chunks,
                    report.chunks_total,
                    report.records,
                    report.bytes_before,
                    report.bytes_after
                );
            }
            "snapshot" => self.set().snapshot(command.text(0))?,
            "drop" => self.set().drop_snapshot(command.text(0))?,
            "verify" => {
                let report = self.set().verify(|_, _| ())?;
                let _ = writeln!(out, "{} records, {} bytes", report.records, report.bytes);
                let number = |at: Option<u64>| at.map_or("-".into(), |at| at.to_string());
                for bad in report.bad {
                    let (index, chunk) = (number(bad.index), number(bad.chunk.map(u64::from)));
                    let offset = number(bad.offset);
                    let _ = writeln!(
                        out,
                        "damaged: index {index}, chunk {chunk}, offset {offset}: {}",
                        bad.what
                    );
                }
            }
            "dump" => {
                let mut text = Vec::new();
                let what = DumpOptions {
                    frames: command.has("frames"),
                    entries: command.has("entries"),
                    range: command
                        .get("from")
                        .map(|from| from..command.get("to").unwrap()),
                    bytes: command.get("bytes").unwrap_or(0),
                };
                self.set().dump(&mut text, what)?;
                out.push_str(std::str::from_utf8(&text).unwrap());
            }
            "stats" => pretty(out, &self.set().stats()?),
            "info" => {
                let mut info = serde_json::to_value(self.set().info()?).unwrap();
                let map = info.as_object_mut().unwrap();
                // The kernel and the process that run the test.
                map.remove("engine");
                map.remove("engine_why");
                if let Some(writer) = map.get_mut("writer").filter(|writer| writer.is_string()) {
                    *writer = "somebody".into();
                }
                pretty(out, &info);
            }
            "files" => {
                for (path, len) in self.disk.files() {
                    let _ = writeln!(out, "{path} {len}");
                }
            }
            "hex" => hex(out, &self.disk.read(command.text(0)).unwrap(), command),
            "flip" => assert!(self.disk.flip_bit(
                command.text(0),
                8 * command.get::<u64>("byte").unwrap() + command.get::<u64>("bit").unwrap_or(0)
            )),
            "truncate" => {
                assert!(
                    self.disk
                        .truncate(command.text(0), command.get("to").unwrap())
                );
            }
            "remove" => self.device.remove(command.text(0))?,
            _ => self.load(command, out)?,
        }
        Ok(())
    }

    /// Commands of the loader.
    fn load(&mut self, command: &Command, out: &mut String) -> Result<()> {
        match command.name.as_str() {
            "loader" => {
                let options = LoaderOptions {
                    batch_size: command.get("batch_size").unwrap_or(4),
                    shuffle: match command.options.get("shuffle").map(String::as_str) {
                        None => Shuffle::None,
                        Some("global") => Shuffle::Global,
                        Some("block") => Shuffle::Block {
                            block_rows: 2,
                            window_blocks: 2,
                        },
                        Some(other) => panic!("no shuffle is called {other}"),
                    },
                    seed: command.get("seed").unwrap_or(0),
                    rank: command.get("rank").unwrap_or(0),
                    world_size: command.get("world_size").unwrap_or(1),
                    uneven: match command.options.get("uneven") {
                        Some(name) => Uneven::parse(name)?,
                        None => Uneven::Wrap,
                    },
                    drop_last: command.has("drop_last"),
                    snapshot: command.get("snapshot"),
                    ..LoaderOptions::default()
                };
                self.loader = Some(self.set().loader(options)?);
            }
            "walk" => {
                let steps = command.get("steps").unwrap_or(usize::MAX);
                for step in self.loader.as_ref().unwrap().iter()?.take(steps) {
                    let step = step?;
                    let rows: Vec<String> = (0..step.rows.len())
                        .map(|at| shown(step.rows.get(at)))
                        .collect();
                    let _ = writeln!(
                        out,
                        "epoch {}, {} consumed, {} valid: {}",
                        step.epoch,
                        step.consumed,
                        step.valid,
                        rows.join(" ")
                    );
                }
            }
            "save" => {
                let state = self.loader.as_ref().unwrap().state()?;
                let text = serde_json::to_string(&state).unwrap();
                let _ = writeln!(out, "{text}");
                self.states.insert(command.text(0).to_owned(), state);
            }
            "load" => {
                let state = &self.states[command.text(0)];
                let loader = self.loader.as_ref().unwrap();
                loader.load_state(state, !command.has("regardless"))?;
            }
            other => panic!("no command is called {other}"),
        }
        Ok(())
    }
}

fn options(command: &Command) -> Result<Options> {
    let defaults = Options::default();
    let named = |key: &str| command.options.get(key).map(String::as_str);
    Ok(Options {
        codec: CodecChoice::parse(named("codec").unwrap_or("none"))?,
        level: command.get("level").unwrap_or(defaults.level),
        dictionary: command.has("dictionary"),
        chunk_bytes: command.get("chunk_bytes").unwrap_or(1 << 16),
        chunk_records: command.get("chunk_records"),
        align: command.get("align").unwrap_or(defaults.align),
        writers: command.get("writers").unwrap_or(defaults.writers),
        durability: Durability::parse(named("durability").unwrap_or("flush"))?,
        ..defaults
    })
}

fn shown(record: Option<&[u8]>) -> String {
    match record {
        None => "hole".to_owned(),
        Some(bytes) if bytes.len() > 40 => {
            format!("\"{}\"… {} bytes", bytes[..20].escape_ascii(), bytes.len())
        }
        Some(bytes) => format!("\"{}\"", bytes.escape_ascii()),
    }
}

fn show(out: &mut String, index: u64, record: Option<&[u8]>) {
    let _ = writeln!(out, "{index}: {}", shown(record));
}

fn pretty(out: &mut String, value: &impl serde::Serialize) {
    let _ = writeln!(out, "{}", serde_json::to_string_pretty(value).unwrap());
}

fn hex(out: &mut String, bytes: &[u8], command: &Command) {
    let from = command.get("from").unwrap_or(0usize).min(bytes.len());
    let to = command.get("to").unwrap_or(bytes.len()).min(bytes.len());
    for (row, line) in (0..).zip(bytes[from..to].chunks(16)) {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(out, "{:06}  {}", from + 16 * row, digits.join(" "));
    }
}

/// Runs a script and returns it with what its commands print now.
fn replay(script: &str) -> String {
    let mut stage = Stage::new();
    let mut out = String::new();
    let mut printed = String::new();
    let mut in_output = false;
    for line in script.lines() {
        let blank = line.trim().is_empty();
        if in_output {
            // The old output is passed over.
            if blank {
                in_output = false;
                out.push('\n');
            }
        } else if line == "---" {
            out.push_str("---\n");
            out.push_str(if printed.is_empty() { "ok\n" } else { &printed });
            printed.clear();
            in_output = true;
        } else {
            let _ = writeln!(out, "{line}");
            if !blank && !line.starts_with('#') {
                printed.push_str(&stage.run(&Command::parse(line)));
            }
        }
    }
    assert!(printed.is_empty(), "a script ends without `---`");
    out
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts")
}

fn check(name: &str) {
    let path = folder().join(name);
    let script = std::fs::read_to_string(&path).unwrap();
    let now = replay(&script);
    assert_eq!(now, replay(&script), "two runs of {name} differ");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, now).unwrap();
        return;
    }
    for (number, (wanted, found)) in script.lines().zip(now.lines()).enumerate() {
        assert_eq!(
            found,
            wanted,
            "{name}:{}: run with UPDATE=1 to accept",
            number + 1
        );
    }
    assert_eq!(
        now.lines().count(),
        script.lines().count(),
        "{name}: run with UPDATE=1 to accept"
    );
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn every_script_is_run() {
            let mut found: Vec<String> = std::fs::read_dir(folder())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            found.sort();
            let mut known = [$(stringify!($name)),*];
            known.sort();
            assert_eq!(found, known);
        }
    };
}

scripts! {
    alignment,
    append,
    checkpoint,
    codecs,
    compact,
    crash,
    damage,
    dictionary,
    lanes,
    loader,
    rebalance,
    repair,
    seal,
    snapshot,
    stats,
    swap_delete,
    tombstone,
    update_redirects,
}
