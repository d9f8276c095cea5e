"""From what a client sent to what the server's types hold.

A Go server decodes JSON into structs: `null` is absence, a wrong type is a 400, a field that the
type lacks is dropped (with a warning, or refused under `fieldValidation=Strict`), and a
quantity is kept as a number, so that it comes back in canonical text: `1024Mi` as `1Gi`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from kube import quantity
from sim.apiserver.errors import Cause, StatusError, bad_request, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import jsonschema

    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.resources import ResourceType
    from sim.apiserver.schemas import Schemas, Shape


_FREE = ".opaque.parameters"
"""A `runtime.RawExtension`, which holds any JSON until it is validated."""

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_ZEROS: dict[str, Callable[[], Any]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": int,
}


@dataclass(slots=True)
class Decoded:
    """An object with known fields only; *unknown* names the ones that were dropped."""

    obj: JsonObject
    unknown: list[str] = field(default_factory=list)

    def warnings(self) -> tuple[str, ...]:
        """Return the texts of the `Warning` headers that say what was dropped."""
        return tuple(f'unknown field "{path}"' for path in self.unknown)


def decode(schemas: Schemas, resource: ResourceType, obj: JsonObject, *, strict: bool) -> Decoded:
    """Return a copy of *obj* as the server's types hold it; 400 for what they cannot hold."""
    decoded = Decoded({})
    try:
        decoded.obj = _value(schemas.shape(resource), obj, "", decoded.unknown)
    except StatusError as error:
        message = (
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {error.message}"
        )
        raise bad_request(message) from error
    if strict and decoded.unknown:
        told = ", ".join(decoded.warnings())
        message = (
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: strict decoding error: {told}"
        )
        raise bad_request(message)
    return decoded


def drop_empty(shape: Shape | None, value: Any) -> None:
    """Remove empty lists and maps in place, which the real server does not write."""
    if isinstance(value, list):
        element = shape.element() if shape else None
        for item in value:
            drop_empty(element, item)
    if not isinstance(value, dict) or shape is None:
        return
    for key in list(value):
        inner = shape.field(key)
        if inner is None:
            continue
        drop_empty(inner, value[key])
        # A claim may ask for nothing, and says so.
        kept = inner.is_struct or key in shape.required or shape.name.endswith("DeviceClaim")
        if value[key] in ([], {}) and inner.is_collection and not kept:
            del value[key]


def check_schema(schemas: Schemas, resource: ResourceType, obj: JsonObject) -> None:
    """Raise 400 for values of a wrong type and 422 for missing or unsupported ones."""
    causes: list[Cause] = []
    for violation in schemas.violations(resource, obj):
        path = _path(schemas.shape(resource), violation)
        if path.endswith(_FREE):
            continue
        if violation.validator in {"required", "enum"}:
            causes.extend(cause for cause in _causes(violation, path) if cause not in causes)
        else:
            raise _wrong_type(resource, path, violation.message)
    if causes:
        name = obj["metadata"].get("name", "")
        raise invalid(resource.qualified_kind, name, tuple(causes))


def _value(shape: Shape | None, value: Any, path: str, unknown: list[str]) -> Any:
    if shape is None or path.endswith(_FREE):
        return value
    if shape.is_quantity:
        return _quantity(value, path)
    kind = shape.json_type
    if value is None:
        return _ZEROS[kind]() if kind else None
    if kind and not _fits(kind, value):
        message = f"json: cannot unmarshal {path or 'the body'}: it must be of type {kind}"
        raise bad_request(message)
    if isinstance(value, dict):
        return _fields(shape, value, path, unknown)
    if isinstance(value, list):
        element = shape.element()
        return [
            _value(element, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)
        ]
    return value


def _fits(kind: str, value: Any) -> bool:
    """Tell whether *value* is of a JSON type; Python's booleans are integers, JSON's are not."""
    return isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "boolean")


def _fields(shape: Shape, value: JsonObject, path: str, unknown: list[str]) -> JsonObject:
    known: JsonObject = {}
    for key, item in value.items():
        child = f"{path}.{key}" if path else key
        inner = shape.field(key)
        if inner is None and shape.is_struct:
            unknown.append(child)
        elif item is not None or inner is None:
            known[key] = _value(inner, item, child, unknown)
    return known


def _quantity(value: Any, path: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        message = f"{path}: a quantity must be a text or a number"
        raise bad_request(message)
    try:
        return quantity.parse(str(value)).canonical()
    except quantity.QuantityError as error:
        message = f"quantities must match the regular expression: {path}: {error}"
        raise bad_request(message) from error


def _path(shape: Shape | None, violation: jsonschema.ValidationError) -> str:
    """Return a field path, in which entries of lists and maps stand in brackets."""
    path = ""
    for step in violation.absolute_path:
        if isinstance(step, int):
            path += f"[{step}]"
            shape = shape.element() if shape else None
        else:
            path += f".{step}" if shape is None or shape.is_struct else f"[{step}]"
            shape = shape.field(step) if shape else None
    return path.removeprefix(".")


def _causes(violation: jsonschema.ValidationError, path: str) -> Iterator[Cause]:
    rule: list[Any] = list(cast("Iterable[Any]", violation.validator_value))
    if violation.validator == "enum":
        told = ", ".join(f'"{value}"' for value in rule)
        message = f'Unsupported value: "{violation.instance}": supported values: {told}'
        yield Cause(reason="FieldValueNotSupported", field=path, message=message)
        return
    instance = cast("JsonObject", violation.instance)
    for name in rule:
        if name not in instance:
            child = f"{path}.{name}" if path else str(name)
            yield Cause(reason="FieldValueRequired", field=child, message="Required value")


def _wrong_type(resource: ResourceType, path: str, message: str) -> StatusError:
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a '
        f"{resource.kind}: json: cannot unmarshal {path}: {message[:200]}"
    )
