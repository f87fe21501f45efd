"""bagz: concatenated records and a table of their ends; the peer closest to ours in shape."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata
from typing import Any

import numpy as np

from record.peers import Reader

NAME = "bagz"


def version() -> str:
    """The installed version."""
    return metadata.version("bagz")


def write(path: str, records: Iterable[bytes], codec: str = "none") -> None:
    """Writes one shard; `codec` is none or zstd (level 3, one record a frame)."""
    import bagz

    compression = bagz.CompressionZstd(level=3) if codec == "zstd" else bagz.CompressionNone()
    writer = bagz.Writer(path, bagz.Writer.Options(compression=compression))
    put = writer.write
    for record in records:
        put(record)
    writer.close()


class _Shard(Reader):
    def __init__(self, path: str, form: str) -> None:
        import bagz

        if form == "parallelism 1":
            options = bagz.Reader.Options(max_parallelism=1)
        elif form == "parallelism 1, limits in memory":
            options = bagz.Reader.Options(max_parallelism=1, limits_storage=bagz.LimitsStorage.IN_MEMORY)
        elif form == "default":
            options = bagz.Reader.Options()
        else:
            raise ValueError(f"bagz has no form {form!r}")
        self._reader = bagz.Reader(path, options)
        self.batch = self._reader.read_indices
        self.one = self._reader.__getitem__

    def __len__(self) -> int:
        return len(self._reader)

    def keys(self, indices: np.ndarray) -> Any:
        return np.ascontiguousarray(indices, dtype=np.int64)

    def run_singles(self, indices: list[int]) -> None:
        reader = self._reader
        for i in indices:
            reader[i]


def open(path: str, form: str) -> Reader:
    """Forms: `default` (a pool of 100 threads), `parallelism 1`, and that with the limits in memory."""
    return _Shard(path, form)
