"""The patch formats besides apply: JSON patch, merge patch and strategic merge patch.

The strategic one merges lists by the key that the schema names for them, and replaces all
others (apimachinery: pkg/util/strategicpatch). Of its directives `$patch` and
`$setElementOrder` are known; the latter only orders, which nothing here depends on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonpatch

from sim.apiserver.errors import StatusError, bad_request, invalid
from sim.apiserver.json_values import copy_json

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.schemas import Shape

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_DIRECTIVE = "$patch"


def patched(shape: Shape, obj: JsonObject, patch: Any, patch_type: str) -> JsonObject:
    """Return *obj* changed by *patch*; *obj* stays as it is."""
    if patch_type == JSON_PATCH:
        return _json_patched(obj, patch)
    if not isinstance(patch, dict):
        raise bad_request("a merge patch must be a JSON object")
    original = copy_json(obj)
    if patch_type == MERGE_PATCH:
        merged = _merged(original, patch)
    elif patch_type == STRATEGIC_PATCH:
        merged = _strategic(shape, original, patch)
    else:
        message = f"the body of the request was in an unknown format: {patch_type}"
        raise StatusError(415, "UnsupportedMediaType", message)
    result: JsonObject = merged
    return result


def _json_patched(obj: JsonObject, patch: Any) -> JsonObject:
    if not isinstance(patch, list):
        raise bad_request("a JSON patch must be a list of operations")
    try:
        result: JsonObject = jsonpatch.apply_patch(copy_json(obj), patch)
    except jsonpatch.JsonPatchTestFailed as error:
        raise invalid("", obj["metadata"]["name"], ()) from error
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = f"the server rejected our request due to an error in our request: {error}"
        raise StatusError(422, "Invalid", message) from error
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
        return value + [item for item in patch if item not in value]
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [copy_json(item) for item in patch if _DIRECTIVE not in item]
    element = shape.element()
    for item in patch:
        if key not in item:
            message = f"map: {item} does not contain declared merge key: {key}"
            raise bad_request(message)
        index = next((at for at, old in enumerate(value) if old.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            if index is not None:
                del value[index]
        elif index is None:
            value.append(_strategic(element, {}, item))
        else:
            value[index] = _strategic(element, value[index], item)
    return value
