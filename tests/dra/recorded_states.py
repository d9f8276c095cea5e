"""States as earlier versions of the agent wrote them, byte by byte.

Each directory below `states` was left by a real agent: `state` holds its files, `expected.json`
what they say, `node.json` the claims as the API server had them, with kubelet's answers and the CDI
specs (the node's directory in them is `@ROOT@`). They are never changed: what a later version
writes differently is recorded as another one.
"""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

JsonObject = dict[str, Any]
Change = Callable[[JsonObject], JsonObject]

STATES = sorted(path for path in (Path(__file__).parent / "states").iterdir() if path.is_dir())


def unchanged(record: JsonObject) -> JsonObject:
    """Return *record*."""
    return record


def with_added_fields(record: JsonObject) -> JsonObject:
    """Return *record* as a newer version of the same format might have written it."""
    found: JsonObject = _with_added(record)
    return found


def put(recorded: Path, directory: Path, change: Change = unchanged) -> None:
    """Put the files of a *recorded* state into *directory*, each line with a *change*."""
    directory.mkdir(parents=True)
    for path in (recorded / "state").iterdir():
        lines = [json.loads(line[9:]) for line in path.read_bytes().splitlines()]
        content = b"".join(_line(change(line)) for line in lines)
        if change is unchanged:
            assert content == path.read_bytes()
        (directory / path.name).write_bytes(content)


def read(recorded: Path, name: str) -> JsonObject:
    """Return one of the JSON files of a *recorded* state."""
    found: JsonObject = json.loads((recorded / name).read_text(encoding="utf-8"))
    return found


def _with_added(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_added(each) for each in value]
    if not isinstance(value, dict):
        return value
    added = {name: _with_added(each) for name, each in value.items()}
    return added | {"addedText": "x", "added_list": [{"addedNumber": 1}], "addedNothing": None}


def _line(record: JsonObject) -> bytes:
    text = json.dumps(record, separators=(",", ":"), sort_keys=True).encode()
    return f"{zlib.crc32(text):08x} ".encode() + text + b"\n"
