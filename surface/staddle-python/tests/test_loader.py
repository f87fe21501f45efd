"""The loader: every record once an epoch, in an order that only seed, epoch and length decide; exact resume."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import staddle as sd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import body

relaxed = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def order(loader: Any) -> list[int]:
    """Return the indices of an epoch, padding left out."""
    return list(chain.from_iterable(batch.indices[: batch.valid].tolist() for batch in loader))


@pytest.mark.parametrize("layout", ["batch", "packed"])
@pytest.mark.parametrize("shuffle", [False, True, "block"])
@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_every_record_comes_once_an_epoch_with_its_bytes(
    ds: sd.Records, layout: str, shuffle: bool | str, prefetch: int
) -> None:
    loader = ds.loader(7, shuffle=shuffle, layout=layout, prefetch=prefetch)  # type: ignore[arg-type]
    assert len(loader) == 15
    epochs = []
    for _ in range(2):
        seen = []
        for batch in loader:
            for position, index in enumerate(batch.indices.tolist()):
                assert bytes(batch[position]) == body(index)
                seen.append(index)
        assert sorted(seen) == list(range(100))
        epochs.append(seen)
    assert (epochs[0] == list(range(100))) == (shuffle is False)
    assert (epochs[0] == epochs[1]) == (shuffle is False)


def test_the_order_is_a_function_of_seed_and_epoch(ds: sd.Records) -> None:
    first = order(ds.loader(8, shuffle=True, seed=1))
    assert first == order(ds.loader(8, shuffle=True, seed=1))
    assert first == order(ds.loader(3, shuffle=True, seed=1))
    assert first != order(ds.loader(8, shuffle=True, seed=2))
    loader = ds.loader(8, shuffle=True, seed=1)
    loader.set_epoch(1)
    assert loader.epoch == 1
    second = order(loader)
    assert second != first
    again = ds.loader(8, shuffle=True, seed=1)
    order(again)
    assert order(again) == second


def test_short_last_batch_and_drop_last(ds: sd.Records) -> None:
    assert [len(batch) for batch in ds.loader(30)] == [30, 30, 30, 10]
    assert [len(batch) for batch in ds.loader(30, drop_last=True)] == [30, 30, 30]
    assert len(ds.loader(30)) == 4
    assert len(ds.loader(30, drop_last=True)) == 3
    assert len(ds.loader(1000)) == 1
    assert [len(batch) for batch in ds.loader(1000, drop_last=True)] == []


@pytest.mark.parametrize(("uneven", "steps"), [("wrap", 5), ("drop", 4), ("short", 5)])
def test_ranks_share_an_epoch(ds: sd.Records, uneven: str, steps: int) -> None:
    world = 3
    ranks = [
        list(ds.loader(8, shuffle=True, rank=rank, world_size=world, uneven=uneven))  # type: ignore[arg-type]
        for rank in range(world)
    ]
    counted = sorted(
        chain.from_iterable(batch.indices[: batch.valid].tolist() for rank in ranks for batch in rank)
    )
    if uneven == "drop":
        assert len(counted) == len(set(counted)) == 96
    else:
        assert counted == list(range(100))
    if uneven != "short":
        assert all(len(rank) == steps for rank in ranks)
        assert all(len(batch) == 8 for rank in ranks for batch in rank)
    one = order(ds.loader(8 * world, shuffle=True))
    together = list(
        chain.from_iterable(
            batch.indices[: batch.valid].tolist()
            for step in zip(*ranks, strict=uneven != "short")
            for batch in step
        )
    )
    assert together == one[: len(together)]


def test_rank_and_world_size_come_from_torchrun(ds: sd.Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    loader = ds.loader(8)
    assert (loader.rank, loader.world_size) == (2, 4)
    assert "rank 2 of 4" in repr(loader)
    assert ds.loader(8, rank=0, world_size=1).world_size == 1
    monkeypatch.setenv("RANK", "two")
    with pytest.raises(sd.InvalidError, match="variable RANK"):
        ds.loader(8)


@relaxed
@given(
    st.integers(1, 40),
    st.sampled_from([False, True, "block"]),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), min_size=1, max_size=8),
    st.integers(0, 3),
)
def test_any_pattern_of_interruptions_gives_the_same_order(
    ds: sd.Records, batch: int, shuffle: bool | str, pieces: list[tuple[int, int]], prefetch: int
) -> None:
    """Each piece is a new loader, on some number of ranks, that goes a few steps on from the state before."""
    rows = 12 * batch
    expected_loader = ds.loader(rows, shuffle=shuffle, seed=9)  # type: ignore[arg-type]
    expected = list(chain.from_iterable(order(expected_loader) for _ in range(3)))
    state = None
    got: list[int] = []
    for divisor, steps in pieces:
        world = {1: 1, 2: 2, 3: 3, 4: 4}[divisor]
        loaders = [
            ds.loader(
                rows // world,
                shuffle=shuffle,  # type: ignore[arg-type]
                seed=9,
                rank=rank,
                world_size=world,
                prefetch=prefetch,
                uneven="wrap",
            )
            for rank in range(world)
        ]
        if state is not None:
            for loader in loaders:
                loader.load_state_dict(state)
        walks = [iter(loader) for loader in loaders]
        for _ in range(steps):
            try:
                batches = [next(walk) for walk in walks]
            except StopIteration:
                walks = [iter(loader) for loader in loaders]
                batches = [next(walk) for walk in walks]
            for batch_of_rank in batches:
                got.extend(batch_of_rank.indices[: batch_of_rank.valid].tolist())
        states = [json.loads(json.dumps(loader.state_dict())) for loader in loaders]
        assert all(one == states[0] for one in states)
        assert len(json.dumps(states[0])) < 500
        state = states[0]
    while len(expected) < len(got):
        expected.extend(order(expected_loader))
    assert got == expected[: len(got)]


@relaxed
@given(st.integers(1, 7), st.integers(1, 5), st.integers(0, 20))
def test_workers_take_turns(ds: sd.Records, workers: int, batch: int, start: int) -> None:
    plain = ds.loader(batch, shuffle=True, seed=4)
    # At the very end of an epoch a state means the next one.
    start %= len(plain)
    walk = iter(plain)
    for _ in range(start):
        next(walk)
    state = plain.state_dict()
    rest = [found.indices.tolist() for found in walk]
    turns: list[list[int]] = []
    loaders = [ds.loader(batch, shuffle=True, seed=4) for _ in range(workers)]
    walks = []
    for k, loader in enumerate(loaders):
        loader.load_state_dict(state)
        walks.append(loader.worker(k, workers))
    live = list(walks)
    while live:
        for one in list(live):
            found = next(one, None)
            if found is None:
                live.remove(one)
            else:
                turns.append(found.indices.tolist())
    assert turns == rest


def test_state_is_about_what_was_yielded_not_prefetched(ds: sd.Records) -> None:
    loader = ds.loader(10, shuffle=True, prefetch=8)
    walk = iter(loader)
    next(walk)
    next(walk)
    assert loader.state_dict()["consumed"] == 20
    rest = [batch.indices.tolist() for batch in walk]
    assert loader.state_dict() == loader.state_dict() | {"epoch": 1, "consumed": 0}
    again = ds.loader(10, shuffle=True)
    again.load_state_dict(loader.state_dict() | {"epoch": 0, "consumed": 20})
    assert [batch.indices.tolist() for batch in again] == rest


def test_state_after_counts_for_workers_elsewhere(ds: sd.Records) -> None:
    loader = ds.loader(10, shuffle=True)
    assert loader.state_after(3)["consumed"] == 30
    assert (loader.state_after(10)["epoch"], loader.state_after(10)["consumed"]) == (1, 0)
    assert loader.state_after(2, epoch=5) == loader.state_dict() | {"epoch": 5, "consumed": 20}


def test_another_set_is_a_conflict_that_names_both(ds: sd.Records, tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "other.rec") as other:
        other.extend([b"x"] * 100)
        state = other.loader(10).state_dict()
    with pytest.raises(sd.ConflictError, match="belongs to set"):
        ds.loader(10).load_state_dict(state)
    with pytest.raises(sd.ConflictError, match="order"):
        ds.loader(10, shuffle=True).load_state_dict(ds.loader(10).state_dict())


@pytest.mark.parametrize(
    "state", [{}, 5, None, [], {"format": 1}, {"format": 99}, "x", {"epoch": object()}], ids=repr
)
def test_what_is_no_state_says_so(ds: sd.Records, state: Any) -> None:
    with pytest.raises(sd.InvalidError, match="not the state of a loader"):
        ds.loader(10).load_state_dict(state)


def test_what_changes_resume(ds: sd.Records) -> None:
    def halfway() -> tuple[dict[str, Any], list[list[int]]]:
        loader = ds.loader(10, shuffle=True, seed=2)
        walk = iter(loader)
        for _ in range(4):
            next(walk)
        state = loader.state_dict()
        return state, [batch.indices.tolist() for batch in walk]

    state, rest = halfway()
    ds.extend([b"new"] * 5)
    ds.flush()
    ds.rebalance()
    loader = ds.loader(10, shuffle=True, seed=2)
    loader.load_state_dict(state)
    assert [batch.indices.tolist() for batch in loader] == rest, "appends and rebalance change nothing"
    assert len(order(loader)) == 105, "the next epoch has the new records"

    state, rest = halfway()
    ds[rest[0][0]] = b"changed"
    ds.flush()
    loader = ds.loader(10, shuffle=True, seed=2)
    with pytest.raises(sd.ConflictError, match="strict=False"):
        loader.load_state_dict(state)
    loader.load_state_dict(state, strict=False)
    assert [batch.indices.tolist() for batch in loader] == rest

    ds.snapshot("kept")
    state, rest = halfway()
    ds.delete(3)
    ds.flush()
    loader = ds.loader(10, shuffle=True, seed=2)
    loader.load_state_dict(state)
    assert [batch.indices.tolist() for batch in loader] == rest, "found in the snapshot by itself"
    ds.drop_snapshot("kept")
    with pytest.raises(sd.ConflictError, match="snapshot"):
        ds.loader(10, shuffle=True, seed=2).load_state_dict(state)


def test_an_epoch_reads_the_state_it_began_with(ds: sd.Records) -> None:
    loader = ds.loader(10, shuffle=True)
    walk = iter(loader)
    next(walk)
    ds.update(range(100), [b"new"] * 100)
    ds.delete(range(50))
    ds.flush()
    for batch in walk:
        for position, index in enumerate(batch.indices.tolist()):
            assert bytes(batch[position]) == body(index)
    assert sorted(order(loader)) == list(range(50))


def test_deleted_records_are_left_out(ds: sd.Records) -> None:
    ds.delete([3, 50, 99], keep_order=True)
    ds.flush()
    seen = order(ds.loader(7, shuffle=True))
    assert sorted(seen) == [index for index in range(100) if index not in (3, 50, 99)]


def test_a_snapshot_can_be_loaded(ds: sd.Records) -> None:
    ds.snapshot("small")
    ds.extend([b"x"] * 50)
    ds.flush()
    assert len(order(ds.loader(16, snapshot="small"))) == 100
    with pytest.raises(sd.NotFoundError):
        ds.loader(16, snapshot="none-such")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch_size": 0}, "batch"),
        ({"shuffle": "blok"}, 'use False, True or "block"'),
        ({"layout": "pack"}, "known: batch, packed"),
        ({"uneven": "warp"}, "did you mean `wrap`"),
        ({"rank": 3, "world_size": 2}, "rank"),
        ({"prefetch": 10**6}, "prefetch"),
    ],
)
def test_bad_options_name_what_is_accepted(ds: sd.Records, options: dict[str, Any], says: str) -> None:
    with pytest.raises(sd.InvalidError, match=says):
        ds.loader(**{"batch_size": 8} | options)


def test_an_empty_set_has_no_batches(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "e.rec") as ds:
        loader = ds.loader(8, shuffle=True)
        assert len(loader) == 0
        assert list(loader) == []


def test_closing_ends_a_walk(ds: sd.Records) -> None:
    walk = iter(ds.loader(8))
    next(walk)
    ds.close()
    with pytest.raises(sd.ClosedError):
        next(walk)


def test_zipped_sets_stay_in_step(ds: sd.Records, tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "labels.rec", dtype="i64", shape=()) as w:
        w.extend(np.arange(100))
        labels = sd.open(w.uri) if w.flush() else w  # type: ignore[func-returns-value]
        both = sd.records.zip(img=ds, label=labels)
        assert (len(both), both[7]["img"], int(both[7]["label"])) == (100, body(7), 7)
        assert [row["img"] for row in both.__getitems__([3, 1])] == [body(3), body(1)]
        loader = both.loader(9, shuffle=True, layout="packed")
        assert len(loader) == 12
        walk = iter(loader)
        first = next(walk)
        assert first["label"].array.tolist() == first["img"].indices.tolist()
        state = loader.state_dict()
        rest = [batch["label"].array.tolist() for batch in walk]
        again = both.loader(9, shuffle=True, layout="packed")
        again.load_state_dict(state)
        assert [batch["label"].array.tolist() for batch in again] == rest
        with pytest.raises(sd.InvalidError, match="equal lengths: a=100, b=99"):
            other = sd.records.create(tmp_path / "short.rec")
            other.extend([b""] * 99)
            sd.records.zip(a=ds, b=other)
        with pytest.raises(sd.InvalidError, match="at least one"):
            sd.records.zip()


def test_threads_get_a_share_each_not_the_same_walk(ds: sd.Records) -> None:
    import threading

    loader = ds.loader(1, shuffle=True)
    seen: list[int] = []

    def take(k: int) -> None:
        for batch in ds.loader(1, shuffle=True).worker(k, 4):
            seen.extend(batch.indices.tolist())

    threads = [threading.Thread(target=take, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(100))
    assert sorted(order(loader)) == list(range(100))
