"""Parts of the values that are Kubernetes' own: their schemas are the published ones of 1.37.

A misspelt key of a toleration is found while the chart is rendered, and not by a pod that does not
come. Descriptions are left out: they would be most of the file.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Final

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

_FOLDER: Final = "kubernetes-json-schema/v1.37.0-local-strict/_definitions.json"
_CORE: Final = "io.k8s.api.core.v1."
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
MARK: Final = "x-kubernetes"
"""Stands in a schema for the definition of that name until `resolved` puts it in."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """The schema of a field, by its name in Kubernetes' own."""

    name: str

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return what `resolved` replaces."""
        return {MARK: self.name}


_Json = dict[str, Any]
Affinity = Annotated[_Json, _Kind(_CORE + "Affinity")]
EnvVar = Annotated[_Json, _Kind(_CORE + "EnvVar")]
LabelSelector = Annotated[_Json, _Kind(_META + "LabelSelector")]
LocalObjectReference = Annotated[_Json, _Kind(_CORE + "LocalObjectReference")]
NetworkPolicyPeer = Annotated[_Json, _Kind("io.k8s.api.networking.v1.NetworkPolicyPeer")]
Resources = Annotated[_Json, _Kind(_CORE + "ResourceRequirements")]
SecurityContext = Annotated[_Json, _Kind(_CORE + "SecurityContext")]
Toleration = Annotated[_Json, _Kind(_CORE + "Toleration")]
TopologySpread = Annotated[_Json, _Kind(_CORE + "TopologySpreadConstraint")]
UpdateStrategy = Annotated[_Json, _Kind("io.k8s.api.apps.v1.DaemonSetUpdateStrategy")]
Volume = Annotated[_Json, _Kind(_CORE + "Volume")]
VolumeMount = Annotated[_Json, _Kind(_CORE + "VolumeMount")]


@cache
def _published() -> dict[str, _Json]:
    text = files("kubernetes_validate").joinpath(_FOLDER).read_text()
    return dict(json.loads(text)["$defs"])


def resolved(schema: _Json) -> _Json:
    """Return *schema*, whose definitions are in `definitions`, with those of all marks."""
    named = _with_references(schema)
    definitions = dict(named.pop("definitions", {}))
    wanted = list(_references(named)) + list(_references(definitions))
    while wanted:
        name = wanted.pop()
        if name in definitions:
            continue
        definitions[name] = _bare(_published()[name])
        wanted += _references(definitions[name])
    return {**named, "definitions": dict(sorted(definitions.items()))}


def _with_references(part: Any) -> Any:
    if isinstance(part, dict):
        if MARK in part:
            rest = {key: value for key, value in part.items() if key != MARK}
            reference = {"$ref": f"#/definitions/{part[MARK]}"}
            # In this draft nothing beside a reference counts.
            return {**rest, "allOf": [reference]} if rest else reference
        return {key: _with_references(value) for key, value in part.items()}
    return [_with_references(each) for each in part] if isinstance(part, list) else part


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        reference = part.get("$ref")
        if isinstance(reference, str):
            yield reference.rpartition("/")[2]
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _references(each)


def _bare(part: Any, *, names: bool = False) -> Any:
    """Return a published schema without words; *names* tells that the keys are users' own."""
    if isinstance(part, list):
        return [_bare(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {
        key: _bare(value, names=key == "properties" and not names)
        for key, value in part.items()
        if names or not (key in {"description", "format"} or key.startswith("x-"))
    }
    if not names and isinstance(kept.get("$ref"), str):
        kept["$ref"] = kept["$ref"].replace("#/$defs/", "#/definitions/")
    return kept
