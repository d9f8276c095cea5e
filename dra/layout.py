"""Devices laid out over the ResourceSlices of a node's pool, as they should be on the server.

One pool per node, named after it. A slice holds 128 devices, or 64 once any of them is tainted
(resource/v1: `ResourceSliceMaxDevices`, `ResourceSliceMaxDevicesWithTaintsOrConsumesCounters`);
consumers trust a pool only when they see `resourceSliceCount` slices of one generation. A node
without devices has one slice without any: it says that the driver is there and found nothing.

Names begin with the slice's position in hex: since Kubernetes 1.36 the scheduler tries devices in
the order of slice names. Generations are not decided here but in `dra.slice_plan`.
"""

from collections.abc import Sequence

from gpu.names import DRIVER
from kube.objects import JsonObject

DEVICES_MAX = 128
DEVICES_MAX_TAINTED = 64

_GENERATE_NAME_MAX = 58
"""The API server cuts a longer `generateName`, anywhere, to make room for 5 random characters."""


def build_slices(
    devices: Sequence[JsonObject], *, node_name: str, node_uid: str
) -> tuple[JsonObject, ...]:
    """Return the slices that publish *devices* in order; at least one, without a generation."""
    tainted = any(device.get("taints") for device in devices)
    size = DEVICES_MAX_TAINTED if tainted else DEVICES_MAX
    chunks = [devices[start : start + size] for start in range(0, len(devices), size)] or [()]
    return tuple(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {
                "generateName": _generate_name(index, node_name),
                "ownerReferences": [owner_of(node_name, node_uid)],
            },
            "spec": _spec(chunk, len(chunks), node_name),
        }
        for index, chunk in enumerate(chunks)
    )


def name_prefix(index: int) -> str:
    """Return how the name of the slice at position *index* begins."""
    return f"{index:05x}-"


def owner_of(node_name: str, node_uid: str) -> JsonObject:
    """Return the reference by which a slice is collected with its node."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node_name,
        "uid": node_uid,
        "controller": True,
    }


def _generate_name(index: int, node_name: str) -> str:
    # Cut here and not by the server, whose cut can leave `.-` and so an invalid name.
    whole = f"{name_prefix(index)}{DRIVER}-{node_name}"
    return whole[: _GENERATE_NAME_MAX - 1].rstrip("-.") + "-"


def _spec(devices: Sequence[JsonObject], slice_count: int, node_name: str) -> JsonObject:
    spec: JsonObject = {
        "driver": DRIVER,
        "nodeName": node_name,
        "pool": {"name": node_name, "resourceSliceCount": slice_count},
    }
    # An empty list would count as set beside `sharedCounters`; absent is the empty pool.
    if devices:
        spec["devices"] = list(devices)
    return spec
