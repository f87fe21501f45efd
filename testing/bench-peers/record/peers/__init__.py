"""One file per contender, each speaking the same small language.

A peer module has:

* `NAME` and `version()`;
* `write(path, records, codec="none")`: writes a new set from an iterable of bytes, returns when the data has
  left the library (page cache, no sync), which is also what the append case times;
* `open(path, form)`: a `Reader`. A *form* is one way of using the library: its defaults, or tuned.

Libraries are imported inside these functions, so a peer that is not installed fails alone, with its
ImportError.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

NAMES = ("yard", "staddle", "bagz", "lmdb", "array_record", "lance", "mds", "hf", "memmap")


def load(name: str) -> ModuleType:
    """The module of one peer."""
    if name not in NAMES:
        raise ValueError(f"unknown peer {name!r}, one of {', '.join(NAMES)}")
    return importlib.import_module(f"record.peers.{name}")


class Reader:
    """One open set. Subclasses override what their library does better than these defaults."""

    def __len__(self) -> int:
        raise NotImplementedError

    def keys(self, indices: np.ndarray) -> Any:
        """The form of a batch of int64 indices that the library takes fastest; not timed."""
        return indices

    def batch(self, keys: Any) -> Any:
        """One batch, as the library gives it."""
        raise NotImplementedError

    def records(self, result: Any) -> Iterable[Any]:
        """The records of a batch as bytes-like objects, in order. For checksums, never timed."""
        return result

    def one(self, index: int) -> Any:
        """One record, as the library gives it."""
        raise NotImplementedError

    def prepare(self, pool: list[Any]) -> None:
        """Allocates, outside the timed part, what a caller would reuse from batch to batch."""

    def run_batches(self, pool: list[Any], laps: int) -> None:
        """Reads `laps` batches, cycling through `pool`. This loop is what is timed."""
        batch = self.batch
        for keys in itertools.islice(itertools.cycle(pool), laps):
            batch(keys)

    def run_singles(self, indices: list[int]) -> None:
        """Reads each index alone, in the library's own notation. This loop is what is timed."""
        one = self.one
        for i in indices:
            one(i)

    def epoch(self, seed: int, batch: int) -> Iterator[Any]:
        """One shuffled pass in batches: a permutation cut up, unless the library has its own way."""
        order = np.random.default_rng(seed).permutation(len(self))
        for start in range(0, len(order), batch):
            yield self.batch(self.keys(order[start : start + batch]))

    def epoch_records(self, result: Any) -> Iterable[Any]:
        """The records of one batch of `epoch`."""
        return self.records(result)

    def run_epoch(self, seed: int, batch: int) -> None:
        """One shuffled pass, results dropped. This loop is what is timed."""
        for _ in self.epoch(seed, batch):
            pass

    def close(self) -> None:
        """Lets go of the set."""
