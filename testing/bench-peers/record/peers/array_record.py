"""array_record: Riegeli chunks and their index; written with one record a chunk, as its guide advises."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata
from typing import Any

import numpy as np

from record.peers import Reader

NAME = "array_record"


def version() -> str:
    """The installed version."""
    return metadata.version("array-record")


def write(path: str, records: Iterable[bytes], codec: str = "none") -> None:
    """Writes one file with one record a group, the setting for random access."""
    from array_record.python.array_record_module import ArrayRecordWriter

    compression = "zstd:3" if codec == "zstd" else "uncompressed"
    writer = ArrayRecordWriter(path, f"group_size:1,{compression}")
    put = writer.write
    for record in records:
        put(record)
    writer.close()


class _File(Reader):
    def __init__(self, path: str, options: str) -> None:
        from array_record.python.array_record_module import ArrayRecordReader

        self._reader = ArrayRecordReader(path, options)
        self.batch = self._reader.read

    def __len__(self) -> int:
        return self._reader.num_records()

    def keys(self, indices: np.ndarray) -> Any:
        return indices.tolist()

    def one(self, index: int) -> Any:
        return self._reader.read([index])[0]

    def close(self) -> None:
        self._reader.close()


class _Source(Reader):
    def __init__(self, path: str) -> None:
        import sys

        from absl import flags
        from array_record.python.array_record_data_source import ArrayRecordDataSource

        if not flags.FLAGS.is_parsed():
            flags.FLAGS(sys.argv[:1])
        self._source = ArrayRecordDataSource([path])
        self.batch = self._source.__getitems__
        self.one = self._source.__getitem__

    def __len__(self) -> int:
        return len(self._source)

    def keys(self, indices: np.ndarray) -> Any:
        return indices.tolist()

    def run_singles(self, indices: list[int]) -> None:
        source = self._source
        for i in indices:
            source[i]


def open(path: str, form: str) -> Reader:
    """Forms: `DataSource` (Grain's), `Reader` (defaults), `Reader tuned` (no read-ahead, no threads)."""
    if form == "DataSource":
        return _Source(path)
    options = {"Reader": "", "Reader tuned": "readahead_buffer_size:0,max_parallelism:0"}
    return _File(path, options[form])
