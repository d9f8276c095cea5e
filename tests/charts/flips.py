"""For each value of the chart another one than its default, made from the schema.

What a pattern or one of Kubernetes' own types wants is in two tables; all else is told by the type.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import jsonschema

from charts.values.programs import PROGRAMS
from charts.values.schema import document, known

Json = dict[str, Any]

_TEXTS: Final = (
    "flip",
    "/flip",
    "1.2.3",
    "45s",
    "10.0.0.0/8",
    "example.com/flip",
    "https://flip.example.com",
    "50%",
    "YQ==",
    "7000",
    "binpack",
    f"sha256:{'b' * 64}",
)
"""The first that is allowed is taken."""
_OF_KUBERNETES: Final[Mapping[str, Any]] = {
    "Affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "DaemonSetUpdateStrategy": {"type": "OnDelete"},
    "EnvVar": {"name": "FLIP", "value": "flip"},
    "LabelSelector": {"matchLabels": {"flip": "flip"}},
    "LocalObjectReference": {"name": "flip"},
    "NetworkPolicyPeer": {"ipBlock": {"cidr": "10.0.0.0/8"}},
    "ResourceRequirements": {"limits": {"memory": "77Mi"}},
    "SecurityContext": {"runAsGroup": 77},
    "Toleration": {"key": "flip", "operator": "Exists"},
    "TopologySpreadConstraint": {
        "maxSkew": 1,
        "topologyKey": "flip",
        "whenUnsatisfiable": "DoNotSchedule",
    },
    "Volume": {"name": "flip", "emptyDir": {}},
    "VolumeMount": {"name": "flip", "mountPath": "/flip"},
}


_document: Final = cache(document)


@cache
def leaves() -> dict[str, Json]:
    """Return the schema of each value by its path, without settings of programs."""
    return dict(_leaves(_document(), ""))


@cache
def settings(section: str) -> dict[str, Json]:
    """Return the schema of each setting below `section.settings`."""
    part = _document()["properties"][section]["properties"]["settings"]
    return dict(part["properties"])


def _leaves(part: Json, before: str) -> Iterator[tuple[str, Json]]:
    for key, inner in known(part).items():
        path = before + key
        if path in {f"{section}.settings" for section in SECTIONS}:
            continue
        if "properties" in inner:
            yield from _leaves(inner, f"{path}.")
        else:
            yield path, inner


SECTIONS: Final = {"kubeletPlugin": PROGRAMS[0], "webhook": PROGRAMS[1], "scheduler": PROGRAMS[2]}
"""Where the settings of each program are."""


def another(schema: Json) -> Any:
    """Return a value that *schema* allows and that is not its default."""
    default = schema.get("default")
    for candidate in _candidates(schema):
        if candidate != default and _allows(schema, candidate):
            return candidate
    message = f"no other value is known for {schema}"
    raise AssertionError(message)


def _allows(schema: Json, value: Any) -> bool:
    whole = {**schema, "definitions": _document()["definitions"]}
    return bool(jsonschema.Draft7Validator(whole).is_valid(value))


def _candidates(schema: Json) -> Iterator[Any]:
    for alternatives in ("anyOf", "allOf"):
        for each in schema.get(alternatives, []):
            yield from _candidates({"default": schema.get("default"), **each})
    yield from schema.get("enum", [])
    if "$ref" in schema:
        yield _OF_KUBERNETES[schema["$ref"].rpartition(".")[2]]
    yield from _plain(schema)


def _plain(schema: Json) -> Iterator[Any]:
    default = schema.get("default")
    match schema.get("type"):
        case "boolean":
            yield from (True, False) if default is None else (not default,)
        case "integer" | "number":
            yield from ((default or 0) + 1, (default or 0) - 1, 30080)
        case "string":
            yield from _TEXTS
        case "array":
            yield from ([each] for each in _candidates(schema["items"]))
        case "object":
            inner = schema.get("additionalProperties")
            values = _candidates(inner) if isinstance(inner, dict) else iter(["flip"])
            yield from ({"flip": each} for each in values)
        case _:
            return
