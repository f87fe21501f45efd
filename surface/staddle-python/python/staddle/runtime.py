"""What the shared runtime of this process is doing: memory, I/O engine, threads."""

from __future__ import annotations

from typing import Any

from . import _native

__all__ = ["stats"]


def stats() -> dict[str, Any]:
    """Return memory in use against its limit, the I/O engine and why it was chosen, and the number of threads."""
    return _native.runtime_stats()
