"""LMDB: a memory-mapped B+ tree; keys are 8-byte big-endian numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from importlib import metadata
from typing import Any

import numpy as np

from record.peers import Reader

NAME = "lmdb"
MAP_BYTES = 1 << 40


def version() -> str:
    """The installed version."""
    return metadata.version("lmdb")


def write(path: str, records: Iterable[bytes], codec: str = "none") -> None:
    """Writes one database in a single transaction, in key order (MDB_APPEND), without syncing."""
    import lmdb

    if codec != "none":
        raise ValueError("LMDB does not compress")
    pack = struct.Struct(">Q").pack
    env = lmdb.open(path, map_size=MAP_BYTES, sync=False, metasync=False)
    with env.begin(write=True) as txn:
        put = txn.put
        for i, record in enumerate(records):
            put(pack(i), record, append=True)
    env.close()


class _Bytes(Reader):
    """The ordinary way: a read transaction a batch, records copied into bytes."""

    buffers = False

    def __init__(self, path: str) -> None:
        import lmdb

        self._env = lmdb.open(path, map_size=MAP_BYTES, readonly=True, lock=False)
        self._count = self._env.stat()["entries"]
        self._pack = struct.Struct(">Q").pack

    def __len__(self) -> int:
        return self._count

    def keys(self, indices: np.ndarray) -> Any:
        pack = self._pack
        return [pack(i) for i in indices.tolist()]

    def batch(self, keys: Any) -> Any:
        with self._env.begin() as txn:
            return [*map(txn.get, keys)]

    def run_singles(self, indices: list[int]) -> None:
        pack, begin = self._pack, self._env.begin
        with begin() as txn:
            get = txn.get
            for i in indices:
                get(pack(i))

    def one(self, index: int) -> Any:
        with self._env.begin() as txn:
            return txn.get(self._pack(index))

    def close(self) -> None:
        self._env.close()


class _Buffers(_Bytes):
    """Tuned: one long transaction and buffers instead of bytes.

    Nothing is copied; a buffer dies with its transaction.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._txn = self._env.begin(buffers=True)
        self._get = self._txn.get

    def batch(self, keys: Any) -> Any:
        return [*map(self._get, keys)]

    def one(self, index: int) -> Any:
        return self._get(self._pack(index))

    def run_singles(self, indices: list[int]) -> None:
        pack, get = self._pack, self._get
        for i in indices:
            get(pack(i))

    def close(self) -> None:
        self._txn.abort()
        super().close()


def open(path: str, form: str) -> Reader:
    """Forms: `bytes` (copies) and `buffers` (pointers into the map, valid inside one transaction)."""
    forms = {"bytes": _Bytes, "buffers": _Buffers}
    return forms[form](path)
