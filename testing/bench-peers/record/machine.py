"""What a reader needs to know of the machine before believing a figure."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def _first(command: list[str], root: Path) -> str:
    """A command's output, or why there is none."""
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({type(error).__name__})"
    return done.stdout.strip() or "unknown"


def _cpu() -> dict[str, str]:
    """Model and caches, from the kernel."""
    found = {"model": platform.processor() or platform.machine()}
    for line in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("model name"):
            found["model"] = line.split(":", 1)[1].strip()
            break
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind = (index / "level").read_text().strip(), (index / "type").read_text().strip()
        if kind != "Instruction":
            found[f"L{level}"] = (index / "size").read_text().strip()
    return found


def _file_system(path: Path) -> str:
    """The type of the file system that holds a path."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, name, *_ = line.split()
        inside = str(path) == mount or str(path).startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, name
    return kind


def load() -> float:
    """The one-minute load average: what else was running."""
    return os.getloadavg()[0]


def facts(root: Path, scratch: Path, command: list[str]) -> dict[str, Any]:
    """Machine, kernel, compilers, commit and command."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": " ".join(command),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / (1 << 30), 1),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "file_system": _file_system(scratch.resolve()),
        "python": sys.version.split()[0],
        "rustc": _first(["rustc", "-vV"], root),
        "cc": _first([os.environ.get("CC", "cc"), "--version"], root).split("\n", 1)[0],
        "commit": _first(["git", "rev-parse", "--short=12", "HEAD"], root),
        "tree_changed": _first(["git", "status", "--porcelain", "--untracked-files=no"], root) != "unknown",
        "load_before": load(),
    }
