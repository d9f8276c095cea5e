"""Makes an input smaller as long as it still shows its error.

Greedy and bounded: a person reads the result, nothing depends on it being the smallest there is.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

_TRIES: Final = 400
_DEPTH: Final = 20


def smallest(sample: Any, shows: Callable[[Any], bool]) -> Any:
    """Return *sample*, or something smaller for which *shows* holds too."""
    tries = 0
    shrunk = True
    while shrunk:
        shrunk = False
        for smaller in _smaller(sample, _DEPTH):
            tries += 1
            if tries > _TRIES:
                return sample
            if shows(smaller):
                sample, shrunk = smaller, True
                break
    return sample


def _smaller(value: Any, depth: int) -> Iterator[Any]:
    if depth == 0:
        return
    if isinstance(value, dict):
        for key in value:
            yield {other: entry for other, entry in value.items() if other != key}
        for key, entry in value.items():
            yield from (value | {key: each} for each in _smaller(entry, depth - 1))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield value[:index] + value[index + 1 :]
        for index, entry in enumerate(value):
            for each in _smaller(entry, depth - 1):
                yield [*value[:index], each, *value[index + 1 :]]
    elif isinstance(value, str | bytes):
        yield from _shorter(value)


def _shorter(value: Any) -> Iterator[Any]:
    size = len(value) // 2
    while size > 0:
        for start in range(0, len(value), size):
            yield value[:start] + value[start + size :]
        size //= 2
