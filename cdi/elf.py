"""Just enough of ELF to refuse a file that the loader would skip.

`/etc/ld.so.preload` with a library of another machine, or half of one, makes the loader print an
error and go on without it: the container would run without limits. The header's fields are those
of the System V ABI, chapter 4.
"""

import platform
import struct
from typing import Final

HEADER_SIZE: Final = 64
_MAGIC = b"\x7fELF"
_IDENT = bytes([2, 1])  # 64 bits, little-endian
_SHARED_OBJECT = 3
_MACHINES: Final = {"x86_64": 62, "aarch64": 183}
# type, machine, version, entry, phoff, shoff, flags, ehsize, phentsize, phnum, shentsize, shnum
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")


def problem(content: bytes, machine: str | None = None) -> str | None:
    """Say why *content* is no whole shared object for *machine*, ours if not given; else None."""
    if len(content) < HEADER_SIZE:
        return f"has {len(content)} bytes, less than an ELF header"
    ident, kind, built_for, _, _, phoff, shoff, _, _, phsize, phnum, shsize, shnum, _ = (
        _HEADER.unpack_from(content)
    )
    name = machine or platform.machine()
    needed_bytes = max(phoff + phsize * phnum, shoff + shsize * shnum)
    rules = (
        (ident.startswith(_MAGIC), "is no ELF file"),
        (ident[4:6] == _IDENT, "is no 64-bit little-endian ELF file"),
        (kind == _SHARED_OBJECT, "is no shared object"),
        (built_for == _MACHINES.get(name), f"is not built for {name}"),
        (needed_bytes <= len(content), "is cut short"),
    )
    return next((reason for kept, reason in rules if not kept), None)


def machine_of(content: bytes) -> str | None:
    """Return the machine that *content*, of which nothing is the `problem`, is built for."""
    number = int.from_bytes(content[18:20], "little")
    return next((name for name, known in _MACHINES.items() if known == number), None)


def empty_header(machine: str | None = None) -> bytes:
    """Return the header of a shared object that holds nothing."""
    ident = _MAGIC + _IDENT + bytes([1]) + bytes(9)
    number = _MACHINES[machine or platform.machine()]
    return _HEADER.pack(ident, _SHARED_OBJECT, number, 1, 0, 0, 0, 0, HEADER_SIZE, 56, 0, 64, 0, 0)
