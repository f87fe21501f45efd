"""Writes the LMDB environments that the import is tested against. Needs `pip install lmdb` (3.0).

Run it in this folder. `values.json` says what each database holds, as py-lmdb reads it back.
"""

import json
import os
import random
import struct
import zlib

import lmdb

FORMATS = {"format-1": 0, "format-3": 1}


def fill(env: lmdb.Environment) -> None:
    """Values of every shape: empty, short, on pages of their own, several for a key."""
    some = random.Random(7)
    with env.begin(write=True) as txn:
        txn.put(b"empty", b"")
        txn.put(b"odd", b"x")
        txn.put(b"long", some.randbytes(5000))
        txn.put(b"longer", some.randbytes(20000))
    many = env.open_db(b"many")
    with env.begin(write=True, db=many) as txn:
        for n in range(400):
            txn.put(b"%05d" % n + b"k" * 60, some.randbytes(n % 50))
        for n in range(0, 400, 7):
            txn.delete(b"%05d" % n + b"k" * 60)
    several = env.open_db(b"several", dupsort=True)
    with env.begin(write=True, db=several) as txn:
        txn.put(b"one", b"1")
        for n in range(5):
            txn.put(b"few", b"value %d" % n)
        for n in range(300):
            txn.put(b"lots", b"%04d" % n + b"v" * 40)
    fixed = env.open_db(b"fixed", dupsort=True, dupfixed=True)
    with env.begin(write=True, db=fixed) as txn:
        for n in range(3):
            txn.put(b"few", b"%04d" % n)
        for n in range(1500):
            txn.put(b"lots", b"%04d" % n)
    env.open_db(b"nothing")


def read(path: str, name: str | None) -> list:
    """How many values py-lmdb finds, and a CRC-32 over all keys and values with their lengths."""
    env = lmdb.open(path, subdir=False, readonly=True, lock=False, max_dbs=8)
    db = env.open_db(name.encode()) if name else None
    names = {b"many", b"several", b"fixed", b"nothing"}
    count, crc = 0, 0
    with env.begin(db=db) as txn:
        for key, value in txn.cursor().iternext():
            if name or key.rstrip(b"\0") not in names:
                count += 1
                crc = zlib.crc32(struct.pack("<II", len(key), len(value)) + key + value, crc)
    env.close()
    return [count, crc]


def main() -> None:
    """Writes everything."""
    values = {}
    for file, version in FORMATS.items():
        path = f"{file}.mdb"
        for old in (path, f"{path}-lock"):
            if os.path.exists(old):
                os.remove(old)
        env = lmdb.open(path, subdir=False, map_size=1 << 24, max_dbs=8, lib_version=version)
        fill(env)
        env.close()
        values[file] = {
            name or "": read(path, name) for name in (None, "many", "several", "fixed", "nothing")
        }
        os.remove(f"{path}-lock")
    env = lmdb.open("empty.mdb", subdir=False, map_size=1 << 24)
    env.close()
    os.remove("empty.mdb-lock")
    with open("values.json", "w", encoding="utf-8") as out:
        json.dump(values, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
