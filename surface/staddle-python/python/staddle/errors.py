"""Every error Staddle raises: one base class, and a subclass per thing a caller can do about it.

Each class is also the builtin that Python code already catches: a missing store is a ``FileNotFoundError``, a bad
argument a ``ValueError``, an index past the end an ``IndexError``. A message says what failed, where, why and what to
do next; the same facts are attributes, so that a program need not parse the text.
"""

from __future__ import annotations

__all__ = [
    "CancelledError",
    "ClosedError",
    "ConflictError",
    "CorruptError",
    "DeadlineError",
    "DeniedError",
    "Error",
    "ExhaustedError",
    "IndexOutOfRange",
    "InternalError",
    "InvalidError",
    "KeyMissingError",
    "NotFoundError",
    "UnavailableError",
    "UnsupportedError",
]


class Error(Exception):
    """The base of all of Staddle's errors; ``except staddle.Error`` catches each of them.

    Attributes are ``None`` where they do not apply.
    """

    uri: str | None = None
    """The store that the error is about."""
    chunk: int | None = None
    """The chunk of the store."""
    offset: int | None = None
    """The byte in that chunk or file."""
    index: int | None = None
    """The record."""
    key: str | None = None
    """The column, field, option or key."""
    hint: str | None = None
    """What to do next."""
    kind: str = "Error"
    """The stable name of the kind, the same in JSON output of the command line."""

    def __str__(self) -> str:
        """Give the message, also where a builtin base would show its ``repr``."""
        return str(self.args[0]) if self.args else ""


class InvalidError(Error, ValueError):
    """The argument can never be right; fix the call."""

    kind = "Invalid"


class NotFoundError(Error, FileNotFoundError):
    """The thing named does not exist."""

    kind = "NotFound"


class KeyMissingError(NotFoundError, KeyError):
    """A column, field or key does not exist in a thing that does."""

    kind = "KeyMissing"


class IndexOutOfRange(Error, IndexError):  # noqa: N818 - named as IndexError's own message reads
    """An index lies outside the store; the message gives the valid range."""

    kind = "OutOfRange"


class ConflictError(Error):
    """Someone else holds or changed it; refresh, or wait for them."""

    kind = "Conflict"


class ExhaustedError(Error, MemoryError):
    """Memory, disk space or a limit ran out; free some, or raise the limit."""

    kind = "Exhausted"


class UnavailableError(Error, ConnectionError):
    """A device or service does not answer properly; retry later, or reopen."""

    kind = "Unavailable"


class CorruptError(Error, OSError):
    """Bytes are not what was written; restore or repair. Other records stay readable."""

    kind = "Corrupt"


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not something this version can do."""

    kind = "Unsupported"


class ClosedError(Error):
    """The object was closed or released, or belongs to another process."""

    kind = "Closed"


class DeadlineError(Error, TimeoutError):
    """The time allowed ran out."""

    kind = "Deadline"


class DeniedError(Error, PermissionError):
    """Not allowed."""

    kind = "Denied"


class CancelledError(Error):
    """The caller asked for it to stop."""

    kind = "Cancelled"


class InternalError(Error, RuntimeError):
    """A bug in Staddle. The process goes on; please report the message."""

    kind = "Internal"
