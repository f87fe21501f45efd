"""Importing the package costs little and brings nothing along."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import staddle as sd

HEAVY = ["torch", "pyarrow", "pandas", "polars", "ray", "tqdm", "numpy", "tensorflow", "IPython"]


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_brings_nothing_heavy() -> None:
    out = run(f"import staddle, sys; print([m for m in {HEAVY} if m in sys.modules])")
    assert out.strip() == "[]"


def test_import_starts_no_thread() -> None:
    out = run("import staddle, os; print(len(os.listdir('/proc/self/task')))")
    assert out.strip() == "1"


def test_open_starts_no_thread(filled: object) -> None:
    code = f"""
import staddle as sd, os
ds = sd.open({str(filled)!r})
ds[0], ds[[1, 2]].tolist()
print(len(os.listdir('/proc/self/task')))
"""
    # NumPy's own threads must not count, so it is told to start none.
    out = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    ).stdout
    assert out.strip() == "1"


def test_every_public_name_is_there() -> None:
    for name in sd.__all__:
        if name != "torch":
            assert hasattr(sd, name), name


def test_an_unknown_attribute_says_so() -> None:
    with pytest.raises(AttributeError, match="'staddle' has no attribute 'recrods'"):
        _ = sd.recrods


def test_the_version_is_the_native_one() -> None:
    assert sd.__version__.count(".") == 2
