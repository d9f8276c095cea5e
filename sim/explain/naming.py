"""Where things stand in a claim: paths that a user finds in the manifest."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kube.objects import JsonObject, ObjectKey
from sim.explain.model import Asked
from sim.scheduler.requests import ALL, Wanted, parse_claim


class Place(NamedTuple):
    """One request, or one alternative of one, in its claim."""

    claim: ObjectKey
    wanted: Wanted
    path: str

    @property
    def capacity_path(self) -> str:
        """Return where its capacity requests stand."""
        return f"{self.path}.capacity.requests"


Places = Mapping[tuple[ObjectKey, str], Place]
"""By claim and by the name of the request, `main` or `main/sub`."""


def places_of(claims: Iterator[JsonObject] | tuple[JsonObject, ...]) -> Places:
    """Find all requests of *claims*; raises `QuantityError` for a capacity that is none."""
    return {(place.claim, place.wanted.name): place for place in _all(claims)}


def asked_of(place: Place) -> Asked:
    """Return what a request asks for, as texts."""
    wanted = place.wanted
    return Asked(
        claim=str(place.claim),
        request=wanted.name,
        device_class=wanted.class_name,
        count=None if wanted.mode == ALL else wanted.count,
        capacity={name: str(amount) for name, amount in wanted.capacity.items()},
        admin_access=wanted.admin,
    )


def request_of(claim: JsonObject, name: str) -> JsonObject | None:
    """Return the part of *claim* that request *name* (`main` or `main/sub`) consists of."""
    main, _, sub = name.partition("/")
    for request in claim["spec"]["devices"].get("requests") or ():
        if request["name"] != main:
            continue
        if not sub:
            exactly: JsonObject | None = request.get("exactly")
            return exactly
        return next((it for it in request["firstAvailable"] if it["name"] == sub), None)
    return None


def _all(claims: Iterator[JsonObject] | tuple[JsonObject, ...]) -> Iterator[Place]:
    for item in claims:
        claim = parse_claim(item)
        for request in claim.requests:
            for wanted in request.alternatives:
                part = f"firstAvailable[{wanted.name.partition('/')[2]}]"
                where = part if request.prioritized else "exactly"
                path = f"spec.devices.requests[{request.name}].{where}"
                yield Place(claim.key, wanted, path)
