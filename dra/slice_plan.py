"""What to write so that the slices on the server become the desired ones.

Consumers use only the slices of a pool's highest generation, and only when as many are there as
each of them says. So any change of the set of slices, or of more than one of them, gets a new
generation on all; a change within one slice does not need one. Slices of an older generation are
leftovers of an interrupted change, and all slices of this driver on this node are ours.

Two plugin processes plan at the same time during a rolling update. The plan depends only on what
is on the server, so both come to the same end, whoever writes first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dra.layout import name_prefix
from dra.slice_diff import fingerprint, with_times
from kube.objects import JsonObject

_UNREADABLE = (
    *(LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The writes, to be done in this order; *updates* and *creates* are whole objects."""

    deletes: tuple[JsonObject, ...] = ()
    updates: tuple[JsonObject, ...] = ()
    creates: tuple[JsonObject, ...] = ()

    def is_empty(self) -> bool:
        """Tell whether nothing needs to be written."""
        return not (self.deletes or self.updates or self.creates)


def plan_slices(
    desired: Sequence[JsonObject],
    existing: Iterable[JsonObject],
    *,
    last_generation: int = 0,
    accepted: Mapping[str, str] | None = None,
) -> Plan:
    """Return how to get from the *existing* slices of this driver on this node to *desired*.

    *last_generation* is the highest ever seen, for a pool that was deleted. *accepted* maps the
    fingerprints of specs to those of what the server made of them, for losses to live with.
    A slice that is none is deleted, so that it does not keep the others from being published.
    """
    existing = list(existing)
    try:
        return _planned(desired, existing, last_generation, accepted or {})
    except _UNREADABLE:
        readable = [item for item in existing if _is_readable(item)]
        if len(readable) == len(existing):
            raise
        plan = _planned(desired, readable, last_generation, accepted or {})
        odd = (item for item in existing if not _is_readable(item) and _is_deletable(item))
        return replace(plan, deletes=(*odd, *plan.deletes))


def _planned(
    desired: Sequence[JsonObject],
    existing: Iterable[JsonObject],
    last_generation: int,
    accepted: Mapping[str, str],
) -> Plan:
    current, obsolete = _current(existing, desired[0]["spec"]["pool"]["name"])
    matched, surplus = _match(len(desired), current)
    changed = [
        not _is_same(want, have, accepted) for want, have in zip(desired, matched, strict=True)
    ]
    top = max((_generation(item) for item in current), default=last_generation)
    in_place = not surplus and None not in matched and changed.count(True) <= 1
    generation = top if in_place else max(top, last_generation) + 1
    return Plan(
        deletes=(*obsolete, *surplus),
        updates=tuple(
            _update(want, have, generation)
            for want, have, differs in zip(desired, matched, changed, strict=True)
            if have is not None and (differs or not in_place)
        ),
        creates=tuple(
            _create(want, generation)
            for want, have in zip(desired, matched, strict=True)
            if have is None
        ),
    )


def highest_generation(slices: Iterable[JsonObject]) -> int:
    """Return the highest generation among *slices*, 0 without any."""
    return max((_generation(item) for item in slices), default=0)


def newest_devices(slices: list[JsonObject]) -> Mapping[str, JsonObject]:
    """Return the devices in the newest generation of *slices* by name."""
    generation = highest_generation(slices)
    return {
        device["name"]: device
        for item in slices
        if item["spec"]["pool"].get("generation") == generation
        for device in item["spec"].get("devices") or ()
    }


def _is_readable(item: JsonObject) -> bool:
    """Tell whether all that a plan reads of a slice has the types that the API gives it."""
    try:
        metadata, spec = item["metadata"], item["spec"]
        fingerprint(with_times(spec, spec))
        _is_owned(item | {"metadata": {"ownerReferences": [{"uid": ""}]}}, item)
        texts = metadata["name"], metadata.get("creationTimestamp", ""), spec["pool"]["name"]
        return _generation(item) >= 0 and all(isinstance(text, str) for text in texts)
    except _UNREADABLE:
        return False


def _is_deletable(item: JsonObject) -> bool:
    metadata = item.get("metadata")
    return isinstance(metadata, dict) and all(
        isinstance(metadata.get(key), str) for key in ("name", "uid", "resourceVersion")
    )


def _generation(item: JsonObject) -> int:
    return int(item["spec"]["pool"].get("generation", 0))


def _current(
    existing: Iterable[JsonObject], pool: str
) -> tuple[list[JsonObject], list[JsonObject]]:
    """Divide into the newest generation of the *pool* and everything else, oldest first."""
    # The order is part of the agreement between two processes: they drop the same duplicates.
    ordered = sorted(
        existing,
        key=lambda item: (
            item["metadata"].get("creationTimestamp", ""),
            item["metadata"]["name"],
        ),
    )
    of_pool = [item for item in ordered if item["spec"]["pool"]["name"] == pool]
    top = highest_generation(of_pool)
    current = [item for item in of_pool if _generation(item) == top]
    names = {item["metadata"]["name"] for item in current}
    return current, [item for item in ordered if item["metadata"]["name"] not in names]


def _match(
    count: int, current: Sequence[JsonObject]
) -> tuple[list[JsonObject | None], list[JsonObject]]:
    """Find the slice for each position by its name; those that are left over are surplus."""
    matched: list[JsonObject | None] = [None] * count
    left = list(current)
    for index in range(count):
        prefix = name_prefix(index)
        found = next((item for item in left if item["metadata"]["name"].startswith(prefix)), None)
        if found is not None:
            matched[index] = found
            left.remove(found)
    return matched, left


def _is_same(want: JsonObject, have: JsonObject | None, accepted: Mapping[str, str]) -> bool:
    if have is None:
        return False
    if not _is_owned(want, have):
        return False
    stored = fingerprint(have["spec"])
    if accepted.get(fingerprint(want["spec"])) == stored:
        return True
    return fingerprint(with_times(want["spec"], have["spec"])) == stored


def _is_owned(want: JsonObject, have: JsonObject) -> bool:
    (owner,) = want["metadata"]["ownerReferences"]
    return any(
        all(other.get(key) == value for key, value in owner.items())
        for other in have["metadata"].get("ownerReferences") or ()
    )


def _with_generation(spec: JsonObject, generation: int) -> JsonObject:
    return spec | {"pool": spec["pool"] | {"generation": generation}}


def _create(want: JsonObject, generation: int) -> JsonObject:
    return want | {"spec": _with_generation(want["spec"], generation)}


def _update(want: JsonObject, have: JsonObject, generation: int) -> JsonObject:
    metadata = {key: value for key, value in have["metadata"].items() if key != "managedFields"}
    metadata["ownerReferences"] = want["metadata"]["ownerReferences"]
    spec = with_times(want["spec"], have["spec"])
    return want | {"metadata": metadata, "spec": _with_generation(spec, generation)}
