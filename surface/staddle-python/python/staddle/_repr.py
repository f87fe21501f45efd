"""What a notebook shows of a store: its sizes, its schema and the first rows, every byte of it escaped."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._native import Records

ROWS = 5
_PREVIEW = 80
_LIMIT = 20_000


def records(store: Records) -> str:
    """Return a record set as an HTML table, less than 20 kB whatever the records hold."""
    head = html.escape(repr(store))
    try:
        rows = "".join(_row(index, value) for index, value in enumerate(store.head(ROWS)))
        schema = html.escape(str(store.schema))
    except Exception as error:
        return f"<div><code>{head}</code><p>{html.escape(str(error))[:500]}</p></div>"
    table = f"<table><thead><tr><th>index</th><th>size</th><th>record</th></tr></thead><tbody>{rows}</tbody></table>"
    page = f"<div><code>{head}</code><p>{schema}</p>{table}</div>"
    return page if len(page) < _LIMIT else f"<div><code>{head[:1000]}</code></div>"


def _row(index: int, value: Any) -> str:
    if value is None:
        return f"<tr><td>{index}</td><td>-</td><td><i>deleted</i></td></tr>"
    if isinstance(value, bytes):
        size = f"{len(value):,} B"
        shown = _text(value)
    else:
        size = f"{value.nbytes:,} B"
        shown = f"{value.dtype}{list(value.shape)} {value.ravel()[:6].tolist()}"
    return f"<tr><td>{index}</td><td>{size}</td><td>{html.escape(shown)}</td></tr>"


def _text(value: bytes) -> str:
    start = value[:_PREVIEW]
    shown = ascii(start.decode("utf-8", "backslashreplace"))[1:-1]
    return shown + ("…" if len(value) > _PREVIEW else "")
