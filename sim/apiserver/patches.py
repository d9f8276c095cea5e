"""The patch formats besides apply: JSON patch, merge patch and strategic merge patch.

The strategic one merges lists by the key that the schema names for them, and replaces all
others (apimachinery: pkg/util/strategicpatch). Of its directives `$patch`,
`$deleteFromPrimitiveList` and `$setElementOrder` are known; the last only orders, which nothing
here depends on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonpatch

from sim.apiserver.errors import StatusError, bad_request, generic
from sim.apiserver.json_values import copy_json

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.schemas import Shape

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_DIRECTIVE = "$patch"
_DELETING = "$deleteFromPrimitiveList/"


def patched(shape: Shape, obj: JsonObject, patch: Any, patch_type: str) -> JsonObject:
    """Return *obj* changed by *patch*; *obj* stays as it is."""
    if patch_type == JSON_PATCH:
        return _json_patched(obj, patch)
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: json: a merge patch is an object")
    original = copy_json(obj)
    if patch_type == MERGE_PATCH:
        merged = _merged(original, patch)
    elif patch_type == STRATEGIC_PATCH:
        merged = _strategic(shape, original, patch)
    else:
        message = "415: Unsupported Media Type"
        raise generic(415, "UnsupportedMediaType", message)
    result: JsonObject = merged
    return result


def _json_patched(obj: JsonObject, patch: Any) -> JsonObject:
    if not isinstance(patch, list):
        raise bad_request("error decoding patch: json: a JSON patch is a list of operations")
    try:
        result: JsonObject = jsonpatch.apply_patch(copy_json(obj), patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = "the server rejected our request due to an error in our request"
        raise generic(422, "Invalid", message) from error
    return result


def _merged(value: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return copy_json(patch)
    result = value if isinstance(value, dict) else {}
    for key, item in patch.items():
        if item is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), item)
    return result


def _strategic(shape: Shape | None, value: Any, patch: Any) -> Any:
    if isinstance(patch, dict):
        return _strategic_object(shape, value if isinstance(value, dict) else {}, patch)
    if isinstance(patch, list) and shape is not None and shape.merge_key is not None:
        return _strategic_list(shape, value if isinstance(value, list) else [], patch)
    return copy_json(patch)


def _strategic_object(shape: Shape | None, value: JsonObject, patch: JsonObject) -> JsonObject:
    if patch.get(_DIRECTIVE) == "replace":
        return {key: copy_json(item) for key, item in patch.items() if key != _DIRECTIVE}
    for key, item in patch.items():
        if key.startswith(_DELETING):
            _delete_primitives(value, key.removeprefix(_DELETING), item)
        if key.startswith("$"):
            continue
        if item is None or (isinstance(item, dict) and item.get(_DIRECTIVE) == "delete"):
            value.pop(key, None)
        else:
            value[key] = _strategic(shape.field(key) if shape else None, value.get(key), item)
    return value


def _strategic_list(shape: Shape, value: list[Any], patch: list[Any]) -> list[Any]:
    key = shape.merge_key
    if not key:
        return _ordered(patch, [item for item in value if item not in patch], value)
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [copy_json(item) for item in patch if _DIRECTIVE not in item]
    element = shape.element()
    before = list(value)
    touched: list[Any] = []
    for item in patch:
        if key not in item:
            message = f"map: {_go_map(item)} does not contain declared merge key: {key}"
            # The real server takes this for a failure of its own, without a reason.
            raise StatusError(500, "", message)
        index = next((at for at, old in enumerate(value) if old.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            if index is not None:
                del value[index]
        elif index is None:
            touched.append(_strategic(element, {}, item))
        else:
            before[before.index(value[index])] = value[index] = _strategic(
                element, value[index], item
            )
            touched.append(value.pop(index))
    return _ordered(touched, value, before)


def _ordered(patched_: list[Any], others: list[Any], before: list[Any]) -> list[Any]:
    """Return both lists as one: *before* orders, and what was not in it goes to the front."""
    result: list[Any] = []
    for item in patched_:
        if item in before:
            place = before.index(item)
            while others and before.index(others[0]) < place:
                result.append(others.pop(0))
        result.append(item)
    return result + others


def _delete_primitives(value: JsonObject, key: str, gone: list[Any]) -> None:
    kept = [item for item in value.get(key) or () if item not in gone]
    value.pop(key, None)
    if kept:
        value[key] = kept


def _go_map(item: JsonObject) -> str:
    return f"map[{' '.join(f'{key}:{item[key]}' for key in sorted(item))}]"
