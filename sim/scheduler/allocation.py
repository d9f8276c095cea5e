"""Write down what was found, as `status.allocation` of each claim (resource.k8s.io/v1)."""

from collections.abc import Mapping, Sequence

from kube.objects import JsonObject
from kube.quantity import parse
from sim.scheduler.attempt import Taken
from sim.scheduler.devices import Place
from sim.scheduler.errors import NodeError
from sim.scheduler.nodes import Node
from sim.scheduler.requests import Claim, Wanted, covers
from sim.scheduler.scene import Scene


def build(
    claim: Claim, taken: Sequence[Taken], chosen: Sequence[Wanted], scene: Scene
) -> JsonObject:
    """Return the allocation of *claim*; *chosen* has one entry per request."""
    devices: JsonObject = {"results": [_result(made) for made in taken]} if taken else {}
    config = _class_config(chosen, scene.classes)
    config += _claim_config(claim, chosen, once=scene.features.config_once)
    if scene.features.config_once:
        config = [_shortened(entry, chosen) for entry in config]
    if config:
        devices["config"] = config
    selector = _node_selector(taken, scene.node)
    return {"devices": devices} | ({"nodeSelector": selector} if selector else {})


def _result(taken: Taken) -> JsonObject:
    device, wanted = taken.device, taken.wanted
    result: JsonObject = {
        "request": wanted.name,
        "driver": device.id.driver,
        "pool": device.id.pool,
        "device": device.id.device,
    }
    optional: JsonObject = {
        "adminAccess": wanted.admin,
        "tolerations": list(wanted.tolerations),
        "bindingConditions": list(device.binding_conditions),
        "bindingFailureConditions": list(device.binding_failure_conditions),
        "shareID": taken.share_id,
        # The API server reads a number and writes it again, in the units that its text has then.
        "consumedCapacity": {name: str(parse(str(it))) for name, it in taken.consumed.items()},
    }
    return result | {key: value for key, value in optional.items() if value}


def _class_config(chosen: Sequence[Wanted], classes: Mapping[str, JsonObject]) -> list[JsonObject]:
    by_class: dict[str, list[JsonObject]] = {}
    for wanted in chosen:
        if wanted.class_name in by_class:
            for entry in by_class[wanted.class_name]:
                entry["requests"].append(wanted.name)
            continue
        spec = classes[wanted.class_name].get("spec") or {}
        by_class[wanted.class_name] = [
            {"source": "FromClass", "requests": [wanted.name], **entry}
            for entry in spec.get("config") or ()
        ]
    return [entry for entries in by_class.values() for entry in entries]


def _claim_config(claim: Claim, chosen: Sequence[Wanted], *, once: bool) -> list[JsonObject]:
    made: list[JsonObject] = []
    for entry in claim.config:
        names = list(entry.get("requests") or ())
        copies = sum(covers(names, wanted) for wanted in chosen) if names else 1
        copy = {"source": "FromClaim", **entry}
        made += [copy] * (min(copies, 1) if once else copies)
    return made


def _shortened(entry: JsonObject, chosen: Sequence[Wanted]) -> JsonObject:
    names = entry.get("requests") or []
    if all(covers(names, wanted) for wanted in chosen):
        return {key: value for key, value in entry.items() if key != "requests"}
    return entry


def _node_selector(taken: Sequence[Taken], node: Node) -> JsonObject | None:
    requirements: dict[str, list[JsonObject]] = {}
    for made in taken:
        place = made.device.place or _slice_place(made)
        if place.node_name or made.device.binds_to_node:
            return _only(node)
        if place.node_selector is None:
            continue
        terms = place.node_selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            msg = f"device {made.device.id} has {len(terms)} node selector terms"
            raise NodeError(msg)
        for kind, items in terms[0].items():
            known = requirements.setdefault(kind, [])
            known += [item for item in items if item not in known]
    return {"nodeSelectorTerms": [requirements]} if requirements else None


def _slice_place(taken: Taken) -> Place:
    parts = taken.pool.slices
    return next(part.place for part in parts if taken.device in part.devices)


def _only(node: Node) -> JsonObject:
    requirement = {"key": "metadata.name", "operator": "In", "values": [node.name]}
    return {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
