//! The README and the guides are tests: their Python blocks run, and their `staddle` transcripts are compared with what happens.
//!
//! Each page runs in an empty folder of its own, top to bottom, Python and commands in the order in which they stand there.
//! A `console` block is a transcript: lines after `$ ` are typed, the lines below are the expected output. `...` alone on a line
//! stands for any number of lines, `[..]` inside one for any characters. Commands other than `staddle` and `python` are not run:
//! `cargo x …` would call itself. Python in a comment that begins with
//! `<!-- runs first:` runs unseen: it makes the files that the page is about.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};

use crate::place::Place;
use crate::python::Venv;
use crate::stamp::files_below;
use crate::step::{Failure, Result};
use crate::tally::Tally;

/// Begins a comment whose Python runs and is not shown: it makes the files that the examples of the page are about.
const UNSEEN: &str = "<!-- runs first:";

/// One fenced block that runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Python(String),
    Console(Vec<Exchange>),
}

/// A command and what it is said to print.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) command: String,
    pub(crate) expected: Vec<String>,
}

/// Runs the pages and the example programs in the environment that holds the wheel.
pub(crate) fn run(place: &Place, venv: &Venv) -> Result<Tally> {
    let mut tally = Tally::default();
    for page in pages(place)? {
        let name = place.show(&page).to_string();
        let folder = scratch(place, &name)?;
        let mut session = Session::start(venv, &folder)?;
        for (line, block) in blocks(&std::fs::read_to_string(&page)?) {
            let played = match &block {
                Block::Python(code) => session.play(code).map(|()| 1),
                Block::Console(exchanges) => play_console(exchanges, venv, &folder),
            };
            match played {
                Ok(0) => {} // every command of the block is one that is not run
                Ok(_) => tally.passed += 1,
                Err(failure) => {
                    eprintln!("{name}:{line}: {failure}");
                    tally.fail(format!(
                        "{name}:{line}: {}",
                        failure.what.lines().next().unwrap_or_default()
                    ));
                }
            }
        }
    }
    let examples = place.root.join("examples/python");
    for program in if examples.exists() {
        files_below(&examples)?
    } else {
        Vec::new()
    } {
        if program.extension().is_none_or(|kind| kind != "py") {
            continue;
        }
        let name = place.show(&program).to_string();
        let folder = scratch(place, &name)?;
        match venv.command("python").arg(&program).dir(&folder).output() {
            Ok(_) => tally.passed += 1,
            Err(failure) => {
                eprintln!("{failure}");
                tally.fail(format!("{name}: example ended badly"));
            }
        }
    }
    Ok(tally)
}

fn pages(place: &Place) -> Result<Vec<PathBuf>> {
    let mut pages = vec![place.root.join("README.md")];
    let guide = place.root.join("docs/guide");
    if guide.exists() {
        pages.extend(
            files_below(&guide)?
                .into_iter()
                .filter(|page| page.extension().is_some_and(|kind| kind == "md")),
        );
    }
    pages.retain(|page| page.exists());
    Ok(pages)
}

/// An empty folder for one page.
fn scratch(place: &Place, name: &str) -> Result<PathBuf> {
    let folder = place
        .x
        .join("transcripts")
        .join(name.replace(['/', '.'], "-"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A Python process that runs one block after another, as a reader would type them: each sees the names of those before it.
struct Session {
    child: Child,
    answers: BufReader<ChildStdout>,
}

/// Reads one JSON string of code per line and answers each with one JSON string: empty, or the traceback. What the code prints
/// goes to stderr.
const SESSION: &str = "
import json, sys, traceback
answers, sys.stdout = sys.stdout, sys.stderr
names = {'__name__': '__main__'}
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), 'page', 'exec'), names)
        said = ''
    except BaseException:
        said = traceback.format_exc()
    print(json.dumps(said), file=answers, flush=True)
";

impl Session {
    fn start(venv: &Venv, folder: &Path) -> Result<Self> {
        let mut child = venv
            .command("python")
            .args(["-c", SESSION])
            .dir(folder)
            .conversation()?;
        let answers = child.stdout.take().map(BufReader::new);
        match answers {
            Some(answers) => Ok(Self { child, answers }),
            None => Err(Failure::new("a Python process without output")),
        }
    }

    fn play(&mut self, code: &str) -> Result {
        let dead = || Failure::new("Python ended in the middle of a page");
        let stdin = self.child.stdin.as_mut().ok_or_else(dead)?;
        writeln!(stdin, "{}", serde_json::Value::from(code)).map_err(|_| dead())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let traceback = serde_json::from_str::<String>(&answer).map_err(|_| dead())?;
        if traceback.is_empty() {
            return Ok(());
        }
        let last = traceback
            .trim_end()
            .lines()
            .last()
            .unwrap_or("failed")
            .to_owned();
        Err(Failure::new(format!("{last}\n{traceback}")))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.child.stdin.take()); // end of input ends the loop
        let _ = self.child.wait();
    }
}

/// Types the commands of a transcript and compares. Returns how many it ran.
fn play_console(exchanges: &[Exchange], venv: &Venv, folder: &Path) -> Result<usize> {
    let mut ran = 0;
    for exchange in exchanges {
        if !["staddle ", "python "]
            .iter()
            .any(|start| exchange.command.starts_with(start))
        {
            continue;
        }
        ran += 1;
        let heard = crate::python::activate(crate::cmd::Cmd::new("sh"), &venv.dir)
            .args(["-c", &exchange.command])
            .env("NO_COLOR", "1")
            .env("COLUMNS", "120")
            .dir(folder)
            .output()?;
        let said: Vec<&str> = heard.lines().map(str::trim_end).collect();
        if !exchange.expected.is_empty() && !matches(&exchange.expected, &said) {
            return Err(Failure::new(format!(
                "`{}` printed something else\n--- the page says\n{}\n--- it printed\n{heard}",
                exchange.command,
                exchange.expected.join("\n")
            )));
        }
    }
    Ok(ran)
}

/// The blocks of a page that run, each with the line where it starts.
pub(crate) fn blocks(page: &str) -> Vec<(usize, Block)> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line == UNSEEN {
            let body = body_until(&mut lines, "-->");
            found.push((number + 1, Block::Python(body.join("\n") + "\n")));
            continue;
        }
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let body = body_until(&mut lines, "```");
        match language.trim() {
            "python" => found.push((number + 1, Block::Python(body.join("\n") + "\n"))),
            "console" => found.push((number + 1, Block::Console(exchanges(&body)))),
            _ => {}
        }
    }
    found
}

/// The lines up to an end mark, which is consumed.
fn body_until<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>, end: &str) -> Vec<&'a str> {
    lines
        .map(|(_, line)| line)
        .take_while(|line| *line != end)
        .collect()
}

fn exchanges(lines: &[&str]) -> Vec<Exchange> {
    let mut found: Vec<Exchange> = Vec::new();
    for line in lines {
        if let Some(command) = line.strip_prefix("$ ") {
            found.push(Exchange {
                command: command.to_owned(),
                expected: Vec::new(),
            });
        } else if let Some(last) = found.last_mut() {
            last.expected.push(line.trim_end().to_owned());
        }
    }
    found
}

/// Whether the output is what the page says, with `...` for any lines and `[..]` for any characters.
fn matches(expected: &[String], said: &[&str]) -> bool {
    match (expected.split_first(), said.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((wild, rest)), _) if wild == "..." => {
            (0..=said.len()).any(|skip| matches(rest, &said[skip..]))
        }
        (Some(_), None) => false,
        (Some((line, rest)), Some((found, others))) => {
            line_matches(line, found) && matches(rest, others)
        }
    }
}

fn line_matches(expected: &str, said: &str) -> bool {
    let mut pieces = expected.split("[..]");
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = said.strip_prefix(first) else {
        return false;
    };
    let mut wild = false;
    for piece in pieces {
        wild = true;
        match rest.find(piece) {
            Some(at) if !piece.is_empty() => rest = &rest[at + piece.len()..],
            Some(_) => {
                rest = "";
            }
            None => return false,
        }
    }
    if wild && !expected.ends_with("[..]") {
        let last = expected.rsplit("[..]").next().unwrap_or_default();
        return said.ends_with(last);
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests;
