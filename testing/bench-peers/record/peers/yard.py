"""The limit: the C yardstick over the same bytes, in the shape of a peer."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from record import yardstick
from record.peers import Reader

NAME = "C"
ENTRY = np.dtype([("offset", "<u8"), ("length", "<u4"), ("zero", "<u4")])


def version() -> str:
    """The compiler that built it."""
    return f"{yardstick.compiler()} {' '.join(yardstick.FLAGS)}"


def write(path: str, records: Iterable[bytes], codec: str = "none") -> None:
    """Writes `data.bin` and `entries.bin` into a folder."""
    if codec != "none":
        raise ValueError("the yardstick does not compress")
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "data.bin").open("wb", buffering=1 << 20) as out:
        put = out.write
        lengths = np.fromiter((put(record) for record in records), dtype=np.uint32)
    entries = np.zeros(len(lengths), dtype=ENTRY)
    entries["length"] = lengths
    entries["offset"][1:] = np.cumsum(lengths, dtype=np.uint64)[:-1]
    entries.tofile(folder / "entries.bin")


def append(path: str, pool: list[bytes], count: int) -> None:
    """The limit of the append case: `count` records taken in turn from `pool`, all of one length."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    source = np.frombuffer(b"".join(pool), dtype=np.uint8)
    data, entries = os.fsencode(folder / "data.bin"), os.fsencode(folder / "entries.bin")
    failed = yardstick.library().yard_append(
        data, entries, source.ctypes.data, len(pool), len(pool[0]), count
    )
    if failed:
        raise OSError(failed, os.strerror(failed), path)


def _pages(size: int) -> np.ndarray:
    """A page-aligned buffer of huge pages, touched.

    The microcode's string copy, which memcpy uses for large sizes, is two to four times slower where the
    destination lies a few bytes after the source modulo a page.
    """
    area = mmap.mmap(-1, max(1, size))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        area.madvise(mmap.MADV_HUGEPAGE)
    made = np.frombuffer(area, dtype=np.uint8)
    made[:] = 1
    return made


class _Mapped(Reader):
    """Maps both files; subclasses are one C function each."""

    def __init__(self, path: str) -> None:
        self._lib = yardstick.library()
        self._path = Path(path)
        self._table, table_bytes = self._map("entries.bin")
        self._base, self._base_bytes = self._map("data.bin")
        self._count = table_bytes // ENTRY.itemsize
        self._maps = [(self._table, table_bytes), (self._base, self._base_bytes)]
        self._out, self._batch = np.empty(0, dtype=np.uint8), 0
        self._matrices: dict[int, tuple[list[np.ndarray], np.ndarray]] = {}

    def _map(self, name: str) -> tuple[int, int]:
        size = ctypes.c_uint64()
        at = self._lib.yard_map(os.fsencode(self._path / name), ctypes.byref(size))
        if not at:
            raise OSError(f"cannot map {self._path / name}")
        return at, size.value

    def __len__(self) -> int:
        return self._count

    def _lengths(self, indices: np.ndarray) -> np.ndarray:
        table = np.ctypeslib.as_array(
            (ctypes.c_uint8 * (self._count * ENTRY.itemsize)).from_address(self._table)
        )
        return table.view(ENTRY)["length"][indices]

    def _reserve(self, batch: int) -> np.ndarray:
        """The reused output buffer, grown once to hold any batch of this many records."""
        if self._batch < batch:
            longest = int(self._lengths(np.arange(self._count)).max()) if self._count else 0
            self._out, self._batch = _pages(batch * longest), batch
        return self._out

    def _matrix(self, pool: list[np.ndarray]) -> np.ndarray:
        """The pool as one matrix, made once per pool and kept with it, so that its identity stays taken."""
        made = self._matrices.get(id(pool))
        if made is None:
            made = (pool, np.ascontiguousarray(np.stack(pool), dtype=np.int64))
            self._matrices[id(pool)] = made
        return made[1]

    def prepare(self, pool: list[Any]) -> None:
        self._reserve(max(len(keys) for keys in pool))

    def keys(self, indices: np.ndarray) -> Any:
        return np.ascontiguousarray(indices, dtype=np.int64)

    def batch(self, keys: Any) -> Any:
        """One gathered batch: (packed bytes, offsets)."""
        matrix = keys.reshape(1, -1)
        out, offsets = self._reserve(len(keys)), np.zeros(len(keys) + 1, dtype=np.int64)
        self._gather(matrix, 1, out, offsets)
        return out, offsets

    def _gather(self, matrix: np.ndarray, laps: int, out: np.ndarray, offsets: np.ndarray) -> None:
        rows, batch = matrix.shape
        indices = matrix.ctypes.data
        self._lib.yard_gather(
            self._table, self._base, indices, rows, batch, laps, out.ctypes.data, offsets.ctypes.data
        )

    def records(self, result: Any) -> Iterable[Any]:
        out, offsets = result
        return [out[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]

    def close(self) -> None:
        for at, size in self._maps:
            self._lib.yard_unmap(at, size)
        self._maps = []


class _Gather(_Mapped):
    """Packed into a reused buffer."""

    def run_batches(self, pool: list[Any], laps: int) -> None:
        matrix = self._matrix(pool)
        self._gather(
            matrix, laps, self._reserve(matrix.shape[1]), np.zeros(matrix.shape[1] + 1, dtype=np.int64)
        )

    def _order(self, seed: int) -> np.ndarray:
        order = np.empty(self._count, dtype=np.int64)
        self._lib.yard_permutation(order.ctypes.data, self._count, seed)
        return order

    def epoch(self, seed: int, batch: int) -> Iterator[Any]:
        order = self._order(seed)
        for start in range(0, len(order), batch):
            yield self.batch(order[start : start + batch])

    def run_epoch(self, seed: int, batch: int) -> None:
        order = self._order(seed)
        whole = len(order) // batch * batch
        for part in (order[:whole].reshape(-1, batch), order[whole:].reshape(1, -1)):
            if part.size:
                offsets = np.zeros(part.shape[1] + 1, dtype=np.int64)
                self._gather(part, len(part), self._reserve(part.shape[1]), offsets)


class _Resolve(_Mapped):
    """Pointers and lengths only; the checksum goes through the gather."""

    def run_batches(self, pool: list[Any], laps: int) -> None:
        matrix = self._matrix(pool)
        rows, width = matrix.shape
        pointers, lengths = np.zeros(width, np.uint64), np.zeros(width, np.uint64)
        self._lib.yard_resolve(
            self._table,
            self._base,
            matrix.ctypes.data,
            rows,
            width,
            laps,
            pointers.ctypes.data,
            lengths.ctypes.data,
        )


class _ResolveCalls(_Mapped):
    """The same with one call from Python a batch: an index array in, a bytes object of pairs out."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._objects = yardstick.extension().Table(self._table, self._base, self._count)

    def run_batches(self, pool: list[Any], laps: int) -> None:
        resolve = self._objects.resolve
        for keys in itertools.islice(itertools.cycle(pool), laps):
            resolve(keys)


class _Memcpy(_Mapped):
    """One memcpy of a batch's bytes from consecutive places; the checksum goes through the gather."""

    def run_batches(self, pool: list[Any], laps: int) -> None:
        size = min(int(self._lengths(pool[0]).sum(dtype=np.int64)), self._base_bytes)
        self._lib.yard_memcpy(self._base, self._base_bytes, size, laps, self._out.ctypes.data)


class _Objects(_Mapped):
    """Lists of bytes and single bytes, from the extension module."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._objects = yardstick.extension().Table(self._table, self._base, self._count)

    def batch(self, keys: Any) -> Any:
        return self._objects.list_of(keys.ctypes.data, len(keys))

    def records(self, result: Any) -> Iterable[Any]:
        return result

    def one(self, index: int) -> Any:
        return self._objects[index]

    def run_batches(self, pool: list[Any], laps: int) -> None:
        matrix = self._matrix(pool)
        rows, width = matrix.shape
        self._objects.lists(matrix.ctypes.data, rows, width, laps)

    def run_singles(self, indices: list[int]) -> None:
        table = self._objects
        for i in indices:
            table[i]


class _Cold(_Mapped):
    """One batch at a time from the device: by page faults, after WILLNEED, or with 16 threads of pread."""

    def __init__(self, path: str, how: str) -> None:
        super().__init__(path)
        self._how = how

    def batch(self, keys: Any) -> Any:
        matrix = keys.reshape(1, -1)
        out, offsets = self._reserve(len(keys)), np.zeros(len(keys) + 1, dtype=np.int64)
        if self._how == "pread":
            data = os.fsencode(self._path / "data.bin")
            failed = self._lib.yard_pread_threads(
                data, self._table, matrix.ctypes.data, len(keys), 1, 16, out.ctypes.data
            )
            if failed:
                raise OSError(failed, os.strerror(failed), str(self._path))
            np.cumsum(self._lengths(keys), out=offsets[1:])
            return out, offsets
        if self._how == "willneed":
            failed = self._lib.yard_willneed(self._table, self._base, matrix.ctypes.data, len(keys))
            if failed:
                raise OSError(failed, os.strerror(failed), str(self._path))
        self._gather(matrix, 1, out, offsets)
        return out, offsets


def open(path: str, form: str) -> Reader:
    """Forms: those below, and for cold data `mmap`, `willneed`, `pread`."""
    forms = {
        "gather": _Gather,
        "resolve": _ResolveCalls,
        "resolve loop": _Resolve,
        "memcpy": _Memcpy,
        "objects": _Objects,
    }
    if form in forms:
        return forms[form](path)
    if form not in ("mmap", "willneed", "pread"):
        raise ValueError(f"the yardstick has no form {form!r}")
    return _Cold(path, form)
