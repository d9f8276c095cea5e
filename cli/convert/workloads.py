"""Where pods stand in the objects that make them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kube.objects import JsonObject

_TEMPLATE: Final = ("spec", "template")
_PATHS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): _TEMPLATE,
    ("apps", "DaemonSet"): _TEMPLATE,
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "Job"): _TEMPLATE,
}
_LIST_ENDING: Final = "List"


def is_list(item: JsonObject) -> bool:
    """Tell whether *item* holds other objects."""
    return str(item.get("kind", "")).endswith(_LIST_ENDING) and isinstance(item.get("items"), list)


def path_to_pod(item: JsonObject) -> tuple[str, ...] | None:
    """Return the keys that lead to what *item* makes pods of; `None` for another kind."""
    group = str(item.get("apiVersion", "")).rpartition("/")[0]
    return _PATHS.get((group, str(item.get("kind", ""))))


def pod_in(item: JsonObject, path: tuple[str, ...]) -> JsonObject | None:
    """Return what stands at *path*, if it is an object."""
    found: Any = item
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def with_pod(item: JsonObject, path: tuple[str, ...], pod: JsonObject) -> JsonObject:
    """Return *item* with *pod* at *path*; the rest is the same."""
    if not path:
        return pod
    return {**item, path[0]: with_pod(item[path[0]], path[1:], pod)}


def keys_in(value: Any, keys: frozenset[str]) -> Iterator[str]:
    """Yield those of *keys* that stand anywhere in *value*."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in keys:
                yield key
            yield from keys_in(item, keys)
    elif isinstance(value, list):
        for item in value:
            yield from keys_in(item, keys)
