"""Writes the foreign files that the adopters are tested against, with nothing but Python's standard library.

Run it in this folder; the output is the same every time. `members.json` says what each archive holds.
"""

import io
import json
import struct
import tarfile

LONG = "a" * 60 + "/" + "b" * 90 + "/" + "c" * 120 + ".bin"
MEMBERS = [
    ("plain.txt", b"hello"),
    ("empty", b""),
    ("block", bytes(range(256)) * 2),
    ("block+1", bytes(range(256)) * 2 + b"!"),
    ("folder/", None),
    ("folder/ümlaut.txt", "ä".encode()),
    ("p" * 90 + "/" + "n" * 80, b"needs a prefix in ustar"),
    (LONG, b"needs a long name"),
]


def archive(path: str, style: int, members: list, encoding: str = "utf-8") -> list:
    """Writes one archive and returns what Python's own reader finds in it."""
    with tarfile.open(path, "w", format=style, encoding=encoding) as out:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.mtime = 1_700_000_000
            if data is None:
                info.type = tarfile.DIRTYPE
                out.addfile(info)
            elif isinstance(data, tuple):
                info.type, info.linkname = data
                out.addfile(info)
            else:
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))
    with tarfile.open(path) as back:
        return [[m.name, m.offset_data, m.size] for m in back if m.isreg()]


def crc32c(data: bytes) -> int:
    """CRC32C, bit by bit: slow, and written without looking at ours."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    """TFRecord's masked CRC."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def main() -> None:
    """Writes everything."""
    found = {
        "gnu.tar": archive("gnu.tar", tarfile.GNU_FORMAT, MEMBERS),
        "pax.tar": archive("pax.tar", tarfile.PAX_FORMAT, MEMBERS),
        "ustar.tar": archive("ustar.tar", tarfile.USTAR_FORMAT, MEMBERS[:-1]),
        "links.tar": archive(
            "links.tar",
            tarfile.PAX_FORMAT,
            [
                ("a", b"1"),
                ("hard", (tarfile.LNKTYPE, "a")),
                ("soft", (tarfile.SYMTYPE, "a")),
                ("pipe", (tarfile.FIFOTYPE, "")),
                ("z", b"2"),
            ],
        ),
        "samples.tar": archive(
            "samples.tar",
            tarfile.USTAR_FORMAT,
            [
                ("train/0001.jpg", b"jpg 1"),
                ("train/0001.cls", b"1"),
                ("train/0002.jpg", b"jpg 2"),
                ("train/0002.seg.PNG", b"png 2"),
                ("train/0003.cls", b"3"),
                ("README", b"no sample"),
                ("train/0004.JPG", b""),
                ("train/0004.cls", b"4"),
            ],
        ),
    }
    with open("members.json", "w", encoding="utf-8") as out:
        json.dump(found, out, indent=1, ensure_ascii=False)
        out.write("\n")
    with open("three.tfrecord", "wb") as out:
        for record in (b"", b"one", bytes(range(256)) * 5):
            length = struct.pack("<Q", len(record))
            out.write(length + masked(length) + record + masked(record))
    sequences = [[1, 2, 3], [], [65535, 0], [7]]
    with open("tokens.bin", "wb") as out:
        out.write(b"".join(struct.pack(f"<{len(s)}H", *s) for s in sequences))
    starts = [2 * sum(map(len, sequences[:i])) for i in range(len(sequences))]
    with open("tokens.idx", "wb") as out:
        out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(sequences), 3))
        out.write(struct.pack("<4i", *map(len, sequences)))
        out.write(struct.pack("<4q", *starts))
        out.write(struct.pack("<3q", 0, 2, 4))


if __name__ == "__main__":
    main()
