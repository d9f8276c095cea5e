"""Keeps everybody but schedulers and node programs from writing what they write on pods.

An allocation is a few annotations. They can be forged when a pod is created, when it is updated,
through `pods/status` (whose update takes over annotations and labels) and through a Binding, whose
annotations the API server copies onto the pod (kubernetes: `pkg/registry/core/pod/storage`, also
behind the older `bindings`). Other subresources keep the metadata that was there.

Our own record of what a pod asked for is made at its creation and checked there against its claims;
afterwards it is guarded as well.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from gpu.refusal import Refusal
from hami.keys import ASSIGNED_NODE, SCHEDULER_OWNED
from kube.objects import JsonObject
from webhook.access import Access
from webhook.review import Review, UserInfo

OWN_ANNOTATION: Final = "gpuslice.io/requests"
OWN_LABEL: Final = "gpuslice.io/translated"
_OWN: Final = frozenset({OWN_ANNOTATION, OWN_LABEL})

_DEVICE_LISTS: Final = re.compile(r"hami\.io/.+-devices-(?:to-allocate|allocated)", re.DOTALL)
"""Of chips, too, whose words are not known here."""
_CHANGED_BY_UPDATE: Final = ("", "status")
_VALUE_MAX: Final = 64

_Change = tuple[str, str, Any]
"""`annotation` or `label`, the key, and the new value; `None` where it was removed."""


async def guard(
    review: Review,
    may_write_nodes: Callable[[UserInfo], Awaitable[Access]],
    *,
    owned: frozenset[str] = SCHEDULER_OWNED,
) -> tuple[Refusal, ...]:
    """Return why *review* may not be; *may_write_nodes* is asked only when keys are touched.

    *owned* are the annotations of schedulers, beside all that have the form of a device list.
    """
    changes = tuple(touched(review, owned=owned))
    if not changes:
        return ()
    access = await may_write_nodes(review.user)
    if access.allowed:
        return ()
    wording = _CREATING if _creates_pod(review) else _CHANGING
    return tuple(_refusal(change, wording, access) for change in changes)


def touched(review: Review, *, owned: frozenset[str] = SCHEDULER_OWNED) -> Iterator[_Change]:
    """Yield the guarded keys that *review* sets, changes or removes."""
    if review.group or review.item is None:
        return
    if _creates_pod(review):
        yield from _changes({}, review.item, owned=owned, own=frozenset())
    elif review.operation == "CREATE" and _is_binding(review):
        yield from _changes({}, review.item, owned=owned, own=_OWN)
    elif _updates_metadata(review):
        yield from _changes(review.old_item or {}, review.item, owned=owned, own=_OWN)


def _creates_pod(review: Review) -> bool:
    return review.operation == "CREATE" and (review.resource, review.subresource) == ("pods", "")


def _is_binding(review: Review) -> bool:
    asked = (review.resource, review.subresource)
    return asked in (("pods", "binding"), ("bindings", ""))


def _updates_metadata(review: Review) -> bool:
    return (
        review.operation == "UPDATE"
        and review.resource == "pods"
        and review.subresource in _CHANGED_BY_UPDATE
    )


def _changes(
    before: JsonObject, after: JsonObject, *, owned: frozenset[str], own: frozenset[str]
) -> Iterator[_Change]:
    for section, kind, keys in (
        ("annotations", "annotation", owned | own),
        ("labels", "label", own | {ASSIGNED_NODE}),
    ):
        old, new = _texts(before, section), _texts(after, section)
        for key in dict.fromkeys((*new, *old)):
            is_guarded = key in keys or _DEVICE_LISTS.fullmatch(key) is not None
            if is_guarded and ((key in old) != (key in new) or old.get(key) != new.get(key)):
                yield kind, key, new.get(key)


def _texts(item: JsonObject, section: str) -> Mapping[str, Any]:
    metadata = item.get("metadata")
    found = metadata.get(section) if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


_CREATING: Final = "{kind} {key} is written by the scheduler and cannot be set when creating a pod"
_CHANGING: Final = "{kind} {key} is written by {writer}; only who may patch nodes can change it"


def _refusal(change: _Change, wording: str, access: Access) -> Refusal:
    kind, key, value = change
    writer = "this webhook" if key in _OWN else "the scheduler"
    shown = "removed" if value is None else str(value)
    return Refusal(
        code="SchedulerOwnedKey",
        field=f"metadata.{kind}s[{key}]",
        value=shown if len(shown) <= _VALUE_MAX else shown[: _VALUE_MAX - 1] + "…",
        limit=wording.format(kind=kind, key=key, writer=writer),
        remedy="" if access.is_certain else access.reason,
    )
