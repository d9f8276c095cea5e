"""The text form of the durable record: lines with a checksum, and files that appear whole.

A journal is appended to and synced once per change, because rewriting a whole checkpoint twice
per prepare is what makes a plugin slow. A line that lacks its newline was cut by a crash before
anybody was answered; a line whose checksum is wrong was damaged later. The two are told apart:
the first is dropped, the second is an error.
"""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from cdi.durable import Whole, write_alone
from kube.objects import JsonObject


class DamagedError(Exception):
    """A file of the state is not what was written; says which and where."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.path = path


def encode_line(record: JsonObject) -> bytes:
    """Return *record* as `<crc32> <json>` and a newline."""
    text = json.dumps(record, separators=(",", ":"), sort_keys=True).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode_lines(path: Path, data: bytes) -> Iterator[JsonObject]:
    """Yield the records of *data*, which ends with a newline; raise `DamagedError`."""
    for number, line in enumerate(data.splitlines(), start=1):
        yield _decode(path, line, f"line {number}")


def whole_lines(data: bytes) -> bytes:
    """Return *data* up to its last newline: what follows was never acknowledged."""
    return data[: data.rfind(b"\n") + 1]


def write_whole(path: Path, record: JsonObject, at: Whole) -> None:
    """Write *record* as the only line of *path*, durably and never half."""
    write_alone(path, encode_line(record), at)


def read_whole(path: Path) -> JsonObject:
    """Return the only record of *path*; raise `DamagedError` or `OSError`."""
    data = path.read_bytes()
    if not data.endswith(b"\n") or data.count(b"\n") != 1:
        raise DamagedError(path, "is not one whole line")
    return _decode(path, data[:-1], "line 1")


def _decode(path: Path, line: bytes, place: str) -> JsonObject:
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        raise DamagedError(path, f"{place}: the checksum does not match")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedError(path, f"{place}: {error}") from error
    if not isinstance(record, dict):
        raise DamagedError(path, f"{place}: is not an object")
    return record
