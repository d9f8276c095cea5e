"""Keeps everybody but schedulers and node programs from writing what they write on pods.

An allocation is a few annotations. They can be forged when a pod is created, when it is updated,
through `pods/status` (whose update takes over annotations and labels) and through a Binding, whose
annotations the API server copies onto the pod (kubernetes: `pkg/registry/core/pod/storage`, also
behind the older `bindings`). Other subresources keep the metadata that was there.

Our own record of what a pod asked for is made at its creation and checked there against its claims;
afterwards it is guarded as well.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from gpu.refusal import Refusal
from hami.keys import SCHEDULER_OWNED_LABELS, is_scheduler_owned
from kube.objects import JsonObject
from webhook.access import Access
from webhook.requestannotation import ANNOTATION, LABEL
from webhook.review import Review, UserInfo

_OWN: Final = frozenset({ANNOTATION, LABEL})

_CHANGED_BY_UPDATE: Final = ("", "status")
_VALUE_MAX: Final = 64

_Change = tuple[str, str, Any]
"""`annotation` or `label`, the key, and the new value; `None` where it was removed."""


async def guard(
    review: Review,
    may_write_nodes: Callable[[UserInfo], Awaitable[Access]],
    *,
    more: frozenset[str] = frozenset(),
) -> tuple[Refusal, ...]:
    """Return why *review* may not be; *may_write_nodes* is asked only when keys are touched.

    *more* are annotations of schedulers beside those that `hami.keys` has.
    """
    changes = tuple(touched(review, more=more))
    if not changes:
        return ()
    if _creates_pod(review):
        # Nobody schedules a pod before it is there, so nobody has to be asked.
        return tuple(_refusal(change, _CREATING, _NO_ACCESS) for change in changes)
    access = await may_write_nodes(review.user)
    if access.allowed:
        return ()
    return tuple(_refusal(change, _CHANGING, access) for change in changes)


def touched(review: Review, *, more: frozenset[str] = frozenset()) -> Iterator[_Change]:
    """Yield the guarded keys that *review* sets, changes or removes."""
    if review.group or review.item is None:
        return
    if _creates_pod(review):
        yield from _changes({}, review.item, more=more, own=frozenset())
    elif review.operation == "CREATE" and _is_binding(review):
        yield from _changes({}, review.item, more=more, own=_OWN)
    elif _updates_metadata(review):
        yield from _changes(review.old_item or {}, review.item, more=more, own=_OWN)


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
    before: JsonObject, after: JsonObject, *, more: frozenset[str], own: frozenset[str]
) -> Iterator[_Change]:
    for section, kind, is_owned in _SECTIONS:
        old, new = _texts(before, section), _texts(after, section)
        for key in dict.fromkeys((*new, *old)):
            is_guarded = is_owned(key) or key in own or key in more
            if is_guarded and ((key in old) != (key in new) or old.get(key) != new.get(key)):
                yield kind, key, new.get(key)


def _texts(item: JsonObject, section: str) -> Mapping[str, Any]:
    metadata = item.get("metadata")
    found = metadata.get(section) if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


_SECTIONS: Final = (
    ("annotations", "annotation", is_scheduler_owned),
    ("labels", "label", SCHEDULER_OWNED_LABELS.__contains__),
)
_NO_ACCESS: Final = Access(allowed=False)
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
