"""Making record sets: new ones, from files that stay where they are, side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _native
from ._native import Batch, Loader, PackedBatch, Records
from .errors import InvalidError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    StrPath = str | bytes | os.PathLike[Any]

__all__ = ["Zipped", "ZippedLoader", "adopt", "create", "zip"]


def create(
    uri: StrPath,
    *,
    codec: Literal["none", "deflate", "flate", "lz4", "zstd", "auto"] = "none",
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    chunk_bytes: str | int = "1GiB",
    chunk_records: int | None = None,
    align: Literal[8, 64, 4096] = 8,
    level: int = 3,
    dictionary: Literal["auto"] | bool | None = None,
    writers: int = 1,
    readers: int = 32,
    cleaners: int = 2,
    durability: Literal["flush", "call", "none"] = "flush",
    user: Mapping[str, str] | None = None,
    **storage_options: Any,
) -> Records:
    """Make a new, empty record set in the folder ``uri`` and return it, ready to append to.

    ``codec`` compresses each record on its own; ``"auto"`` decides on the first records. ``dtype`` and ``shape`` make
    ``ds[i]`` an array: records must then have that size. ``dictionary="auto"`` trains a zstd dictionary on the first
    records, which makes small texts much smaller. ``writers`` chunks are written side by side. With
    ``durability="flush"`` what was appended is safe when ``flush()`` or ``close()`` has returned, with ``"call"`` when
    each call has. ``user`` is free text that stays with the set.

    Raises:
        ConflictError: there is a set already.
        InvalidError: an option is unknown or out of range.
        UnsupportedError: the place cannot be written, as an object store.

    """
    return _native.create(
        uri,
        codec=codec,
        dtype=dtype,
        shape=None if shape is None else list(shape),
        chunk_bytes=str(chunk_bytes),
        chunk_records=chunk_records,
        align=align,
        level=level,
        dictionary=dictionary in ("auto", True),
        writers=writers,
        readers=readers,
        cleaners=cleaners,
        durability=durability,
        user=dict(user or {}),
        storage_options=storage_options,
    )


def adopt(sources: StrPath | Sequence[StrPath], uri: StrPath) -> Records:
    """Index tar, TFRecord or Megatron files where they are, without copying them, as the record set ``uri``.

    The files stay the store of the bytes: they must not change or move. New records go to files of the set's own.
    Sources may use ``*``, ``?``, ``[a-z]`` and ``{000..146}``.

    Raises:
        UnsupportedError: a file is compressed or sparse.
        CorruptError: a file contradicts itself.

    """
    _native.adopt([os.fsdecode(source) for source in _paths(sources)], uri)
    return _native.open(uri, external="any")


def zip(**sets: Records) -> Zipped:
    """Put sets of equal length side by side: ``zip(jpg=a, cls=b)[i]`` is ``{"jpg": a[i], "cls": b[i]}``.

    Raises:
        InvalidError: no sets, or sets of different lengths.

    """
    return Zipped(sets)


def _paths(sources: StrPath | Sequence[StrPath]) -> list[StrPath]:
    if isinstance(sources, (str, bytes)) or hasattr(sources, "__fspath__"):
        return [sources]
    return list(sources)


class Zipped:
    """Record sets of equal length, read by one index."""

    def __init__(self, sets: Mapping[str, Records]) -> None:
        if not sets:
            message = "zip() needs at least one set; write for example zip(jpg=a, cls=b)"
            raise InvalidError(message)
        lengths = {name: len(records) for name, records in sets.items()}
        if len(set(lengths.values())) != 1:
            shown = ", ".join(f"{name}={length:,}" for name, length in lengths.items())
            message = f"sets side by side need equal lengths: {shown}"
            raise InvalidError(message)
        self.sets = dict(sets)

    def __len__(self) -> int:
        """Return the common length."""
        return len(next(iter(self.sets.values())))

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return one record of each set."""
        return {name: records[index] for name, records in self.sets.items()}

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return one dict per index, as torch's DataLoader asks for."""
        columns = [records.__getitems__(indices).tolist() for records in self.sets.values()]
        names = list(self.sets)
        return [dict(_zip(names, row)) for row in _zip(*columns)]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Walk over all records."""
        names = list(self.sets)
        for row in _zip(*self.sets.values()):
            yield dict(_zip(names, row))

    def gather(self, indices: ArrayLike | slice) -> dict[str, Batch]:
        """Return one batch per set."""
        return {name: records.gather(indices) for name, records in self.sets.items()}

    def loader(self, batch_size: int, **options: Any) -> ZippedLoader:
        """Return a loader whose batches are dicts, one batch per set, all of the same indices."""
        return ZippedLoader(
            {name: records.loader(batch_size, **options) for name, records in self.sets.items()}
        )

    def close(self) -> None:
        """Close every set."""
        for records in self.sets.values():
            records.close()

    def __enter__(self) -> Zipped:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every set."""
        self.close()

    def __repr__(self) -> str:
        """Name the sets."""
        inner = ", ".join(f"{name}={records!r}" for name, records in self.sets.items())
        return f"Zipped({inner})"


class ZippedLoader:
    """Loaders in step: the order depends on seed, epoch and length only, so all of them give the same indices."""

    def __init__(self, loaders: Mapping[str, Loader]) -> None:
        self.loaders = dict(loaders)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(next(iter(self.loaders.values())))

    def __iter__(self) -> Iterator[dict[str, Batch | PackedBatch]]:
        """Walk over one epoch."""
        names = list(self.loaders)
        for row in _zip(*self.loaders.values()):
            yield dict(_zip(names, row))

    def state_dict(self) -> dict[str, Any]:
        """Return where every loader is."""
        return {name: loader.state_dict() for name, loader in self.loaders.items()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Go on where the state says."""
        for name, loader in self.loaders.items():
            if name not in state:
                message = f"the state has no set {name!r}; it has {', '.join(map(repr, state))}"
                raise InvalidError(message)
            loader.load_state_dict(state[name], strict=strict)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass."""
        for loader in self.loaders.values():
            loader.set_epoch(epoch)


def _zip(*columns: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Zip like the builtin, whose name this module uses for sets."""
    import builtins

    return builtins.zip(*columns, strict=True)
