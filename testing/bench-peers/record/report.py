"""From figures to rows: `case · ours · rival · ratio · target · met`, as a table, as Markdown and as JSON."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any

from record import cases
from record.measure import Figures, Result

TROUBLE_CHARS = 56
GATE = 0.9  # between 0.9 of a target and the target lies what noise can explain


@dataclass
class Row:
    """One comparison. Texts, ready to print; `ratio_median` and `met` also for programs."""

    case: str
    ours: str
    rival: str
    ratio: str
    target: str
    met: str
    ratio_median: float | None = None


def _short(value: float) -> str:
    """A rate in three digits."""
    for unit, scale in (("M", 1e6), ("k", 1e3), ("", 1.0)):
        if value >= scale:
            scaled = value / scale
            return f"{scaled:.0f}{unit}" if scaled >= 100 else f"{scaled:.3g}{unit}"
    return f"{value:.3g}"


def _spread(values: list[float], text: Any) -> str:
    """Median and range."""
    return f"{text(statistics.median(values))} [{text(min(values))}-{text(max(values))}]"


def _why(figures: Figures) -> str:
    """Why a contender has no figures, cut to a table's width; the whole text went to standard error."""
    text = figures.trouble or "no figures"
    return text if len(text) <= TROUBLE_CHARS else text[: TROUBLE_CHARS - 3] + "..."


def rates(figures: Figures, unit: str) -> list[float]:
    """Records per second of CPU time or of wall time, one per slot."""
    clock = "cpu_s" if unit == "cpu" else "wall_s"
    return [slot["records"] / max(slot[clock], 1e-9) for slot in figures.slots]


def _verdict(ratio: float, first: float | None, stretch: float | None) -> tuple[str, str]:
    """Target text and whether it is met."""
    if first is None:
        return "-", "-"
    target = f">= {first:g}x" + (f" ({stretch:g}x)" if stretch else "")
    if stretch and ratio >= stretch:
        return target, "yes, stretch"
    if ratio >= first:
        return target, "yes"
    return target, "within noise" if ratio >= GATE * first else "no"


def _below(value: float, most: float, stretch: float | None, unit: str) -> tuple[str, str]:
    """The same for a figure that should be small."""
    target = f"<= {most:g}{unit}" + (f" ({stretch:g}{unit})" if stretch else "")
    if stretch and value <= stretch:
        return target, "yes, stretch"
    if value <= most:
        return target, "yes"
    return target, "within noise" if value * GATE <= most else "no"


def rows(result: Result, sizes: dict[str, dict[str, int]], payload_bytes: int | None) -> list[Row]:
    """The rows of one case. A contender without figures is a row that says why."""
    case = result.case
    if case.unit == "seconds":
        return _open_rows(result)
    mine, others = result.figures[0], result.figures[1:]
    if mine.trouble or not mine.slots:
        made = [Row(case.title, _why(mine), "-", "-", "-", "-")]
        for figures in others:
            text = _spread(rates(figures, case.unit), _short) if figures.slots else _why(figures)
            made.append(Row(case.title, "-", f"{figures.entrant.label} {text}", "-", "-", "-"))
        return made
    my_rates = rates(mine, case.unit)
    my_text = _spread(my_rates, _short)
    made = []
    for figures in others:
        entrant = figures.entrant
        if figures.trouble or not figures.slots:
            made.append(Row(case.title, my_text, entrant.label, _why(figures), "-", "-"))
            continue
        their_rates = rates(figures, case.unit)
        ratios = [a / b for a, b in zip(my_rates, their_rates, strict=False)]
        ratio = statistics.median(ratios)
        target, met = _verdict(ratio, entrant.first, entrant.stretch)
        rival = f"{entrant.label} {_spread(their_rates, _short)}"
        made.append(Row(case.title, my_text, rival, _spread(ratios, _ratio), target, met, ratio))
    if case.key == "text" and payload_bytes:
        made += _size_rows(case.title, sizes.get("text", {}), payload_bytes)
    return made


def _ratio(value: float) -> str:
    return f"{value:.0f}x" if value >= 100 else f"{value:.3g}x"


def _size_rows(title: str, sizes: dict[str, int], payload_bytes: int) -> list[Row]:
    """What the compressed sets take on disk, ours over the peer's; smaller is better."""
    made = []
    mine = sizes.get("staddle")
    for peer in ("bagz", "array_record"):
        theirs = sizes.get(peer)
        if not mine or not theirs:
            continue
        ratio = mine / theirs
        target, met = "-", "-"
        if peer == "bagz":
            target, met = _below(ratio, cases.TEXT_SIZE_RATIO_MAX, cases.TEXT_SIZE_RATIO_STRETCH, "x")
        rival = f"{peer} {theirs / payload_bytes:.1%}"
        text = f"{mine / payload_bytes:.1%} of the text"
        made.append(Row(f"{title}: size", text, rival, _ratio(ratio), target, met, ratio))
    return made


def _open_rows(result: Result) -> list[Row]:
    """Opening is judged by its own milliseconds and megabytes; the others are shown beside it."""
    mine, others = result.figures[0], result.figures[1:]
    made = []
    if not mine.slots:
        made.append(Row("open: time", _why(mine), "-", "-", "-", "-"))
    for name, key, scale, unit, most, stretch in (
        ("open: time", "seconds", 1e3, " ms", cases.OPEN_MS_MAX, cases.OPEN_MS_STRETCH),
        ("open: memory", "rss_bytes", 1e-6, " MB", cases.OPEN_RSS_MB_MAX, None),
    ):

        def text(value: float, unit: str = unit) -> str:
            return f"{value:.3g}{unit}"

        mine_values = [slot[key] * scale for slot in mine.slots]
        if mine_values:
            middle = statistics.median(mine_values)
            target, met = _below(middle, most, stretch, unit)
            made.append(Row(name, _spread(mine_values, text), "the target itself", "-", target, met))
        for figures in others:
            values = [slot[key] * scale for slot in figures.slots]
            if values and mine_values:
                ratio = statistics.median(mine_values) / max(1e-9, statistics.median(values))
                rival = f"{figures.entrant.label} {_spread(values, text)}"
                made.append(Row(name, _spread(mine_values, text), rival, _ratio(ratio), "-", "-", ratio))
            elif values:
                made.append(Row(name, "-", f"{figures.entrant.label} {_spread(values, text)}", "-", "-", "-"))
            elif name == "open: time":
                made.append(Row(name, "-", figures.entrant.label, _why(figures), "-", "-"))
    return made


HEAD = ("case", "ours", "rival", "ratio", "target", "met")


def table(all_rows: list[Row]) -> str:
    """Columns of text. A case's name and our own figure are printed once."""
    lines = [HEAD]
    last = ("", "")
    for row in all_rows:
        same = (row.case, row.ours) == last
        last = (row.case, row.ours)
        shown = ("", "") if same else (row.case, row.ours)
        lines.append((*shown, row.rival, row.ratio, row.target, row.met))
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(text)


def markdown(all_rows: list[Row], facts: dict[str, Any], notes: list[str]) -> str:
    """A page for docs/benchmarks/record: the machine, the command, every row, the notes."""
    cpu = facts["cpu"]
    caches = ", ".join(f"{name} {cpu[name]}" for name in sorted(cpu) if name != "model")
    commit = facts["commit"] + (" with local changes" if facts["tree_changed"] else "")
    lines = [
        f"# Record store, {facts['date']}",
        "",
        f"* Command: `{facts['command']}`, commit {commit}, {facts['seconds']} s",
        f"* Machine: {cpu['model']}, {facts['cores']} cores ({caches}), {facts['memory_gib']} GiB",
        f"* System: kernel {facts['kernel']}, {facts['libc']}, {facts['file_system']}; load average "
        f"{facts['load_before']:.1f} before, {facts['load_after']:.1f} after",
        f"* Built with: {facts['rustc'].splitlines()[0]}; {facts['cc']}; Python {facts['python']}",
        "* Versions: " + ", ".join(f"{name} {value}" for name, value in facts["versions"].items()),
        "",
        "Records per second of CPU time (user and system, all threads) unless the case says wall time;",
        "median [min-max] over the rounds; a ratio is ours over the rival's of the same round.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|" + "---|" * len(HEAD),
    ]
    lines += [f"| {r.case} | {r.ours} | {r.rival} | {r.ratio} | {r.target} | {r.met} |" for r in all_rows]
    lines += ["", "## Notes", "", *(f"* {note}" for note in notes)]
    lines += ["", "## Compiler", "", "```", facts["rustc"], "```", ""]
    return "\n".join(lines)


def raw(
    results: list[Result], all_rows: list[Row], facts: dict[str, Any], sizes: dict[str, Any]
) -> dict[str, Any]:
    """Everything, for `--json`."""
    return {
        "facts": facts,
        "rows": [asdict(row) for row in all_rows],
        "sizes_on_disk": sizes,
        "cases": [
            {
                "key": result.case.key,
                "title": result.case.title,
                "unit": result.case.unit,
                "notes": result.notes,
                "contenders": [
                    {
                        "label": figures.entrant.label,
                        "peer": figures.entrant.peer,
                        "form": figures.entrant.form,
                        "env": figures.entrant.env,
                        "slots": figures.slots,
                        "trouble": figures.trouble,
                        "broken": figures.broken,
                    }
                    for figures in result.figures
                ],
            }
            for result in results
        ],
    }
