"""Structs that Go writes although nothing is in them.

The server's types leave out empty fields unless they are structs or have no `omitempty`; what is
stored here leaves them out always, so that readers need not tell nothing from an empty thing.
They are added to what goes over the wire and dropped from what comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject

_NODE_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)
_EMPTY_NODE_INFO = dict.fromkeys(_NODE_INFO, "")


def _claim(obj: JsonObject) -> JsonObject:
    return {"spec": _claim_spec(obj.get("spec", {})), "status": obj.get("status", {})}


def _claim_spec(spec: JsonObject) -> JsonObject:
    return {**spec, "devices": {"requests": None, **spec.get("devices", {})}}


def _template(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec", {})
    return {"spec": {"metadata": {}, **spec, "spec": _claim_spec(spec.get("spec", {}))}}


def _node(obj: JsonObject) -> JsonObject:
    status = {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        **obj.get("status", {}),
        "nodeInfo": {**_EMPTY_NODE_INFO, **obj.get("status", {}).get("nodeInfo", {})},
    }
    return {"status": _with_times(status, ("lastHeartbeatTime", "lastTransitionTime"))}


def _pod(obj: JsonObject) -> JsonObject:
    status = obj.get("status", {})
    return {"status": _with_times(status, ("lastProbeTime", "lastTransitionTime"))}


def _quota(obj: JsonObject) -> JsonObject:
    return {"spec": obj.get("spec", {}), "status": obj.get("status", {})}


def _rule(obj: JsonObject) -> JsonObject:
    return {"status": obj.get("status", {})}


def _with_times(status: JsonObject, fields: tuple[str, ...]) -> JsonObject:
    if "conditions" not in status:
        return status
    none = dict.fromkeys(fields)
    return {**status, "conditions": [{**none, **each} for each in status["conditions"]]}


_SHOWN: dict[str, Any] = {
    "nodes": _node,
    "pods": _pod,
    "resourceclaims": _claim,
    "resourceclaimtemplates": _template,
    "devicetaintrules": _rule,
    "resourcequotas": _quota,
}


def shown(plural: str, obj: JsonObject) -> JsonObject:
    """Return *obj* as it goes over the wire."""
    added = _SHOWN.get(plural)
    return obj if added is None else {**obj, **added(obj)}


def stored(plural: str, obj: JsonObject) -> JsonObject:
    """Drop in place what `shown` would add to an object and return it."""
    match plural:
        case "resourceclaims":
            _drop_devices(obj.get("spec"))
        case "resourceclaimtemplates":
            spec = obj.get("spec", {})
            if spec.get("metadata") == {}:
                del spec["metadata"]
            _drop_devices(spec.get("spec"))
        case "nodes":
            status = obj.get("status", {})
            if status.get("nodeInfo") == _EMPTY_NODE_INFO:
                del status["nodeInfo"]
            if status.get("daemonEndpoints") == {"kubeletEndpoint": {"Port": 0}}:
                del status["daemonEndpoints"]
        case _:
            pass
    return obj


def _drop_devices(spec: JsonObject | None) -> None:
    if spec and spec.get("devices") == {}:
        del spec["devices"]
