"""What may stand between the brackets, against what a list does."""

from __future__ import annotations

import numpy as np
import pytest
import staddle as sd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import body

MODEL = [body(index) for index in range(100)]

relaxed = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_ints_of_every_kind(ds: sd.Records) -> None:
    class Indexable:
        def __index__(self) -> int:
            return 3

    assert ds[0] == MODEL[0]
    assert ds[-1] == MODEL[-1]
    assert ds[Indexable()] == MODEL[3]
    for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        assert ds[np.dtype(kind).type(5)] == MODEL[5]
    assert ds[np.array(5)] == MODEL[5]


@relaxed
@given(st.integers(-150, 150))
def test_one_index_is_a_list_index(ds: sd.Records, index: int) -> None:
    try:
        expected = MODEL[index]
    except IndexError:
        with pytest.raises(sd.IndexOutOfRange):
            ds[index]
    else:
        assert ds[index] == expected


@relaxed
@given(st.slices(100), st.integers(-30, 30), st.slices(100))
def test_slices_are_list_slices_and_so_are_slices_of_slices(
    ds: sd.Records, first: slice, index: int, second: slice
) -> None:
    view, model = ds[first], MODEL[first]
    assert isinstance(view, sd.RecordSlice)
    assert len(view) == len(model)
    assert view.tolist() == model
    assert list(view) == model
    assert view[second].tolist() == model[second]
    if -len(model) <= index < len(model):
        assert view[index] == model[index]
    else:
        with pytest.raises(IndexError):
            view[index]


def test_a_slice_reads_nothing_until_asked_and_keeps_its_length(ds: sd.Records) -> None:
    view = ds[90:]
    ds.append(b"later")
    assert len(view) == 10
    assert view.indices.tolist() == list(range(90, 100))
    assert view[[0, -1]].tolist() == [MODEL[90], MODEL[99]]
    assert view.gather().tolist() == MODEL[90:]
    assert view.gather([1, 1]).tolist() == [MODEL[91]] * 2
    assert view.__getitems__([2]).tolist() == [MODEL[92]]
    assert repr(view).startswith("RecordSlice(10 records from 90, step 1, of Records(")


INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i8", ">u4"]


@relaxed
@given(st.lists(st.integers(0, 99), max_size=40), st.sampled_from(INTS))
def test_arrays_of_every_int_type(ds: sd.Records, indices: list[int], dtype: str) -> None:
    expected = [MODEL[index] for index in indices]
    assert ds[np.array(indices, dtype)].tolist() == expected


@relaxed
@given(st.lists(st.integers(-100, 99), max_size=40))
def test_lists_tuples_ranges_and_arrays_agree(ds: sd.Records, indices: list[int]) -> None:
    expected = [MODEL[index] for index in indices]
    assert ds[indices].tolist() == expected
    assert ds.gather(tuple(indices)).tolist() == expected
    assert ds.gather(np.array(indices, "int64")).tolist() == expected
    assert ds.gather(np.array(indices * 2, "int64")[::2]).tolist() == [MODEL[i] for i in (indices * 2)[::2]]
    assert ds.__getitems__(indices).tolist() == expected


def test_ranges_and_memoryviews(ds: sd.Records) -> None:
    assert ds.gather(range(3, 9, 2)).tolist() == [MODEL[3], MODEL[5], MODEL[7]]
    assert ds.gather(memoryview(np.array([4, 2]))).tolist() == [MODEL[4], MODEL[2]]
    assert ds.gather(slice(2, 4)).tolist() == MODEL[2:4]


def test_an_empty_gather_is_an_empty_batch(ds: sd.Records) -> None:
    for nothing in ([], (), np.array([]), np.array([], "int32"), range(0), slice(5, 5)):
        batch = ds.gather(nothing)  # type: ignore[arg-type]
        assert len(batch) == 0
        assert batch.tolist() == []
        data, offsets = batch.pack()
        assert data.tolist() == []
        assert offsets.tolist() == [0]


@pytest.mark.parametrize(
    "index",
    [
        1.5,
        True,
        np.float64(1),
        np.bool_(True),
        None,
        "3",
        b"3",
        np.array([1.0, 2.0]),
        np.array([True, False]),
        np.array([[1, 2], [3, 4]]),
        [1.0],
        [True],
        ["1"],
        [[1, 2]],
        [None],
        np.array(["a"]),
        {"a": 1},
        object(),
        1 + 2j,
    ],
    ids=repr,
)
def test_what_is_no_index_gets_the_list_of_what_is(ds: sd.Records, index: object) -> None:
    with pytest.raises(sd.InvalidError, match=r"int8, int16, int32, int64, *uint8, uint16, uint32 or uint64"):
        ds[index]  # type: ignore[index]


def test_a_mask_is_told_about_flatnonzero(ds: sd.Records) -> None:
    with pytest.raises(sd.InvalidError, match="flatnonzero"):
        ds[np.ones(100, bool)]


def test_large_unsigned_values_are_out_of_range(ds: sd.Records) -> None:
    with pytest.raises(sd.IndexOutOfRange):
        ds[np.array([2**64 - 1], "uint64")]
    with pytest.raises(sd.IndexOutOfRange):
        ds[np.array([-(2**63)])]


def test_iteration_ends(ds: sd.Records) -> None:
    assert list(ds) == MODEL
    assert [record for record in ds[::-1]] == MODEL[::-1]
    assert MODEL[40] in list(iter(ds))
