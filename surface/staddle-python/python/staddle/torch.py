"""Torch: the loader as a torch dataset, and batches as tensors without copying.

``ds.torch(batch_size=256, shuffle=True)`` is an iterable dataset whose items are whole batches, so give it to
``DataLoader(..., batch_size=None)``, or simply iterate over it. A record set itself is a map dataset without any of
this: ``DataLoader(ds, batch_size=256, shuffle=True, collate_fn=staddle.torch.collate)`` fetches each batch in one call.

Torch has no unsigned types beyond ``uint8`` before 2.3, so ``uint16``, ``uint32`` and ``uint64`` become the signed type
of the same size, with the same bits; pass ``ids="uint64"`` to keep them where torch can.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from ._native import Batch, Loader, PackedBatch
from .errors import InvalidError

if TYPE_CHECKING:
    from ._native import Records

__all__ = ["LoaderDataset", "collate", "dataset", "tensor"]

Ids = Literal["int64", "uint64"]

_SIGNED = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}


def tensor(array: np.ndarray[Any, Any], ids: Ids = "int64") -> torch.Tensor:
    """Return a tensor over the array's memory, with the same bits."""
    name = array.dtype.name
    if name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if name in _SIGNED and not (ids == "uint64" and hasattr(torch, name)):
        array = array.view(_SIGNED[name])
    return torch.from_numpy(array)


def collate(batch: Any, ids: Ids = "int64") -> Any:
    """Return a batch as tensors.

    A set with a dtype and a shape gives one tensor of shape ``[records, *shape]``. Other sets give
    ``(data, offsets)``: record k is ``data[offsets[k]:offsets[k + 1]]``; data is ``uint8``, or the set's dtype with
    offsets counted in elements. Anything that is not Staddle's goes to torch's own collate function.
    """
    if isinstance(batch, Batch):
        batch = batch.pack()
    if not isinstance(batch, PackedBatch):
        from torch.utils.data import default_collate

        return default_collate(batch)
    dtype, shape = batch.dtype, batch.shape
    if dtype is None:
        return tensor(batch.data), tensor(batch.offsets)
    if shape is not None:
        whole = tensor(batch.array, ids)
        return whole.view(torch.bfloat16) if dtype == "bf16" else whole
    elements = batch.elements
    values = tensor(elements, ids)
    if dtype == "bf16":
        values = values.view(torch.bfloat16)
    return values, tensor(batch.offsets // elements.itemsize)


class _Epochs:
    """Which epoch do the workers of a DataLoader walk over: a table that all of them see.

    A DataLoader starts new workers for each epoch, from a dataset that has not moved, and all of them share a base seed;
    persistent workers keep theirs and walk again. So (base seed, walk of this process) names an epoch.
    """

    def __init__(self) -> None:
        self._table = multiprocessing.Array("q", 3)  # epochs begun; base seed and walk of the last one
        self._walk = 0

    @property
    def begun(self) -> int:
        """How many epochs workers have begun."""
        return int(self._table[0])

    def enter(self, base_seed: int) -> int:
        """Return the number of the epoch that the calling worker begins, counted from 0."""
        key = [base_seed, self._walk]
        self._walk += 1
        with self._table.get_lock():
            if not self._table[0] or self._table[1:] != key:
                self._table[0] += 1
                self._table[1:] = key
            return int(self._table[0]) - 1

    def reset(self) -> None:
        """Count from 0 again."""
        self._table[0] = 0


class LoaderDataset(IterableDataset[Any]):  # type: ignore[misc,unused-ignore]
    """A loader as a torch dataset: each item is a batch of tensors.

    In a DataLoader with K workers, worker k yields steps k, k + K, …; the DataLoader takes turns, so the order is that
    of ``num_workers=0``, which is the fast path: batches are gathered in Rust threads anyway.
    """

    def __init__(self, loader: Loader, ids: Ids = "int64") -> None:
        super().__init__()
        self.loader = loader
        self.ids: Ids = ids
        self._first_epoch = loader.epoch
        self._epochs = _Epochs()

    def __iter__(self) -> Iterator[Any]:
        """Walk over one epoch, or the rest of one after ``load_state_dict``."""
        worker = get_worker_info()
        if worker is None:
            if self._epochs.begun:
                self.set_epoch(self._first_epoch + self._epochs.begun)
            batches = iter(self.loader)
        else:
            self.loader.set_epoch(self._first_epoch + self._epochs.enter(worker.seed - worker.id))
            batches = self.loader.worker(worker.id, worker.num_workers)
        for batch in batches:
            yield collate(batch, self.ids)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self.loader)

    def state_dict(self, *, steps: int | None = None) -> dict[str, Any]:
        """Return where the loader is.

        Where a DataLoader's workers walk, this process cannot know how far its consumer is: pass the number of
        ``steps`` that it has taken in this epoch.
        """
        begun = self._epochs.begun
        if not begun or get_worker_info() is not None:
            return self.loader.state_dict()
        if steps is None:
            message = (
                "batches come from worker processes; pass steps=, the number of them taken in this epoch"
            )
            raise InvalidError(message)
        return self.loader.state_after(steps, epoch=self._first_epoch + begun - 1)

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Go on where the state says."""
        self.loader.load_state_dict(dict(state), strict=strict)
        self._begin()

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass."""
        self.loader.set_epoch(epoch)
        self._begin()

    def _begin(self) -> None:
        self._first_epoch = self.loader.epoch
        self._epochs.reset()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the shared table behind, unless this is a child process being started."""
        state = self.__dict__.copy()
        if multiprocessing.context.get_spawning_popen() is None:
            del state["_epochs"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Count epochs anew where the table did not come along."""
        self.__dict__.update(state)
        self.__dict__.setdefault("_epochs", _Epochs())

    def __repr__(self) -> str:
        """Name the loader."""
        return f"LoaderDataset({self.loader!r})"


def dataset(store: Records, batch_size: int, *, ids: Ids = "int64", **options: Any) -> LoaderDataset:
    """Return the loader of a store as a torch dataset; ``options`` are those of ``store.loader()``."""
    if options.get("layout", "packed") != "packed":
        message = "tensors come from packed batches; leave layout out, or use store.loader(layout='batch')"
        raise InvalidError(message)
    return LoaderDataset(store.loader(batch_size, layout="packed", **options), ids)
