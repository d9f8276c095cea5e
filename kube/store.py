"""What is known of the objects of one kind, and how it changes by lists and watch events.

A list says nothing of what vanished while no watch was open, so the difference is taken here and
told as deletions. An object that was deleted and made again under its name meanwhile has another
UID; to those who hold devices for it these are two changes, not one.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

import structlog

from kube.objects import JsonObject, ObjectKey, key_of

log = structlog.get_logger(__name__)

T = TypeVar("T")

_DIGITS: Final = 20


class UnwantedError(Exception):
    """Raised by a decoder for an object that shall be left out and of which nothing is to say."""


class ChangeKind(StrEnum):
    """What happened to an object, as far as we knew it."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[T]):
    """One step; *old* is `None` for an addition, *new* for a deletion."""

    kind: ChangeKind
    key: ObjectKey
    old: T | None
    new: T | None


@dataclass(slots=True)
class _Known(Generic[T]):
    uid: str
    version: str | int
    item: T


class Store(Generic[T]):
    """The decoded objects by key; one thread changes it, any may read."""

    def __init__(self, decode: Callable[[JsonObject], T]) -> None:
        self._decode = decode
        self._lock = threading.Lock()
        self._known: dict[ObjectKey, _Known[T]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def items(self) -> dict[ObjectKey, T]:
        """Return a copy of all objects as of one moment."""
        with self._lock:
            return {key: known.item for key, known in self._known.items()}

    def replace(self, listed: Iterable[JsonObject]) -> list[Change[T]]:
        """Take a complete list and return what it changes."""
        fresh: dict[ObjectKey, _Known[T]] = {}
        for item in listed:
            key = _key_or_none(item)
            known = None if key is None else self._known_of(key, item)
            if key is not None and known is not None:
                fresh[key] = known
        with self._lock:
            old, self._known = self._known, fresh
        changes: list[Change[T]] = []
        for key in old.keys() - fresh.keys():
            changes += _steps(key, old[key], None)
        for key, known in fresh.items():
            changes += _steps(key, old.get(key), known)
        return changes

    def put(self, item: JsonObject) -> list[Change[T]]:
        """Take one new or changed object; one that cannot be decoded is dropped."""
        key = _key_or_none(item)
        if key is None:
            return []
        known = self._known_of(key, item)
        if known is None:
            return self._remove(key)
        with self._lock:
            old = self._known.get(key)
            self._known[key] = known
        return list(_steps(key, old, known))

    def drop(self, item: JsonObject) -> list[Change[T]]:
        """Forget one deleted object."""
        key = _key_or_none(item)
        return [] if key is None else self._remove(key)

    def _remove(self, key: ObjectKey) -> list[Change[T]]:
        with self._lock:
            old = self._known.pop(key, None)
        return list(_steps(key, old, None))

    def _known_of(self, key: ObjectKey, item: JsonObject) -> _Known[T] | None:
        """Decode *item*, or return what is known already of the same version of it."""
        metadata = item["metadata"]
        uid, version = metadata.get("uid", ""), _short(metadata.get("resourceVersion", ""))
        old = self._known.get(key)
        if old is not None and version and (old.uid, old.version) == (uid, version):
            return old
        try:
            decoded = self._decode(item)
        except UnwantedError:
            return None
        except Exception as error:  # noqa: BLE001 - one bad object never stops the others
            # The text of a validation error may hold any field of the object: the type must do.
            log.warning("object not decoded", object=str(key), error=type(error).__name__)
            return None
        return _Known(uid, version, decoded)


def _short(version: Any) -> Any:
    """Return a number in the place of its digits, which take twice the memory."""
    is_number = type(version) is str and version.isdecimal() and version.isascii()
    return int(version) if is_number and version[0] != "0" and len(version) < _DIGITS else version


def _key_or_none(item: JsonObject) -> ObjectKey | None:
    try:
        key = key_of(item)
    except (KeyError, TypeError, AttributeError):
        key = None
    if key is None or any(type(part) is not str for part in key):
        log.warning("object without a name skipped")
        return None
    return key


def _steps(key: ObjectKey, old: _Known[T] | None, new: _Known[T] | None) -> Iterator[Change[T]]:
    if old is new:
        return
    if old and new and old.uid == new.uid:
        yield Change(kind=ChangeKind.MODIFIED, key=key, old=old.item, new=new.item)
        return
    if old:
        yield Change(kind=ChangeKind.DELETED, key=key, old=old.item, new=None)
    if new:
        yield Change(kind=ChangeKind.ADDED, key=key, old=None, new=new.item)
