"""Ours: the installed wheel, used as its documentation shows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

import numpy as np

from record.peers import Reader

NAME = "staddle"
EXTEND_STEP = 1 << 16


def version() -> str:
    """The installed version."""
    return metadata.version("staddle")


def write(path: str, records: Iterable[bytes], codec: str = "none") -> None:
    """Writes one set. `codec="zstd"` trains a dictionary on the first records and keeps it if it helps."""
    import staddle as sd

    options = {"codec": "zstd", "level": 3, "dictionary": "auto"} if codec == "zstd" else {"codec": codec}
    writer = sd.records.create(path, durability="none", **options)
    source = iter(records)
    while step := list(itertools.islice(source, EXTEND_STEP)):
        writer.extend(step)
    writer.close()


class _Set(Reader):
    """Shared by the forms; each overrides `batch`."""

    verify = "first"

    def __init__(self, path: str, **options: Any) -> None:
        import staddle as sd

        self._set = sd.open(path, mode="r", verify=self.verify, **options)
        self._out = np.empty(0, dtype=np.uint8)
        self._offsets = np.zeros(1, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._set)

    def keys(self, indices: np.ndarray) -> Any:
        return np.ascontiguousarray(indices, dtype=np.int64)

    def one(self, index: int) -> Any:
        return self._set[index]

    def run_singles(self, indices: list[int]) -> None:
        records = self._set
        for i in indices:
            records[i]

    def epoch(self, seed: int, batch: int) -> Iterator[Any]:
        yield from self._set.loader(batch, shuffle=True, seed=seed, layout="packed")

    def epoch_records(self, result: Any) -> Iterable[Any]:
        return _split(*result)

    def close(self) -> None:
        self._set.close()


def _split(data: np.ndarray, offsets: np.ndarray) -> list[np.ndarray]:
    """The records of a packed buffer."""
    ends = offsets.tolist()
    return [data[a:b] for a, b in itertools.pairwise(ends)]


class _Into(_Set):
    """Packed into buffers that the caller reuses."""

    def prepare(self, pool: list[Any]) -> None:
        need = max(int(self._set.gather(keys).lengths().sum()) for keys in pool)
        if self._out.size < need:
            self._out = np.ones(need, dtype=np.uint8)
        self._offsets = np.zeros(max(len(keys) for keys in pool) + 1, dtype=np.int64)

    def batch(self, keys: Any) -> Any:
        offsets = self._offsets
        if len(offsets) != len(keys) + 1:
            offsets = offsets[: len(keys) + 1]
        self._set.gather_into(keys, self._out, offsets)
        return self._out, offsets

    def records(self, result: Any) -> Iterable[Any]:
        return _split(*result)


class _IntoAlways(_Into):
    """The same, with every record's checksum tested at every read."""

    verify = "always"


class _Pack(_Set):
    """Packed into a pooled buffer that belongs to the caller."""

    def batch(self, keys: Any) -> Any:
        return self._set.gather(keys).pack()

    def records(self, result: Any) -> Iterable[Any]:
        return _split(*result)


class _Lists(_Set):
    """A list of bytes."""

    def batch(self, keys: Any) -> Any:
        return self._set.gather(keys).tolist()


class _Views(_Set):
    """A lazy batch, not looked into."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.batch = self._set.gather

    def records(self, result: Any) -> Iterable[Any]:
        return [result[i] for i in range(len(result))]


FORMS = {
    "gather_into": _Into,
    "gather_into, verify always": _IntoAlways,
    "pack": _Pack,
    "tolist": _Lists,
    "views": _Views,
}


def open(path: str, form: str) -> Reader:
    """Forms: `gather_into`, that with `verify always`, `pack`, `tolist`, `views`."""
    return FORMS[form](path)


def update(path: str, changes: Iterable[tuple[int, bytes]]) -> None:
    """Replaces records in place, durably."""
    import staddle as sd

    with sd.open(path, mode="r+") as records:
        for index, value in changes:
            records.update(index, value)
        records.flush()


def rebalance(path: str) -> None:
    """Rewrites all live records in index order."""
    import staddle as sd

    with sd.open(path, mode="r+") as records:
        records.rebalance()
