"""The counters and gauges of this process, as a dashboard scrapes them."""

from __future__ import annotations

from . import _native

__all__ = ["text"]


def text() -> str:
    """Return every metric of this process in OpenMetrics text."""
    return _native.metrics_text()
