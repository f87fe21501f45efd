"""Installs the peers into the virtual environment whose Python runs this, as far as that is possible.

First all of `requirements.txt` at once; where that fails (a peer without a wheel for this platform, say),
line by line, so that one peer costs only itself. Then `requirements-nodeps.txt`, each without its
requirements. A peer that did not install becomes a row of the table; NumPy alone is needed. Exit status 1 if
not even that installs.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def _pip(*arguments: str) -> bool:
    """Runs pip, its output to standard error."""
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *arguments]
    return subprocess.run(command, stdout=sys.stderr, check=False).returncode == 0


def _lines(name: str) -> list[str]:
    """The requirements of a file."""
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def main() -> int:
    """Installs and says what did not."""
    failed = []
    if not _pip("-r", str(HERE / "requirements.txt")):
        failed += [line for line in _lines("requirements.txt") if not _pip(line)]
    failed += [line for line in _lines("requirements-nodeps.txt") if not _pip("--no-deps", line)]
    for line in failed:
        print(f"not installed: {line}", file=sys.stderr)
    return 0 if importlib.util.find_spec("numpy") else 1


if __name__ == "__main__":
    sys.exit(main())
