"""Every error class is a Staddle error and the builtin that Python code catches; messages say what, where, why, what now."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import staddle as sd

BASES = {
    sd.InvalidError: ValueError,
    sd.NotFoundError: FileNotFoundError,
    sd.KeyMissingError: KeyError,
    sd.IndexOutOfRange: IndexError,
    sd.ExhaustedError: MemoryError,
    sd.UnavailableError: ConnectionError,
    sd.CorruptError: OSError,
    sd.UnsupportedError: NotImplementedError,
    sd.DeadlineError: TimeoutError,
    sd.DeniedError: PermissionError,
    sd.InternalError: RuntimeError,
    sd.ConflictError: Exception,
    sd.ClosedError: Exception,
    sd.CancelledError: Exception,
}


@pytest.mark.parametrize(("ours", "builtin"), BASES.items(), ids=lambda cls: cls.__name__)
def test_classes_keep_their_message_in_both_roles(ours: type[sd.Error], builtin: type[Exception]) -> None:
    error = ours("what; where; why; what to do")
    assert isinstance(error, builtin)
    assert isinstance(error, sd.Error)
    assert str(error) == "what; where; why; what to do"
    assert error.uri is None
    assert error.hint is None


@pytest.mark.parametrize("ours", BASES, ids=lambda cls: cls.__name__)
def test_classes_survive_pickling_with_their_attributes(ours: type[sd.Error]) -> None:
    error = ours("text")
    error.uri, error.index = "imgs.rec", 3
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ours
    assert (str(again), again.uri, again.index) == ("text", "imgs.rec", 3)


def test_key_missing_is_also_not_found() -> None:
    assert issubclass(sd.KeyMissingError, sd.NotFoundError)


def test_out_of_range_gives_the_range(ds: sd.Records) -> None:
    with pytest.raises(
        IndexError, match=r"index 100 is out of range .*valid indices are -100\.\.=99"
    ) as caught:
        ds[100]
    assert caught.value.index == 100
    assert caught.value.uri == ds.uri
    with pytest.raises(sd.IndexOutOfRange, match="index -101"):
        ds[-101]
    with pytest.raises(sd.IndexOutOfRange, match="index 100"):
        ds[[0, 1, 100]]
    with pytest.raises(sd.IndexOutOfRange, match="index 12345"):
        ds.gather(np.array([1, 12345]))
    with pytest.raises(sd.IndexOutOfRange):
        ds[2**70]


def test_out_of_range_in_an_empty_set_says_that_it_is_empty(tmp_path: Path) -> None:
    with (
        sd.records.create(tmp_path / "e.rec") as empty,
        pytest.raises(sd.IndexOutOfRange, match="the store is empty"),
    ):
        empty[0]


def test_a_missing_path_suggests_the_near_one(filled: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"did you mean `.*set\.rec`\?") as caught:
        sd.open(filled.with_name("sett.rec"))
    assert "set.rec" in (caught.value.hint or "")
    with pytest.raises(sd.NotFoundError, match="check the path"):
        sd.open(filled.with_name("nothing-like-it.zzz"))


def test_a_folder_or_file_that_is_no_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(sd.NotFoundError, match="this folder is not a store"):
        sd.open(tmp_path)
    (tmp_path / "a.tar").write_bytes(b"x" * 1024)
    with pytest.raises(sd.NotFoundError, match="staddle adopt"):
        sd.open(tmp_path / "a.tar")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"codec": "zstdd"}, "did you mean `zstd`"),
        ({"dtype": "f33"}, "unknown dtype"),
        ({"shape": (3,)}, "shape needs a dtype"),
        ({"chunk_bytes": "1 parsec"}, "is not a size"),
        ({"chunk_bytes": "1kB"}, "out of range"),
        ({"align": 7}, "use 8, 64 or 4096"),
        ({"writers": 0}, "use 1 to 16"),
        ({"level": 99, "codec": "zstd"}, "level of 99"),
        ({"dictionary": "auto"}, "only zstd takes a dictionary"),
        ({"durability": "often"}, "unknown durability"),
    ],
)
def test_bad_options_of_create_name_what_is_accepted(
    tmp_path: Path, options: dict[str, object], says: str
) -> None:
    with pytest.raises(sd.InvalidError, match=says):
        sd.records.create(tmp_path / "x.rec", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "x.rec" / "HEAD").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "w"}, 'use "r" to read'),
        ({"io": "fast"}, "unknown io"),
        ({"verify": "sometimes"}, "unknown verify"),
        ({"external": "all"}, "unknown external"),
        ({"generation": 1, "snapshot": "x"}, "both name a state"),
        ({"snapshot": "none-such"}, "none-such"),
        ({"reggion": "eu"}, "reggion"),
    ],
)
def test_bad_options_of_open_name_what_is_accepted(
    filled: Path, options: dict[str, object], says: str
) -> None:
    with pytest.raises(sd.Error, match=says):
        sd.open(filled, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("uri", ["", b"a\0b", 5, None])
def test_a_bad_uri_is_an_error_of_the_caller(uri: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        sd.open(uri)  # type: ignore[arg-type]


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(sd.Error, match="s3"):
        sd.open("s4://bucket/name")


def test_creating_twice_is_a_conflict(filled: Path) -> None:
    with pytest.raises(sd.ConflictError, match="already"):
        sd.records.create(filled)


def test_a_read_only_handle_refuses_changes(filled: Path) -> None:
    with sd.open(filled, mode="r") as ds:
        with pytest.raises(sd.UnsupportedError, match="read-only"):
            ds.append(b"x")
        with pytest.raises(sd.UnsupportedError, match="read-only"):
            del ds[0]
        assert len(ds) == 100


def test_a_closed_set_refuses_everything_and_says_so(ds: sd.Records) -> None:
    ds.close()
    ds.close()
    for use in (
        lambda: ds[0],
        lambda: ds[[1]],
        lambda: len(ds),
        lambda: ds.append(b"x"),
        ds.stats,
        ds.verify,
    ):
        with pytest.raises(sd.ClosedError, match="closed"):
            use()
    assert repr(ds) == f"Records({ds.uri}, closed)"


def test_text_is_not_bytes(ds: sd.Records) -> None:
    with pytest.raises(sd.InvalidError, match=r"encode the text first"):
        ds.append("text")  # type: ignore[arg-type]
    with pytest.raises(sd.InvalidError, match="this is one"):
        ds.extend(b"text")
    with pytest.raises(sd.InvalidError, match="not int"):
        ds.append(5)  # type: ignore[arg-type]


def test_a_bad_item_keeps_what_came_before(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "x.rec") as w:
        with pytest.raises(sd.InvalidError):
            w.extend([b"a", b"b", "c", b"d"])  # type: ignore[list-item]
        assert w[:].tolist() == [b"a", b"b"]

        def broken() -> object:
            yield b"e"
            raise KeyError("source")

        with pytest.raises(KeyError, match="source"):
            w.extend(broken())  # type: ignore[arg-type]
        assert w[:].tolist() == [b"a", b"b", b"e"]
