"""Fork, spawn and forkserver; pools, nested children, busy reader threads, open writers; Ctrl-C. 15 s for each."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import staddle as sd
from support import body

pytestmark = [
    pytest.mark.usefixtures("alarm"),
    # Python 3.12 warns of any fork with threads; that this works is what these tests are about.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

METHODS = ["fork", "spawn", "forkserver"]


def read(job: tuple[Any, list[int]]) -> list[bytes]:
    """Gather in a child: what most workers do."""
    ds, indices = job
    return ds.gather(indices).tolist()


def read_all_ways(ds: Any) -> bool:
    """Use every read path once, in a child."""
    assert ds[5] == body(5)
    assert ds.gather(range(100)).tolist() == [body(index) for index in range(100)]
    assert bytes(ds.gather([1, 2]).pack().data) == body(1) + body(2)
    assert sum(len(batch) for batch in ds.loader(8, shuffle=True, prefetch=4)) == 100
    assert ds.verify()["bad"] == []
    return True


def nested(ds: Any) -> bool:
    """Read in a child of a child."""
    assert read_all_ways(ds)
    return in_fork(lambda: read_all_ways(ds))


def in_fork(work: Callable[[], bool]) -> bool:
    """Run `work` in a raw fork and tell whether it returned true."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("method", METHODS)
def test_pool(ds: sd.Records, method: str) -> None:
    read_all_ways(ds)
    jobs = [(ds, list(range(start, start + 10))) for start in range(0, 100, 10)]
    with mp.get_context(method).Pool(3) as pool:
        results = pool.map(read, jobs)
    assert [record for result in results for record in result] == [body(index) for index in range(100)]
    read_all_ways(ds)


@pytest.mark.parametrize("method", METHODS)
def test_nested_children(ds: sd.Records, method: str) -> None:
    read_all_ways(ds)
    with mp.get_context(method).Pool(1) as pool:
        assert pool.apply(nested, (ds,))


@pytest.mark.parametrize("method", METHODS)
def test_busy_reader_threads(ds: sd.Records, method: str) -> None:
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            for _ in ds.loader(16, shuffle=True, prefetch=4):
                pass

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        with mp.get_context(method).Pool(2) as pool:
            assert all(pool.map(read_all_ways, [ds] * 4))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_twenty_forks_under_busy_threads(ds: sd.Records) -> None:
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            ds.gather(range(100)).pack()
            for _ in ds.loader(16, prefetch=4):
                pass

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(20):
            assert in_fork(lambda: read_all_ways(ds))
    finally:
        stop.set()
        thread.join()


def child_cannot_write(ds: Any) -> bool:
    for use in (lambda: ds.append(b"x"), lambda: ds.update(0, b"x"), lambda: ds.delete(0), ds.rebalance):
        with pytest.raises(sd.ClosedError, match="belongs to process"):
            use()
    assert ds[0] == body(0)
    ds.flush()
    ds.close()
    return True


def test_an_open_writer_belongs_to_its_process(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "w.rec") as w:
        w.extend(body(index) for index in range(100))
        w.flush()
        w.append(b"unflushed")
        assert in_fork(lambda: child_cannot_write(w))
        w.append(b"still mine")
        w.flush()
        assert w[100:].tolist() == [b"unflushed", b"still mine"]
        with pytest.raises(sd.ConflictError, match=f"pid {os.getpid()}"):
            sd.open(w.uri).append(b"x")
    with sd.open(tmp_path / "w.rec") as again:
        assert again[100:].tolist() == [b"unflushed", b"still mine"]
        again.append(b"the lock is free")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_pickled_writer_is_a_reader_elsewhere(tmp_path: Path, method: str) -> None:
    with sd.records.create(tmp_path / "w.rec") as w:
        w.extend(body(index) for index in range(100))
        w.flush()
        with mp.get_context(method).Pool(1) as pool:
            assert pool.apply(read, ((w, [3, 4]),)) == [body(3), body(4)]
            with pytest.raises(sd.ConflictError):
                pool.apply(append_elsewhere, (w.uri,))


def append_elsewhere(uri: str) -> None:
    sd.open(uri).append(b"x")


def test_a_walk_goes_on_in_a_forked_child(ds: sd.Records) -> None:
    walk = iter(ds.loader(10, shuffle=True, prefetch=4))
    first = next(walk).indices.tolist()
    expected = [batch.indices.tolist() for batch in ds.loader(10, shuffle=True)]
    assert first == expected[0]
    assert in_fork(lambda: [batch.indices.tolist() for batch in walk] == expected[1:])
    assert [batch.indices.tolist() for batch in walk] == expected[1:]


def test_batches_and_buffers_die_quietly_in_a_child(ds: sd.Records) -> None:
    held = [ds.gather(range(100)).pack() for _ in range(5)]

    def drop() -> bool:
        while held:
            held.pop()
        return bool(ds.gather(range(100)).pack().nbytes)

    assert in_fork(drop)
    assert all(packed.nbytes for packed in held)


def test_a_killed_writer_leaves_the_lock_free_and_the_last_flush(tmp_path: Path) -> None:
    path = tmp_path / "k.rec"

    def write_for_ever() -> bool:
        w = sd.records.create(path)
        w.append(b"flushed")
        w.flush()
        (tmp_path / "ready").touch()
        while True:
            w.append(b"x" * 1000)

    pid = os.fork()
    if pid == 0:
        write_for_ever()
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with sd.open(path) as ds:
        assert ds[:].tolist() == [b"flushed"]
        assert ds.append(b"more") == 1
    assert sd.open(path)[:].tolist() == [b"flushed", b"more"]


SLOW = """
import os, signal, sys, threading, time
import staddle as sd
ds = sd.open(sys.argv[1])
what = sys.argv[2]
def later():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=later).start()
start = time.monotonic()
try:
    while True:
        if what == "verify":
            ds.verify()
        elif what == "loader":
            for batch in ds.loader(4, prefetch=2):
                pass
        else:
            ds.extend(b"x" * 100 for _ in range(10_000))
except KeyboardInterrupt:
    print("interrupted")
assert ds[0] is not None
"""


@pytest.mark.parametrize("what", ["verify", "loader", "extend"])
def test_ctrl_c_interrupts_and_the_set_stays_usable(filled: Path, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SLOW, str(filled), what], capture_output=True, text=True, timeout=14
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "interrupted\n"


def test_a_pickle_from_before_a_fork_opens_after_it(ds: sd.Records) -> None:
    data = pickle.dumps(ds)
    assert in_fork(lambda: read_all_ways(pickle.loads(data)))


def test_two_threads_share_a_set(ds: sd.Records) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for k in range(200):
                index = (seed * 31 + k * 7) % 100
                assert ds[index] == body(index)
                assert ds.gather([index, 0]).tolist() == [body(index), body(0)]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_threads_append_side_by_side(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "t.rec", writers=2) as w:
        given: list[int] = []

        def add(k: int) -> None:
            for n in range(100):
                given.append(w.append(b"%d %d" % (k, n)))

        threads = [threading.Thread(target=add, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(given) == list(range(400))
        assert sorted(w) == sorted(b"%d %d" % (k, n) for k in range(4) for n in range(100))
