"""Server-side apply: merge what a manager says, remove what it no longer says.

Ownership is kept in `metadata.managedFields` in the real format (structured-merge-diff, the
`f:`, `k:` and `v:` trees), but only for managers that apply: a plain update or patch takes
no field from anybody here. Lists merge by the keys that the schema names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sim.apiserver.errors import Cause, StatusError, bad_request, invalid
from sim.apiserver.json_values import copy_json, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.requests import Write
    from sim.apiserver.resources import ResourceType
    from sim.apiserver.schemas import Shape

_IDENTITY = {"apiVersion", "kind"}
_IDENTITY_METADATA = {"name", "namespace", "uid", "resourceVersion", "managedFields"}


def applied(
    shape: Shape, live: JsonObject, config: JsonObject, *, manager: str, force: bool, part: str
) -> JsonObject:
    """Return *live* after *manager* applied *config*; 409 when others own what it changes."""
    config = _stripped(config)
    owned = fields_of(shape, config)
    entries = live["metadata"].get("managedFields", [])
    others = [entry for entry in entries if not _is(entry, manager, part)]
    mine: JsonObject = next(
        (entry["fieldsV1"] for entry in entries if _is(entry, manager, part)), {}
    )
    conflicts = _conflicts(shape, live, config, others)
    if conflicts and not force:
        raise _conflict(conflicts)
    if conflicts:
        others = [_without_conflicts(shape, live, config, entry) for entry in others]
    kept = [entry["fieldsV1"] for entry in others]
    result = _merge(shape, copy_json(live), config)
    _remove(shape, result, mine, [owned, *kept])
    entry: JsonObject = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": live["apiVersion"],
        "time": timestamp(),
        "fieldsType": "FieldsV1",
        "fieldsV1": owned,
    }
    if part:
        entry["subresource"] = part
    if mine == owned:
        entry["time"] = next(
            (old["time"] for old in entries if _is(old, manager, part)), entry["time"]
        )
    result["metadata"]["managedFields"] = [*others, entry]
    return result  # type: ignore[no-any-return]


def fields_of(shape: Shape | None, config: Any) -> JsonObject:
    """Return the tree of the fields that *config* names; a leaf is `{}`."""
    if shape is None or shape.is_atomic:
        return {}
    if isinstance(config, dict):
        return {f"f:{key}": fields_of(shape.field(key), item) for key, item in config.items()}
    if isinstance(config, list):
        element = shape.element()
        return {
            _entry_key(shape, item): {".": {}, **fields_of(element, item)}
            if isinstance(item, dict)
            else {}
            for item in config
        }
    return {}


def _stripped(config: JsonObject) -> JsonObject:
    stripped = {key: item for key, item in config.items() if key not in _IDENTITY}
    metadata = config.get("metadata", {})
    kept = {key: item for key, item in metadata.items() if key not in _IDENTITY_METADATA}
    stripped.pop("metadata", None)
    return {"metadata": kept, **stripped} if kept else stripped


def _is(entry: JsonObject, manager: str, part: str) -> bool:
    return (
        entry.get("manager") == manager
        and entry.get("operation") == "Apply"
        and entry.get("subresource", "") == part
    )


def _entry_key(shape: Shape, item: Any) -> str:
    keys = shape.list_keys
    if keys and isinstance(item, dict):
        named = {key: item[key] for key in keys if key in item}
        return "k:" + json.dumps(named, separators=(",", ":"), sort_keys=True)
    return "v:" + json.dumps(item, separators=(",", ":"), sort_keys=True)


def _entries(shape: Shape, values: list[Any]) -> dict[str, int]:
    return {_entry_key(shape, item): index for index, item in enumerate(values)}


def _merge(shape: Shape | None, live: Any, config: Any) -> Any:
    if shape is None or shape.is_atomic:
        return copy_json(config)
    if isinstance(config, dict):
        result = live if isinstance(live, dict) else {}
        for key, item in config.items():
            result[key] = _merge(shape.field(key), result.get(key), item)
        return result
    if isinstance(config, list):
        values = live if isinstance(live, list) else []
        places = _entries(shape, values)
        for item in config:
            index = places.get(_entry_key(shape, item))
            if index is None:
                values.append(copy_json(item))
            else:
                values[index] = _merge(shape.element(), values[index], item)
        return values
    return config


def _remove(shape: Shape | None, live: Any, was: JsonObject, kept: list[JsonObject]) -> None:
    """Remove from *live* the fields of *was* that are in none of the *kept* trees."""
    for key, below in was.items():
        if key == "." or shape is None:
            continue
        still = [tree[key] for tree in kept if key in tree]
        if not still:
            _drop(shape, live, key)
        else:
            child, inner = _child(shape, live, key)
            if child is not None:
                _remove(inner, child, below, still)


def _drop(shape: Shape, live: Any, key: str) -> None:
    if isinstance(live, dict):
        live.pop(key[2:], None)
    elif isinstance(live, list):
        index = _entries(shape, live).get(key)
        if index is not None:
            del live[index]


def _child(shape: Shape, live: Any, key: str) -> tuple[Any, Shape | None]:
    if isinstance(live, dict):
        return live.get(key[2:]), shape.field(key[2:])
    if isinstance(live, list):
        index = _entries(shape, live).get(key)
        return (None if index is None else live[index]), shape.element()
    return None, None


def _conflicts(
    shape: Shape, live: JsonObject, config: JsonObject, others: list[JsonObject]
) -> list[tuple[str, str]]:
    return [
        (str(entry["manager"]), path)
        for entry in others
        for path in _differing(shape, live, config, entry["fieldsV1"])
    ]


def _differing(shape: Shape | None, live: Any, config: Any, owned: JsonObject) -> Iterator[str]:
    """Yield the paths of leaves that are owned, named by *config* and would change."""
    for key, below in owned.items():
        if key == "." or shape is None:
            continue
        old, inner = _child(shape, live, key)
        new, _ = _child(shape, config, key)
        if new is None:
            continue
        name = f".{key[2:]}" if key.startswith("f:") else f"[{key[2:]}]"
        if below:
            yield from (name + rest for rest in _differing(inner, old, new, below))
        elif old != new:
            yield name


def _without_conflicts(
    shape: Shape, live: JsonObject, config: JsonObject, entry: JsonObject
) -> JsonObject:
    """Return an ownership without what another manager has taken by force."""
    return {**entry, "fieldsV1": _left(shape, live, config, entry["fieldsV1"])}


def _left(shape: Shape | None, live: Any, config: Any, owned: JsonObject) -> JsonObject:
    left: JsonObject = {}
    for key, below in owned.items():
        if key == "." or shape is None:
            left[key] = below
            continue
        old, inner = _child(shape, live, key)
        new, _ = _child(shape, config, key)
        if new is not None and below:
            left[key] = _left(inner, old, new, below)
        elif new is None or old == new:
            left[key] = below
    return left


def check_config(resource: ResourceType, config: Any, write: Write) -> None:
    """Check what is applied before it is decoded: 400 for no such object, 422 for no manager."""
    if not write.field_manager:
        cause = Cause(
            reason="FieldValueRequired",
            field="fieldManager",
            message="Required value: is required for apply patch",
        )
        raise invalid("PatchOptions.meta.k8s.io", "", (cause,))
    told = config if isinstance(config, dict) else {}
    version, kind = told.get("apiVersion", ""), told.get("kind", "")
    if (version, kind) != (resource.api_version, resource.kind):
        group = version if "/" in version or not version else f"/{version}"
        message = f"invalid object type: {group or '/'}, Kind={kind}"
        raise bad_request(message)
    if (told.get("metadata") or {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")


def _conflict(conflicts: list[tuple[str, str]]) -> StatusError:
    causes = tuple(
        Cause(reason="FieldManagerConflict", field=path, message=f'conflict with "{manager}"')
        for manager, path in conflicts
    )
    paths: dict[str, list[str]] = {}
    for manager, path in conflicts:
        paths.setdefault(manager, []).append(path)
    told = "\n".join(_told(manager, fields) for manager, fields in paths.items())
    word = "conflict" if len(causes) == 1 else "conflicts"
    message = f"Apply failed with {len(causes)} {word}: {told}"
    return StatusError(409, "Conflict", message, causes=causes)


def _told(manager: str, fields: list[str]) -> str:
    if len(fields) == 1:
        return f'conflict with "{manager}": {fields[0]}'
    return f'conflicts with "{manager}":' + "".join(f"\n- {field}" for field in fields)
