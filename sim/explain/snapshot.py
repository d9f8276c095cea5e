"""The objects that an explanation is made from, by kind, as they came from a cluster or a file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kube.draconversion import GROUP, V1, to_v1
from kube.objects import JsonObject, ObjectKey, key_of
from sim.explain.shapes import fault_of
from sim.scheduler.placement import View

_PLURALS = {
    "Node": "nodes",
    "Pod": "pods",
    "Namespace": "namespaces",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "ResourceSlice": "resourceslices",
    "DeviceClass": "deviceclasses",
    "DeviceTaintRule": "devicetaintrules",
}
_NAMESPACED = ("Pod", "ResourceClaim", "ResourceClaimTemplate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A cluster at one moment, as far as it is known."""

    nodes: tuple[JsonObject, ...] = ()
    pods: Mapping[ObjectKey, JsonObject] = field(default_factory=dict)
    namespaces: Mapping[str, JsonObject] = field(default_factory=dict)
    claims: Mapping[ObjectKey, JsonObject] = field(default_factory=dict)
    templates: Mapping[ObjectKey, JsonObject] = field(default_factory=dict)
    slices: tuple[JsonObject, ...] = ()
    classes: Mapping[str, JsonObject] = field(default_factory=dict)
    rules: tuple[JsonObject, ...] = ()
    """DeviceTaintRules."""
    spoiled: tuple[str, ...] = ()
    """What was left out, and why."""

    def view(self) -> View:
        """Return what a scheduler sees of it."""
        return View(
            nodes=self.nodes,
            pods=self.pods,
            claims=self.claims,
            slices=self.slices,
            classes=self.classes,
            rules=self.rules,
        )


def snapshot_of(items: Iterable[JsonObject]) -> Snapshot:
    """Sort *items* by kind; of two with one name the later counts, other kinds are left out."""
    found: dict[str, dict[ObjectKey, JsonObject]] = {kind: {} for kind in _PLURALS}
    spoiled = []
    for item in items:
        kind = str(item.get("kind"))
        if kind not in found:
            continue
        made = _completed(_as_v1(item, _PLURALS[kind]), kind)
        fault = fault_of(made, kind)
        if fault:
            spoiled.append(f"{kind} {_name_of(item)} is left out: {fault}")
        else:
            found[kind][key_of(made)] = made
    return Snapshot(
        nodes=tuple(found["Node"].values()),
        pods=found["Pod"],
        namespaces=_by_name(found["Namespace"]),
        claims=found["ResourceClaim"],
        templates=found["ResourceClaimTemplate"],
        slices=tuple(found["ResourceSlice"].values()),
        classes=_by_name(found["DeviceClass"]),
        rules=tuple(found["DeviceTaintRule"].values()),
        spoiled=tuple(spoiled),
    )


def _completed(item: JsonObject, kind: str) -> JsonObject:
    """Fill in what a manifest leaves to the server: a namespace and an identity."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or kind not in _NAMESPACED:
        return item
    if metadata.get("namespace") and metadata.get("uid"):
        return item
    namespace = metadata.get("namespace") or "default"
    uid = metadata.get("uid") or f"{kind}/{namespace}/{metadata.get('name')}"
    return item | {"metadata": metadata | {"namespace": namespace, "uid": uid}}


def _name_of(item: JsonObject) -> str:
    metadata = item.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _by_name(items: Mapping[ObjectKey, JsonObject]) -> dict[str, JsonObject]:
    return {key.name: item for key, item in items.items()}


def _as_v1(item: JsonObject, plural: str) -> JsonObject:
    group, _, version = str(item.get("apiVersion", "")).partition("/")
    if group != GROUP or version == V1:
        return item
    return to_v1(item, plural, version)
