"""Whether an object has what another one says, and where it has not."""

from collections.abc import Iterator
from typing import Any

from kube.objects import JsonObject


def missing(wanted: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield where *found* lacks what *wanted* has.

    Of objects only the keys of *wanted* count, `...` standing for a key that may not be there; of
    lists each entry of *wanted* must be in one of *found*; a function is asked.
    """
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            yield from _missing_below(value, found, key, path)
    elif isinstance(wanted, list) and isinstance(found, list):
        for index, value in enumerate(wanted):
            if not any(_is_in(value, each) for each in found):
                yield f"{path}[{index}]: nothing like {value!r} in {found!r}"
    elif not (wanted(found) if callable(wanted) else wanted == found):
        yield f"{path} is {found!r} and not {wanted!r}"


def _missing_below(wanted: Any, found: JsonObject, key: str, path: str) -> Iterator[str]:
    below = f"{path}.{key}"
    if wanted is ...:
        if key in found:
            yield f"{below} is there: {found[key]!r}"
    elif key not in found:
        yield f"{below} is missing"
    else:
        yield from missing(wanted, found[key], below)


def _is_in(wanted: Any, found: Any) -> bool:
    return next(missing(wanted, found), None) is None
