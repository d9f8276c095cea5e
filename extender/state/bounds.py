"""What quotas of a namespace allow, and what its pods use of that.

Use is what is booked, so that it falls with the bookings and nothing has to be taken back when a
decision fails. All quotas of a namespace hold, as for Kubernetes (for HAMi the one that it heard of
last), `0` forbids, an absent key bounds nothing, and a text that cannot be read forbids as well.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from extender.accounting import Booking, quota_amounts
from extender.parts import QuotaFigure
from extender.state.reading import WatchedQuota
from hami.quota import QuotaNames
from kube.quantity import QuantityError, parse

_PREFIXES: Final = ("limits.", "requests.")
_MIB: Final = 1 << 20

Amounts = tuple[int, int]
"""MiB and cores."""


class Bounds:
    """The quotas of all namespaces."""

    def __init__(self, names: Iterable[QuotaNames]) -> None:
        """Take the names of what may be bounded."""
        self._names = {each.word: each for each in names}
        self._factors = {each.memory: each.memory_factor for each in self._names.values()}
        self._quotas: dict[str, dict[str, WatchedQuota]] = {}
        self._limits: dict[str, dict[str, int]] = {}
        self._used: dict[str, dict[str, Amounts]] = {}
        self._changes: dict[str, int] = {}

    def put(self, quota: WatchedQuota) -> None:
        """Take a new or changed quota."""
        self._quotas.setdefault(quota.namespace, {})[quota.name] = quota
        self._reckon(quota.namespace)

    def drop(self, namespace: str, name: str) -> None:
        """Forget a quota."""
        found = self._quotas.get(namespace, {})
        found.pop(name, None)
        if not found:
            self._quotas.pop(namespace, None)
        self._reckon(namespace)

    def add(self, namespace: str, booking: Booking, sign: int = 1) -> None:
        """Count what a booking uses, or with -1 that it does no more."""
        self._changes[namespace] = self._changes.get(namespace, 0) + 1
        used = self._used.setdefault(namespace, {})
        for word, uses in booking.uses.items():
            memory_mib, cores = quota_amounts(word, uses)
            had = used.get(word, (0, 0))
            now = (had[0] + sign * memory_mib, had[1] + sign * cores)
            if any(now):
                used[word] = now
            else:
                used.pop(word, None)
        if not used:
            del self._used[namespace]

    def room(self, namespace: str) -> "Room":
        """Return what is left in a namespace."""
        return Room(
            names=self._names,
            limits=self._limits.get(namespace, {}),
            used=self._used.get(namespace, {}),
        )

    def used(self) -> Mapping[str, Mapping[str, Amounts]]:
        """Return what is used, by namespace and vendor's word."""
        return self._used

    def changes(self) -> dict[str, int]:
        """Return how often the use of each namespace has changed."""
        return dict(self._changes)

    def replace_used(self, namespace: str, used: Mapping[str, Amounts]) -> None:
        """Take other sums in the place of ones that turned out to be wrong."""
        self._used.pop(namespace, None)
        if used:
            self._used[namespace] = dict(used)

    def figures(self) -> Iterator[QuotaFigure]:
        """Yield what is counted where anything is used or bounded."""
        for namespace in sorted(self._used.keys() | self._limits.keys()):
            limits, used = self._limits.get(namespace, {}), self._used.get(namespace, {})
            for names in self._names.values():
                amounts = used.get(names.word, (0, 0))
                for name, amount in zip((names.memory, names.cores), amounts, strict=True):
                    if name and (amount or name in limits):
                        yield QuotaFigure(
                            namespace=namespace, name=name, used=amount, limit=limits.get(name)
                        )

    def _reckon(self, namespace: str) -> None:
        """Find the least that each resource is bounded by."""
        limits: dict[str, int] = {}
        wanted = {name for each in self._names.values() for name in (each.memory, each.cores)}
        for quota in self._quotas.get(namespace, {}).values():
            for key, text in quota.hard.items():
                name = _resource(key)
                if name and name in wanted:
                    limit = _limit(text, self._factors.get(name, 0))
                    limits[name] = min(limit, limits.get(name, limit))
        if limits:
            self._limits[namespace] = limits
        else:
            self._limits.pop(namespace, None)


class Room:
    """What is left to one pod of a namespace, for the time of one decision."""

    __slots__ = ("_limits", "_names", "_used")

    def __init__(
        self,
        *,
        names: Mapping[str, QuotaNames],
        limits: Mapping[str, int],
        used: Mapping[str, Amounts],
    ) -> None:
        self._names, self._limits, self._used = names, limits, used

    @property
    def is_endless(self) -> bool:
        """Tell whether nothing is bounded at all."""
        return not self._limits

    def left(self, word: str) -> tuple[int | None, int | None]:
        """Return the MiB and cores of a vendor's devices that are left, `None` without a bound."""
        names = self._names.get(word)
        if not self._limits or names is None:
            return None, None
        used_mib, used_cores = self._used.get(word, (0, 0))
        memory_limit, cores_limit = self._limits.get(names.memory), self._limits.get(names.cores)
        return (
            None if memory_limit is None else memory_limit - used_mib,
            None if cores_limit is None else cores_limit - used_cores,
        )

    def has_room(self, word: str, memory_mib: int, cores: int) -> bool:
        """Tell whether the pod may have these amounts, in total, of the vendor's devices."""
        left_mib, left_cores = self.left(word)
        if left_mib is not None and memory_mib > left_mib:
            return False
        return left_cores is None or cores <= left_cores


def _resource(key: str) -> str:
    for prefix in _PREFIXES:
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return ""


def _limit(text: str, factor: int) -> int:
    """Return what *text* allows, in MiB for a memory whose unit has *factor* of them."""
    try:
        exact = parse(text)
    except QuantityError:
        return 0
    if factor and text.endswith("i"):
        return max(0, exact.value() // _MIB)
    return max(0, exact.value() * max(1, factor)) if exact.is_whole() else 0
