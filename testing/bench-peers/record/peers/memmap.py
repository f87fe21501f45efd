"""A Megatron-style memmap: one binary file, an array of offsets, `np.frombuffer` views. Needs only NumPy."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from record.peers import Reader

NAME = "np.memmap"


def version() -> str:
    """NumPy's version."""
    return np.__version__


def write(path: str, records: Iterable[bytes], codec: str = "none") -> None:
    """Writes `records.bin` and `offsets.npy` into a folder."""
    if codec != "none":
        raise ValueError("a memmap does not compress")
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    ends = [0]
    with (folder / "records.bin").open("wb", buffering=1 << 20) as out:
        put = out.write
        for record in records:
            ends.append(ends[-1] + put(record))
    np.save(folder / "offsets.npy", np.array(ends, dtype=np.int64))


class _Memmap(Reader):
    def __init__(self, path: str) -> None:
        self._map = np.memmap(Path(path) / "records.bin", dtype=np.uint8, mode="r")
        self._data = memoryview(self._map)
        self._offsets = np.load(Path(path) / "offsets.npy")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def batch(self, keys: Any) -> Any:
        data, view = self._data, np.frombuffer
        begins = self._offsets[keys]
        counts = (self._offsets[keys + 1] - begins).tolist()
        return [view(data, np.uint8, n, at) for n, at in zip(counts, begins.tolist(), strict=True)]

    def one(self, index: int) -> Any:
        begin, end = self._offsets[index : index + 2].tolist()
        return np.frombuffer(self._data, np.uint8, end - begin, begin).tobytes()


def open(path: str, form: str) -> Reader:
    """Form: `views`, NumPy arrays over the mapped file."""
    if form != "views":
        raise ValueError(f"np.memmap has no form {form!r}")
    return _Memmap(path)
