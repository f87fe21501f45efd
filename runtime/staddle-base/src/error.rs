//! One error for every store, in every language: a kind that says what to do now, a message, context and a hint.
//!
//! A message reads *what; where; why; what to do*: `gather of 3 records failed: index 100 is out of range
//! (uri=imgs.rec, length=10); valid indices are -10..=9`.

use std::borrow::Cow;
use std::fmt;

/// The result of everything that can fail in Staddle.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can do about an error; maps one to one to the Python classes, exit codes and gRPC codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The argument can never be right; fix the call.
    Invalid,
    /// The thing named does not exist.
    NotFound,
    /// A column, field or key does not exist in a thing that does.
    KeyMissing,
    /// An index lies outside the valid range.
    OutOfRange,
    /// Someone else holds or changed it; refresh, or wait for them.
    Conflict,
    /// Memory, disk space or a limit ran out; free or raise it.
    Exhausted,
    /// A device or service does not answer properly; retry later or reopen.
    Unavailable,
    /// Bytes are not what was written; restore or repair.
    Corrupt,
    /// Valid, but not something this version can do.
    Unsupported,
    /// The object was closed, or belongs to another process.
    Closed,
    /// The time allowed ran out.
    Deadline,
    /// Not allowed.
    Denied,
    /// The caller asked for it to stop.
    Cancelled,
    /// A bug in Staddle.
    Internal,
}

impl ErrorKind {
    /// The kind's stable name, as it appears in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::NotFound => "NotFound",
            Self::KeyMissing => "KeyMissing",
            Self::OutOfRange => "OutOfRange",
            Self::Conflict => "Conflict",
            Self::Exhausted => "Exhausted",
            Self::Unavailable => "Unavailable",
            Self::Corrupt => "Corrupt",
            Self::Unsupported => "Unsupported",
            Self::Closed => "Closed",
            Self::Deadline => "Deadline",
            Self::Denied => "Denied",
            Self::Cancelled => "Cancelled",
            Self::Internal => "Internal",
        }
    }

    /// The exit code of the command line for this kind.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::NotFound | Self::KeyMissing => 3,
            Self::Corrupt => 4,
            Self::Conflict => 5,
            Self::Unavailable | Self::Deadline => 69,
            Self::Denied => 77,
            Self::Cancelled => 130,
            _ => 1,
        }
    }
}

/// An error with its context. One pointer wide, so that `Result<u64>` stays cheap.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    context: Vec<(&'static str, String)>,
    hint: Option<Cow<'static, str>>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

const _: () = assert!(size_of::<Error>() == size_of::<usize>());

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident),* $(,)?) => {
        $($(#[$doc])* pub fn $name(message: impl Into<Cow<'static, str>>) -> Self {
            Self::new(ErrorKind::$kind, message)
        })*
    };
}

impl Error {
    /// An error of `kind`; `message` says what failed and why, without the context that [`Error::with`] adds.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            context: Vec::new(),
            hint: None,
            source: None,
        }))
    }

    constructors! {
        /// [`ErrorKind::Invalid`].
        invalid => Invalid,
        /// [`ErrorKind::NotFound`].
        not_found => NotFound,
        /// [`ErrorKind::KeyMissing`].
        key_missing => KeyMissing,
        /// [`ErrorKind::Conflict`].
        conflict => Conflict,
        /// [`ErrorKind::Exhausted`].
        exhausted => Exhausted,
        /// [`ErrorKind::Unavailable`].
        unavailable => Unavailable,
        /// [`ErrorKind::Corrupt`].
        corrupt => Corrupt,
        /// [`ErrorKind::Unsupported`].
        unsupported => Unsupported,
        /// [`ErrorKind::Closed`].
        closed => Closed,
        /// [`ErrorKind::Deadline`].
        deadline => Deadline,
        /// [`ErrorKind::Denied`].
        denied => Denied,
        /// [`ErrorKind::Cancelled`].
        cancelled => Cancelled,
        /// [`ErrorKind::Internal`].
        internal => Internal,
    }

    /// [`ErrorKind::OutOfRange`] for `index` into something of `length` entries.
    #[cold]
    pub fn out_of_range(index: i64, length: u64) -> Self {
        let error = Self::new(
            ErrorKind::OutOfRange,
            format!("index {index} is out of range"),
        )
        .with("index", index)
        .with("length", length);
        if length == 0 {
            error.hint("the store is empty")
        } else {
            error.hint(format!("valid indices are -{length}..={}", length - 1))
        }
    }

    /// Wraps an operating system error: `action` says what was tried on `path`.
    #[cold]
    pub fn io(action: &str, path: impl fmt::Display, source: std::io::Error) -> Self {
        let kind = io_kind(&source);
        let error = Self::new(kind, format!("{action}: {}", io_words(&source)))
            .with("path", path)
            .source(source);
        match kind {
            ErrorKind::Exhausted => {
                error.hint("free space on that file system, then try again; flushed data is intact")
            }
            ErrorKind::NotFound => error.hint("check the path"),
            ErrorKind::Denied => error.hint("check the permissions of the path and of its folder"),
            _ => error,
        }
    }

    /// Adds a `key=value` pair that says where: uri, chunk, offset, index, key.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        if !self.0.context.iter().any(|(k, _)| *k == key) {
            self.0.context.push((key, value.to_string()));
        }
        self
    }

    /// Says what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Puts `what` in front of the message: `Error::context("opening imgs.rec")`.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message).into();
        self
    }

    /// The same error under another kind.
    #[must_use]
    pub fn kinded(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What failed and why, without context and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The hint, if there is one.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The value of a context pair.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .context
            .iter()
            .find(|(k, _)| *k == key)
            .map(|(_, v)| v.as_str())
    }

    /// All context pairs, in the order they were added.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(k, v)| (*k, v.as_str()))
    }

    /// Whether the operating system said that there is no space left.
    pub fn is_no_space(&self) -> bool {
        self.0.kind == ErrorKind::Exhausted
    }

    /// A second copy, for telling every waiter of one failure. The cause stays with the first.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(Box::new(Inner {
            kind: self.0.kind,
            message: self.0.message.clone(),
            context: self.0.context.clone(),
            hint: self.0.hint.clone(),
            source: None,
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (i, (key, value)) in self.0.context.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { " (" } else { ", " })?;
        }
        if !self.0.context.is_empty() {
            f.write_str(")")?;
        }
        match &self.0.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.0.kind.name())?;
        match &self.0.source {
            Some(source) => write!(f, " [caused by: {source}]"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as _)
    }
}

fn io_kind(error: &std::io::Error) -> ErrorKind {
    use std::io::ErrorKind as Io;
    match error.kind() {
        Io::NotFound => ErrorKind::NotFound,
        Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Denied,
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge | Io::OutOfMemory => {
            ErrorKind::Exhausted
        }
        Io::AlreadyExists => ErrorKind::Conflict,
        Io::InvalidInput => ErrorKind::Invalid,
        Io::Unsupported => ErrorKind::Unsupported,
        Io::UnexpectedEof => ErrorKind::Corrupt,
        _ => match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => ErrorKind::Exhausted,
            Some(libc::EOPNOTSUPP) => ErrorKind::Unsupported,
            _ => ErrorKind::Unavailable,
        },
    }
}

/// The system's words without Rust's "(os error 2)", which tells a user nothing.
fn io_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
