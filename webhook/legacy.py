"""The patch of a pod for HAMi's own scheduler: its defaults, and who is to place it.

HAMi's webhook sends back the whole pod as its libraries know it, so that fields of newer versions
would go and quantities change their texts. Here only what is meant is touched.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from hami.requests import Absent, ContainerRequest, Valid
from kube.objects import JsonObject
from webhook.patching import Patch, Step

_NOTHING: Final[frozenset[str]] = frozenset()


def patch_for(
    pod: JsonObject, valid: Valid | Absent, *, scheduler_name: str
) -> tuple[JsonObject, ...]:
    """Return the operations on *pod*; empty where nothing changes.

    A pod that asks for no device keeps its scheduler, and so does every pod when *scheduler_name*
    is empty.
    """
    patch = Patch(pod)
    write_edits(patch, pod, valid.requests)
    if isinstance(valid, Valid):
        write_scheduler(patch, pod, scheduler_name)
    return patch.operations


def write_scheduler(patch: Patch, pod: JsonObject, scheduler_name: str) -> None:
    """Let *scheduler_name* place the pod; an empty name changes nothing."""
    if scheduler_name:
        _put(patch, _mapping(pod, "spec"), ("spec", "schedulerName"), scheduler_name)


def write_edits(
    patch: Patch,
    pod: JsonObject,
    requests: Iterable[ContainerRequest],
    *,
    leave: frozenset[str] = _NOTHING,
) -> None:
    """Write what vendors add to the containers and the pod.

    *leave* names resources and variables that stay unwritten, such as those of a vendor whose
    requests become claims.
    """
    runtime_class_name = None
    annotations: dict[str, str] = {}
    for each in requests:
        _write_amounts(patch, each, leave)
        for name, value in each.edits.env:
            if name not in leave:
                append_variable(patch, each, name, value)
        annotations |= each.edits.pod_annotations
        runtime_class_name = runtime_class_name or each.edits.runtime_class_name
    said = _mapping(pod, "metadata", "annotations")
    for key, value in annotations.items():
        _put(patch, said, ("metadata", "annotations", key), value)
    if runtime_class_name and _mapping(pod, "spec").get("runtimeClassName") is None:
        patch.add("spec", "runtimeClassName", value=runtime_class_name)


def append_variable(patch: Patch, request: ContainerRequest, name: str, value: str) -> None:
    """Set variable *name* of a container, unless it is *value* already."""
    if _env(request, name) != value:
        patch.append(*_at(request), "env", value={"name": name, "value": value})


def _write_amounts(patch: Patch, request: ContainerRequest, leave: frozenset[str]) -> None:
    edits = request.edits
    for section, amounts in (("limits", edits.limits), ("requests", edits.requests)):
        said = _mapping(request.container.raw, "resources", section)
        for name, amount in amounts.items():
            if name not in leave:
                _put(patch, said, (*_at(request), "resources", section, name), amount)


def _env(request: ContainerRequest, name: str) -> str | None:
    """Return what variable *name* is now: of several of a name the last counts."""
    env = request.container.raw.get("env")
    said = [
        None if each.get("valueFrom") else each.get("value") or ""
        for each in (env if isinstance(env, list) else ())
        if isinstance(each, dict) and each.get("name") == name
    ]
    return said[-1] if said else None


def _put(patch: Patch, said: Mapping[str, object], path: tuple[Step, ...], value: str) -> None:
    """Set the last step of *path*, whose object *said* is, unless it says *value* already."""
    key = path[-1]
    if key not in said:
        patch.add(*path, value=value)
    elif said[str(key)] != value:
        patch.replace(*path, value=value)


def _at(request: ContainerRequest) -> tuple[Step, ...]:
    return "spec", request.container.section, request.container.index


def _mapping(item: JsonObject, *path: str) -> Mapping[str, object]:
    found: object = item
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
