"""The records every contender stores, and the checksums of what it must read back.

A set is generated once per run in the yardstick's own form (`data.bin`, `entries.bin`); every other contender
writes its copy from there, so a checksum over those two files is the truth for all of them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from record.peers import yard

BATCH = 256
CHECK_BYTES_MAX = 64 << 20
PIECE_BYTES = 1024
TEXT_SUFFIXES = {".rs", ".md", ".toml", ".txt", ".c", ".h", ".py", ".yml", ".yaml", ".json", ".sh"}


@dataclass(frozen=True)
class Plan:
    """How large and how long: one for `--quick`, one for the full run."""

    small_records: int  # 1 KiB each, fits a large last-level cache
    large_records: int  # 1 KiB each, beyond the cache; 0 leaves it out
    big_records: int  # 100 KiB each
    text_bytes: int
    tiny_records: int  # 8 bytes each, for the open case
    append_records: int
    rounds: int
    slot_seconds: float
    cold_batches: int


QUICK = Plan(20_000, 0, 1_024, 24 << 20, 1_000_000, 50_000, 3, 0.15, 4)
FULL = Plan(20_000, 393_216, 8_192, 96 << 20, 100_000_000, 400_000, 5, 0.6, 8)


def random_records(count: int, size: int, seed: int) -> Iterator[bytes]:
    """Incompressible records, the same for one seed."""
    rng = np.random.Generator(np.random.Philox(seed))
    step = max(1, (4 << 20) // size)
    for start in range(0, count, step):
        rows = min(step, count - start)
        block = rng.bytes(rows * size)
        for i in range(rows):
            yield block[i * size : (i + 1) * size]


def tiny_records(count: int) -> Iterator[bytes]:
    """Records that hold their own index, 8 bytes little-endian."""
    for i in range(count):
        yield i.to_bytes(8, "little")


def text_folders(given: str | None, root: Path) -> list[Path]:
    """Where text comes from: the user's folder, or the sources of this workspace's dependencies."""
    if given:
        return [Path(given)]
    command = ["cargo", "metadata", "--format-version", "1", "--offline", "--locked"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        command.remove("--offline")
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    packages = json.loads(done.stdout)["packages"]
    return sorted(Path(p["manifest_path"]).parent for p in packages if p["source"])


def text_records(folders: list[Path], total_bytes: int) -> Iterator[bytes]:
    """Text files in path order, cut at the first line end after 1 KiB, until `total_bytes` are given."""
    given = 0
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.suffix not in TEXT_SUFFIXES or not file.is_file():
                continue
            text = file.read_bytes()
            if not text or b"\0" in text[:4096]:
                continue
            at = 0
            while at < len(text):
                end = text.find(b"\n", at + PIECE_BYTES)
                end = len(text) if end < 0 else end + 1
                # Minified files have lines of any length; a record of text stays a record of text.
                end = min(end, at + 4 * PIECE_BYTES)
                yield text[at:end]
                given += end - at
                at = end
                if given >= total_bytes:
                    return


class Source:
    """The yardstick's files of one set, as the truth to compare with."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries = np.fromfile(path / "entries.bin", dtype=yard.ENTRY)
        self._data = np.memmap(path / "data.bin", dtype=np.uint8, mode="r")
        self.payload_bytes = int(self._entries["length"].sum(dtype=np.int64))

    def __len__(self) -> int:
        return len(self._entries)

    def record(self, index: int) -> bytes:
        """One record."""
        entry = self._entries[index]
        begin = int(entry["offset"])
        return self._data[begin : begin + int(entry["length"])].tobytes()

    def records(self) -> Iterator[bytes]:
        """All records in order."""
        return map(self.record, range(len(self)))

    def check_order(self) -> np.ndarray:
        """The indices that a check reads."""
        return check_order(len(self), self.payload_bytes)

    def digest(self, changes: dict[int, bytes] | None = None) -> str:
        """The checksum a correct contender gives, with some records replaced."""
        changes = changes or {}
        order = self.check_order().tolist()
        return digest(changes[i] if i in changes else self.record(i) for i in order)

    def epoch_digest(self) -> str:
        """The checksum of one epoch, in whatever order."""
        return epoch_digest(self.records())


def check_order(count: int, payload_bytes: int) -> np.ndarray:
    """A fixed shuffled order over the set, cut so that a check reads at most 64 MiB."""
    most = max(BATCH, int(CHECK_BYTES_MAX / max(1, payload_bytes / max(1, count))))
    return np.random.default_rng(99).permutation(count)[:most].astype(np.int64)


def digest(records: Iterable[Any]) -> str:
    """A checksum over records in order, each with its length, so that shifted borders show."""
    state = hashlib.blake2b(digest_size=16)
    for record in records:
        view = memoryview(record).cast("B")
        state.update(view.nbytes.to_bytes(8, "little"))
        state.update(view)
    return state.hexdigest()


def epoch_digest(records: Iterable[Any]) -> str:
    """A checksum over records in any order: the count and the sum of their hashes."""
    count = total = 0
    for record in records:
        count += 1
        total += int.from_bytes(hashlib.blake2b(record, digest_size=8).digest(), "little")
    return f"{count}:{total % (1 << 64):016x}"


def changes_for(count: int, size: int) -> dict[int, bytes]:
    """One per cent of the records, evenly spread, with new bytes."""
    every = list(range(0, count, 100))
    return dict(zip(every, random_records(len(every), size, seed=4), strict=True))


def size_on_disk(path: Path) -> int:
    """Bytes a set takes: of each file the smaller of its length and what is allocated."""
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    return sum(min(f.stat().st_size, f.stat().st_blocks * 512) for f in files)


def files_of(path: Path) -> list[Path]:
    """The files of a set."""
    return [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
