"""Each kind of bad input gets a named error or a correct result, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import staddle as sd
from support import body


def chunk_of(path: Path) -> Path:
    return next((path / "chunk").iterdir())


def test_a_flipped_bit_names_the_place_and_spares_the_others(filled: Path) -> None:
    chunk = chunk_of(filled)
    data = bytearray(chunk.read_bytes())
    data[data.index(body(50)) + 3] ^= 4
    chunk.write_bytes(data)
    with sd.open(filled) as ds:
        with pytest.raises(sd.CorruptError, match="checksum") as caught:
            ds[50]
        error = caught.value
        assert (error.index, error.chunk, error.uri) == (50, 0, ds.uri)
        assert error.offset is not None
        for use in (lambda: ds[[1, 50]], lambda: ds.gather([50]).pack(), lambda: ds.view(50)):
            with pytest.raises(OSError, match="checksum"):
                use()
        assert [ds[index] for index in range(100) if index != 50] == [body(i) for i in range(100) if i != 50]
        with pytest.raises(sd.CorruptError, match=r"1 of \d+ records are damaged: record 50") as caught:
            ds.verify()
        assert [bad["index"] for bad in caught.value.bad] == [50]  # type: ignore[attr-defined]
        with pytest.raises(sd.CorruptError):
            list(ds.loader(10))
        ds[50] = b"repaired"
        assert ds.verify()["bad"] == []
    with sd.open(filled, verify="never") as ds:
        assert ds[50] == b"repaired"


@pytest.mark.parametrize("io", ["auto", "read"])
def test_a_truncated_chunk_is_corrupt_not_a_crash(tmp_path: Path, io: str) -> None:
    path = tmp_path / "two.rec"
    with sd.records.create(path, chunk_records=50) as ds:
        ds.extend(body(index) for index in range(100))
    chunk = path / "chunk" / "0.zr"
    os.truncate(chunk, chunk.stat().st_size // 2)
    # In a process of its own, since a signal would be the failure.
    code = f"""
import staddle as sd
with sd.open({str(path)!r}, io={io!r}) as ds:
    good, bad = [], []
    for i in range(100):
        try:
            ds[i]
            good.append(i)
        except sd.CorruptError as e:
            assert e.chunk == 0, e
            bad.append(i)
    assert good[-50:] == list(range(50, 100)), good
    assert bad, "a record at the end of the chunk cannot be there"
    print("named")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "named\n"), done.stderr


def test_a_missing_chunk_is_corrupt(filled: Path) -> None:
    chunk_of(filled).unlink()
    with pytest.raises(sd.CorruptError), sd.open(filled) as ds:
        ds[0]


@pytest.mark.parametrize("damage", ["empty", "zeros", "junk", "newer"])
def test_a_damaged_or_newer_head(filled: Path, damage: str) -> None:
    head = filled / "HEAD"
    data = bytearray(head.read_bytes())
    if damage == "empty":
        data = bytearray()
    elif damage == "zeros":
        data = bytearray(len(data))
    elif damage == "junk":
        data = bytearray(os.urandom(len(data)))
    else:
        # A newer format, with its checksum made right: a version from the future, not damage.
        for slot in (0, 4096):
            if data[slot : slot + 8] == b"STADREC1":
                data[slot + 8 : slot + 12] = (99).to_bytes(4, "little")
                data[slot + 4092 : slot + 4096] = crc32c(bytes(data[slot : slot + 4092])).to_bytes(
                    4, "little"
                )
    head.write_bytes(data)
    expected = sd.UnsupportedError if damage == "newer" else sd.CorruptError
    with pytest.raises(expected) as caught:
        sd.open(filled)
    if damage == "newer":
        assert "99" in str(caught.value)
    else:
        assert "repair" in str(caught.value)


def crc32c(data: bytes) -> int:
    """Return CRC32C, ten lines, the obvious way."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_crc_of_these_tests_is_right() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_second_writer_is_told_who_has_the_set(filled: Path) -> None:
    with sd.open(filled) as first, sd.open(filled) as second:
        first.append(b"mine")
        with pytest.raises(sd.ConflictError, match=rf"pid {os.getpid()} .*close it there"):
            second.append(b"theirs")
        assert len(second) == 100
        first.close()
        second.append(b"theirs")
        assert second[100:].tolist() == [b"mine", b"theirs"]


def test_a_zero_byte_record_is_not_a_missing_one(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "z.rec") as ds:
        ds.extend([b"", b"x", b""])
        ds.delete(2, keep_order=True)
        assert (ds[0], ds[1], ds[2]) == (b"", b"x", None)
        batch = ds.gather([0, 1, 2])
        assert batch.tolist() == [b"", b"x", None]
        assert bytes(batch[0]) == b""
        assert batch.present.tolist() == [True, True, False]


def test_a_record_of_five_gib_is_refused_before_a_byte_is_read(tmp_path: Path) -> None:
    import mmap

    with sd.records.create(tmp_path / "l.rec") as ds, (tmp_path / "sparse").open("wb+") as file:
        file.truncate(5 << 30)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            with pytest.raises(sd.InvalidError, match="records are below 4 GiB"):
                ds.append(mapped)
            with pytest.raises(sd.InvalidError, match="records are below 4 GiB"):
                ds.extend([b"before", mapped])
        assert ds[:].tolist() == [b"before"]


def test_two_to_the_32_records_are_within_the_plan(tmp_path: Path) -> None:
    with sd.records.create(tmp_path / "n.rec") as ds:
        ds.extend([b"x"] * 10)
        for index in (2**32, 2**32 + 5, 2**40, 2**63 - 1, -(2**63)):
            with pytest.raises(sd.IndexOutOfRange):
                ds[index]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_keeps_what_was_flushed(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], capture_output=True
        ).returncode
        != 0
    ):
        pytest.skip("this machine does not allow mounting")
    try:
        ds = sd.records.create(small / "f.rec", chunk_bytes="1MiB")
        ds.extend([b"a" * 1000] * 500)
        ds.flush()
        with pytest.raises((sd.ExhaustedError, MemoryError), match="space") as caught:
            for _ in range(100):
                ds.extend([b"b" * 100_000] * 10)
                ds.flush()
        assert caught.value.hint
        assert ds[0] == b"a" * 1000
        with sd.open(small / "f.rec", mode="r") as reader:
            assert reader[499] == b"a" * 1000
            assert reader.verify()["bad"] == []
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_a_denied_folder_is_denied(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    code = f"""
import os, staddle as sd
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
try:
    sd.records.create({str(locked / "x.rec")!r})
except sd.DeniedError as e:
    assert "permission" in str(e), e
    print("denied")
"""
    os.chmod(tmp_path, 0o755)
    for parent in tmp_path.parents:
        if parent == Path("/tmp"):
            break
        if parent.stat().st_uid == os.geteuid():
            os.chmod(parent, 0o755)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip("the package is not readable for another user here")
    assert done.stdout == "denied\n", done.stderr


def test_a_store_copied_by_hand_is_a_store(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled, tmp_path / "copy.rec")
    assert sd.open(tmp_path / "copy.rec")[:].tolist() == [body(index) for index in range(100)]
