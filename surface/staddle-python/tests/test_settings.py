"""Settings of a process: before the first use, from environment, file and arguments; metrics and figures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(code: str, tmp_path: Path, **env: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STADDLE_")}
    done = subprocess.run(
        [sys.executable, "-c", f"import staddle as sd\n{code}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment | {"XDG_CONFIG_HOME": str(tmp_path)} | env,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


LIMIT = "print(sd.runtime.stats()['memory']['limit_bytes'])"


def test_arguments_over_environment_over_file(tmp_path: Path) -> None:
    (tmp_path / "staddle.toml").write_text('[runtime]\nmemory = "1GB"\nthreads = 1\n')
    assert run(LIMIT, tmp_path) == "1000000000"
    assert run(LIMIT, tmp_path, STADDLE_RUNTIME__MEMORY="2GB") == "2000000000"
    assert (
        run(f"sd.configure(memory='3GB')\n{LIMIT}", tmp_path, STADDLE_RUNTIME__MEMORY="2GB") == "3000000000"
    )
    assert run("sd.configure(memory='3GB'); print(sd.runtime.stats()['threads'])", tmp_path) == "1"


def test_a_named_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[runtime]\nmemory = "5GB"\n')
    assert run(LIMIT, tmp_path, STADDLE_CONFIG=str(tmp_path / "mine.toml")) == "5000000000"
    code = "try: sd.runtime.stats()\nexcept sd.NotFoundError as e: print(e.hint)"
    assert "STADDLE_CONFIG" in run(code, tmp_path, STADDLE_CONFIG="/does/not/exist")


def test_too_late_is_a_conflict(tmp_path: Path) -> None:
    code = "sd.records.create('x.rec')\ntry: sd.configure(threads=1)\nexcept sd.ConflictError as e: print(e)"
    assert "before the first store" in run(code, tmp_path)


def test_bad_values_name_the_setting(tmp_path: Path) -> None:
    code = "try: sd.configure(memory='1 parsec')\nexcept sd.InvalidError as e: print(e)"
    assert "runtime.memory" in run(code, tmp_path)
    code = "try: sd.open('x')\nexcept sd.InvalidError as e: print(e)"
    assert "STADDLE_RUNTIME__THREADS" in run(code, tmp_path, STADDLE_RUNTIME__THREADS="lots")
    assert "did you mean" in run(code, tmp_path, STADDLE_RUNTIME__MEMROY="1GB")


def test_a_small_memory_limit_is_an_error_not_a_kill(tmp_path: Path) -> None:
    code = """
sd.configure(memory="32MB")
ds = sd.records.create("x.rec", codec="lz4")
ds.extend([b"x" * 1_000_000] * 64)
ds.flush()
try:
    ds.gather(range(64))
except sd.ExhaustedError as e:
    print("refused")
assert len(ds.gather(range(8)).tolist()) == 8
"""
    assert run(code, tmp_path) == "refused"


def test_metrics_are_openmetrics(tmp_path: Path) -> None:
    out = run("sd.records.create('x.rec').append(b'x'); print(sd.metrics.text())", tmp_path)
    assert out.endswith("# EOF")
    for line in out.splitlines():
        assert line.startswith(("# TYPE staddle_", "staddle_", "# EOF")), line
