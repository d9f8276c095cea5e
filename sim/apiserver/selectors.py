"""Label and field selectors, as list, watch and deletecollection take them.

Grammar: apimachinery pkg/labels/selector.go. Field selectors know `=`, `==` and `!=` only, and
each resource supports few fields (pkg/apis/core/v1/conversion.go and the strategies); any
other is a 400, which is how a client learns that it cannot filter there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.apiserver.errors import bad_request
from sim.apiserver.rules import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.apiserver.json_values import JsonObject

_POOLS_SINCE = 37
_ALWAYS = ("metadata.name", "metadata.namespace")
_FIELDS = {
    "pods": ("spec.nodeName", "spec.schedulerName", "spec.restartPolicy", "status.phase"),
    "resourceslices": ("spec.nodeName", "spec.driver", "spec.pool.name"),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "secrets": ("type",),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
}
_PART = re.compile(
    r"""\s*(?:
        !\s*(?P<absent>[^\s,=!()]+)
      | (?P<key>[^\s,=!()]+)\s*(?:
            (?P<op>==|=|!=)\s*(?P<value>[^\s,()]*)
          | \s(?P<set>in|notin)\s*\((?P<values>[^)]*)\)
        )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label: *key* is one of (or none of) *values*, or merely there."""

    key: str
    operator: str
    """`in`, `notin`, `exists` or `absent`."""
    values: frozenset[str] = frozenset()

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Tell whether *labels* meet this."""
        match self.operator:
            case "in":
                return labels.get(self.key) in self.values
            case "notin":
                return labels.get(self.key) not in self.values
            case "exists":
                return self.key in labels
            case _:
                return self.key not in labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects a list or watch is about; an empty one takes all."""

    namespace: str | None = None
    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def accepts(self, obj: JsonObject) -> bool:
        """Tell whether *obj* is selected."""
        metadata = obj["metadata"]
        if self.namespace is not None and metadata.get("namespace") != self.namespace:
            return False
        labels = metadata.get("labels") or {}
        if not all(requirement.accepts(labels) for requirement in self.labels):
            return False
        return all(
            requirement.accepts({requirement.key: _field(obj, requirement.key)})
            for requirement in self.fields
        )

    @property
    def selective(self) -> bool:
        """Tell whether objects of the namespace can be left out."""
        return bool(self.labels or self.fields)


def selection(
    plural: str, namespace: str | None, labels: str, fields: str, *, minor: int = _POOLS_SINCE
) -> Selection:
    """Parse the query parameters of a list of *plural*; 400 for what cannot be understood."""
    wanted = parse_labels(labels)
    for requirement in wanted:
        _check_label(requirement)
    chosen = parse_fields(plural, fields)
    for requirement in chosen:
        if requirement.key == "spec.pool.name" and minor < _POOLS_SINCE:
            raise bad_request(_unsupported_field(plural, requirement.key))
    return Selection(namespace=namespace, labels=wanted, fields=chosen)


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector such as `a=b,c!=d,e in (f,g),h,!i`."""
    requirements: list[Requirement] = []
    position = 0
    while position < len(text.rstrip()):
        part = _PART.match(text, position)
        if part is None or part.end() == position:
            raise bad_request(_lexical_fault(text[position:]))
        requirements.append(_requirement(part))
        position = part.end()
    return tuple(requirements)


def parse_fields(plural: str, text: str) -> tuple[Requirement, ...]:
    """Parse a field selector of *plural*, such as `spec.nodeName=a,status.phase!=Failed`."""
    requirements = tuple(_field_requirement(text, part) for part in text.split(",") if part)
    supported = (*_ALWAYS, *_FIELDS.get(plural, ()))
    for requirement in requirements:
        if requirement.key not in supported:
            raise bad_request(_unsupported_field(plural, requirement.key))
    return requirements


def _field_requirement(text: str, part: str) -> Requirement:
    for sign, operator in (("!=", "notin"), ("==", "in"), ("=", "in")):
        key, found, value = part.partition(sign)
        if found:
            return Requirement(key, operator, frozenset({value}))
    message = f"invalid selector: '{text}'; can't understand '{part}'"
    raise bad_request(message)


def _unsupported_field(plural: str, key: str) -> str:
    if plural == "resourceslices":
        kind = "resource.k8s.io/v1, Kind=ResourceSlice"
        return f"field label not supported for {kind}: {key}"
    if plural in _FIELDS:
        return f"field label not supported: {key}"
    known = ", ".join(f'"{name}"' for name in _ALWAYS)
    return f'"{key}" is not a known field selector: only {known}'


def _check_label(requirement: Requirement) -> None:
    why = names.fault_of_label_key(requirement.key)
    if why is not None:
        text = f'<nil>: Invalid value: "{requirement.key}": {why}'
        message = f"unable to parse requirement: {text}"
        raise bad_request(message)
    for value in requirement.values:
        if not names.is_label_value(value):
            text = f'values[0][{requirement.key}]: Invalid value: "{value}"'
            message = f"unable to parse requirement: {text}: {names.LABEL_VALUE_RULE}"
            raise bad_request(message)


def _lexical_fault(text: str) -> str:
    """Return what the real server's parser stumbles over."""
    match re.findall(r"==|!=|[=!(),]|[^\s=!(),]+", text):
        case ["=" | "==" | "!=" | "(" | ")" | "," as sign, *_]:
            return f"found '{sign}', expected: !, identifier, or 'end of string'"
        case [_, "in" | "notin", word, *_] if word != "(":
            return f"unable to parse requirement: found '{word}' expected: '('"
        case [_, "=" | "==" | "!=", _, word, *_]:
            return f"found '{word}', expected: ',' or 'end of string'"
        case [_, word, *_]:
            known = "in, notin, =, ==, !=, gt, lt"
            return f"unable to parse requirement: found '{word}', expected: {known}"
        case _:
            return f"unable to parse requirement: `{text}`"


def _requirement(part: re.Match[str]) -> Requirement:
    if part["absent"]:
        return Requirement(part["absent"], "absent")
    key = part["key"]
    if part["set"]:
        values = frozenset(value.strip() for value in part["values"].split(","))
        return Requirement(key, part["set"], values)
    if part["op"]:
        operator = "notin" if part["op"] == "!=" else "in"
        return Requirement(key, operator, frozenset({part["value"]}))
    return Requirement(key, "exists")


def _field(obj: JsonObject, path: str) -> str:
    if path == "source":
        path = "source.component"
    value: object = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    if value is None and path == "spec.unschedulable":
        return "false"
    return "" if value is None else str(value)
