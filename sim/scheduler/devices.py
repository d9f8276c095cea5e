"""What the allocator reads of ResourceSlices, parsed once (resource.k8s.io/v1).

Attribute and capacity names stay as published: a name without a domain belongs to the driver's
own, and the rules differ on whether they care.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kube.objects import JsonObject
from kube.quantity import Quantity, QuantityError
from sim.scheduler.amounts import parse
from sim.scheduler.errors import MalformedError
from sim.scheduler.features import Features


class DeviceId(NamedTuple):
    """What claims call a device."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


UNSUPPORTED: Final = "unsupported"
"""The kind of an attribute that the scheduler does not know."""
_LISTS: Final = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}


class Attribute(NamedTuple):
    """One value, or a tuple of them, with their type: `int`, `bool`, `string`, `version`."""

    kind: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which amounts of a capacity may be consumed; at most one of values and range is set."""

    default: Quantity | None = None
    values: tuple[Quantity, ...] = ()
    minimum: Quantity | None = None
    maximum: Quantity | None = None
    step: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """An amount that a device has, whole."""

    value: Quantity
    policy: Policy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which nodes can reach a slice, or one device of it; at most one field is set."""

    node_name: str = ""
    node_selector: JsonObject | None = None
    all_nodes: bool = False


Counters = Mapping[str, Quantity]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Device:
    """One device of a slice; equal only to itself."""

    id: DeviceId
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, Capacity]
    consumes: tuple[tuple[str, Counters], ...]
    """Counter set and what the device takes of it."""
    taints: tuple[JsonObject, ...]
    shareable: bool
    place: Place | None
    """Set where the slice leaves the choice of nodes to its devices."""
    binds_to_node: bool
    binding_conditions: tuple[str, ...]
    binding_failure_conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slice:
    """One ResourceSlice; equal only to itself."""

    name: str
    driver: str
    pool: str
    generation: int
    count: int
    """How many slices the pool has, as this slice says."""
    place: Place
    per_device: bool
    counter_sets: tuple[tuple[str, Counters], ...]
    devices: tuple[Device, ...]


class SliceReader:
    """Parses slices and keeps the result for as long as the object does not change."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._parsed: dict[str, tuple[JsonObject, Slice | None]] = {}

    def read(self, slices: Iterable[JsonObject]) -> list[Slice]:
        """Parse *slices*; one that cannot be read is left out, which makes its pool incomplete."""
        parsed = {}
        for item in slices:
            name = item["metadata"]["name"]
            before = self._parsed.get(name)
            if before is not None and _same(before[0], item):
                parsed[name] = before
            else:
                parsed[name] = (item, _parse_or_none(item, self._features))
        self._parsed = parsed
        return [made for _, made in parsed.values() if made is not None]


def parse_slice(item: JsonObject, features: Features) -> Slice:
    """Parse one ResourceSlice; raises `MalformedError`."""
    try:
        return _slice(item, features)
    except (KeyError, TypeError, AttributeError, QuantityError) as error:
        name = item.get("metadata", {}).get("name", "")
        msg = f"slice {name} cannot be read: {error}"
        raise MalformedError(msg) from error


def own_name(driver: str, name: str) -> str:
    """Return *name* with its domain: the driver's where none is written."""
    return name if "/" in name else f"{driver}/{name}"


def _same(before: JsonObject, item: JsonObject) -> bool:
    version = item["metadata"].get("resourceVersion")
    if version is None:
        return before is item
    return bool(before["metadata"].get("resourceVersion") == version) and (
        before["metadata"].get("uid") == item["metadata"].get("uid")
    )


def _parse_or_none(item: JsonObject, features: Features) -> Slice | None:
    try:
        return parse_slice(item, features)
    except MalformedError:
        return None


def _slice(item: JsonObject, features: Features) -> Slice:
    spec = item["spec"]
    driver, pool = spec["driver"], spec["pool"]
    per_device = bool(spec.get("perDeviceNodeSelection"))
    return Slice(
        name=item["metadata"]["name"],
        driver=driver,
        pool=pool["name"],
        generation=int(pool.get("generation") or 0),
        count=int(pool["resourceSliceCount"]),
        place=_place(spec),
        per_device=per_device,
        counter_sets=tuple(
            (made["name"], _counters(made.get("counters")))
            for made in spec.get("sharedCounters") or ()
        ),
        devices=tuple(
            _device(
                made,
                DeviceId(driver, pool["name"], made["name"]),
                features,
                per_device=per_device,
            )
            for made in spec.get("devices") or ()
        ),
    )


def _place(item: JsonObject) -> Place:
    return Place(
        node_name=item.get("nodeName") or "",
        node_selector=item.get("nodeSelector"),
        all_nodes=bool(item.get("allNodes")),
    )


def _device(
    item: JsonObject, identity: DeviceId, features: Features, *, per_device: bool
) -> Device:
    shareable = features.consumable_capacity and bool(item.get("allowMultipleAllocations"))
    return Device(
        id=identity,
        attributes={
            name: _attribute(value, features)
            for name, value in (item.get("attributes") or {}).items()
        },
        capacity={
            name: Capacity(
                value=parse(str(made["value"])),
                policy=_policy(made.get("requestPolicy")) if shareable else None,
            )
            for name, made in (item.get("capacity") or {}).items()
        },
        consumes=tuple(
            (made["counterSet"], _counters(made.get("counters")))
            for made in item.get("consumesCounters") or ()
        ),
        taints=tuple(item.get("taints") or ()) if features.device_taints else (),
        shareable=shareable,
        place=_place(item) if per_device else None,
        binds_to_node=bool(item.get("bindsToNode")),
        binding_conditions=tuple(item.get("bindingConditions") or ()),
        binding_failure_conditions=tuple(item.get("bindingFailureConditions") or ()),
    )


def _attribute(value: JsonObject, features: Features) -> Attribute:
    (kind, content), *_ = value.items()
    if kind not in _LISTS:
        return Attribute(kind, content)
    if not features.list_attributes:
        return Attribute(UNSUPPORTED, kind)
    return Attribute(_LISTS[kind], tuple(content))


def _counters(counters: JsonObject | None) -> Counters:
    return {name: parse(str(made["value"])) for name, made in (counters or {}).items()}


def _policy(policy: JsonObject | None) -> Policy | None:
    if not policy:
        return None
    limits = policy.get("validRange") or {}
    return Policy(
        default=_optional(policy.get("default")),
        values=tuple(parse(str(value)) for value in policy.get("validValues") or ()),
        minimum=_optional(limits.get("min")),
        maximum=_optional(limits.get("max")),
        step=_optional(limits.get("step")),
    )


def _optional(text: object) -> Quantity | None:
    return None if text is None else parse(str(text))
