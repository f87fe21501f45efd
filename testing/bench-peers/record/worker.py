"""The process of one contender: reads one JSON command a line, answers one JSON line.

Every contender has its own process, so that malloc settings, thread pools and CPU time are its own, and a
library that crashes ends as a row in the table. Processes stay open through a case; slots of all contenders
alternate.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from record import data, peers, yardstick
from record.tasks import TASKS

CALIBRATE_LAPS_MAX = 1 << 24


def _records(source: dict[str, Any]) -> Iterator[bytes]:
    """The records a set is written from."""
    if source["kind"] == "random":
        return data.random_records(source["count"], source["size"], source["seed"])
    if source["kind"] == "tiny":
        return data.tiny_records(source["count"])
    if source["kind"] == "text":
        return data.text_records([Path(p) for p in source["folders"]], source["bytes"])
    return data.Source(Path(source["path"])).records()


class Worker:
    """The commands, one method each."""

    def __init__(self) -> None:
        self.task: Any = None
        self._stop = threading.Event()
        self._background: threading.Thread | None = None
        self._rebalances = 0
        self._failure: BaseException | None = None

    def version(self, peer: str) -> dict[str, Any]:
        """The library's version; fails with ImportError where it is not installed."""
        return {"version": peers.load(peer).version()}

    def build(self) -> dict[str, Any]:
        """Compiles the yardstick."""
        yardstick.library()
        return {}

    def write(self, peer: str, path: str, source: dict[str, Any], codec: str) -> dict[str, Any]:
        """Writes a whole set."""
        peers.load(peer).write(path, _records(source), codec)
        return {"bytes": data.size_on_disk(Path(path))}

    def open(self, peer: str, path: str, form: str, task: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Makes a task ready."""
        self.task = TASKS[task](peer, path, form, spec)
        return {}

    def check(self) -> dict[str, Any]:
        """The checksum of what the task reads."""
        return {"digest": self.task.digest()}

    def calibrate(self, seconds: float) -> dict[str, Any]:
        """How many laps fill a slot: doubles until a tenth of it is filled, then scales."""
        laps = 1
        while True:
            wall = self.task.run(laps).wall_s
            if wall >= seconds / 8 or laps >= CALIBRATE_LAPS_MAX:
                return {"laps": max(1, round(laps * seconds / max(wall, 1e-9)))}
            laps *= 2

    def slot(self, laps: int, warm: int) -> dict[str, Any]:
        """One timed slot after `warm` laps that bring this contender's set back into the cache."""
        if warm:
            self.task.run(warm)
        return self.task.run(laps).as_dict()

    def close(self) -> dict[str, Any]:
        """Closes the task."""
        if self.task is not None:
            self.task.close()
        self.task = None
        return {}

    def drop(self, path: str) -> dict[str, Any]:
        """Drops a set's pages from memory and says what fraction stayed."""
        return {"resident": yardstick.drop_cache(data.files_of(Path(path)))}

    def update(self, peer: str, path: str, count: int, size: int) -> dict[str, Any]:
        """Replaces one per cent of a set."""
        peers.load(peer).update(path, data.changes_for(count, size).items())
        return {}

    def rebalance_start(self, peer: str, path: str, count: int, size: int) -> dict[str, Any]:
        """Updates one per cent and rebalances, again and again until told to stop."""
        module = peers.load(peer)
        changes = list(data.changes_for(count, size).items())
        self._stop.clear()
        self._rebalances, self._failure = 0, None
        started = threading.Event()

        def loop() -> None:
            try:
                while not self._stop.is_set():
                    module.update(path, changes)
                    started.set()
                    module.rebalance(path)
                    self._rebalances += 1
            except BaseException as error:
                self._failure = error
                started.set()

        self._background = threading.Thread(target=loop)
        self._background.start()
        started.wait()
        return {}

    def rebalance_stop(self) -> dict[str, Any]:
        """Stops after the current pass; how many passes there were."""
        self._stop.set()
        if self._background is not None:
            self._background.join()
        if self._failure is not None:
            raise self._failure
        return {"passes": self._rebalances}

    def measure_open(self, peer: str, path: str, form: str, count: int) -> dict[str, Any]:
        """Seconds and resident bytes of the first open in this process, imports not counted."""
        module = peers.load(peer)
        module.version()
        _import_only(peer)
        before = _resident_bytes()
        start = time.perf_counter()
        reader = module.open(path, form)
        seconds = time.perf_counter() - start
        grown = _resident_bytes() - before
        if len(reader) != count:
            raise ValueError(f"the set has {len(reader)} records, not {count}")
        probes = [0, count // 3, count - 1]
        right = all(bytes(reader.one(i)) == i.to_bytes(8, "little") for i in probes)
        reader.close()
        return {"seconds": seconds, "rss_bytes": grown, "right": right}


def _import_only(peer: str) -> None:
    """Imports the library behind a peer, so that opening is timed without it."""
    modules = {"staddle": "staddle", "bagz": "bagz", "lmdb": "lmdb"}
    if peer in modules:
        __import__(modules[peer])
    elif peer == "yard":
        yardstick.library()


def _resident_bytes() -> int:
    """Resident memory of this process now."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Answers commands until standard input ends. Whatever a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = Worker()
    for number in itertools.count():
        line = sys.stdin.readline()
        if not line:
            return
        command = json.loads(line)
        name = command.pop("do")
        try:
            answer = getattr(worker, name)(**command)
        except BaseException as error:
            answer = {
                "error": f"{type(error).__name__}: {error}",
                "missing": isinstance(error, ImportError),
                "trace": traceback.format_exc(),
            }
        answers.write(json.dumps({"number": number, **answer}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
