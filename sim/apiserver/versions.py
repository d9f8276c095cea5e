"""What a Kubernetes minor keeps of an object: fields behind feature gates that are off.

The server drops such fields without a word on create, and on update unless the stored object
already uses the feature (kubernetes: pkg/registry/resource, `dropDisabledFields`). Gates and
their defaults are those of pkg/features/kube_features.go of each release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sim.apiserver.json_values import JsonObject

CONSUMABLE_CAPACITY = "DRAConsumableCapacity"
DEVICE_TAINTS = "DRADeviceTaints"
EXTENDED_RESOURCE = "DRAExtendedResource"
PARTITIONABLE_DEVICES = "DRAPartitionableDevices"
BINDING_CONDITIONS = "DRADeviceBindingConditions"
LIST_ATTRIBUTES = "DRAListTypeAttributes"

_OLD: frozenset[str] = frozenset()
_FULL = frozenset(
    {
        CONSUMABLE_CAPACITY,
        DEVICE_TAINTS,
        EXTENDED_RESOURCE,
        PARTITIONABLE_DEVICES,
        BINDING_CONDITIONS,
    }
)
_DEFAULTS = {"1.34": _OLD, "1.35": _OLD, "1.36": _FULL, "1.37": _FULL}
# Where each feature's fields stand; `*` goes through all entries of a list or map.
_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    CONSUMABLE_CAPACITY: {
        "resourceslices": (
            "spec.devices.*.allowMultipleAllocations",
            "spec.devices.*.capacity.*.requestPolicy",
        ),
        "resourceclaims": (
            "spec.devices.requests.*.exactly.capacity",
            "spec.devices.requests.*.firstAvailable.*.capacity",
            "spec.devices.constraints.*.distinctAttribute",
            "status.allocation.devices.results.*.shareID",
            "status.allocation.devices.results.*.consumedCapacity",
            "status.devices.*.shareID",
        ),
        "resourceclaimtemplates": (
            "spec.spec.devices.requests.*.exactly.capacity",
            "spec.spec.devices.requests.*.firstAvailable.*.capacity",
            "spec.spec.devices.constraints.*.distinctAttribute",
        ),
    },
    DEVICE_TAINTS: {
        "resourceslices": ("spec.devices.*.taints",),
        "resourceclaims": (
            "spec.devices.requests.*.exactly.tolerations",
            "spec.devices.requests.*.firstAvailable.*.tolerations",
            "status.allocation.devices.results.*.tolerations",
        ),
        "resourceclaimtemplates": (
            "spec.spec.devices.requests.*.exactly.tolerations",
            "spec.spec.devices.requests.*.firstAvailable.*.tolerations",
        ),
    },
    EXTENDED_RESOURCE: {"deviceclasses": ("spec.extendedResourceName",)},
    PARTITIONABLE_DEVICES: {
        "resourceslices": (
            "spec.sharedCounters",
            "spec.perDeviceNodeSelection",
            "spec.devices.*.consumesCounters",
            "spec.devices.*.nodeName",
            "spec.devices.*.nodeSelector",
            "spec.devices.*.allNodes",
        ),
    },
    BINDING_CONDITIONS: {
        "resourceslices": (
            "spec.devices.*.bindsToNode",
            "spec.devices.*.bindingConditions",
            "spec.devices.*.bindingFailureConditions",
        ),
        "resourceclaims": (
            "status.allocation.allocationTimestamp",
            "status.allocation.devices.results.*.bindingConditions",
            "status.allocation.devices.results.*.bindingFailureConditions",
        ),
    },
    # The values go and the attribute stays, which validation then refuses for having none.
    LIST_ATTRIBUTES: {
        "resourceslices": tuple(
            f"spec.devices.*.attributes.*.{name}"
            for name in ("ints", "bools", "strings", "versions")
        )
    },
}


_LABELS_BOUND_SINCE = 35
# 1.34 keeps these whatever its gates are.
_ALWAYS_KEPT = {"1.34": ("distinctAttribute", "tolerations")}


@dataclass(frozen=True, slots=True)
class Version:
    """One server version: its minor, such as `1.36`, and the gates that are on."""

    minor: str
    git_version: str
    gates: frozenset[str]

    @property
    def number(self) -> int:
        """Return the minor alone, for rules that changed at some release."""
        return int(self.minor.split(".")[1])

    @property
    def binds_labels(self) -> bool:
        """Tell whether a binding's labels go to the pod, as its annotations always do."""
        return self.number >= _LABELS_BOUND_SINCE

    def drop_disabled(self, plural: str, obj: JsonObject, old: JsonObject | None) -> None:
        """Remove from *obj* what this version does not keep."""
        for gate, resources in _FIELDS.items():
            paths = [path.split(".") for path in resources.get(plural, ())]
            if gate in self.gates or (old is not None and _any_set(old, paths)):
                continue
            for path in paths:
                if path[0] == "spec" and path[-1] in _ALWAYS_KEPT.get(self.minor, ()):
                    continue
                for holder in _holders(obj, path[:-1]):
                    holder.pop(path[-1], None)


def version(text: str, *, gates: frozenset[str] | None = None) -> Version:
    """Return the version that *text* names, such as `1.34` or `1.36.3`; gates as released."""
    parts = text.removeprefix("v").split(".")
    minor = ".".join(parts[:2])
    if minor not in _DEFAULTS:
        message = f"Kubernetes {text} is not simulated; known: {', '.join(_DEFAULTS)}"
        raise ValueError(message)
    full = ".".join(parts) if len(parts) > len("XY") else f"{minor}.0"
    return Version(minor, f"v{full}", _DEFAULTS[minor] if gates is None else gates)


def _any_set(obj: JsonObject, paths: list[list[str]]) -> bool:
    return any(path[-1] in holder for path in paths for holder in _holders(obj, path[:-1]))


def _holders(value: Any, path: list[str]) -> Iterator[JsonObject]:
    if not path:
        if isinstance(value, dict):
            yield value
        return
    step, rest = path[0], path[1:]
    if step == "*":
        entries = value.values() if isinstance(value, dict) else value
        for entry in entries if isinstance(value, dict | list) else ():
            yield from _holders(entry, rest)
    elif isinstance(value, dict) and step in value:
        yield from _holders(value[step], rest)
