"""The ``staddle`` command: the same code as the native program, plus ``demo``, which drives the Python loader."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    if _verb(sys.argv[1:]) == "demo":
        from . import _demo

        return _demo.main(sys.argv[1:])
    from ._native import cli

    return cli(["staddle", *sys.argv[1:]])


def _verb(arguments: list[str]) -> str | None:
    """Return the first word that is not a flag."""
    return next((argument for argument in arguments if not argument.startswith("-")), None)


if __name__ == "__main__":
    sys.exit(main())
