"""Registered shares of Metax GPUs, in JSON of Metax's own plugin.

What is free on a device is left out here: it is computed from the pods (HAMi v2.10:
`pkg/device/metax/protocol.go`).
"""

from collections.abc import Sequence
from typing import Any, Final

from hami import gojson
from hami.devices import RegisteredDevice
from hami.gojson import Fields
from hami.reading import INT32_MAX

QOS_POLICY: Final = "QosPolicy"
MODEL: Final = "Model"
LINK_ZONE: Final = "LinkZone"
"""What is in `custom` of each device: two texts and a number, 0 for no zone."""
_DEVICE: Final = frozenset(
    {
        *("uuid", "model", "totalDevCount", "totalCompute", "totalVRam", "numa", "healthy"),
        *("qosPolicy", "linkZone"),
    }
)


def read(text: str, word: str) -> tuple[RegisteredDevice, ...]:
    """Return the devices; raises `UnreadableError` if one of them is none."""
    found = gojson.entries(gojson.parsed(text), "the document")
    return tuple(
        _device(Fields(raw, _DEVICE, f"device {index}"), index, word)
        for index, raw in enumerate(found)
    )


def write(devices: Sequence[RegisteredDevice]) -> str:
    """Return what Metax's writer would of devices in the order of their index."""
    return gojson.written([_written(device) for device in devices])


def _device(fields: Fields, index: int, word: str) -> RegisteredDevice:
    return RegisteredDevice(
        word=word,
        uuid=fields.text("uuid", needed=True),
        index=index,
        count=fields.integer("totalDevCount"),
        memory_mib=fields.integer("totalVRam"),
        cores=fields.integer("totalCompute"),
        type=word,
        numa=fields.integer("numa", low=-INT32_MAX - 1),
        mode="",
        healthy=fields.flag("healthy"),
        custom={
            QOS_POLICY: fields.text("qosPolicy"),
            MODEL: fields.text("model"),
            LINK_ZONE: fields.integer("linkZone", low=-INT32_MAX - 1),
        },
    )


def _written(device: RegisteredDevice) -> dict[str, Any]:
    rest = {
        "model": device.custom.get(MODEL),
        "totalDevCount": device.count,
        "totalCompute": device.cores,
        "totalVRam": device.memory_mib,
        "numa": device.numa,
        "healthy": device.healthy,
        "qosPolicy": device.custom.get(QOS_POLICY),
        "linkZone": device.custom.get(LINK_ZONE),
    }
    return {"uuid": device.uuid} | {name: value for name, value in rest.items() if value}
