"""The official schemas of one Kubernetes minor, read as the server reads its types.

The package kubernetes-validate carries the JSON schemas made from each release's OpenAPI
document. They say which fields exist, which are required, and (in `x-kubernetes-*` keys) how
lists merge: decoding, validation, patches and apply are all driven by them. Its own `validate`
reads megabytes of definitions at every call, so the files are loaded here once per minor.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import jsonschema
import referencing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.resources import ResourceType

_REFERENCE = re.compile(r".*#/\$defs/(.+)")
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a schema says of one value."""

    name: str
    """The Go type's name where the schema has one."""
    schema: JsonObject
    definitions: JsonObject

    @property
    def is_quantity(self) -> bool:
        """Tell whether the value is a `resource.Quantity`."""
        return self.name == _QUANTITY

    @property
    def is_struct(self) -> bool:
        """Tell whether the fields are known, so that any other is an error."""
        return "properties" in self.schema

    @property
    def is_collection(self) -> bool:
        """Tell whether the value is a list, or a map with entries of one kind."""
        return "items" in self.schema or "additionalProperties" in self.schema

    @property
    def required(self) -> list[str]:
        """Return the fields that are always there."""
        return list(self.schema.get("required", ()))

    @property
    def json_type(self) -> str:
        """Return the one type besides null, such as `object`; empty when there are several."""
        told = self.schema.get("type", ())
        kinds = [kind for kind in ([told] if isinstance(told, str) else told) if kind != "null"]
        return kinds[0] if len(kinds) == 1 else ""

    @property
    def merge_key(self) -> str | None:
        """Return the field that names a list's entries in a strategic merge patch."""
        if "merge" not in str(self.schema.get("x-kubernetes-patch-strategy", "")).split(","):
            return None
        key = self.schema.get("x-kubernetes-patch-merge-key")
        return key if isinstance(key, str) else ""

    @property
    def list_keys(self) -> list[str] | None:
        """Return the fields that name a list's entries in an apply; `[]` for a set."""
        kind = self.schema.get("x-kubernetes-list-type")
        if kind == "map":
            return list(self.schema["x-kubernetes-list-map-keys"])
        return [] if kind == "set" else None

    @property
    def is_atomic(self) -> bool:
        """Tell whether an apply owns the value as a whole."""
        if self.schema.get("x-kubernetes-map-type") == "atomic":
            return True
        return "items" in self.schema and self.list_keys is None

    def field(self, key: str) -> Shape | None:
        """Return the shape of a struct's field or a map's value, None when there is none."""
        found = self.schema.get("properties", {}).get(key)
        if found is None:
            found = self.schema.get("additionalProperties")
        return self._resolved(found)

    def element(self) -> Shape | None:
        """Return the shape of a list's entries."""
        return self._resolved(self.schema.get("items"))

    def _resolved(self, schema: Any) -> Shape | None:
        if not isinstance(schema, dict):
            return None
        reference = _REFERENCE.fullmatch(schema.get("$ref", ""))
        if reference is None:
            return Shape("", schema, self.definitions)
        name = reference[1]
        return Shape(name, self.definitions[name], self.definitions)


class Schemas:
    """All schemas of one minor such as `1.37`."""

    def __init__(self, minor: str) -> None:
        self._folder = (
            resources.files("kubernetes_validate")
            / "kubernetes-json-schema"
            / f"v{minor}.0-local-strict"
        )
        if not self._folder.is_dir():
            message = f"no schemas of Kubernetes {minor}"
            raise ValueError(message)
        definitions = self._read("_definitions.json")
        self._definitions = definitions["$defs"]
        self._registry: referencing.Registry[Any] = referencing.Registry().with_resource(
            definitions["$id"], referencing.Resource.from_contents(definitions)
        )
        self._shapes: dict[str, Shape] = {}
        self._validators: dict[str, jsonschema.Draft202012Validator] = {}

    def shape(self, resource: ResourceType) -> Shape:
        """Return the shape of a resource's objects."""
        if resource.kind not in self._shapes:
            group = resource.group.split(".", maxsplit=1)[0]
            middle = f"{group}-" if group else ""
            name = f"{resource.kind.lower()}-{middle}{resource.version}.json"
            self._shapes[resource.kind] = Shape(resource.kind, self._read(name), self._definitions)
        return self._shapes[resource.kind]

    def violations(
        self, resource: ResourceType, obj: JsonObject
    ) -> Iterator[jsonschema.ValidationError]:
        """Yield what a schema validator has against *obj*."""
        validator = self._validators.get(resource.kind)
        if validator is None:
            validator = jsonschema.Draft202012Validator(
                self.shape(resource).schema, registry=self._registry
            )
            self._validators[resource.kind] = validator
        return validator.iter_errors(obj)

    def _read(self, name: str) -> JsonObject:
        content: JsonObject = json.loads((self._folder / name).read_text())
        return content


@functools.cache
def schemas(minor: str) -> Schemas:
    """Return the schemas of *minor*, loaded once in a process."""
    return Schemas(minor)
