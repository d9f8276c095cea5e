"""Registered devices in HAMi's first form: fields by commas, devices by colons.

Hygon's and Iluvatar's plugins write it, NVIDIA's did up to v2.7. Up to v2.4.1 there were seven
fields; index and mode came with v2.5 (HAMi: `DecodeNodeDevices` in `pkg/device/devices.go`).
"""

from collections.abc import Sequence
from typing import Final

from hami.devices import RegisteredDevice
from hami.matching import parsed_bool
from hami.reading import INT32_MAX, UnreadableError, integer, unreadable

_OLD: Final = 7
_NEW: Final = 9


def read(text: str, word: str) -> tuple[RegisteredDevice, ...]:
    """Return the devices; raises `UnreadableError` if one of them is none."""
    if ":" not in text:
        raise unreadable("the text", text, "has no `:` behind a device")
    return tuple(_device(segment, word) for segment in text.split(":") if segment)


def write(devices: Sequence[RegisteredDevice]) -> str:
    """Return the form of nine fields; raises `ValueError` for a text with a separator."""
    return "".join(_text(device, _NEW) for device in devices)


def write_old(devices: Sequence[RegisteredDevice]) -> str:
    """Return the form of seven fields: schedulers up to v2.4.1 read no other."""
    return "".join(_text(device, _OLD) for device in devices)


def _device(segment: str, word: str) -> RegisteredDevice:
    fields = segment.split(",")
    if len(fields) not in {_OLD, _NEW}:
        raise unreadable("device", segment, f"has {len(fields)} fields and not {_OLD} or {_NEW}")
    uuid, count, memory, cores, model, numa, health, *rest = fields
    if not uuid:
        raise unreadable("device", segment, "has no id")
    index, mode = rest or ("0", "hami-core")
    return RegisteredDevice(
        word=word,
        uuid=uuid,
        count=integer(count, "count", low=0, high=INT32_MAX),
        memory_mib=integer(memory, "memory", low=0, high=INT32_MAX),
        cores=integer(cores, "core", low=0, high=INT32_MAX),
        type=model,
        healthy=_flag(health),
        numa=integer(numa, "numa"),
        index=integer(index, "index", low=0, high=INT32_MAX),
        mode=mode,
    )


def _flag(text: str) -> bool:
    found = parsed_bool(text)
    if found is None:
        raise unreadable("health", text, "is neither true nor false")
    return found


def _text(device: RegisteredDevice, count: int) -> str:
    fields = (
        device.uuid,
        str(device.count),
        str(device.memory_mib),
        str(device.cores),
        device.type,
        str(device.numa),
        "true" if device.healthy else "false",
        str(device.index),
        device.mode,
    )
    text = ",".join(fields[:count])
    if ":" in text or text.count(",") != count - 1 or not device.uuid:
        message = f"{text!r} cannot be told apart"
        raise UnreadableError(message)
    return f"{text}:"
