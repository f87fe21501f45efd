"""Compiles and loads the C yardstick: `yardstick.c` by ctypes, `yardstick_py.c` as an extension module."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sysconfig
from functools import cache
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
FLAGS = ["-O3", "-march=native", "-Wall", "-Wextra", "-shared", "-fPIC", "-pthread"]

_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "yard_map": (ctypes.c_void_p, [ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)]),
    "yard_unmap": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint64]),
    "yard_resolve": (ctypes.c_uint64, [ctypes.c_void_p] * 3 + [ctypes.c_uint64] * 3 + [ctypes.c_void_p] * 2),
    "yard_gather": (ctypes.c_uint64, [ctypes.c_void_p] * 3 + [ctypes.c_uint64] * 3 + [ctypes.c_void_p] * 2),
    "yard_memcpy": (ctypes.c_uint64, [ctypes.c_void_p] + [ctypes.c_uint64] * 3 + [ctypes.c_void_p]),
    "yard_permutation": (None, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]),
    "yard_willneed": (ctypes.c_int, [ctypes.c_void_p] * 3 + [ctypes.c_uint64]),
    "yard_pread_threads": (
        ctypes.c_int,
        [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_uint64] * 3 + [ctypes.c_void_p],
    ),
    "yard_append": (ctypes.c_int, [ctypes.c_char_p] * 2 + [ctypes.c_void_p] + [ctypes.c_uint64] * 3),
    "yard_drop": (ctypes.c_int, [ctypes.c_char_p]),
    "yard_residency": (ctypes.c_int, [ctypes.c_char_p] + [ctypes.POINTER(ctypes.c_uint64)] * 2),
}


def build_folder() -> Path:
    """Where compiled yardsticks go: the scratch folder the runner chose."""
    return Path(
        os.environ.get("STADDLE_BENCH_BUILD", HERE.parents[2] / "target" / "x" / "bench" / "record" / "build")
    )


def compiler() -> str | None:
    """The C compiler in use, or None."""
    return shutil.which(os.environ.get("CC", "cc"))


def _compile(source: str, suffix: str, extra: list[str]) -> Path:
    """Compiles one source file unless the same text, flags and compiler were compiled before."""
    cc = compiler()
    if cc is None:
        raise ImportError("no C compiler (cc) for the yardstick")
    text = (HERE / source).read_bytes()
    tag = hashlib.blake2b(text + repr((cc, FLAGS, extra)).encode(), digest_size=6).hexdigest()
    target = build_folder() / f"{Path(source).stem}-{tag}{suffix}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.partial")
        command = [cc, *FLAGS, *extra, str(HERE / source), "-o", str(partial)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ImportError(f"{source} does not compile: {done.stderr.strip()[:800]}")
        partial.rename(target)
    return target


@cache
def library() -> ctypes.CDLL:
    """The plain C functions. The interpreter lock is released while they run."""
    lib = ctypes.CDLL(str(_compile("yardstick.c", ".so", [])))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


@cache
def extension() -> ModuleType:
    """The extension module whose reads end in Python objects. Raises ImportError without Python's headers."""
    include = sysconfig.get_paths()["include"]
    if not (Path(include) / "Python.h").exists():
        raise ImportError("Python.h is not installed, so the limit for Python objects was not compiled")
    path = _compile("yardstick_py.c", ".abi3.so", [f"-I{include}"])
    loader = importlib.machinery.ExtensionFileLoader("yardstick_py", str(path))
    spec = importlib.util.spec_from_file_location("yardstick_py", str(path), loader=loader)
    if spec is None:
        raise ImportError("cannot load the yardstick extension")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def drop_cache(files: list[Path]) -> float:
    """Asks the kernel to drop these files' pages; returns the fraction that stayed in memory."""
    lib = library()
    # Only clean pages can be dropped.
    os.sync()
    pages = resident = 0
    for file in files:
        if file.stat().st_size == 0:
            continue
        lib.yard_drop(os.fsencode(file))
        count, seen = ctypes.c_uint64(), ctypes.c_uint64()
        if lib.yard_residency(os.fsencode(file), ctypes.byref(count), ctypes.byref(seen)) != 0:
            raise OSError(f"cannot tell which pages of {file} are in memory")
        pages += count.value
        resident += seen.value
    return resident / pages if pages else 0.0
