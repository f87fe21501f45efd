"""The measuring side of one contender: its process, its commands, what went wrong with it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ANSWER_SECONDS_MAX = 900.0

# glibc gives memory back to the kernel whenever 128 KiB are free at the top of the heap; a batch of 100 KiB
# objects is then faulted in anew each time. Tuned rows turn that off.
TRIM_OFF = {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=4294967296:glibc.malloc.mmap_threshold=33554432"}


class ContenderError(Exception):
    """A contender has no figures: broken, or (not installed, not possible here) merely absent."""

    def __init__(self, text: str, broken: bool = True) -> None:
        super().__init__(text)
        self.broken = broken


class Contender:
    """A worker process. Commands may be sent to several contenders before their answers are awaited."""

    def __init__(self, scratch: Path, env: dict[str, str] | None = None) -> None:
        environment = dict(os.environ)
        environment.pop("PYTHONHOME", None)
        environment["PYTHONPATH"] = str(HERE.parent)
        environment["STADDLE_BENCH_BUILD"] = str(scratch.parent / "build")
        for name in ("HF_HOME", "HF_DATASETS_CACHE"):
            environment[name] = str(scratch / "hf-cache")
        environment["HF_HUB_OFFLINE"] = environment["HF_DATASETS_OFFLINE"] = "1"
        environment.update(env or {})
        self._log_path = scratch / "workers.log"
        self._log = self._log_path.open("a", encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "record.worker"],
            cwd=scratch,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._buffer = b""

    def send(self, do: str, **arguments: Any) -> None:
        """Sends a command."""
        if self._process.stdin is None:
            raise ContenderError("the process has no input")
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ContenderError(self._how_it_ended()) from None

    def receive(self) -> dict[str, Any]:
        """Waits for one answer; a process that does not answer in time is ended."""
        out = self._process.stdout
        if out is None:
            raise ContenderError("the process has no output")
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([out], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.kill()
                raise ContenderError(f"no answer within {ANSWER_SECONDS_MAX:.0f} s")
            part = os.read(out.fileno(), 1 << 16)
            if not part:
                raise ContenderError(self._how_it_ended())
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer = json.loads(line)
        if "error" in answer:
            self._log.write(answer["trace"])
            self._log.flush()
            if answer["missing"]:
                raise ContenderError(f"not installed: {answer['error']}", broken=False)
            raise ContenderError(answer["error"])
        return answer

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        self.send(do, **arguments)
        return self.receive()

    def _how_it_ended(self) -> str:
        code = self._process.wait(timeout=10)
        return f"its process ended by signal {-code}" if code < 0 else f"its process ended with status {code}"

    def kill(self) -> None:
        """Ends the process at once."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Lets the process finish, and ends it if it does not."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()
        self._log.close()
