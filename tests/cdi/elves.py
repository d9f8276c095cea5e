"""Shared objects for tests: as little of ELF as names the versions that a library needs."""

import struct
from collections.abc import Sequence

from cdi import elf

_SECTION = struct.Struct("<IIQQQQIIQQ")
_STRINGS, _NEEDS = 3, 0x6FFFFFFE
_TEXT = b"\0.dynstr\0.gnu.version_r\0.shstrtab\0"


def shared_object(
    versions: Sequence[str] = ("GLIBC_2.17",), *, machine: str | None = None, tail: bytes = b""
) -> bytes:
    """Return a shared object that needs *versions* of `libc.so.6`; *tail* makes it another."""
    strings = b"\0libc.so.6\0"
    places = []
    for version in versions:
        places.append(len(strings))
        strings += version.encode() + b"\0"
    needs = struct.pack("<HHIII", 1, len(versions), 1, 16, 0)
    for number, place in enumerate(places):
        is_last = number == len(places) - 1
        needs += struct.pack("<IHHII", 0, 0, number + 2, place, 0 if is_last else 16)
    at = elf.HEADER_SIZE
    blocks = (strings, needs, _TEXT)
    offsets = [at + sum(map(len, blocks[:number])) for number in range(len(blocks))]
    sections = b"".join(
        (
            _SECTION.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
            _SECTION.pack(1, _STRINGS, 0, 0, offsets[0], len(strings), 0, 0, 1, 0),
            _SECTION.pack(9, _NEEDS, 0, 0, offsets[1], len(needs), 1, 1, 8, 0),
            _SECTION.pack(24, _STRINGS, 0, 0, offsets[2], len(_TEXT), 0, 0, 1, 0),
        )
    )
    header = bytearray(elf.empty_header(machine))
    body = b"".join(blocks)
    struct.pack_into("<Q", header, 40, at + len(body))
    struct.pack_into("<HH", header, 60, 4, 3)
    return bytes(header) + body + sections + tail
