"""Changing a set, against a list: append, extend, update, both deletes, flush, reopen, snapshots, upkeep."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import staddle as sd
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support import body

record = st.binary(max_size=200)


class Model(RuleBasedStateMachine):
    """A set and the list that it should equal."""

    @initialize(codec=st.sampled_from(["none", "zstd", "lz4"]))
    def create(self, codec: str) -> None:
        import tempfile

        self.folder = Path(tempfile.mkdtemp())
        self.ds = sd.records.create(self.folder / "m.rec", codec=codec, durability="none")  # type: ignore[arg-type]
        self.model: list[bytes | None] = []
        self.snapshots: dict[str, list[bytes | None]] = {}

    @rule(value=record)
    def append(self, value: bytes) -> None:
        assert self.ds.append(value) == len(self.model)
        self.model.append(value)

    @rule(values=st.lists(record, max_size=20))
    def extend(self, values: list[bytes]) -> None:
        start = len(self.model)
        assert self.ds.extend(iter(values)) == range(start, start + len(values))
        self.model.extend(values)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), value=record)
    def update(self, data: st.DataObject, value: bytes) -> None:
        index = data.draw(st.integers(-len(self.model), len(self.model) - 1))
        self.ds[index] = value
        self.model[index] = value

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.model) - 1))
        assert self.ds.delete(index) == len(self.model) - 1
        self.model[index] = self.model[-1]
        self.model.pop()

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete_many(self, data: st.DataObject) -> None:
        indices = data.draw(st.lists(st.integers(0, len(self.model) - 1), unique=True, max_size=5))
        expected = {}
        for index in sorted(indices, reverse=True):
            expected[index] = len(self.model) - 1
            self.model[index] = self.model[-1]
            self.model.pop()
        assert self.ds.delete(indices).tolist() == [expected[index] for index in indices]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def tombstone(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.model) - 1))
        assert self.ds.delete(index, keep_order=True) is None
        self.model[index] = None

    @rule()
    def flush(self) -> None:
        self.ds.flush()

    @rule()
    def reopen(self) -> None:
        self.ds.close()
        self.ds = sd.open(self.folder / "m.rec")

    @rule(upkeep=st.sampled_from(["compact", "rebalance", "checkpoint", "verify"]))
    def keep_up(self, upkeep: str) -> None:
        getattr(self.ds, upkeep)()

    @precondition(lambda self: len(self.snapshots) < 3)
    @rule()
    def snapshot(self) -> None:
        name = f"s{len(self.snapshots)}"
        self.ds.snapshot(name)
        self.snapshots[name] = list(self.model)

    @invariant()
    def equal(self) -> None:
        if not hasattr(self, "ds"):
            return
        assert len(self.ds) == len(self.model)
        assert self.ds[:].tolist() == self.model
        assert self.ds.live == sum(value is not None for value in self.model)

    def teardown(self) -> None:
        if not hasattr(self, "ds"):
            return
        self.ds.close()
        for name, model in self.snapshots.items():
            with sd.open(self.folder / "m.rec", snapshot=name) as old:
                assert old[:].tolist() == model
        shutil.rmtree(self.folder)


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_update_forms(ds: sd.Records) -> None:
    ds.update(7, b"seven")
    ds.update([1, -1], [b"one", b"last"])
    ds.update(np.array([2, 3]), (b"two", bytearray(b"three")))
    ds.update(slice(4, 6), iter([b"four", memoryview(b"five")]))
    assert ds[[7, 1, 99, 2, 3, 4, 5]].tolist() == [
        b"seven",
        b"one",
        b"last",
        b"two",
        b"three",
        b"four",
        b"five",
    ]
    with pytest.raises(sd.InvalidError, match="2 indices and more records"):
        ds.update([1, 2], [b"", b"", b""])
    with pytest.raises(sd.InvalidError, match="2 indices and fewer records"):
        ds.update([1, 2], [b""])
    with pytest.raises(sd.IndexOutOfRange):
        ds.update([1, 100], [b"x", b"y"])
    assert ds[1] == b"one"


def test_delete_forms(ds: sd.Records) -> None:
    assert ds.delete(-1) == 99
    del ds[0]
    assert ds[0] == body(98)
    assert ds.delete([]).tolist() == []
    assert ds.delete(slice(96, 98)).tolist() == [96, 97]
    assert len(ds) == 96
    assert ds.delete([5, 6], keep_order=True) is None
    assert (len(ds), ds.live) == (96, 94)
    with pytest.raises(sd.InvalidError, match="twice"):
        ds.delete([3, 3])
    with pytest.raises(sd.IndexOutOfRange):
        ds.delete([3, 500])
    assert len(ds) == 96


def test_bytes_like_records(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "b.rec") as ds:
        ds.extend([b"a", bytearray(b"b"), memoryview(b"c"), np.frombuffer(b"d", "u1"), np.array([1], "<i2")])
        assert ds[:].tolist() == [b"a", b"b", b"c", b"d", b"\x01\x00"]
        with pytest.raises(sd.InvalidError):
            ds.append(memoryview(b"abcdef")[::2])


def test_progress_is_shown_only_when_asked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with sd.records.create(tmp_path / "p.rec") as ds:
        ds.extend([b"x"] * 10)
        assert capfd.readouterr().err == ""
        ds.extend([b"x"] * 10, progress=True)
        assert "append" in capfd.readouterr().err
        assert len(ds) == 20


def test_own_writes_are_read_before_they_are_flushed_and_others_see_them_after(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "v.rec") as w:
        w.extend([b"a", b"b"])
        w.flush()
        reader, follower = (
            sd.open(tmp_path / "v.rec", mode="r"),
            sd.open(tmp_path / "v.rec", mode="r", follow=True),
        )
        w[0] = b"A"
        w.append(b"c")
        assert w[:].tolist() == [b"A", b"b", b"c"]
        assert reader[:].tolist() == follower[:].tolist() == [b"a", b"b"]
        w.flush()
        assert follower[:].tolist() == [b"A", b"b", b"c"]
        assert reader[:].tolist() == [b"a", b"b"]
        assert reader.refresh()
        assert not reader.refresh()
        assert reader[:].tolist() == [b"A", b"b", b"c"]
        assert reader.generation == w.generation


def test_snapshots(ds: sd.Records) -> None:
    ds.snapshot("before")
    ds.delete(0)
    ds[1] = b"new"
    ds.snapshot("after")
    assert [entry["name"] for entry in ds.snapshots()] == ["before", "after"]
    with sd.open(ds.uri, snapshot="before") as old:
        assert old[:2].tolist() == [body(0), body(1)]
        assert len(old) == 100
        with pytest.raises(sd.UnsupportedError, match="cannot be changed"):
            old.append(b"x")
    with pytest.raises(sd.ConflictError, match="`after` already"):
        ds.snapshot("after")
    with pytest.raises(sd.InvalidError):
        ds.snapshot("../out")
    ds.drop_snapshot("before")
    with pytest.raises(sd.NotFoundError, match="after"):
        sd.open(ds.uri, snapshot="before")


def test_upkeep_reports(ds: sd.Records) -> None:
    ds.delete(range(60))
    ds.flush()
    assert ds.utilization < 1
    dry = ds.rebalance(dry_run=True)
    assert dry["dry_run"]
    before = ds[:].tolist()
    done = ds.rebalance()
    assert not done["dry_run"]
    assert done["records"] == 40
    assert ds[:].tolist() == before
    assert ds.compact()["chunks"] == 0
    report = ds.verify()
    assert (report["records"], report["bad"]) == (40, [])
    info, stats = ds.info(), ds.stats()
    assert (info["kind"], info["records"], info["live"], info["uri"]) == ("records", 40, 40, ds.uri)
    assert sum(chunk["live_records"] for chunk in stats["chunks"]) == 40


def test_context_manager_flushes_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"), sd.records.create(tmp_path / "x.rec") as ds:
        ds.append(b"kept")
        raise RuntimeError("mine")
    assert sd.open(tmp_path / "x.rec")[0] == b"kept"


def test_user_text_and_options_stay_with_the_set(tmp_path: Path) -> None:
    options = {"codec": "zstd", "level": 7, "chunk_bytes": "1MiB", "align": 64, "user": {"made by": "tests"}}
    sd.records.create(tmp_path / "o.rec", **options).close()  # type: ignore[arg-type]
    info = sd.open(tmp_path / "o.rec").info()
    assert (info["codec"], info["level"], info["chunk_bytes"], info["align"]) == ("zstd", 7, 1 << 20, 64)
    assert info["user"] == {"made by": "tests"}
