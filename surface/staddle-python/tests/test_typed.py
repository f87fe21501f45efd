"""Sets with a dtype: items are arrays, batches become one array or tensor without another copy."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
import staddle as sd

DTYPES = ["bool", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "f32", "f64"]
NUMPY = dict(
    zip(
        DTYPES,
        [
            "bool",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "int8",
            "int16",
            "int32",
            "int64",
            "float16",
            "float32",
            "float64",
        ],
        strict=True,
    )
)


def arrays(dtype: str, shape: tuple[int, ...], count: int = 20) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(NUMPY[dtype]) for _ in range(count)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (), (2, 0, 3)])
def test_items_are_arrays_of_dtype_and_shape(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    model = arrays(dtype, shape)
    with sd.records.create(tmp_path / "t.rec", dtype=dtype, shape=shape) as w:
        w.extend(model)
    with sd.open(tmp_path / "t.rec") as ds:
        assert (ds.dtype, ds.shape) == (dtype, shape)
        item = ds[3]
        assert (item.dtype, item.shape) == (np.dtype(NUMPY[dtype]), shape)
        assert item.flags.writeable
        np.testing.assert_array_equal(item, model[3])
        batch = ds.gather([5, 1, 5])
        for got, expected in zip(batch, [model[5], model[1], model[5]], strict=True):
            np.testing.assert_array_equal(got, expected)
        whole = batch.pack().array
        assert whole.shape == (3, *shape)
        assert whole.flags.writeable
        np.testing.assert_array_equal(whole, np.stack([model[5], model[1], model[5]]))
        np.testing.assert_array_equal(np.asarray(batch), whole)
        np.testing.assert_array_equal(np.asarray(batch.pack(), dtype="float64"), whole.astype("float64"))


def test_ragged_records_are_one_dimensional(tmp_path: Path) -> None:
    model = [np.arange(n, dtype="float32") for n in (3, 0, 5)]
    with sd.records.create(tmp_path / "t.rec", dtype="f32") as ds:
        ds.extend(model)
        for got, expected in zip(ds, model, strict=True):
            np.testing.assert_array_equal(got, expected)
        assert ds.schema == {"record": "f32[]"}
        packed = ds.gather([2, 0]).pack()
        assert packed.elements.tolist() == [*model[2], *model[0]]
        assert packed[0].tolist() == model[2].tolist()
        with pytest.raises(sd.InvalidError, match="may differ in length"):
            _ = packed.array
        with pytest.raises(sd.InvalidError, match="may differ in length"):
            np.asarray(ds.gather([0]))


def test_bytes_have_no_array(ds: sd.Records) -> None:
    with pytest.raises(sd.InvalidError, match="no one array"):
        _ = ds.gather([0, 1]).pack().array
    with pytest.raises(sd.InvalidError, match="no one array"):
        ds.gather([0, 1]).__dlpack__()
    assert ds.schema == {"record": "bytes"}
    assert (ds.dtype, ds.shape) == (None, None)


def test_bfloat16_with_and_without_ml_dtypes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    bits = np.array([0x3F80, 0x4000], "uint16")  # 1.0 and 2.0
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with sd.records.create(tmp_path / "t.rec", dtype="bf16", shape=(2,)) as w:
        w.append(bits.tobytes())
        assert w[0].dtype == np.uint16
        assert w[0].tolist() == bits.tolist()
        assert "install ml_dtypes" in w.info()["numpy"]
    monkeypatch.undo()
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with sd.open(tmp_path / "t.rec") as ds:
        assert ds[0].dtype == ml_dtypes.bfloat16
        assert ds[0].astype("float32").tolist() == [1.0, 2.0]


def test_a_deleted_record_is_none(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "t.rec", dtype="i32", shape=(2,)) as ds:
        ds.extend([np.array([i, i], dtype=np.int32) for i in range(4)])
        ds.delete(1, keep_order=True)
        assert ds[1] is None
        assert ds.gather([0, 1])[1] is None
        with pytest.raises(sd.InvalidError, match="were deleted"):
            _ = ds.gather([0, 1]).pack().array
        assert ds.gather([0, 2]).pack().array.tolist() == [[0, 0], [2, 2]]


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (b"12345", "5 bytes does not fit"),
        (np.zeros(3, "f4"), r"shape \[3\] does not fit: this set holds f32\[2\]"),
        (np.zeros(2, "f8"), "array of float64 does not fit"),
        (np.zeros(2, "c8"), "array of complex64 does not fit"),
        ("ab", "encode the text first"),
    ],
    ids=["length", "shape", "dtype", "kind", "text"],
)
def test_what_does_not_fit_is_refused_with_both_sides(tmp_path: Path, record: object, says: str) -> None:
    with sd.records.create(tmp_path / "t.rec", dtype="f32", shape=[2]) as ds:
        with pytest.raises(sd.InvalidError, match=says):
            ds.append(record)  # type: ignore[arg-type]
        ds.append([1.5, 2])  # a list of numbers is what the dtype says
        ds.append(np.array([1, 2], "f2"))
        ds.append(np.arange(4, dtype="f4")[::2])
        assert [item.tolist() for item in ds] == [[1.5, 2.0], [1.0, 2.0], [0.0, 2.0]]


def test_numpy_names_and_dtypes_are_accepted(tmp_path: Path) -> None:
    for k, name in enumerate(["float32", np.float32, np.dtype("f4"), "f32"]):
        with sd.records.create(tmp_path / f"{k}.rec", dtype=name) as ds:  # type: ignore[arg-type]
            assert ds.dtype == "f32"


def test_in_place_writes_reach_nobody_else(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "t.rec", dtype="i64", shape=(2,)) as ds:
        ds.extend([np.array([i, -i]) for i in range(5)])
        ds.flush()
        ds[2][:] = 99
        batch = ds.gather([2, 3])
        batch[0][:] = 98
        packed = batch.pack()
        packed.array[:] = 97
        packed[1][:] = 96
        assert packed.array.tolist() == [[97, 97], [96, 96]]
        assert ds[2].tolist() == [2, -2]
        assert ds.gather([2, 3]).pack().array.tolist() == [[2, -2], [3, -3]]


def test_dlpack_versioned_and_legacy(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "t.rec", dtype="f32", shape=(2, 2)) as ds:
        ds.extend([np.full((2, 2), i, "f4") for i in range(5)])
        for source in (ds.gather([4, 0]), ds.gather([4, 0]).pack()):
            tensor = np.from_dlpack(source)
            assert tensor.shape == (2, 2, 2)
            assert tensor[0].tolist() == [[4.0, 4.0], [4.0, 4.0]]
            assert source.__dlpack_device__() == (1, 0)
        packed = ds.gather([1]).pack()
        assert 'dltensor_versioned"' in repr(packed.__dlpack__(max_version=(1, 0)))
        assert '"dltensor"' in repr(packed.__dlpack__())
        assert '"dltensor"' in repr(packed.__dlpack__(max_version=(0, 8)))
        shared = np.from_dlpack(packed)
        packed.data[:4] = np.frombuffer(np.float32(7).tobytes(), "u1")
        assert shared[0, 0, 0] == 7
        copied = np.from_dlpack(_Copied(packed))
        packed.data[:] = 0
        assert copied[0, 0, 0] == 7
        with pytest.raises(BufferError, match="CPU"):
            packed.__dlpack__(dl_device=(2, 0))
        with pytest.raises(BufferError, match="without copying"):
            ds.gather([1]).__dlpack__(copy=False)


class _Copied:
    """Ask for a copy, as consumers may."""

    def __init__(self, source: sd.PackedBatch) -> None:
        self.source = source

    def __dlpack__(self, **kwargs: object) -> object:
        return self.source.__dlpack__(max_version=(1, 0), copy=True)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_dlpack_memory_outlives_everything(tmp_path: Path) -> None:
    ds = sd.records.create(tmp_path / "t.rec", dtype="f32", shape=(1000,))
    ds.extend([np.full(1000, i, "f4") for i in range(5)])
    never_consumed = ds.gather([1]).__dlpack__()
    tensor = np.from_dlpack(ds.gather([3, 4]).pack())
    ds.close()
    del ds, never_consumed
    gc.collect()
    other = np.ones(100_000)
    assert tensor[0].min() == tensor[0].max() == 3
    assert tensor[1].min() == tensor[1].max() == 4
    assert other.sum() == 100_000
