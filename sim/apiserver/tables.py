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

_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S


def wants_table(accept: str) -> bool:
    """Tell whether the first choice in an `Accept` header is a Table."""
    return "as=Table" in accept.split(",", maxsplit=1)[0]


def table(plural: str, items: Sequence[JsonObject], metadata: JsonObject) -> JsonObject:
    """Return *items* as a Table, each row with the metadata of its object."""
    columns = (("Name", _name), *_COLUMNS.get(plural, ()), ("Age", _age))
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_definition(title) for title, _ in columns],
        "rows": [_row(item, columns) for item in items],
    }


def _definition(title: str) -> JsonObject:
    form = "name" if title == "Name" else ""
    return {"name": title, "type": "string", "format": form, "description": title, "priority": 0}


def _row(item: JsonObject, columns: Sequence[Column]) -> JsonObject:
    partial = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": item["metadata"],
    }
    return {"cells": [cell(item) for _, cell in columns], "object": partial}


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
    created = dt.datetime.fromisoformat(item["metadata"]["creationTimestamp"])
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


def _node_status(node: JsonObject) -> str:
    conditions = node.get("status", {}).get("conditions", ())
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return "Ready" if ready else "NotReady"


def _claim_state(claim: JsonObject) -> str:
    """Return the words of the real printer, deletion first."""
    states = ["deleted"] if claim["metadata"].get("deletionTimestamp") else []
    status = claim.get("status", {})
    states.append("allocated" if status.get("allocation") else "pending")
    if status.get("reservedFor"):
        states.append("reserved")
    return ",".join(states)


def _size(field: str) -> Callable[[JsonObject], Any]:
    return lambda item: len(item.get(field, ()))


def _event_object(event: JsonObject) -> str:
    involved = event.get("involvedObject", {})
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (("Ready", _ready), ("Status", _pod_status), ("Node", _at("spec.nodeName"))),
    "nodes": (("Status", _node_status), ("Version", _at("status.nodeInfo.kubeletVersion"))),
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
    "resourceclaims": (("State", _claim_state),),
    "resourceslices": (
        ("Node", _at("spec.nodeName")),
        ("Driver", _at("spec.driver")),
        ("Pool", _at("spec.pool.name")),
    ),
}
