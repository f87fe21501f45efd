"""Pickles are small, reopen the same state, and carry no secret."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import staddle as sd
from support import body


def test_a_set_pickles_small_and_reads_the_same_state(ds: sd.Records, tmp_path: Path) -> None:
    data = pickle.dumps(ds)
    assert len(data) < 512
    again = pickle.loads(data)
    assert again[:].tolist() == ds[:].tolist()
    assert again.generation == ds.generation
    ds[0] = b"changed"
    ds.flush()
    assert pickle.loads(data)[0] == body(0)
    assert pickle.loads(pickle.dumps(ds))[0] == b"changed"


def test_a_relative_path_survives_a_change_of_folder(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(filled.parent)
    ds = sd.open("set.rec")
    assert repr(ds).startswith("Records(set.rec, 100 rows")
    data = pickle.dumps(ds)
    monkeypatch.chdir("/")
    assert pickle.loads(data)[3] == body(3)


def test_options_travel(filled: Path) -> None:
    ds = pickle.loads(pickle.dumps(sd.open(filled, mode="r", io="read", verify="always")))
    assert ds.gather([1]).copied is not None
    with pytest.raises(sd.UnsupportedError):
        ds.append(b"x")
    with sd.open(filled) as w:
        w.snapshot("kept")
        w.append(b"more")
    old = pickle.loads(pickle.dumps(sd.open(filled, snapshot="kept")))
    assert len(old) == 100


def test_a_gone_generation_is_a_conflict_that_says_what_to_do(filled: Path) -> None:
    ds = sd.open(filled)
    data = pickle.dumps(ds)
    ds.close()
    for k in range(4):
        with sd.open(filled) as w:
            w[0] = b"%d" % k
    with pytest.raises(sd.ConflictError, match="generation .* is gone"):
        pickle.loads(data)


def test_slices_and_zips_and_loaders_pickle(ds: sd.Records) -> None:
    for view in (ds[10:20], ds[::-3], ds[5:5], ds[90:10:-7]):
        assert pickle.loads(pickle.dumps(view)).tolist() == view.tolist()
    both = sd.records.zip(a=ds, b=ds)
    assert pickle.loads(pickle.dumps(both))[3] == both[3]
    loader = ds.loader(7, shuffle=True, seed=3, drop_last=True, rank=1, world_size=2)
    batches = iter(loader)
    next(batches)
    data = pickle.dumps(loader)
    assert len(data) < 1024
    again = pickle.loads(data)
    assert again.state_dict() == loader.state_dict()
    assert [b.indices.tolist() for b in again] == [b.indices.tolist() for b in batches]


def test_a_batch_travels_as_a_list(ds: sd.Records) -> None:
    batch = ds.__getitems__([3, 7, 1])
    again = pickle.loads(pickle.dumps(batch))
    assert again == [body(3), body(7), body(1)]


def test_a_path_that_is_not_utf8_works_everywhere(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff\xfe.rec"
    with sd.records.create(name) as w:
        w.extend([b"a", b"b"])
    with sd.open(name) as ds:
        assert ds[1] == b"b"
        assert "Records(" in repr(ds)
        assert pickle.loads(pickle.dumps(ds))[0] == b"a"
    assert sd.open(os.fsdecode(name))[0] == b"a"
    assert sd.open(Path(os.fsdecode(name)))[0] == b"a"
