"""State files as disks and people damage them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from dra.journal import encode_line


def _turn_a_bit(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


KINDS: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType({
    "changed": _turn_a_bit,
    "empty": lambda _content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "garbage": lambda content: bytes(range(256)) * (len(content) // 256 + 1),
    "no version": lambda _content: encode_line({"version": "one", "claims": [], "released": []}),
})  # fmt: skip
"""What becomes of a snapshot's content."""


def damage_one(path: Path, kind: str = "changed") -> None:
    """Damage the file at *path*."""
    path.write_bytes(KINDS[kind](path.read_bytes()))


def damage(state: Path, kind: str = "changed") -> None:
    """Damage every snapshot in the directory *state*, so that no generation can be read."""
    for path in state.glob("snapshot.*"):
        damage_one(path, kind)
