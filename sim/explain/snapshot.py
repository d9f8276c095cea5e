"""The objects that an explanation is made from, by kind, as they came from a cluster or a file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kube.draconversion import GROUP, V1, to_v1
from kube.objects import JsonObject, ObjectKey, key_of
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
KINDS = tuple(_PLURALS)


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
    found: dict[str, dict[ObjectKey, JsonObject]] = {kind: {} for kind in KINDS}
    for item in items:
        kind = item.get("kind")
        if kind in found:
            found[kind][key_of(item)] = _as_v1(item, _PLURALS[kind])
    return Snapshot(
        nodes=tuple(found["Node"].values()),
        pods=found["Pod"],
        namespaces=_by_name(found["Namespace"]),
        claims=found["ResourceClaim"],
        templates=found["ResourceClaimTemplate"],
        slices=tuple(found["ResourceSlice"].values()),
        classes=_by_name(found["DeviceClass"]),
        rules=tuple(found["DeviceTaintRule"].values()),
    )


def _by_name(items: Mapping[ObjectKey, JsonObject]) -> dict[str, JsonObject]:
    return {key.name: item for key, item in items.items()}


def _as_v1(item: JsonObject, plural: str) -> JsonObject:
    group, _, version = str(item.get("apiVersion", "")).partition("/")
    if group != GROUP or version == V1:
        return item
    return to_v1(item, plural, version)
