//! Data goes to standard output, everything else to standard error; a closed pipe ends quietly.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde::Serialize;
use serde_json::Value;
use staddle_base::Error;

/// Why a command stopped early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something failed; the kind gives the exit code.
    Error(Error),
    /// The reader of standard output went away, as `head` does: not an error.
    PipeClosed,
    /// The arguments make no sense together; exit code 2.
    Usage(String),
}

/// What every command returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::PipeClosed
        } else {
            Self::Error(Error::io("writing", "standard output", error))
        }
    }
}

/// The two streams of a command, and how the user wants them.
pub(crate) struct Output {
    stdout: BufWriter<Stdout>,
    json: bool,
    quiet: bool,
    terminal: bool,
    chatty: bool,
    color: bool,
}

impl Output {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        let chatty = io::stderr().is_terminal();
        Self {
            stdout: BufWriter::new(io::stdout()),
            json,
            quiet,
            terminal: io::stdout().is_terminal(),
            chatty,
            color: chatty && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// Whether the user asked for JSON.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Whether standard output is a terminal.
    pub(crate) fn terminal(&self) -> bool {
        self.terminal
    }

    /// Whether a progress bar may be drawn on standard error.
    pub(crate) fn may_draw(&self) -> bool {
        self.chatty && !self.quiet && !self.json
    }

    /// Whether standard error takes notes at all.
    pub(crate) fn quiet(&self) -> bool {
        self.quiet
    }

    /// The stream for data.
    pub(crate) fn data(&mut self) -> &mut impl Write {
        &mut self.stdout
    }

    /// One line of data.
    pub(crate) fn line(&mut self, text: impl Display) -> Outcome {
        writeln!(self.stdout, "{text}")?;
        Ok(())
    }

    /// One JSON document of data.
    pub(crate) fn document(&mut self, value: &impl Serialize) -> Outcome {
        let text = serde_json::to_string_pretty(value)
            .map_err(|e| Error::internal("the result cannot be written as JSON").source(e))?;
        self.line(text)
    }

    /// One line of JSON Lines.
    pub(crate) fn row(&mut self, value: &Value) -> Outcome {
        self.line(value)
    }

    /// A remark on standard error.
    #[expect(
        clippy::print_stderr,
        reason = "this is the one place where the command line talks to people"
    )]
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet && !self.json {
            eprintln!("{text}");
        }
    }

    /// Names a useful next command, where a person is watching.
    #[expect(
        clippy::print_stderr,
        reason = "this is the one place where the command line talks to people"
    )]
    pub(crate) fn next(&self, command: impl Display) {
        if self.may_draw() {
            let (dim, plain) = if self.color {
                ("\x1b[2m", "\x1b[0m")
            } else {
                ("", "")
            };
            eprintln!("{dim}next: {command}{plain}");
        }
    }

    /// Writes out what is buffered.
    pub(crate) fn flush(&mut self) -> Outcome {
        Ok(self.stdout.flush()?)
    }

    /// Says on standard error what failed, as text or as one JSON line, and returns the exit code.
    #[expect(
        clippy::print_stderr,
        reason = "this is the one place where the command line talks to people"
    )]
    pub(crate) fn fail(&mut self, failure: &Failure) -> i32 {
        match failure {
            Failure::PipeClosed => 0,
            Failure::Usage(text) => {
                if self.json {
                    eprintln!("{}", error_json(&Error::invalid(text.clone())));
                } else {
                    eprintln!("{} {text}", self.label());
                }
                2
            }
            Failure::Error(error) => {
                if self.json {
                    eprintln!("{}", error_json(error));
                } else {
                    eprintln!("{} {error}", self.label());
                }
                error.kind().exit_code()
            }
        }
    }

    fn label(&self) -> &'static str {
        if self.color {
            "\x1b[1;31merror:\x1b[0m"
        } else {
            "error:"
        }
    }
}

/// An error as scripts read it: `{"error", "kind", "message", "hint", …context}`; fields are only ever added.
pub(crate) fn error_json(error: &Error) -> Value {
    let mut map = serde_json::Map::new();
    map.insert("error".into(), error.to_string().into());
    map.insert("kind".into(), error.kind().name().into());
    map.insert("message".into(), error.message().into());
    map.insert("hint".into(), error.hint_text().into());
    for (key, value) in error.pairs() {
        map.entry(key).or_insert_with(|| value.into());
    }
    Value::Object(map)
}
