"""What survives a restart of kubelet: `<root>/device-plugins/kubelet_internal_checkpoint`.

The form is the real one's but for the checksum, which is a hash over Go's memory and is 0 here.
Which resources had a plugin is in it, so that they stay known, with nothing to allocate, until
their plugins come back (kubelet: `pkg/kubelet/cm/devicemanager/checkpoint`).
"""

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from kube.objects import JsonObject
from protos import deviceplugin_v1beta1_pb2 as wire
from sim.kubelet.poddevices import Entry, Held

FILE: Final = "kubelet_internal_checkpoint"


def write(path: Path, entries: Iterable[Entry], registered: Mapping[str, Iterable[str]]) -> None:
    """Write what containers hold, and the healthy ids of every resource."""
    data = {
        "PodDeviceEntries": [_entry(each) for each in entries] or None,
        "RegisteredDevices": {name: sorted(ids) for name, ids in registered.items()},
    }
    part = path.with_name(f".{path.name}.tmp")
    part.write_text(json.dumps({"Data": data, "Checksum": 0}), encoding="utf-8")
    part.replace(path)


def read(path: Path) -> tuple[list[Entry], list[str]] | None:
    """Return the entries and the resources that had a plugin; `None` without a file."""
    try:
        data = json.loads(path.read_bytes())["Data"]
    except FileNotFoundError:
        return None
    entries = [_parsed(each) for each in data["PodDeviceEntries"] or ()]
    return entries, list(data["RegisteredDevices"] or ())


def _entry(entry: Entry) -> JsonObject:
    response = base64.b64encode(entry.held.response.SerializeToString()).decode()
    return {
        "PodUID": entry.pod_uid,
        "ContainerName": entry.container,
        "ResourceName": entry.resource,
        "DeviceIDs": {str(node): list(ids) for node, ids in entry.held.by_numa_node.items()},
        "AllocResp": response,
    }


def _parsed(entry: JsonObject) -> Entry:
    return Entry(
        pod_uid=entry["PodUID"],
        container=entry["ContainerName"],
        resource=entry["ResourceName"],
        held=Held(
            by_numa_node={int(node): tuple(ids) for node, ids in entry["DeviceIDs"].items()},
            response=wire.ContainerAllocateResponse.FromString(
                base64.b64decode(entry["AllocResp"])
            ),
        ),
    )
