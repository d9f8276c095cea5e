"""Lists as `Table`s: what `kubectl get` prints.

The server makes the columns, not kubectl (apimachinery: meta/v1 `Table`; kubernetes:
pkg/printers/internalversion). Here are those that somebody looking at GPU shares needs.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sim.apiserver.json_values import JsonObject

    Column = tuple[str, Callable[[JsonObject], Any]]
    """A title, which begins with `+` where only wide output shows the column."""

_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S
_ROLE = "node-role.kubernetes.io/"


def wants_table(accept: str) -> bool:
    """Tell whether the first choice in an `Accept` header is a Table."""
    return "as=Table" in accept.split(",", maxsplit=1)[0]


def table(plural: str, items: Sequence[JsonObject], metadata: JsonObject) -> JsonObject:
    """Return *items* as a Table, each row with the metadata of its object."""
    columns = _columns(plural)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_definition(title) for title, _ in columns],
        "rows": [_row(item, columns) for item in items],
    }


def wants_metadata(accept: str) -> bool:
    """Tell whether the first choice in an `Accept` header is the metadata alone."""
    return "as=PartialObjectMetadataList" in accept.split(",", maxsplit=1)[0]


def metadata_list(items: Sequence[JsonObject], metadata: JsonObject) -> JsonObject:
    """Return the metadata of *items*; without any the real server writes null."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "items": [_partial(item) for item in items] or None,
    }


def _columns(plural: str) -> tuple[Column, ...]:
    own = _COLUMNS.get(plural, ())
    plain = tuple(column for column in own if not column[0].startswith("+"))
    wide = tuple(column for column in own if column[0].startswith("+"))
    aged = plain if any(title == "Age" for title, _ in own) else (*plain, ("Age", _age))
    return (("Name", _name), *aged, *wide)


def _definition(title: str) -> JsonObject:
    form = "name" if title == "Name" else ""
    name, priority = title.removeprefix("+"), int(title.startswith("+"))
    return {
        "name": name,
        "type": "string",
        "format": form,
        "description": name,
        "priority": priority,
    }


def _partial(item: JsonObject) -> JsonObject:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": item["metadata"],
    }


def _row(item: JsonObject, columns: Sequence[Column]) -> JsonObject:
    return {"cells": [cell(item) for _, cell in columns], "object": _partial(item)}


def _at(path: str) -> Callable[[JsonObject], Any]:
    steps = path.split(".")

    def cell(item: JsonObject) -> Any:
        value: Any = item
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return "<none>" if value in {None, ""} else value

    return cell


def _name(item: JsonObject) -> str:
    name: str = item["metadata"]["name"]
    return name


def _age(item: JsonObject) -> str:
    return _since(item["metadata"]["creationTimestamp"])


def _since(time: str) -> str:
    created = dt.datetime.fromisoformat(time)
    seconds = int((dt.datetime.now(dt.UTC) - created).total_seconds())
    for size, letter in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{letter}"
    return f"{max(seconds, 0)}s"


def _ready(pod: JsonObject) -> str:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len(pod['spec']['containers'])}"


def _pod_status(pod: JsonObject) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = pod.get("status", {})
    for container in status.get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting", {}).get("reason")
        if waiting:
            return str(waiting)
    return str(status.get("reason") or status.get("phase", "Unknown"))


def _restarts(pod: JsonObject) -> str:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return str(sum(status.get("restartCount", 0) for status in statuses))


def _pod_address(pod: JsonObject) -> Any:
    addresses = pod.get("status", {}).get("podIPs") or [{"ip": pod.get("status", {}).get("podIP")}]
    return addresses[0].get("ip") or "<none>"


def _node_status(node: JsonObject) -> str:
    conditions = node.get("status", {}).get("conditions", ())
    ready = [one["status"] == "True" for one in conditions if one["type"] == "Ready"]
    state = "Unknown" if not ready else "Ready" if ready[0] else "NotReady"
    return f"{state},SchedulingDisabled" if node["spec"].get("unschedulable") else state


def _roles(node: JsonObject) -> str:
    labels = node["metadata"].get("labels", {})
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    return ",".join(sorted(filter(None, roles))) or "<none>"


def _address(kind: str) -> Callable[[JsonObject], str]:
    def cell(node: JsonObject) -> str:
        addresses = node.get("status", {}).get("addresses", ())
        return next((str(one["address"]) for one in addresses if one["type"] == kind), "<none>")

    return cell


def _info(field: str, none: str = "<unknown>") -> Callable[[JsonObject], str]:
    return lambda node: node.get("status", {}).get("nodeInfo", {}).get(field) or none


def _claim_state(claim: JsonObject) -> str:
    """Return the words of the real printer, deletion first."""
    states = ["deleted"] if claim["metadata"].get("deletionTimestamp") else []
    status = claim.get("status", {})
    states.append("allocated" if status.get("allocation") else "pending")
    if status.get("reservedFor"):
        states.append("reserved")
    return ",".join(states)


def _taint(field: str) -> Callable[[JsonObject], str]:
    return lambda rule: rule["spec"]["taint"].get(field, "")


def _size(field: str) -> Callable[[JsonObject], Any]:
    return lambda item: len(item.get(field, ()))


def _event_object(event: JsonObject) -> str:
    involved = event.get("involvedObject", {})
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        ("Ready", _ready),
        ("Status", _pod_status),
        ("Restarts", _restarts),
        ("Age", _age),
        ("+IP", _pod_address),
        ("+Node", _at("spec.nodeName")),
        ("+Nominated Node", _at("status.nominatedNodeName")),
        ("+Readiness Gates", lambda _: "<none>"),
    ),
    "nodes": (
        ("Status", _node_status),
        ("Roles", _roles),
        ("Age", _age),
        ("Version", _info("kubeletVersion", "")),
        ("+Internal-IP", _address("InternalIP")),
        ("+External-IP", _address("ExternalIP")),
        ("+OS-Image", _info("osImage")),
        ("+Kernel-Version", _info("kernelVersion")),
        ("+Container-Runtime", _info("containerRuntimeVersion")),
    ),
    "namespaces": (("Status", _at("status.phase")),),
    "configmaps": (("Data", _size("data")),),
    "secrets": (("Type", _at("type")), ("Data", _size("data"))),
    "leases": (("Holder", _at("spec.holderIdentity")),),
    "events": (
        ("Type", _at("type")),
        ("Reason", _at("reason")),
        ("Object", _event_object),
        ("Message", _at("message")),
    ),
    "devicetaintrules": (
        ("Key", _taint("key")),
        ("Value", _taint("value")),
        ("Effect", _taint("effect")),
        ("TimeAdded", lambda rule: _since(rule["spec"]["taint"]["timeAdded"])),
        ("Age", _age),
    ),
    "mutatingwebhookconfigurations": (("Webhooks", _size("webhooks")),),
    "validatingwebhookconfigurations": (("Webhooks", _size("webhooks")),),
    "resourceclaims": (("State", _claim_state),),
    "resourceslices": (
        ("Node", _at("spec.nodeName")),
        ("Driver", _at("spec.driver")),
        ("Pool", _at("spec.pool.name")),
    ),
}
