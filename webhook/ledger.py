"""What was admitted and is not yet seen: reservations against the quotas of one namespace.

Between the decision and the watch event that shows its object lie the rest of admission, a write
to etcd and the way back. Meanwhile the object counts by its reservation, or many requests at once
would all find the same room. Nothing tells when an admitted request failed later on, so a
reservation that is never seen ends only after the API server must have given its request up, and
after a list that shows whatever came of it (see `webhook.quotacheck`).

Before the API server stores an object, webhooks that change see no UID and for `generateName` no
name either; those that validate see both. An object is matched by the best there is. Objects of one
generated name and one size can stand for one another, and each is matched once.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from hami.quota import Cost, total
from kube.objects import JsonObject

_GENERATED_BASE: Final = 58
"""Characters of `generateName` that are kept, before 5 by chance (apiserver: `names/generate`)."""
_GENERATED_TAIL: Final = 5


class Kind(StrEnum):
    """What is admitted."""

    POD = "pod"
    CLAIM = "claim"


class Part(NamedTuple):
    """One entry in the `resourceClaims` of one pod, of which a claim is made."""

    pod_uid: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object on its way, as far as it has an identity."""

    kind: Kind
    review_uid: str
    uid: str = ""
    name: str = ""
    generate_name: str = ""

    @property
    def key(self) -> str:
        """Tell two requests apart, and the same one asked again not."""
        return self.uid or self.review_uid

    @property
    def place(self) -> tuple[Kind, str]:
        """Return what only one object can have: its name, or its request where it has none."""
        return self.kind, self.name or f"/{self.key}"

    def may_be(self, name: str) -> bool:
        """Tell whether an object of *name* may be it."""
        if self.name:
            return name == self.name
        base = self.generate_name[:_GENERATED_BASE]
        return bool(base) and name.startswith(base) and len(name) == len(base) + _GENERATED_TAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Room that *subject* takes until it is seen."""

    subject: Subject
    cost: Cost
    deadline_s: float
    """After this its request cannot succeed any more."""
    replaces: Part | None = None
    """What a claim was counted as before, as a part of its pod."""


class Ledger:
    """The reservations in one namespace; belongs to one thread."""

    def __init__(self) -> None:
        self._reserved: dict[str, Reservation] = {}
        self._seen: dict[Kind, set[str]] = {kind: set() for kind in Kind}

    def __len__(self) -> int:
        return len(self._reserved)

    def reserve(self, reservation: Reservation) -> None:
        """Take room, in the place of what the same request took before."""
        self._reserved[reservation.subject.key] = reservation

    def absorb(
        self, kind: Kind, items: Iterable[JsonObject], cost_of: Callable[[JsonObject], Cost]
    ) -> None:
        """Drop the reservations of those *items* that were not here the last time."""
        now: set[str] = set()
        for item in items:
            uid, name = identity(item)
            now.add(uid)
            if uid not in self._seen[kind] and self._reserved:
                self._match(kind, uid, name, partial(cost_of, item))
        self._seen[kind] = now

    def held(self, *, besides: Subject | None = None) -> Cost:
        """Return the sum of all room taken, without what stands against *besides* itself.

        Of requests for one name only one can succeed, so the largest counts.
        """
        by_place: dict[tuple[Kind, str], Cost] = {}
        for each in self._reserved.values():
            place = each.subject.place
            if besides is None or (place != besides.place and each.subject.key != besides.key):
                known = by_place.get(place)
                by_place[place] = each.cost if known is None else known | each.cost
        return total(by_place.values())

    def replaced(self) -> Iterator[Part]:
        """Yield the parts of pods for which claims have room of their own."""
        for reservation in self._reserved.values():
            if reservation.replaces is not None:
                yield reservation.replaces

    def awaits_pod(self, uid: str, name: str) -> bool:
        """Tell whether this pod has room and was not yet seen."""
        return (
            any(
                each.subject.kind is Kind.POD
                and (each.subject.uid == uid if each.subject.uid else each.subject.may_be(name))
                for each in self._reserved.values()
            )
            and uid not in self._seen[Kind.POD]
        )

    def has_expired(self, now_s: float) -> bool:
        """Tell whether there is a reservation that will never be seen."""
        return any(each.deadline_s <= now_s for each in self._reserved.values())

    def drop_expired(self, listed_s: float) -> None:
        """Drop what had expired at *listed_s*, after a list from then was found in the view."""
        self._reserved = {
            key: each for key, each in self._reserved.items() if each.deadline_s > listed_s
        }

    def _match(self, kind: Kind, uid: str, name: str, cost: Callable[[], Cost]) -> None:
        candidates = [
            (key, each) for key, each in self._reserved.items() if each.subject.kind is kind
        ]
        for key, each in candidates:
            if each.subject.uid == uid:
                del self._reserved[key]
                return
        for key, each in candidates:
            subject = each.subject
            if subject.uid or not subject.may_be(name):
                continue
            if subject.name or each.cost.amounts == cost().amounts:
                del self._reserved[key]
                return


def identity(item: JsonObject) -> tuple[str, str]:
    """Return the UID and the name of *item*, empty where it has none."""
    metadata: Any = item.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    uid, name = metadata.get("uid"), metadata.get("name")
    return (uid if isinstance(uid, str) else ""), (name if isinstance(name, str) else "")
