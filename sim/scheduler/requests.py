"""What the allocator reads of ResourceClaims (resource.k8s.io/v1), defaults filled in."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kube.objects import JsonObject, ObjectKey, key_of
from kube.quantity import Quantity
from sim.scheduler.amounts import parse

EXACT_COUNT = "ExactCount"
ALL = "All"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wanted:
    """One request, or one alternative of a request; equal only to itself."""

    name: str
    """`main`, or `main/sub` for an alternative."""
    main: str
    class_name: str
    selectors: tuple[JsonObject, ...] = ()
    mode: str = EXACT_COUNT
    count: int = 1
    admin: bool = False
    tolerations: tuple[JsonObject, ...] = ()
    capacity: Mapping[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request with the ways to serve it; only a prioritized one has several."""

    name: str
    alternatives: tuple[Wanted, ...]
    prioritized: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim that waits for devices."""

    key: ObjectKey
    requests: tuple[Request, ...]
    constraints: tuple[JsonObject, ...]
    config: tuple[JsonObject, ...]


def parse_claim(item: JsonObject) -> Claim:
    """Parse one ResourceClaim; raises `QuantityError` for a capacity that is none."""
    devices = (item.get("spec") or {}).get("devices") or {}
    return Claim(
        key=key_of(item),
        requests=tuple(_request(made) for made in devices.get("requests") or ()),
        constraints=tuple(devices.get("constraints") or ()),
        config=tuple(devices.get("config") or ()),
    )


def covers(names: list[str], wanted: Wanted) -> bool:
    """Tell whether a list of requests (empty = all) names *wanted* or its main request."""
    return not names or wanted.main in names or wanted.name in names


def _request(item: JsonObject) -> Request:
    name = item["name"]
    alternatives = item.get("firstAvailable")
    if alternatives:
        made = tuple(
            replace(_wanted(sub, f"{name}/{sub['name']}", name), admin=False)
            for sub in alternatives
        )
        return Request(name=name, alternatives=made, prioritized=True)
    exact = _wanted(item.get("exactly") or {}, name, name)
    return Request(name=name, alternatives=(exact,), prioritized=False)


def _wanted(item: JsonObject, name: str, main: str) -> Wanted:
    asked = (item.get("capacity") or {}).get("requests") or {}
    return Wanted(
        name=name,
        main=main,
        class_name=item.get("deviceClassName", ""),
        selectors=tuple(item.get("selectors") or ()),
        mode=item.get("allocationMode") or EXACT_COUNT,
        count=int(item.get("count") or 1),
        admin=bool(item.get("adminAccess")),
        tolerations=tuple(item.get("tolerations") or ()),
        capacity={key: parse(str(value)) for key, value in asked.items()},
    )
