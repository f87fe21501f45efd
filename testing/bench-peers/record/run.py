"""`cargo x bench record`: the record store against its peers and a C loop over the same bytes, in one run.

Exit status: 0 measured, whether or not targets are met; 1 something broke (a wrong byte read back, a crash);
2 usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# The package is this file's folder; the folder itself must not be on the path, its modules have common names.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from record import cases, data, machine, peers, report  # noqa: E402
from record.contender import Contender, ContenderError  # noqa: E402
from record.measure import Bench, Result, say  # noqa: E402

DISK_NEEDED = {True: 3 << 30, False: 24 << 30}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="cargo x bench record", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sets and short slots, about 4 minutes")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all raw figures there")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the table as a page there")
    parser.add_argument("--case", metavar="KEY", action="append", help="only these cases (repeatable)")
    parser.add_argument("--without", metavar="PEER", action="append", default=[], choices=peers.NAMES)
    parser.add_argument(
        "--text", metavar="DIR", help="take text from DIR, not from the dependencies' sources"
    )
    parser.add_argument("--scratch", metavar="DIR", type=Path, help="where the sets are written")
    return parser.parse_args()


def chosen(keys: list[str] | None) -> list[cases.Case]:
    """The cases asked for, in the order of the table."""
    if not keys:
        return list(cases.CASES)
    known = {case.key for case in cases.CASES}
    for key in keys:
        if key not in known:
            say(f"no case {key!r}; there are {', '.join(sorted(known))}")
            sys.exit(2)
    return [case for case in cases.CASES if case.key in keys]


def versions(scratch: Path) -> dict[str, str]:
    """What is installed; what is not says so."""
    found = {}
    for name in peers.NAMES:
        worker = Contender(scratch)
        try:
            found[peers.load(name).NAME] = worker.ask("version", peer=name)["version"]
        except ContenderError as error:
            found[peers.load(name).NAME] = str(error)
        worker.end()
    return found


def main() -> int:
    """Runs, prints, writes."""
    asked = arguments()
    plan = data.QUICK if asked.quick else data.FULL
    scratch_root = asked.scratch or os.environ.get("STADDLE_BENCH_SCRATCH") or ROOT / "target" / "x" / "bench"
    base = Path(scratch_root, "record").resolve()
    base.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(base).free
    if free < DISK_NEEDED[asked.quick]:
        say(
            f"{base} has {free >> 30} GiB free; the sets need "
            f"{DISK_NEEDED[asked.quick] >> 30}. Try --scratch DIR"
        )
        return 1
    scratch = Path(tempfile.mkdtemp(prefix="run-", dir=base))
    command = ["cargo", "x", "bench", "record", *sys.argv[1:]]
    start = time.monotonic()
    try:
        return _measure(asked, plan, scratch, command, start)
    finally:
        log = scratch / "workers.log"
        if log.exists() and log.stat().st_size:
            shutil.copy(log, base / "workers.log")
        shutil.rmtree(scratch, ignore_errors=True)


def _measure(
    asked: argparse.Namespace, plan: data.Plan, scratch: Path, command: list[str], start: float
) -> int:
    facts = machine.facts(ROOT, scratch, command)
    facts["versions"] = versions(scratch)
    for name, version in facts["versions"].items():
        say(f"{name}: {version}")
    bench = Bench(plan, scratch, lambda: data.text_folders(asked.text, ROOT), set(asked.without))
    results: list[Result] = []
    rows: list[report.Row] = []
    wanted = chosen(asked.case)
    for number, case in enumerate(wanted):
        if case.data == "1k-large" and plan.large_records == 0:
            continue
        result = bench.run(case)
        payload = bench.source("text").payload_bytes if case.key == "text" else None
        results.append(result)
        rows += report.rows(result, bench.sizes, payload)
        # Sets are large: what no later case needs goes at once.
        later = {name for c in wanted[number + 1 :] for name in _sets(c)}
        for name in _sets(case) - later:
            bench.forget(name)
    facts["load_after"] = machine.load()
    facts["seconds"] = round(time.monotonic() - start)
    notes = [f"{result.case.title}: {note}" for result in results for note in result.notes]
    notes.append("Sets larger than memory are not measured: they would need an hour of writing for one case.")
    if asked.quick:
        notes.append(
            "Quick run: small sets, short slots; sets beyond the cache are measured by the full run only."
        )
    print(report.table(rows))
    print()
    for note in notes:
        print(f"* {note}")
    judged = [row for row in rows if row.met not in ("-", "")]
    met = sum(row.met.startswith("yes") for row in judged)
    near = sum(row.met == "within noise" for row in judged)
    print(f"* {met} of {len(judged)} targets met, {near} more within noise, in {facts['seconds']} s")
    if asked.json:
        asked.json.write_text(json.dumps(report.raw(results, rows, facts, bench.sizes), indent=1) + "\n")
    if asked.markdown:
        asked.markdown.write_text(report.markdown(rows, facts, notes))
    broken = [figures for result in results for figures in result.figures if figures.broken]
    for figures in broken:
        say(f"broken: {figures.entrant.label}: {figures.trouble}")
    return 1 if broken else 0


def _sets(case: cases.Case) -> set[str]:
    """The sets a case reads."""
    return {case.data, "1k"} if case.data == "1k-changed" else {case.data}


if __name__ == "__main__":
    sys.exit(main())
