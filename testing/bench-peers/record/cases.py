"""The table of cases: what each contender does and which ratio ours should reach.

Targets are those of the design page of the record store. A target belongs to a label; a row without one is
printed for information. `first` is the target, `stretch` the hope; ratios are ours over the rival's, in
records per second of CPU time unless the case says wall time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from record.contender import TRIM_OFF


@dataclass(frozen=True)
class Entrant:
    """One contender in one case."""

    label: str
    peer: str
    form: str
    env: dict[str, str] = field(default_factory=dict)
    first: float | None = None
    stretch: float | None = None
    role: str = "rival"  # ours, rival, limit
    spec: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One comparison. `data` names the set, `task` what is done with it."""

    key: str
    title: str
    data: str
    task: str
    entrants: tuple[Entrant, ...]
    unit: str = "cpu"


def ours(form: str, label: str = "staddle", **more: object) -> Entrant:
    """Our own contender; the first one of a case is what the others are compared with."""
    return Entrant(label, "staddle", form, role="ours", **more)  # type: ignore[arg-type]


def limit(form: str, label: str, first: float | None = None, stretch: float | None = None) -> Entrant:
    """The C yardstick."""
    return Entrant(label, "yard", form, first=first, stretch=stretch, role="limit")


def rival(label: str, peer: str, form: str, first: float | None = None, **more: object) -> Entrant:
    """A peer."""
    return Entrant(label, peer, form, first=first, **more)  # type: ignore[arg-type]


SMALL_PACKED = (
    ours("gather_into"),
    limit("gather", "C gather, packed", 0.85, 0.95),
    rival("bagz", "bagz", "default"),
    rival("bagz, parallelism 1", "bagz", "parallelism 1", 3.5),
    rival("bagz, parallelism 1, limits in memory", "bagz", "parallelism 1, limits in memory", 3.5),
    rival("lmdb, bytes", "lmdb", "bytes", 8.0),
    rival("array_record DataSource", "array_record", "DataSource", 50.0),
    rival("array_record Reader", "array_record", "Reader", 50.0),
    rival("array_record Reader, tuned", "array_record", "Reader tuned", 50.0),
    rival("lance take", "lance", "take", 100.0),
    rival("MDS LocalDataset", "mds", "LocalDataset"),
    rival("HF datasets, python", "hf", "python"),
    ours("pack", "staddle, pack()"),
)

BIG_PACKED = (
    ours("gather_into"),
    limit("gather", "C gather, packed (memcpy)", 0.95),
    limit("memcpy", "C, one memcpy a batch"),
    rival("bagz", "bagz", "default", 3.0),
    rival("bagz, parallelism 1, no trim", "bagz", "parallelism 1", 0.95, stretch=1.0, env=TRIM_OFF),
    rival("lmdb, bytes, no trim", "lmdb", "bytes", env=TRIM_OFF),
    rival("array_record DataSource", "array_record", "DataSource", 4.0),
    rival("array_record Reader, tuned, no trim", "array_record", "Reader tuned", 4.0, env=TRIM_OFF),
    rival("lance take", "lance", "take", 12.0),
    rival("lance take, no trim", "lance", "take", 12.0, env=TRIM_OFF),
    rival("MDS LocalDataset", "mds", "LocalDataset", 2.0),
    rival("MDS LocalDataset, no trim", "mds", "LocalDataset", 2.0, env=TRIM_OFF),
    rival("HF datasets, python", "hf", "python"),
    ours("pack", "staddle, pack()"),
)

LISTS = (
    ours("tolist"),
    limit("objects", "C list of bytes", 0.85, 0.95),
    rival("bagz, parallelism 1", "bagz", "parallelism 1", 2.0),
    rival("bagz, parallelism 1, no trim", "bagz", "parallelism 1", 2.0, env=TRIM_OFF),
    rival("lmdb, bytes", "lmdb", "bytes"),
)

CASES = (
    Case("packed-1k", "1 KiB packed, verified once", "1k", "batches", SMALL_PACKED),
    Case(
        "packed-1k-always",
        "1 KiB packed, verify=always",
        "1k",
        "batches",
        (ours("gather_into, verify always"), limit("gather", "C gather, packed", 0.5, 0.75)),
    ),
    Case("list-1k", "1 KiB list[bytes]", "1k", "batches", LISTS),
    Case(
        "views-1k",
        "1 KiB lazy views, untouched",
        "1k",
        "batches",
        (
            ours("views"),
            limit("resolve", "C resolve, one Python call a batch", 0.4, 0.6),
            limit("resolve loop", "C resolve, no Python"),
            rival("lmdb, buffers", "lmdb", "buffers", 10.0),
            rival("HF datasets, arrow", "hf", "arrow"),
            rival("np.memmap views", "memmap", "views"),
        ),
    ),
    Case(
        "single-1k",
        "1 KiB ds[i]",
        "1k",
        "singles",
        (
            ours("tolist"),
            limit("objects", "C object[i]", 0.9),
            rival("bagz", "bagz", "default", 1.0, stretch=1.1),
            rival("bagz, parallelism 1", "bagz", "parallelism 1", 1.0, stretch=1.1),
            rival("lmdb, bytes", "lmdb", "bytes"),
            rival("np.memmap", "memmap", "views"),
            rival("MDS LocalDataset", "mds", "LocalDataset", 20.0),
            rival("HF datasets, python", "hf", "python", 20.0),
            rival("HF datasets, arrow", "hf", "arrow", 20.0),
            rival("array_record DataSource", "array_record", "DataSource", 400.0),
            rival("array_record Reader, tuned", "array_record", "Reader tuned", 400.0),
            rival("lance take", "lance", "take", 400.0),
        ),
    ),
    Case(
        "epoch-1k",
        "1 KiB shuffled epoch, loader",
        "1k",
        "epoch",
        (
            ours("pack"),
            limit("gather", "C permutation and gather"),
            rival("bagz, parallelism 1", "bagz", "parallelism 1"),
            rival("lmdb, bytes", "lmdb", "bytes"),
            rival("array_record DataSource", "array_record", "DataSource"),
            rival("lance take", "lance", "take"),
            rival("MDS LocalDataset", "mds", "LocalDataset"),
            rival("HF datasets, shuffle().iter", "hf", "python"),
            rival("HF datasets, shuffle().iter, arrow", "hf", "arrow"),
        ),
    ),
    Case(
        "append-1k",
        "1 KiB append, no sync",
        "append",
        "append",
        (
            ours("tolist"),
            limit("objects", "C buffered pwrite", 0.8, 0.95),
            rival("bagz", "bagz", "parallelism 1", 2.0),
            rival("lmdb, one transaction", "lmdb", "bytes"),
            rival("array_record", "array_record", "Reader"),
            rival("lance write_dataset", "lance", "take"),
            rival("MDS", "mds", "LocalDataset"),
        ),
    ),
    Case("packed-1k-large", "1 KiB packed, set beyond L3", "1k-large", "batches", SMALL_PACKED),
    Case("list-1k-large", "1 KiB list[bytes], set beyond L3", "1k-large", "batches", LISTS),
    Case("packed-100k", "100 KiB packed", "100k", "batches", BIG_PACKED),
    Case(
        "epoch-100k",
        "100 KiB shuffled epoch, loader",
        "100k",
        "epoch",
        (
            ours("pack"),
            limit("gather", "C permutation and gather"),
            rival("bagz, parallelism 1, no trim", "bagz", "parallelism 1", env=TRIM_OFF),
            rival("array_record DataSource", "array_record", "DataSource"),
            rival("lance take", "lance", "take"),
            rival("MDS LocalDataset", "mds", "LocalDataset"),
            rival("HF datasets, shuffle().iter", "hf", "python"),
        ),
    ),
    Case(
        "threads-100k",
        "100 KiB packed, 2 threads",
        "100k",
        "threads",
        (
            ours("gather_into", spec={"threads": 2}),
            Entrant(
                "staddle, 1 thread", "staddle", "gather_into", first=1.7, stretch=1.9, spec={"threads": 1}
            ),
            Entrant("C gather, 2 threads", "yard", "gather", role="limit", spec={"threads": 2}),
            Entrant("C gather, 1 thread", "yard", "gather", role="limit", spec={"threads": 1}),
        ),
        unit="wall",
    ),
    Case(
        "cold-100k",
        "100 KiB packed, cold",
        "100k",
        "cold",
        (
            ours("gather_into"),
            limit("pread", "C, 16 threads of pread", 0.9, 1.3),
            limit("willneed", "C, WILLNEED a batch", 0.9, 1.3),
            limit("mmap", "C, page faults", 2.0),
        ),
        unit="wall",
    ),
    Case(
        "text",
        "text, zstd and dictionary",
        "text",
        "batches",
        (
            ours("gather_into"),
            rival("bagz zstd 3, parallelism 1", "bagz", "parallelism 1", 1.2, stretch=1.5),
            rival("bagz zstd 3", "bagz", "default"),
            rival("array_record zstd 3, tuned", "array_record", "Reader tuned"),
        ),
    ),
    Case(
        "overlay-1k",
        "1 KiB packed, 1 % changed",
        "1k-changed",
        "batches",
        (
            ours("gather_into"),
            Entrant("staddle, unchanged", "staddle", "gather_into", first=0.8, stretch=0.9),
        ),
    ),
    Case(
        "rebalance-1k",
        "1 KiB packed, during rebalance",
        "1k-rebalance",
        "rebalance",
        (ours("gather_into"), Entrant("staddle, idle", "staddle", "gather_into", first=0.7, stretch=0.85)),
        unit="wall",
    ),
    Case(
        "open",
        "open",
        "tiny",
        "open",
        (
            ours("tolist"),
            limit("objects", "C, two maps"),
            rival("bagz", "bagz", "default"),
            rival("lmdb", "lmdb", "bytes"),
        ),
        unit="seconds",
    ),
)

TEXT_SIZE_RATIO_MAX = 0.80
TEXT_SIZE_RATIO_STRETCH = 0.75
OPEN_MS_MAX, OPEN_MS_STRETCH = 10.0, 3.0
OPEN_RSS_MB_MAX = 10.0
