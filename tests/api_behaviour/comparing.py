"""Where two tellings of one scene differ, and which differences are known."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def differing(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield one line for each value that is not the same."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys()):
            if key not in found:
                yield f"{path}/{key}: missing, should be {_shown(expected[key])}"
            elif key not in expected:
                yield f"{path}/{key}: should not be there, is {_shown(found[key])}"
            else:
                yield from differing(expected[key], found[key], f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differing(one, other, f"{path}[{index}]")
    elif expected != found:
        yield f"{path}: should be {_shown(expected)}, is {_shown(found)}"


def labels_that_differ(
    expected: Mapping[str, Any], found: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return what differs under each label of a scene."""
    lines = {
        label: list(differing(expected.get(label), found.get(label)))
        for label in [*expected, *(label for label in found if label not in expected)]
    }
    return {label: told for label, told in lines.items() if told}


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 400 else f"{text[:400]}..."
