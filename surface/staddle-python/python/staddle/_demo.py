"""``staddle demo``: import a tree of files, feed shuffled epochs, resume in the middle, prove every record.

What it proves, it proves by reading: a digest of every source file is taken before the import, and a digest
of every record that the loader hands out afterwards. Each index must come exactly once an epoch, and with
the bytes of its file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import staddle as sd

BATCH_MAX = 256
SEED = 20


def _batch_size(records: int) -> int:
    """Return a batch size that leaves a small set with steps to stop between."""
    return max(1, min(BATCH_MAX, records // 8))


def main(arguments: list[str]) -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="staddle demo",
        description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None,
        epilog="examples:\n  staddle demo\n  staddle demo --input photos/ --keep photos.rec",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("demo", help=argparse.SUPPRESS)
    parser.add_argument(
        "--input", action="append", metavar="DIR", help="folder to import; may be given several times"
    )
    parser.add_argument("--keep", metavar="DIR", help="keep the record set in this folder")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON document")
    # A part of the demo runs in a second process, which has only the saved state and the set.
    parser.add_argument("--resume", nargs=2, metavar=("SET", "STATE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.resume:
        return _resume(*options.resume)
    roots = [Path(folder).resolve() for folder in options.input or [_default_input()]]
    missing = [root for root in roots if not root.is_dir()]
    if missing:
        print(f"staddle demo: {missing[0]} is not a folder", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="staddle-demo-") as scratch:
        place = Path(options.keep) if options.keep else Path(scratch) / "demo.rec"
        if place.exists():
            print(f"staddle demo: {place} exists; choose another place for --keep", file=sys.stderr)
            return 5
        report = _run(roots, place, Path(scratch))
        if options.keep:
            report["kept"] = str(place)
    if options.json:
        print(json.dumps(report))
    else:
        _print(report)
    return 0 if report["proof"]["ok"] else 1


def _default_input() -> Path:
    """Return what every machine with Python has: its standard library."""
    return Path(os.__file__).resolve().parent


def _run(roots: list[Path], place: Path, scratch: Path) -> dict[str, Any]:
    _say(f"reading digests of the files below {len(roots)} folder{'s' if len(roots) != 1 else ''} …")
    source_digests, source_bytes, read_seconds = _digest_files(roots)
    if len(source_digests) < 2:
        message = "the demo needs a folder with at least two different files"
        raise sd.InvalidError(message)
    _say(f"importing {sum(source_digests.values()):,} files …")
    imported = _import(roots, place)
    _say("feeding two epochs …")
    with sd.open(place, mode="r") as records:
        first, first_seconds = _epoch(records, 0)
        # The second epoch stops in the middle; a process that knows only the saved state goes on.
        loader = records.loader(_batch_size(len(records)), shuffle=True, seed=SEED)
        loader.set_epoch(1)
        half = max(1, len(loader) // 2)
        seen = _Seen(len(records))
        started = time.perf_counter()
        for step, batch in enumerate(loader):
            seen.add(batch)
            if step + 1 == half:
                break
        second_seconds = time.perf_counter() - started
        state = loader.state_dict()
        del loader
        (scratch / "state.json").write_text(json.dumps(state))
        _say(f"stopping at step {half:,} of epoch 2 and going on in a new process …")
        rest = _in_new_process(place, scratch / "state.json")
        seen.add_all(rest["indices"], [bytes.fromhex(digest) for digest in rest["digests"]])
        second_seconds += rest["seconds"]
        plain = _epoch_untouched(records)
    proof = {
        "files": sum(source_digests.values()),
        "epoch_1_each_once": first.each_once(),
        "epoch_2_each_once": seen.each_once(),
        "epoch_1_unchanged": first.matches(source_digests),
        "epoch_2_unchanged": seen.matches(source_digests),
        "orders_differ": first.order != seen.order,
    }
    proof["ok"] = all(value for key, value in proof.items() if key != "files")
    return {
        "records": len(first.digests),
        "bytes": source_bytes,
        "digest_seconds": read_seconds,
        "import_seconds": imported,
        "import_mb_per_second": source_bytes / imported / 1e6,
        "epochs": [
            {"epoch": 1, "seconds": first_seconds, "records_per_second": len(first.digests) / first_seconds},
            {"epoch": 2, "seconds": second_seconds, "records_per_second": len(seen.digests) / second_seconds},
        ],
        "loader_only": {"seconds": plain, "records_per_second": len(first.digests) / plain},
        "resumed_at_step": half,
        "state_bytes": len(json.dumps(state)),
        "proof": proof,
    }


class _Seen:
    """What the loader has handed out in one epoch."""

    def __init__(self, records: int) -> None:
        self.records = records
        self.order: list[int] = []
        self.digests: list[bytes] = []

    def add(self, batch: Any) -> None:
        self.order.extend(int(index) for index in batch.indices)
        for record in batch:
            self.digests.append(_digest(record))

    def add_all(self, order: Iterable[int], digests: Iterable[bytes]) -> None:
        self.order.extend(order)
        self.digests.extend(digests)

    def each_once(self) -> bool:
        return len(self.order) == self.records and len(set(self.order)) == self.records

    def matches(self, source: Counter[bytes]) -> bool:
        return Counter(self.digests) == source


def _epoch(records: Any, epoch: int) -> tuple[_Seen, float]:
    loader = records.loader(_batch_size(len(records)), shuffle=True, seed=SEED)
    loader.set_epoch(epoch)
    seen = _Seen(len(records))
    started = time.perf_counter()
    for batch in loader:
        seen.add(batch)
    return seen, time.perf_counter() - started


def _epoch_untouched(records: Any) -> float:
    """Time an epoch that hands out packed batches and looks at none of them: what the loader itself costs."""
    loader = records.loader(_batch_size(len(records)), shuffle=True, seed=SEED + 1, layout="packed")
    started = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - started


def _in_new_process(place: Path, state: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "staddle", "demo", "--resume", str(place), str(state)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stderr.decode(errors="replace"))
        message = f"the resumed process ended with {done.returncode}"
        raise RuntimeError(message)
    rest: dict[str, Any] = json.loads(done.stdout)
    return rest


def _resume(place: str, state: str) -> int:
    with sd.open(place, mode="r") as records:
        loader = records.loader(_batch_size(len(records)), shuffle=True, seed=SEED)
        loader.load_state_dict(json.loads(Path(state).read_text()))
        seen = _Seen(len(records))
        started = time.perf_counter()
        for batch in loader:
            seen.add(batch)
        seconds = time.perf_counter() - started
    digests = [digest.hex() for digest in seen.digests]
    print(json.dumps({"indices": seen.order, "digests": digests, "seconds": seconds}))
    return 0


def _import(roots: list[Path], place: Path) -> float:
    command = [sys.executable, "-m", "staddle", "import", "files", *map(str, roots), str(place)]
    started = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        message = f"the import ended with {done.returncode}"
        raise RuntimeError(message)
    return time.perf_counter() - started


def _digest(record: Any) -> bytes:
    return hashlib.blake2b(record, digest_size=12).digest()


def _files(roots: list[Path]) -> Iterator[Path]:
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder) / name
                if path.is_file() and not path.is_symlink():
                    yield path


def _digest_files(roots: list[Path]) -> tuple[Counter[bytes], int, float]:
    started = time.perf_counter()
    digests: Counter[bytes] = Counter()
    total = 0
    for path in _files(roots):
        content = path.read_bytes()
        digests[_digest(content)] += 1
        total += len(content)
    return digests, total, time.perf_counter() - started


def _say(text: str) -> None:
    print(f"staddle demo: {text}", file=sys.stderr, flush=True)


def _print(report: dict[str, Any]) -> None:
    proof = report["proof"]
    first, second = report["epochs"]
    plain = report["loader_only"]
    resumed = f"at step {report['resumed_at_step']:,} of epoch 2"
    rows = [
        ("records", f"{report['records']:,}"),
        ("bytes", f"{report['bytes']:,}"),
        (
            "import",
            f"{report['import_seconds']:.2f} s, {report['import_mb_per_second']:,.0f} MB/s, made durable",
        ),
        ("epoch 1, every byte hashed", _rate(first)),
        ("epoch 2, every byte hashed", _rate(second)),
        (
            "an epoch of packed batches",
            f"{_rate(plain)}, {report['bytes'] / plain['seconds'] / 1e9:.2f} GB/s",
        ),
        ("resumed", f"{resumed}, from a state of {report['state_bytes']} bytes"),
        ("each record once an epoch", _yes(proof["epoch_1_each_once"] and proof["epoch_2_each_once"])),
        (
            f"unchanged, {proof['files']:,} digests of 96 bits",
            _yes(proof["epoch_1_unchanged"] and proof["epoch_2_unchanged"]),
        ),
        ("epochs in different orders", _yes(proof["orders_differ"])),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
    if kept := report.get("kept"):
        print(f"\nkept in {kept}; look at it with: staddle info {kept}")


def _rate(epoch: dict[str, Any]) -> str:
    return f"{epoch['seconds']:.2f} s, {epoch['records_per_second']:,.0f} records/s"


def _yes(value: bool) -> str:
    return "yes" if value else "NO"
