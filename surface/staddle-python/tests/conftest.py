"""Fixtures that the whole suite shares: small sets, and an alarm for everything that might hang."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import staddle as sd
from support import body

ALARM_S = 15


@pytest.fixture
def alarm() -> Iterator[None]:
    """Fail a test that hangs, with a traceback of every thread."""

    def ring(*_: object) -> None:
        faulthandler.dump_traceback()
        pytest.fail(f"nothing happened for {ALARM_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(ALARM_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Return the path of a closed set of 100 records."""
    path = tmp_path / "set.rec"
    with sd.records.create(path) as records:
        records.extend(body(index) for index in range(100))
    return path


@pytest.fixture
def ds(filled: Path) -> Iterator[sd.Records]:
    """Return an open set of 100 records."""
    with sd.open(filled) as records:
        yield records
