"""The annotation in which a pod's MIG instances stand, beside the list of its devices.

The scheduler says which place of which GPU becomes an instance; the node makes it and adds its
three ids, all at once (HAMi v2.10: `pkg/device/nvidia/mig_allocations.go`).
"""

from collections.abc import Sequence
from typing import Any, Final

from hami import gojson
from hami.devices import MigAllocation
from hami.gojson import Fields
from hami.reading import INT64_MAX, Undecodable, UnreadableError, decoded
from hami.register_json import PLACEMENT, UINT32_MAX, placement

_ALLOCATION: Final = frozenset(
    {
        *("containerIndex", "deviceIndex", "gpuUUID", "profile", "placement"),
        *("migUUID", "gpuInstanceID", "computeInstanceID"),
    }
)


def decode_mig_allocations(text: str) -> tuple[MigAllocation, ...] | Undecodable:
    """Return the instances, none for an empty text, or why they cannot be read."""
    return decoded(_read, text)


def encode_mig_allocations(allocations: Sequence[MigAllocation]) -> str:
    """Return the annotation; empty, which HAMi does not write at all, where there are none."""
    return gojson.written(list(map(_written, allocations))) if allocations else ""


def _read(text: str) -> tuple[MigAllocation, ...]:
    if not text:
        return ()
    raw = gojson.entries(gojson.parsed(text), "the document")
    found = [_allocation(Fields(each, _ALLOCATION, f"[{n}]"), n) for n, each in enumerate(raw)]
    places = {(each.container_index, each.device_index) for each in found}
    if len(places) < len(found):
        raise UnreadableError("two instances are for one device of one container")
    return tuple(found)


def _allocation(fields: Fields, position: int) -> MigAllocation:
    ids = (
        fields.text("migUUID") or None,
        fields.optional("gpuInstanceID", high=UINT32_MAX),
        fields.optional("computeInstanceID", high=UINT32_MAX),
    )
    if 0 < ids.count(None) < len(ids):
        message = f"[{position}] has some of its ids only"
        raise UnreadableError(message)
    return MigAllocation(
        container_index=fields.integer("containerIndex", high=INT64_MAX),
        device_index=fields.integer("deviceIndex", high=INT64_MAX),
        gpu_uuid=fields.text("gpuUUID", needed=True),
        profile=fields.text("profile", needed=True),
        placement=placement(fields.object("placement", PLACEMENT)),
        mig_uuid=ids[0],
        gpu_instance_id=ids[1],
        compute_instance_id=ids[2],
    )


def _written(allocation: MigAllocation) -> dict[str, Any]:
    place = allocation.placement
    written: dict[str, Any] = {
        "containerIndex": allocation.container_index,
        "deviceIndex": allocation.device_index,
        "gpuUUID": allocation.gpu_uuid,
        "profile": allocation.profile,
        "placement": {"start": place.start, "size": place.size},
    }
    ids = {
        "migUUID": allocation.mig_uuid,
        "gpuInstanceID": allocation.gpu_instance_id,
        "computeInstanceID": allocation.compute_instance_id,
    }
    return written | {name: value for name, value in ids.items() if value is not None}
