"""Runs the cases: writes sets, checks every contender's bytes, alternates timed slots, collects figures."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from record import data
from record.cases import Case, Entrant
from record.contender import Contender, ContenderError

CHECK_SINGLES = 2_000
RESIDENT_MAX = 0.05


@dataclass
class Figures:
    """What one contender did in one case."""

    entrant: Entrant
    slots: list[dict[str, float]] = field(default_factory=list)
    trouble: str = ""  # why there are no slots
    broken: bool = False  # trouble that means something does not work, rather than is not installed
    notes: list[str] = field(default_factory=list)
    extra: dict[str, float] = field(default_factory=dict)


@dataclass
class Result:
    """One case, measured. The first of `figures` is ours."""

    case: Case
    figures: list[Figures]
    notes: list[str] = field(default_factory=list)


def say(text: str) -> None:
    """Progress, to standard error."""
    print(text, file=sys.stderr, flush=True)


class Bench:
    """One run: the sets on disk and the cases over them."""

    def __init__(
        self, plan: data.Plan, scratch: Path, folders: Callable[[], list[Path]], absent: set[str]
    ) -> None:
        self.plan, self.scratch, self._folders, self._absent = plan, scratch, folders, absent
        self._sources: dict[str, data.Source] = {}
        self._written: dict[tuple[str, str], ContenderError | None] = {}  # (peer, set) to its trouble
        self.sizes: dict[str, dict[str, int]] = {}

    # ---- sets ----

    def _spec(self, name: str) -> dict[str, Any]:
        """How the records of a set are made, for a worker."""
        plan = self.plan
        random = {
            "1k": (plan.small_records, 1024, 11),
            "1k-large": (plan.large_records, 1024, 12),
            "1k-changed": (plan.small_records, 1024, 11),
            "1k-rebalance": (plan.small_records * 4, 1024, 13),
            "100k": (plan.big_records, 100 * 1024, 14),
        }
        if name in random:
            count, size, seed = random[name]
            return {"kind": "random", "count": count, "size": size, "seed": seed}
        if name == "tiny":
            return {"kind": "tiny", "count": plan.tiny_records}
        return {"kind": "text", "folders": [str(f) for f in self._folders()], "bytes": plan.text_bytes}

    def source(self, name: str) -> data.Source:
        """The truth of a set, written once."""
        if name not in self._sources:
            path = self.path("yard", name)
            if ("yard", name) not in self._written:
                say(f"  writing set {name}")
                with _Process(self.scratch) as worker:
                    worker.ask("write", peer="yard", path=str(path), source=self._spec(name), codec="none")
                self._written["yard", name] = None
            self._sources[name] = data.Source(path)
        return self._sources[name]

    def path(self, peer: str, name: str) -> Path:
        """Where a contender's copy of a set lives."""
        return self.scratch / name / f"{peer}{_suffix(peer, name)}"

    def ensure(self, peer: str, name: str) -> ContenderError | None:
        """Writes a contender's copy of a set unless it is there; returns the trouble, if any."""
        if (peer, name) in self._written:
            return self._written[peer, name]
        if name != "tiny":
            self.source(name)
            if peer == "yard":
                return None
        path = self.path(peer, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        spec = self._spec(name) if name == "tiny" else {"kind": "yard", "path": str(self.path("yard", name))}
        codec = "zstd" if name == "text" else "none"
        trouble = None
        try:
            with _Process(self.scratch) as worker:
                start = time.perf_counter()
                answer = worker.ask("write", peer=peer, path=str(path), source=spec, codec=codec)
                if name == "1k-changed":
                    worker.ask("update", peer=peer, path=str(path), count=self.plan.small_records, size=1024)
                took = time.perf_counter() - start
                self.sizes.setdefault(name, {})[peer] = answer["bytes"]
                if took > 5:
                    say(f"  {peer} wrote set {name} in {took:.0f} s")
        except ContenderError as error:
            trouble = error
        self._written[peer, name] = trouble
        return trouble

    def forget(self, name: str) -> None:
        """Removes all copies of a set."""
        self._sources.pop(name, None)
        for key in [key for key in self._written if key[1] == name]:
            del self._written[key]
        shutil.rmtree(self.scratch / name, ignore_errors=True)

    # ---- cases ----

    def run(self, case: Case) -> Result:
        """Measures one case."""
        say(f"{case.title}")
        result = Result(case, [Figures(entrant) for entrant in case.entrants])
        for figures in result.figures:
            if figures.entrant.peer in self._absent:
                figures.trouble = "left out on request"
        special = {"open": self._run_open, "rebalance": self._run_rebalance, "cold": self._run_cold}
        special.get(case.task, self._run_slots)(result)
        return result

    def _ready(self, figures: Figures, name: str) -> bool:
        """Whether a contender takes part: its set is written, or it needs none."""
        if not figures.trouble:
            _blame(figures, self.ensure(figures.entrant.peer, name))
        return not figures.trouble

    def _task_spec(self, case: Case, entrant: Entrant) -> tuple[dict[str, Any], str]:
        """What a worker needs to know of a case, and the checksum it must come back with."""
        plan = self.plan
        if case.task == "append":
            spec = {"append": plan.append_records, "size": 1024, "pool": 4096}
            pool = list(data.random_records(4096, 1024, seed=3))
            return spec, data.digest(pool[i % 4096] for i in range(plan.append_records))
        source = self.source(case.data)
        spec = {"count": len(source), "payload_bytes": source.payload_bytes, "check_singles": CHECK_SINGLES}
        if case.task == "epoch":
            return spec | entrant.spec, source.epoch_digest()
        if case.task == "singles":
            order = source.check_order()[:CHECK_SINGLES].tolist()
            return spec | entrant.spec, data.digest(map(source.record, order))
        changes = None
        if case.data == "1k-changed" and entrant.role == "ours":
            changes = data.changes_for(len(source), 1024)
        return spec | entrant.spec, source.digest(changes)

    def _run_slots(self, result: Result) -> None:
        """The common shape: open all, check all, calibrate each, then alternate."""
        case, plan = result.case, self.plan
        workers: dict[int, Contender] = {}
        expected: dict[str, tuple[dict[str, Any], str]] = {}
        try:
            for number, figures in enumerate(result.figures):
                entrant = figures.entrant
                name = case.data if not (case.data == "1k-changed" and entrant.role != "ours") else "1k"
                if case.task == "append":
                    path = self.scratch / "append" / f"{number}{_suffix(entrant.peer, case.data)}"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    if figures.trouble:
                        continue
                elif self._ready(figures, name):
                    path = self.path(entrant.peer, name)
                else:
                    continue
                key = entrant.role if case.data == "1k-changed" else ""
                if key not in expected:
                    expected[key] = self._task_spec(case, entrant)
                spec = expected[key][0] | entrant.spec
                worker = Contender(self.scratch, entrant.env)
                workers[number] = worker
                worker.send(
                    "open", peer=entrant.peer, path=str(path), form=entrant.form, task=case.task, spec=spec
                )
                worker.send("check")
            laps: dict[int, int] = {}
            for number, worker in workers.items():
                figures = result.figures[number]
                key = figures.entrant.role if case.data == "1k-changed" else ""
                with _Blame(figures):
                    worker.receive()
                    got = worker.receive()["digest"]
                    if got != expected[key][1]:
                        raise ContenderError(
                            f"read other bytes than were written ({got}, not {expected[key][1]})"
                        )
            for number, worker in workers.items():
                figures = result.figures[number]
                if not figures.trouble:
                    with _Blame(figures):
                        seconds = 0.0 if case.task == "append" else plan.slot_seconds
                        laps[number] = worker.ask("calibrate", seconds=seconds)["laps"] if seconds else 1
            self._alternate(result, workers, laps, warm=case.task != "append")
        finally:
            for worker in workers.values():
                worker.end()

    def _alternate(
        self, result: Result, workers: dict[int, Contender], laps: dict[int, int], warm: bool
    ) -> None:
        """Rounds of one slot per contender, each round starting with another one."""
        numbers = sorted(laps)
        for round_number in range(self.plan.rounds):
            turn = round_number % max(1, len(numbers))
            for number in numbers[turn:] + numbers[:turn]:
                figures = result.figures[number]
                if figures.trouble:
                    continue
                before = max(1, laps[number] // 5) if warm else 0
                with _Blame(figures):
                    figures.slots.append(workers[number].ask("slot", laps=laps[number], warm=before))

    def _run_cold(self, result: Result) -> None:
        """Each slot: drop the pages, open, read batches once, close. Alternates like the others."""
        case, plan = result.case, self.plan
        source = self.source(case.data)
        spec = {"count": len(source), "payload_bytes": source.payload_bytes, "batches": plan.cold_batches}
        expected = source.digest()
        live = [figures for figures in result.figures if self._ready(figures, case.data)]
        result.notes.append(
            "pages dropped with POSIX_FADV_DONTNEED before each slot, absence checked with mincore"
        )
        for figures in live:
            with _Blame(figures), _Process(self.scratch) as worker:
                entrant = figures.entrant
                path = str(self.path(entrant.peer, case.data))
                worker.ask(
                    "open",
                    peer=entrant.peer,
                    path=path,
                    form=entrant.form,
                    task="cold",
                    spec=spec | {"seed": 1},
                )
                if worker.ask("check")["digest"] != expected:
                    raise ContenderError("read other bytes than were written")
        # Other maps of the same files would keep their pages in memory.
        self._sources.pop(case.data, None)
        del source
        for round_number in range(plan.rounds):
            turn = round_number % max(1, len(live))
            for figures in live[turn:] + live[:turn]:
                if figures.trouble:
                    continue
                with _Blame(figures), _Process(self.scratch) as worker:
                    entrant = figures.entrant
                    path = str(self.path(entrant.peer, case.data))
                    resident = worker.ask("drop", path=path)["resident"]
                    if resident > RESIDENT_MAX:
                        text = f"{resident:.0%} of the pages stayed in memory, so nothing here is cold"
                        raise ContenderError(text, broken=False)
                    worker.ask(
                        "open", peer=entrant.peer, path=path, form=entrant.form, task="cold",
                        spec=spec | {"seed": 100 + round_number},
                    )  # fmt: skip
                    figures.slots.append(worker.ask("slot", laps=1, warm=0))
                    worker.ask("close")

    def _run_rebalance(self, result: Result) -> None:
        """One reader; another process rebalances the same set during ours, not during the other slots."""
        case, plan = result.case, self.plan
        busy, idle = result.figures
        if not self._ready(busy, case.data):
            idle.trouble, idle.broken = busy.trouble, busy.broken
            return
        source = self.source(case.data)
        entrant, path = busy.entrant, str(self.path(busy.entrant.peer, case.data))
        spec = {"count": len(source), "payload_bytes": source.payload_bytes}
        passes = 0
        with _Blame(busy), _Process(self.scratch) as reader, _Process(self.scratch) as writer:
            reader.ask("open", peer=entrant.peer, path=path, form=entrant.form, task="batches", spec=spec)
            expected = source.digest()
            laps = reader.ask("calibrate", seconds=max(0.5, plan.slot_seconds))["laps"]
            change = {"peer": entrant.peer, "path": path, "count": len(source), "size": 1024}
            for _ in range(plan.rounds):
                idle.slots.append(reader.ask("slot", laps=laps, warm=max(1, laps // 5)))
                writer.ask("rebalance_start", **change)
                busy.slots.append(reader.ask("slot", laps=laps, warm=0))
                passes += writer.ask("rebalance_stop")["passes"]
            # The reader pinned the generation it opened: it must still see it, byte for byte.
            if reader.ask("check")["digest"] != expected:
                raise ContenderError("a reader saw changed bytes during rebalance")
            reader.ask("close")
        result.notes.append(f"{passes} rebalances of {len(source)} records ran during {plan.rounds} slots")
        if busy.trouble:
            idle.trouble = busy.trouble

    def _run_open(self, result: Result) -> None:
        """Each round: a fresh process per contender opens the set once."""
        count = self.plan.tiny_records
        result.notes.append(f"{count:,} records of 8 bytes, opened for the first time in a fresh process")
        live = []
        for figures in result.figures:
            if figures.entrant.peer == "lmdb" and count > 5_000_000:
                figures.trouble = f"not run: writing {count:,} keys takes too long"
            elif self._ready(figures, "tiny"):
                live.append(figures)
        for round_number in range(self.plan.rounds):
            turn = round_number % max(1, len(live))
            for figures in live[turn:] + live[:turn]:
                if figures.trouble:
                    continue
                with _Blame(figures), _Process(self.scratch) as worker:
                    entrant = figures.entrant
                    path = str(self.path(entrant.peer, "tiny"))
                    answer = worker.ask(
                        "measure_open", peer=entrant.peer, path=path, form=entrant.form, count=count
                    )
                    if not answer["right"]:
                        raise ContenderError("read other bytes than were written")
                    figures.slots.append({"seconds": answer["seconds"], "rss_bytes": answer["rss_bytes"]})


def _suffix(peer: str, name: str) -> str:
    """What a file must end in. bagz reads `.bagz` as zstd, whatever was written."""
    if peer == "bagz":
        return ".bagz" if name == "text" else ".bag"
    return ".arrayrecord" if peer == "array_record" else ""


class _Process:
    """A worker for the length of a `with` block."""

    def __init__(self, scratch: Path) -> None:
        self._worker = Contender(scratch)

    def __enter__(self) -> Contender:
        return self._worker

    def __exit__(self, *_: object) -> None:
        self._worker.end()


class _Blame:
    """Notes a contender's failure in its figures instead of ending the run."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, ContenderError):
            return False
        _blame(self._figures, error)
        return True


def _blame(figures: Figures, trouble: ContenderError | None) -> None:
    """Records trouble with a contender."""
    if trouble is not None:
        figures.trouble, figures.broken = str(trouble), trouble.broken
        say(f"  {figures.entrant.label}: {trouble}")
