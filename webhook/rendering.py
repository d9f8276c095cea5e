"""From a `ShareRequest` to the spec of a ResourceClaim, without looking at anything else.

Whatever the API server would fill in or write differently stands here as it is stored: modes and
counts are explicit and quantities canonical, so that a template that comes back from it can be
compared with what this makes.

Two requests of one claim may be given the same GPU unless `distinctAttribute` forbids it; beside a
count above one that constraint lets repeats through (until 1.36), so the two never meet.
"""

from collections.abc import Iterator
from typing import Final

from gpu.names import ATTRIBUTE_NUMA_NODE, ATTRIBUTE_PCIE_ROOT, DRIVER
from kube.objects import JsonObject
from kube.shareconfig import GROUP_VERSION, KIND
from webhook import cel
from webhook.alternatives import Alternative, alternatives_of, separate
from webhook.sharerequest import Near, ShareRequest

REQUEST_NAME: Final = "gpu"

_UUID: Final = f"{DRIVER}/uuid"
_ATTRIBUTES: Final = {Near.PCIE_ROOT: ATTRIBUTE_PCIE_ROOT, Near.NUMA_NODE: ATTRIBUTE_NUMA_NODE}


def claim_spec(request: ShareRequest) -> JsonObject:
    """Return the `spec` of a ResourceClaim that asks for *request*."""
    alternatives = alternatives_of(request)
    names = _request_names(request)
    count = request.count if len(names) == 1 else 1
    kinds = {each.is_mig for each in alternatives}
    common = {is_mig: _common_selectors(request, is_mig=is_mig) for is_mig in kinds}
    selectors = [(*common[each.is_mig], *each.selectors) for each in alternatives]

    def bodies() -> list[JsonObject]:
        return [_body(*each, count) for each in zip(alternatives, selectors, strict=True)]

    devices: JsonObject = {
        "requests": [_request(name, request, alternatives, bodies()) for name in names]
    }
    constraints = _constraints(request, names, alternatives)
    if constraints:
        devices["constraints"] = constraints
    config = _config(request)
    if config:
        devices["config"] = [{"opaque": {"driver": DRIVER, "parameters": config}}]
    return {"devices": devices}


def _request_names(request: ShareRequest) -> tuple[str, ...]:
    if not separate(request):
        return (REQUEST_NAME,)
    return tuple(f"{REQUEST_NAME}-{number}" for number in range(request.count))


def _request(
    name: str,
    request: ShareRequest,
    alternatives: tuple[Alternative, ...],
    bodies: list[JsonObject],
) -> JsonObject:
    # A percentage stays a choice even of one: it says which total it is of.
    if len(bodies) == 1 and request.memory_percent is None:
        return {"name": name, "exactly": bodies[0]}
    named = [{"name": each.name, **body} for each, body in zip(alternatives, bodies, strict=True)]
    return {"name": name, "firstAvailable": named}


def _body(alternative: Alternative, selectors: tuple[str, ...], count: int) -> JsonObject:
    body: JsonObject = {"deviceClassName": alternative.device_class}
    if selectors:
        body["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    body["allocationMode"] = "ExactCount"
    body["count"] = count
    body["capacity"] = {"requests": dict(alternative.capacity)}
    return body


def _common_selectors(request: ShareRequest, *, is_mig: bool) -> tuple[str, ...]:
    """Return one selector for each annotation; a MIG device also has the UUID of its GPU."""
    found = []
    if request.use_types:
        found.append(cel.type_among(request.use_types))
    if request.nouse_types:
        found.append(cel.type_not_among(request.nouse_types))
    if request.use_uuids:
        found.append(cel.uuid_among(request.use_uuids, or_parent=is_mig))
    if request.nouse_uuids:
        found.append(cel.uuid_not_among(request.nouse_uuids, or_parent=is_mig))
    return tuple(found)


def _constraints(
    request: ShareRequest, names: tuple[str, ...], alternatives: tuple[Alternative, ...]
) -> list[JsonObject]:
    found: list[JsonObject] = []
    if len(names) > 1:
        found.append({"distinctAttribute": _UUID})
    if request.numa_bound and request.count > 1:
        found.append({"matchAttribute": ATTRIBUTE_NUMA_NODE})
    for near in request.near:
        of_it = [each.name for each in alternatives if each.near is near]
        others = [each.name for each in alternatives if each.near is not near]
        listed = [f"{name}/{each}" for name in names for each in of_it]
        found.append({"requests": listed, "matchAttribute": _ATTRIBUTES[near]})
        if len(names) > 1:
            found += _all_or_none(names, of_it, others)
    return found


def _all_or_none(
    names: tuple[str, ...], of_it: list[str], others: list[str]
) -> Iterator[JsonObject]:
    """Yield constraints by which all requests are served by *of_it*, or none is.

    Without them a search would let the first be near to nobody and the next be anywhere. Two
    different devices never match in their UUID, so whoever follows one of *of_it* in the circle
    cannot be one of *others*.
    """
    for name, following in zip(names, (*names[1:], names[0]), strict=True):
        listed = [
            *(f"{name}/{each}" for each in of_it),
            *(f"{following}/{each}" for each in others),
        ]
        yield {"requests": listed, "matchAttribute": _UUID}


def _config(request: ShareRequest) -> JsonObject:
    """Return the ShareConfig, empty where all of it would be default."""
    config: JsonObject = {}
    if request.priority is not None:
        config["priority"] = request.priority
    if request.core_policy != "default":
        config["corePolicy"] = request.core_policy
    if request.enforcement != "hami-core":
        config["enforcement"] = request.enforcement
    return {"apiVersion": GROUP_VERSION, "kind": KIND, **config} if config else {}
