"""A mapping with one entry, which is what tens of thousands of pods have: one vendor, one device.

A `dict` takes four times the memory.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class Single(Mapping[str, T], Generic[T]):
    """Maps one key; never changed."""

    __slots__ = ("_key", "_value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, key: str, value: T) -> None:
        self._key, self._value = key, value

    def __getitem__(self, key: str) -> T:
        if key == self._key:
            return self._value
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        yield self._key

    def __len__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Single):
            return bool(self._key == other._key and self._value == other._value)
        return isinstance(other, Mapping) and {self._key: self._value} == dict(other)

    def __repr__(self) -> str:
        return repr({self._key: self._value})


def small(mapping: Mapping[str, T]) -> Mapping[str, T]:
    """Return the same in as little memory as there is a way for."""
    if len(mapping) != 1:
        return mapping
    ((key, value),) = mapping.items()
    return Single(sys.intern(key), value)
