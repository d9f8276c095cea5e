"""values.yaml as people read it: the comment above a key says what the key means."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

FILE: Final = Path(__file__).parents[1] / "gpuslice" / "values.yaml"
Path_ = tuple[str, ...]
_CHOICE: Final = re.compile(r"^ {3,}(\S+) {2,}")
"""A word that may be chosen, with what it means."""


def defaults() -> dict[str, Any]:
    """Return what values.yaml says."""
    return dict(yaml.safe_load(FILE.read_text()))


def comments() -> dict[Path_, str]:
    """Return the comment of each key that has one, by its path, in one line."""
    text = FILE.read_text()
    lines = text.splitlines()
    found = {}
    for path, line in _keys(yaml.compose(text), ()):
        if comment := _above(lines, line):
            found[path] = comment
    return found


def _keys(node: Any, path: Path_) -> Iterator[tuple[Path_, int]]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        here = (*path, str(key.value))
        yield here, key.start_mark.line
        yield from _keys(value, here)


def _above(lines: list[str], line: int) -> str:
    words: list[str] = []
    indent = len(lines[line]) - len(lines[line].lstrip())
    for each in reversed(lines[:line]):
        if not each.startswith(" " * indent + "#"):
            break
        words[:0] = _CHOICE.sub(r"`\1`: ", each.strip().lstrip("#")).split()
    return " ".join(words)
