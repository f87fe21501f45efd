"""Staddle: storage for model training. Records by index, shuffled zero-copy batches, exact resume.

>>> import staddle as sd
>>> with sd.records.create("memory://words") as w:
...     ids = w.extend([b"granary", b"stone", b"staddle"])
>>> ds = sd.open("memory://words")
>>> ds[-1], len(ds)
(b'staddle', 3)
>>> ds.gather([2, 0]).tolist()
[b'staddle', b'granary']

Only NumPy is required, and only when an array is asked for; torch, pyarrow and tqdm are imported where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from . import errors, metrics, records, runtime
from ._native import (
    Batch,
    Loader,
    PackedBatch,
    Records,
    RecordSlice,
    __version__,
)
from ._native import open as _open
from .errors import (
    CancelledError,
    ClosedError,
    ConflictError,
    CorruptError,
    DeadlineError,
    DeniedError,
    Error,
    ExhaustedError,
    IndexOutOfRange,
    InternalError,
    InvalidError,
    KeyMissingError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)

if TYPE_CHECKING:
    import os

    from . import torch

__all__ = [
    "Batch",
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
    "Loader",
    "NotFoundError",
    "PackedBatch",
    "RecordSlice",
    "Records",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
    "configure",
    "errors",
    "metrics",
    "open",
    "records",
    "runtime",
    "torch",
]


def open(
    uri: str | bytes | os.PathLike[Any],
    *,
    mode: Literal["r", "r+"] = "r+",
    generation: int | None = None,
    snapshot: str | None = None,
    follow: bool = False,
    io: Literal["auto", "map", "read"] = "auto",
    verify: Literal["first", "always", "never"] = "first",
    external: Literal["beside", "any"] = "beside",
    **storage_options: Any,
) -> Records:
    """Open the store at a path or URI, whatever kind it is.

    Opening takes no lock and starts no thread: with ``mode="r+"`` the first change takes the writer lock.
    ``generation`` or ``snapshot`` open an older state; ``follow=True`` looks for a newer one before every call.
    ``io="read"`` reads instead of mapping, for file systems where files may be cut short by others. ``verify`` says
    when checksums are compared: when this process first hands a record out, always, or never. ``external="any"``
    follows adopted files that do not lie beside the store. Further keywords are options of the storage service, such
    as ``region``; an unknown one is an error.

    Raises:
        NotFoundError: nothing is there, or it is not a store.
        CorruptError: its files are damaged.
        UnsupportedError: a newer version wrote it.
        ConflictError: the generation is gone.
        InvalidError: an option is unknown or out of range.

    """
    return _open(
        uri,
        mode=mode,
        generation=generation,
        snapshot=snapshot,
        follow=follow,
        io=io,
        verify=verify,
        external=external,
        storage_options=storage_options,
    )


def configure(
    *,
    memory: str | int | None = None,
    engine: Literal["auto", "pread", "uring"] | None = None,
    threads: int | None = None,
    io_threads: int | None = None,
    io_depth: int | None = None,
    remote_requests: int | None = None,
) -> None:
    """Choose the settings of this process, before the first store is opened.

    What is left out comes from ``STADDLE_…`` variables, then ``staddle.toml``, then defaults; ``staddle config show
    --origin`` lists them all. ``memory`` is a size such as ``"8GB"``.

    Raises:
        ConflictError: a store is open already, so it is too late.
        InvalidError: a value is out of range.

    """
    from ._native import configure as apply

    given = {
        "runtime.memory": memory,
        "runtime.engine": engine,
        "runtime.threads": threads,
        "runtime.io_threads": io_threads,
        "runtime.io_depth": io_depth,
        "runtime.remote_requests": remote_requests,
    }
    apply({name: str(value) for name, value in given.items() if value is not None})


def __getattr__(name: str) -> Any:
    """Import what needs torch only when it is asked for."""
    if name == "torch":
        import importlib

        return importlib.import_module("staddle.torch")
    message = f"module 'staddle' has no attribute {name!r}"
    raise AttributeError(message)
