"""Lance: a columnar format with versions; one large_binary column, read with `take`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

import numpy as np

from record.peers import Reader

NAME = "lance"
ROWS_PER_BATCH = 1024


def version() -> str:
    """The installed version."""
    return metadata.version("pylance")


def write(path: str, records: Iterable[bytes], codec: str = "none") -> None:
    """Writes one data set of one column, streaming record batches."""
    import lance
    import pyarrow as pa

    if codec != "none":
        raise ValueError("only written uncompressed here")
    schema = pa.schema([("data", pa.large_binary())])

    def batches() -> Iterator[Any]:
        source = iter(records)
        while rows := list(itertools.islice(source, ROWS_PER_BATCH)):
            yield pa.record_batch([pa.array(rows, type=pa.large_binary())], schema=schema)

    lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches()), path, schema=schema)


class _Dataset(Reader):
    def __init__(self, path: str) -> None:
        import lance

        self._set = lance.dataset(path)
        self._count = self._set.count_rows()
        self.batch = self._set.take

    def __len__(self) -> int:
        return self._count

    def keys(self, indices: np.ndarray) -> Any:
        return indices.tolist()

    def records(self, result: Any) -> Iterable[Any]:
        return result.column(0).to_pylist()

    def one(self, index: int) -> Any:
        return self._set.take([index]).column(0)[0].as_py()


def open(path: str, form: str) -> Reader:
    """Form: `take`. Its threads are set by environment variables, so tuning is the caller's."""
    if form != "take":
        raise ValueError(f"lance has no form {form!r}")
    return _Dataset(path)
