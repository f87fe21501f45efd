"""Views, batches and arrays stay valid whatever happens to the set; memory goes with the last of them."""

from __future__ import annotations

import ctypes
import gc
import shutil
from pathlib import Path

import numpy as np
import pytest
import staddle as sd
from support import body

MODEL = [body(index) for index in range(100)]


@pytest.mark.parametrize("fate", ["release", "close", "rebalance", "unlink", "update", "delete", "all"])
def test_views_outlive_the_set(filled: Path, fate: str) -> None:
    ds = sd.open(filled)
    batch = ds.gather(range(100))
    views = list(batch)
    single = ds.view(5)
    addresses = batch.pointers()
    packed = batch.pack()
    data, offsets = packed
    if fate in ("update", "all"):
        ds.update(range(100), [b"overwritten" * 20] * 100)
        ds.flush()
    if fate in ("delete", "all"):
        ds.delete(range(50))
        ds.flush()
    if fate in ("rebalance", "all"):
        ds.rebalance()
        ds.rebalance()
    if fate in ("release", "all"):
        batch.release()
        packed.release()
    if fate in ("close", "all"):
        ds.close()
    if fate in ("unlink", "all"):
        shutil.rmtree(filled)
    del batch, packed
    if fate == "all":
        del ds
    gc.collect()
    assert [bytes(view) for view in views] == MODEL
    assert bytes(single) == MODEL[5]
    for index, address in enumerate(addresses):
        assert ctypes.string_at(int(address), len(MODEL[index])) == MODEL[index]
    assert [bytes(data[offsets[k] : offsets[k + 1]]) for k in range(100)] == MODEL


def test_an_old_batch_reads_its_own_generation(ds: sd.Records) -> None:
    old = ds.gather(range(100))
    ds[3] = b"new"
    ds.delete(4)
    assert old.tolist() == MODEL
    assert ds.gather([3]).tolist() == [b"new"]


def test_slices_of_views_keep_the_memory(ds: sd.Records) -> None:
    long = max(range(100), key=lambda index: len(MODEL[index]))
    part = ds.gather([long])[0][10:20]
    array = np.frombuffer(ds.gather([long])[0], "u1")[5:9]
    ds.close()
    gc.collect()
    assert bytes(part) == MODEL[long][10:20]
    assert bytes(array) == MODEL[long][5:9]
    assert not array.flags.writeable


def test_memory_comes_back(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "m.rec", codec="lz4") as ds:
        ds.extend([bytes([k]) * 100_000 for k in range(20)])
        ds.flush()

        def in_use() -> int:
            gc.collect()
            pool = sd.runtime.stats()["memory"]
            return int(pool["reserved_bytes"]) - int(pool["pool"]["cached_bytes"])

        before = in_use()
        held = [ds.gather(range(20)) for _ in range(3)]
        views = [view for batch in held for view in batch]
        assert in_use() >= before + 3 * 20 * 100_000
        for batch in held:
            batch.release()
        assert in_use() >= before + 3 * 20 * 100_000
        del held, views, batch
        assert in_use() <= before + 1_000_000
