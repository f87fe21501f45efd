"""What a set looks like in a terminal and in a notebook: one line, no I/O, everything escaped."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import staddle as sd


def test_one_line_with_sizes(ds: sd.Records) -> None:
    assert re.fullmatch(r"Records\(.*set\.rec, 100 rows, [\d.]+ kB, 1 chunks, [\d.]+ % live\)", repr(ds))
    assert re.fullmatch(
        r"Loader\(.*set\.rec, 100 rows, 8 a batch, shuffled with seed 5, rank 0 of 1, epoch 0\)",
        repr(ds.loader(8, shuffle=True, seed=5)),
    )
    assert repr(ds.gather([1])).startswith("Batch(1 records, ")
    assert repr(ds.gather([1]).pack()).startswith("PackedBatch(1 records, ")
    assert repr(sd.records.zip(a=ds)).startswith("Zipped(a=Records(")


def test_repr_needs_no_file(filled: Path) -> None:
    import shutil

    ds = sd.open(filled)
    before = repr(ds)
    shutil.rmtree(filled)
    assert repr(ds) == before


def test_html_escapes_everything_and_stays_small(tmp_path: Path) -> None:
    evil = b"<script>alert(1)</script>\"'&\x00\x1b[31m" + b"A" * 100_000
    with sd.records.create(tmp_path / "<b>.rec") as ds:
        ds.extend([evil, b"", bytes(range(256)), "ümläut".encode(), b"x"])
        ds.delete(1, keep_order=True)
        page = ds._repr_html_()
    assert len(page) < 20_000
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page
    assert "\x00" not in page
    assert "\x1b" not in page
    assert "<i>deleted</i>" in page


def test_html_of_typed_and_empty_and_damaged_sets(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "t.rec", dtype="f32", shape=(2, 2)) as ds:
        ds.append(np.ones((2, 2), "f4"))
        assert "float32[2, 2]" in ds._repr_html_()
    with sd.records.create(tmp_path / "e.rec") as ds:
        assert "<tbody></tbody>" in ds._repr_html_()
        ds.close()
        assert "closed" in ds._repr_html_()


def test_nothing_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    with pytest.raises(sd.Error) as caught:
        sd.open(
            "s3://no-such-bucket-here/x",
            secret_access_key="hush-too",
            endpoint="http://127.0.0.1:9",
            allow_http=True,
        )
    assert "hush" not in str(caught.value)
    assert "hush" not in sd.metrics.text()
