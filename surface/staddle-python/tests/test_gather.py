"""Gather: input order, repeated indices, holes; views, packing, pointers, release."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import numpy as np
import pytest
import staddle as sd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import body

relaxed = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=["none", "lz4", "deflate", "zstd", "read"])
def any_set(request: pytest.FixtureRequest, tmp_path: Path) -> sd.Records:
    """Return a set in every way that bytes can be stored and reached, with two holes."""
    codec = "none" if request.param == "read" else request.param
    with sd.records.create(tmp_path / "any.rec", codec=codec) as w:
        w.extend(body(index) * 3 for index in range(100))
        w.delete([4, 50], keep_order=True)
    return sd.open(tmp_path / "any.rec", io="read" if request.param == "read" else "auto")


MODEL = [None if index in (4, 50) else body(index) * 3 for index in range(100)]


@relaxed
@given(st.lists(st.integers(0, 99), max_size=60))
def test_every_form_of_a_batch_agrees_with_the_model(any_set: sd.Records, indices: list[int]) -> None:
    expected = [MODEL[index] for index in indices]
    batch = any_set.gather(indices)
    assert len(batch) == len(indices)
    assert batch.tolist() == expected
    assert [None if view is None else bytes(view) for view in batch] == expected
    assert batch.present.tolist() == [record is not None for record in expected]
    assert batch.lengths().tolist() == [len(record or b"") for record in expected]
    assert batch.indices.tolist() == indices
    assert batch.valid == len(indices)
    assert batch.nbytes == sum(len(record or b"") for record in expected)
    data, offsets = batch.pack()
    assert offsets.dtype == np.int64
    assert bytes(data) == b"".join(record or b"" for record in expected)
    for k, record in enumerate(expected):
        assert bytes(data[offsets[k] : offsets[k + 1]]) == (record or b"")
    addresses = batch.pointers()
    for address, record in zip(addresses, expected, strict=True):
        if record is None:
            assert address == 0
        else:
            assert ctypes.string_at(int(address), len(record)) == record


def test_views_are_read_only_and_keep_their_memory(any_set: sd.Records) -> None:
    batch = any_set.gather([1, 2, 3])
    view = batch[1]
    assert view.readonly
    with pytest.raises(TypeError):
        view[0] = 0
    with pytest.raises((ValueError, TypeError)):
        np.frombuffer(view, "u1")[0] = 1
    batch.release()
    any_set.close()
    del batch
    gc.collect()
    assert bytes(view) == MODEL[2]


def test_a_released_batch_says_so_and_its_views_stay(any_set: sd.Records) -> None:
    batch = any_set.gather([1, 2, 3])
    view, addresses, packed = batch[0], batch.pointers(), batch.pack()
    batch.release()
    batch.release()
    for use in (
        batch.tolist,
        batch.pack,
        batch.pointers,
        batch.lengths,
        lambda: batch[0],
        lambda: list(batch),
    ):
        with pytest.raises(sd.ClosedError, match="released"):
            use()
    assert len(batch) == 3
    assert "released" in repr(batch)
    assert bytes(view) == MODEL[1]
    assert ctypes.string_at(int(addresses[2]), len(MODEL[3] or b"")) == MODEL[3]
    assert bytes(packed[1]) == MODEL[2]  # type: ignore[arg-type]


def test_indexing_a_batch(any_set: sd.Records) -> None:
    batch = any_set.gather(range(10))
    assert batch[4] is None
    assert bytes(batch[-1]) == MODEL[9]
    assert [None if view is None else bytes(view) for view in batch[3:6]] == MODEL[3:6]
    assert [bytes(view) for view in batch[[0, -1]]] == [MODEL[0], MODEL[9]]
    assert bytes(batch.view(5)) == MODEL[5]  # type: ignore[arg-type]
    assert batch.view(4) is None
    with pytest.raises(IndexError):
        batch[10]


def test_getitems_gives_values(any_set: sd.Records) -> None:
    batch = any_set.__getitems__([3, 4, 5])
    assert batch[0] == MODEL[3]
    assert isinstance(batch[0], bytes)
    assert batch[1] is None
    assert list(batch) == [MODEL[3], None, MODEL[5]]
    assert batch == [MODEL[3], None, MODEL[5]]
    assert batch != [MODEL[3]]
    assert batch == any_set.gather([3, 4, 5])


def test_copied_says_why(filled: Path, any_set: sd.Records) -> None:
    assert sd.open(filled).gather([1, 2]).copied is None
    assert "zero-copy" in repr(sd.open(filled).gather([1, 2]))
    assert isinstance(sd.open(filled, io="read").gather([1, 2]).copied, str)


def test_packed_memory_is_private_and_writable(any_set: sd.Records) -> None:
    first, second = any_set.gather([1, 2]).pack(), any_set.gather([1, 2]).pack()
    first.data[:] = 0
    assert bytes(second.data) == (MODEL[1] or b"") + (MODEL[2] or b"")
    assert any_set[1] == MODEL[1]
    data = first.data
    first.release()
    del first
    gc.collect()
    data[:] = 255
    assert set(data.tolist()) <= {255}


def test_packed_records_by_position(any_set: sd.Records) -> None:
    packed = any_set.gather([3, 4, 5]).pack()
    assert len(packed) == 3
    assert bytes(packed[0]) == MODEL[3]  # type: ignore[arg-type]
    assert packed[1] is None
    assert bytes(packed[-1]) == MODEL[5]  # type: ignore[arg-type]
    assert packed.present.tolist() == [True, False, True]
    assert packed.indices.tolist() == [3, 4, 5]
    assert packed.nbytes == len(MODEL[3] or b"") + len(MODEL[5] or b"")
    packed.release()
    with pytest.raises(sd.ClosedError):
        _ = packed.data


def test_gather_into_fills_what_it_is_given(any_set: sd.Records) -> None:
    indices = [9, 3, 4, 9]
    expected = b"".join(MODEL[index] or b"" for index in indices)
    out = np.zeros(len(expected) + 5, "u1")
    offsets = any_set.gather_into(indices, out)
    assert bytes(out[: offsets[-1]]) == expected
    assert bytes(out[offsets[-1] :]) == bytes(5)
    mine = np.zeros(5, "i8")
    target = bytearray(len(expected))
    assert any_set.gather_into(indices, target, mine) is mine
    assert bytes(target) == expected
    assert mine.tolist() == offsets.tolist()


def test_gather_into_says_what_is_needed(ds: sd.Records) -> None:
    need = int(ds.lengths([1, 2]).sum())
    with pytest.raises(sd.InvalidError, match=f"{need}"):
        ds.gather_into([1, 2], bytearray(need - 1))
    with pytest.raises(sd.InvalidError, match="cannot be written"):
        ds.gather_into([1, 2], bytes(need))
    with pytest.raises(sd.InvalidError, match="cannot be written"):
        ds.gather_into([1, 2], np.zeros((need, 2), "u1")[:, 0])
    for offsets in (np.zeros(2, "i8"), np.zeros(3, "i4"), np.zeros(6, "i8")[::2]):
        with pytest.raises(sd.InvalidError, match="3 entries"):
            ds.gather_into([1, 2], bytearray(need), offsets)
    frozen = np.zeros(3, "i8")
    frozen.flags.writeable = False
    with pytest.raises(sd.InvalidError, match="writable"):
        ds.gather_into([1, 2], bytearray(need), frozen)


def test_nothing_moves_before_an_index_error(ds: sd.Records) -> None:
    out = bytearray(1000)
    with pytest.raises(sd.IndexOutOfRange):
        ds.gather_into([1, 2, 100], out)
    assert out == bytes(1000)


def test_view_is_one_record(any_set: sd.Records) -> None:
    assert bytes(any_set.view(3)) == MODEL[3]  # type: ignore[arg-type]
    assert bytes(any_set.view(-1)) == MODEL[99]  # type: ignore[arg-type]
    assert any_set.view(4) is None


def test_lengths_head_prefetch(any_set: sd.Records) -> None:
    assert any_set.lengths().tolist() == [len(record or b"") for record in MODEL]
    assert any_set.lengths([3, -1]).tolist() == [len(MODEL[3] or b""), len(MODEL[99] or b"")]
    assert any_set.head(6) == MODEL[:6]
    assert any_set.head(0) == []
    assert len(any_set.head(1000)) == 100
    any_set.prefetch([1, 5, 99])


def test_arrow_sees_a_large_binary_array(any_set: sd.Records) -> None:
    pa = pytest.importorskip("pyarrow")
    indices = [3, 4, 5, 50, 7]
    for give in (any_set.gather(indices), any_set.gather(indices).pack()):
        array = pa.array(give)
        assert array.type == pa.large_binary()
        assert array.to_pylist() == [MODEL[index] for index in indices]
        assert pa.array(give).to_pylist() == array.to_pylist()
        array.validate(full=True)
    never_consumed = any_set.gather(indices).__arrow_c_array__()
    del never_consumed
    assert pa.array(any_set.gather([])).to_pylist() == []
