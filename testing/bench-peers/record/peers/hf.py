"""Hugging Face datasets: a mapped Arrow file; rows as Python objects, or as Arrow tables of views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

from record.peers import Reader

NAME = "HF datasets"


def version() -> str:
    """The installed version."""
    return metadata.version("datasets")


def write(path: str, records: Iterable[bytes], codec: str = "none") -> None:
    """Writes one data set to a folder."""
    import pyarrow as pa
    from datasets import Dataset, disable_progress_bars

    if codec != "none":
        raise ValueError("Arrow files are written uncompressed here")
    disable_progress_bars()
    table = pa.table({"data": pa.array(records, type=pa.large_binary())})
    Dataset(table).save_to_disk(path)


class _Python(Reader):
    """The ordinary way: a dict of lists of bytes."""

    def __init__(self, path: str) -> None:
        from datasets import disable_progress_bars, load_from_disk

        disable_progress_bars()
        self._set = load_from_disk(path)
        self.batch = self._set.__getitem__

    def __len__(self) -> int:
        return len(self._set)

    def records(self, result: Any) -> Iterable[Any]:
        return result["data"]

    def one(self, index: int) -> Any:
        return self._set[index]["data"]

    def epoch(self, seed: int, batch: int) -> Iterator[Any]:
        yield from self._set.shuffle(seed=seed, keep_in_memory=True).iter(batch)


class _Arrow(_Python):
    """Tuned: Arrow tables, which point into the mapped file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._set = self._set.with_format("arrow")
        self.batch = self._set.__getitem__

    def records(self, result: Any) -> Iterable[Any]:
        return result.column("data").to_pylist()

    def one(self, index: int) -> Any:
        return self._set[index].column("data")[0].as_py()


def open(path: str, form: str) -> Reader:
    """Forms: `python` (lists of bytes) and `arrow` (tables of views)."""
    return {"python": _Python, "arrow": _Arrow}[form](path)
