"""What a contender is asked to do inside its own process, and how it is timed.

A task has `digest()`, the checksum of what one pass reads, and `run(laps)`, which returns a `Slot`. Only
`run` is timed; key conversion, buffers and opening happen in `__init__`.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from record import data, peers

POOL = 96  # distinct batches; larger than what a branch predictor or a prefetcher remembers


@dataclass
class Slot:
    """One timed slot: records handled, CPU seconds of all threads of the process, seconds on the clock."""

    records: int
    cpu_s: float
    wall_s: float

    def as_dict(self) -> dict[str, float]:
        """For the wire."""
        return asdict(self)


def timed(work: Callable[[], Any], records: int) -> Slot:
    """Runs `work` once."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Slot(records, time.process_time() - cpu, time.perf_counter() - wall)


class Task:
    """Base of the read tasks: holds the open reader."""

    def __init__(self, peer: str, path: str, form: str, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.reader = peers.load(peer).open(path, form)

    def digest(self) -> str:
        """Reads the check order batch by batch, through the same calls as the timed part."""
        reader = self.reader
        if len(reader) != self.spec["count"]:
            raise ValueError(f"the set has {len(reader)} records, not {self.spec['count']}")
        order = data.check_order(len(reader), self.spec["payload_bytes"])
        batches = [reader.keys(order[at : at + data.BATCH]) for at in range(0, len(order), data.BATCH)]
        reader.prepare(batches)

        def records() -> Any:
            for keys in batches:
                yield from reader.records(reader.batch(keys))

        return data.digest(records())

    def run(self, laps: int) -> Slot:
        """One timed slot."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes the set."""
        self.reader.close()


def random_pool(count: int, seed: int, batches: int = POOL) -> np.ndarray:
    """Uniform indices, one batch a row."""
    return np.random.default_rng(seed).integers(0, count, (batches, data.BATCH), dtype=np.int64)


class Batches(Task):
    """Random batches of 256 with repeats, the set already in memory."""

    def __init__(self, peer: str, path: str, form: str, spec: dict[str, Any]) -> None:
        super().__init__(peer, path, form, spec)
        self.pool = [self.reader.keys(row) for row in random_pool(spec["count"], seed=7)]
        self.reader.prepare(self.pool)

    def run(self, laps: int) -> Slot:
        reader, pool = self.reader, self.pool
        return timed(lambda: reader.run_batches(pool, laps), laps * data.BATCH)


class Singles(Task):
    """`ds[i]` in a Python loop, random indices."""

    def __init__(self, peer: str, path: str, form: str, spec: dict[str, Any]) -> None:
        super().__init__(peer, path, form, spec)
        self.indices = random_pool(spec["count"], seed=8).reshape(-1).tolist()

    def digest(self) -> str:
        order = data.check_order(len(self.reader), self.spec["payload_bytes"])
        return data.digest(self.reader.one(i) for i in order[: self.spec["check_singles"]].tolist())

    def run(self, laps: int) -> Slot:
        step = data.BATCH
        indices = [
            self.indices[at : at + step] for lap in range(laps) for at in [lap * step % len(self.indices)]
        ]
        singles = self.reader.run_singles

        def work() -> None:
            for part in indices:
                singles(part)

        return timed(work, laps * step)


class Epoch(Task):
    """One shuffled pass through the contender's own loader, or a permutation where it has none."""

    def digest(self) -> str:
        reader = self.reader

        def records() -> Any:
            for result in reader.epoch(5, data.BATCH):
                yield from reader.epoch_records(result)

        return data.epoch_digest(records())

    def run(self, laps: int) -> Slot:
        reader = self.reader

        def work() -> None:
            for lap in range(laps):
                reader.run_epoch(lap + 1, data.BATCH)

        return timed(work, laps * len(reader))


class Cold(Batches):
    """Batches without repeats. The caller drops the pages from memory before opening."""

    def __init__(self, peer: str, path: str, form: str, spec: dict[str, Any]) -> None:
        Task.__init__(self, peer, path, form, spec)
        order = np.random.default_rng(spec["seed"]).permutation(spec["count"]).astype(np.int64)
        rows = spec["batches"]
        self.pool = [self.reader.keys(row) for row in order[: rows * data.BATCH].reshape(rows, data.BATCH)]
        self.reader.prepare(self.pool)

    def run(self, laps: int) -> Slot:
        reader, pool = self.reader, self.pool

        def work() -> None:
            for keys in pool:
                reader.batch(keys)

        return timed(work, len(pool) * data.BATCH)


class Threads(Task):
    """The batches of `Batches` in several Python threads at once, each with its own reader."""

    def __init__(self, peer: str, path: str, form: str, spec: dict[str, Any]) -> None:
        super().__init__(peer, path, form, spec)
        self.readers = [self.reader]
        self.readers += [peers.load(peer).open(path, form) for _ in range(spec["threads"] - 1)]
        self.pools = []
        for seed, reader in enumerate(self.readers):
            pool = [reader.keys(row) for row in random_pool(spec["count"], seed=20 + seed)]
            reader.prepare(pool)
            self.pools.append(pool)

    def run(self, laps: int) -> Slot:
        barrier = threading.Barrier(len(self.readers) + 1)
        failures: list[BaseException] = []

        def loop(reader: Any, pool: list[Any]) -> None:
            barrier.wait()
            try:
                reader.run_batches(pool, laps)
            except BaseException as error:
                failures.append(error)

        threads = [
            threading.Thread(target=loop, args=pair) for pair in zip(self.readers, self.pools, strict=True)
        ]
        for thread in threads:
            thread.start()

        def work() -> None:
            barrier.wait()
            for thread in threads:
                thread.join()

        slot = timed(work, laps * data.BATCH * len(threads))
        if failures:
            raise failures[0]
        return slot

    def close(self) -> None:
        for reader in self.readers:
            reader.close()


class Append:
    """Writes a new set of records of one size and closes it, unsynced; removing it is not timed."""

    def __init__(self, peer: str, path: str, form: str, spec: dict[str, Any]) -> None:
        self.module, self.path, self.form, self.spec = peers.load(peer), path, form, spec
        self.pool = list(data.random_records(spec["pool"], spec["size"], seed=3))
        self.records = [self.pool[i % len(self.pool)] for i in range(spec["append"])]

    def _write(self) -> None:
        bulk = getattr(self.module, "append", None)
        if bulk is not None:
            bulk(self.path, self.pool, len(self.records))
        else:
            self.module.write(self.path, self.records)

    def _remove(self) -> None:
        if os.path.isdir(self.path):
            shutil.rmtree(self.path)
        else:
            Path(self.path).unlink(missing_ok=True)

    def digest(self) -> str:
        """Writes, reads all back in order with the same library, removes."""
        self._remove()
        self._write()
        reader = self.module.open(self.path, self.form)
        count = len(reader)
        if count != len(self.records):
            raise ValueError(f"{count} records came back of {len(self.records)}")

        def records() -> Any:
            for at in range(0, count, data.BATCH):
                indices = np.arange(at, min(at + data.BATCH, count), dtype=np.int64)
                reader.prepare([reader.keys(indices)])
                yield from reader.records(reader.batch(reader.keys(indices)))

        result = data.digest(records())
        reader.close()
        self._remove()
        return result

    def run(self, laps: int) -> Slot:
        total = Slot(0, 0.0, 0.0)
        for _ in range(laps):
            self._remove()
            slot = timed(self._write, len(self.records))
            self._remove()
            total = Slot(total.records + slot.records, total.cpu_s + slot.cpu_s, total.wall_s + slot.wall_s)
        return total

    def close(self) -> None:
        """Removes what is left."""
        self._remove()


TASKS: dict[str, Any] = {
    "batches": Batches,
    "singles": Singles,
    "epoch": Epoch,
    "cold": Cold,
    "threads": Threads,
    "append": Append,
}
