"""Progress for long loops, shown only when asked for: tqdm where it is installed, else a plain line every 10 s."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_LINE_EVERY_S = 10.0


def wrap(items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """Return ``items`` with progress on stderr while they are consumed."""
    if total is None:
        try:
            total = len(items)  # type: ignore[arg-type]
        except TypeError:
            total = None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _lines(items, what, total)
    return tqdm(items, desc=what, total=total, unit=" records", unit_scale=True)  # type: ignore[no-any-return]


def _lines(items: Iterable[T], what: str, total: int | None) -> Iterator[T]:
    """Yield ``items``; write a line to stderr every ten seconds and at the end."""
    start = last = time.monotonic()
    done = 0
    of = "" if total is None else f" of {total:,}"
    for item in items:
        yield item
        done += 1
        if done % 256 == 0 and time.monotonic() - last > _LINE_EVERY_S:
            last = time.monotonic()
            print(f"{what}: {done:,}{of} records, {done / (last - start):,.0f}/s", file=sys.stderr)  # noqa: T201
    taken = time.monotonic() - start
    print(f"{what}: {done:,} records in {taken:.1f} s", file=sys.stderr)  # noqa: T201
