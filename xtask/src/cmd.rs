//! Running other programs: aloud (their output is ours), quietly (shown only when they fail, with a sign of life), or listened to.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::step::{Failure, Result, seconds};

/// How often a quiet command says that it is still running.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A command line under construction.
pub(crate) struct Cmd {
    program: OsString,
    args: Vec<OsString>,
    inner: Command,
}

impl Cmd {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref().to_os_string();
        Self {
            inner: Command::new(&program),
            program,
            args: Vec::new(),
        }
    }

    /// The cargo that runs us.
    pub(crate) fn cargo() -> Self {
        Self::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_os_string());
        self.inner.arg(arg);
        self
    }

    pub(crate) fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Self {
        for arg in args {
            self = self.arg(arg);
        }
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.inner.env(name, value);
        self
    }

    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.inner.env_remove(name);
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.inner.current_dir(dir);
        self
    }

    /// The command as a person would type it.
    pub(crate) fn shown(&self) -> String {
        let program = Path::new(&self.program)
            .file_name()
            .unwrap_or(&self.program);
        let mut words = vec![program.to_string_lossy().into_owned()];
        words.extend(
            self.args
                .iter()
                .take(12)
                .map(|arg| arg.to_string_lossy().into_owned()),
        );
        if self.args.len() > 12 {
            words.push("…".into());
        }
        words.join(" ")
    }

    fn start_failed(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!("cannot start `{}`: {error}", self.shown()))
    }

    fn ended_badly(&self, status: std::process::ExitStatus) -> Failure {
        Failure::new(format!("`{}` ended with {status}", self.shown()))
    }

    /// Runs with our own input and output.
    pub(crate) fn run(mut self) -> Result {
        let status = self
            .inner
            .status()
            .map_err(|error| self.start_failed(&error))?;
        if status.success() {
            Ok(())
        } else {
            Err(self.ended_badly(status))
        }
    }

    /// Runs with our own input and output and returns the exit code, for commands whose code is an answer.
    pub(crate) fn code(mut self) -> Result<i32> {
        let status = self
            .inner
            .status()
            .map_err(|error| self.start_failed(&error))?;
        status.code().ok_or_else(|| self.ended_badly(status))
    }

    /// Runs and returns stdout; the failure quotes everything that was said.
    pub(crate) fn output(mut self) -> Result<String> {
        let output = self
            .inner
            .stdin(Stdio::null())
            .output()
            .map_err(|error| self.start_failed(&error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let mut failure = self.ended_badly(output.status);
        for said in [&output.stdout, &output.stderr] {
            failure.what.push('\n');
            failure.what.push_str(String::from_utf8_lossy(said).trim());
        }
        Err(failure)
    }

    /// Whether the command exists and succeeds; its output is dropped.
    pub(crate) fn succeeds(mut self) -> bool {
        let status = self
            .inner
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    }

    /// Runs without output, prints a sign of life every ten seconds, and shows everything if the command fails.
    pub(crate) fn quietly(self, doing: &str) -> Result {
        let start = Instant::now();
        let listened = self.listen_with(
            |_| {},
            || {
                eprintln!("   … still {doing} ({})", seconds(start.elapsed()));
            },
        )?;
        if listened.success {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{doing} failed: `{}`\n{}",
            listened.shown,
            listened.text.trim_end()
        )))
    }

    /// Runs, passes its output on line by line as it comes, and returns it as well.
    pub(crate) fn listen(self) -> Result<Listened> {
        self.listen_with(
            |line| {
                let mut out = std::io::stderr().lock();
                let _ = writeln!(out, "{line}"); // a closed stderr must not stop the tests
            },
            || {},
        )
    }

    fn listen_with(
        mut self,
        mut on_line: impl FnMut(&str),
        mut on_silence: impl FnMut(),
    ) -> Result<Listened> {
        self.inner
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = self
            .inner
            .spawn()
            .map_err(|error| self.start_failed(&error))?;
        let (sender, lines) = mpsc::channel::<String>();
        pass_lines(child.stdout.take(), sender.clone());
        pass_lines(child.stderr.take(), sender);
        let mut text = String::new();
        let mut last = Instant::now();
        loop {
            let wait = HEARTBEAT.saturating_sub(last.elapsed());
            match lines.recv_timeout(wait) {
                Ok(line) => {
                    on_line(&line);
                    text.push_str(&strip_ansi(&line));
                    text.push('\n');
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    on_silence();
                    last = Instant::now();
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = child.wait()?;
        Ok(Listened {
            shown: self.shown(),
            text,
            success: status.success(),
            code: status.code(),
        })
    }

    /// Starts the command with pipes for its input and output, for a conversation.
    pub(crate) fn conversation(mut self) -> Result<Child> {
        self.inner
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        self.inner
            .spawn()
            .map_err(|error| self.start_failed(&error))
    }

    /// Starts the command in its own process group, its output in a file.
    pub(crate) fn detached(mut self, log: &Path) -> Result<Child> {
        use std::os::unix::process::CommandExt as _;
        let out = std::fs::File::create(log)?;
        let err = out.try_clone()?;
        self.inner
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0);
        self.inner
            .spawn()
            .map_err(|error| self.start_failed(&error))
    }
}

/// What a listened-to command said, without colours, and how it ended.
pub(crate) struct Listened {
    pub(crate) shown: String,
    pub(crate) text: String,
    pub(crate) success: bool,
    pub(crate) code: Option<i32>,
}

fn pass_lines<R: Read + Send + 'static>(pipe: Option<R>, to: mpsc::Sender<String>) {
    let Some(pipe) = pipe else { return };
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line)
                .trim_end_matches('\r')
                .to_owned();
            if to.send(line).is_err() {
                return;
            }
        }
    });
}

/// Whether a person is watching, so that colours make sense.
pub(crate) fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Whether we run as root, asked of `id` because the standard library cannot tell.
pub(crate) fn is_root() -> bool {
    Cmd::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|uid| uid.trim() == "0")
}

/// Removes terminal colour sequences: `ESC [ … letter`.
pub(crate) fn strip_ansi(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' {
            for skipped in chars.by_ref() {
                if skipped.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            plain.push(char);
        }
    }
    plain
}

#[cfg(test)]
mod tests;
