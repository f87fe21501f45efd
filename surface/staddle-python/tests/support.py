"""What tests share besides fixtures: the records that their sets hold."""

from __future__ import annotations


def body(index: int) -> bytes:
    """Return record `index` of the sets that these tests make: each differs, some are empty."""
    return b"" if index % 10 == 7 else b"%d:" % index + bytes([index % 251]) * (index % 97)
