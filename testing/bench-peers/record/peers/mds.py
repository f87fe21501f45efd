"""MosaicML's MDS shards: their own writer and reader, one `bytes` column, one record at a time.

`import streaming` pulls in torch, transformers and three cloud kits, none of which the local path runs. So
its two package files (`streaming`, `streaming.base`) are skipped, and the five torch names that its
submodules import at the top (never called for a local data set) are given here when torch itself is not
installed. Everything timed, the writer, `LocalDataset`, the shard index and the decoder, is the library's own
code.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from record.peers import Reader

NAME = "MDS"


def version() -> str:
    """The installed version."""
    return metadata.version("mosaicml-streaming")


def _torch_names() -> None:
    torch, distributed = ModuleType("torch"), ModuleType("torch.distributed")
    utils, data = ModuleType("torch.utils"), ModuleType("torch.utils.data")
    torch.Tensor = object
    torch.distributed, torch.utils = distributed, utils
    distributed.is_available = lambda: False
    data.Dataset = type("Dataset", (), {})
    data.get_worker_info = lambda: None
    utils.data = data
    for module in (torch, distributed, utils, data):
        sys.modules[module.__name__] = module


def _import() -> tuple[Any, Any]:
    """The writer and the local data set, imported past the package files that want everything."""
    if "streaming.base" not in sys.modules:
        if importlib.util.find_spec("torch") is None:
            _torch_names()
        spec = importlib.util.find_spec("streaming")
        if spec is None or spec.origin is None:
            raise ImportError("mosaicml-streaming is not installed")
        root = Path(spec.origin).parent
        for name, folder in (("streaming", root), ("streaming.base", root / "base")):
            package = ModuleType(name)
            package.__path__ = [str(folder)]
            sys.modules[name] = package
    from streaming.base.format.mds.writer import MDSWriter
    from streaming.base.local import LocalDataset

    return MDSWriter, LocalDataset


def write(path: str, records: Iterable[bytes], codec: str = "none") -> None:
    """Writes shards of the default 64 MiB."""
    writer_class, _ = _import()
    if codec != "none":
        raise ValueError("MDS compresses whole shards, not records")
    shutil.rmtree(path, ignore_errors=True)
    with writer_class(columns={"data": "bytes"}, out=path) as writer:
        put = writer.write
        for record in records:
            put({"data": record})


class _Local(Reader):
    def __init__(self, path: str) -> None:
        _, local = _import()
        self._set = local(path)

    def __len__(self) -> int:
        return len(self._set)

    def keys(self, indices: np.ndarray) -> Any:
        return indices.tolist()

    def batch(self, keys: Any) -> Any:
        return self._set[keys]

    def records(self, result: Any) -> Iterable[Any]:
        return [sample["data"] for sample in result]

    def one(self, index: int) -> Any:
        return self._set[index]["data"]

    def run_singles(self, indices: list[int]) -> None:
        local = self._set
        for i in indices:
            local[i]


def open(path: str, form: str) -> Reader:
    """Form: `LocalDataset`, the shards without the streaming machinery around them."""
    if form != "LocalDataset":
        raise ValueError(f"MDS has no form {form!r}")
    return _Local(path)
