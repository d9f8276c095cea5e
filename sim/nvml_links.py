"""The functions of `libnvidia-ml.so` about NVLink: what the GPU file says is at their ends."""

from collections.abc import Callable
from typing import Any, Final

import pynvml

from sim.nvml_memory import NvmlFailureError, number, target, write
from sim.nvml_node import Node, Target

_DOWN: Final = "down"
_SWITCH: Final = "switch"
_NO_BUS: Final = "0000:00:00.0"


def state(_node: Node, device: Target, link: Any, result: Any) -> None:
    """Answer whether a link is up."""
    write(result, int(_end(device, link) != _DOWN))


def remote_type(_node: Node, device: Target, link: Any, result: Any) -> None:
    """Answer with what kind of device is at the other end."""
    is_switch = _end(device, link) == _SWITCH
    kind = (
        pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH if is_switch else (pynvml.NVML_NVLINK_DEVICE_TYPE_GPU)
    )
    write(result, kind)


def remote_pci(_node: Node, device: Target, link: Any, result: Any) -> None:
    """Answer with the bus id at the other end in NVML's form."""
    end = _end(device, link)
    domain, bus, rest = (_NO_BUS if end in {_DOWN, _SWITCH} else end).split(":")
    info = target(result)
    info.domain, info.bus, info.device = int(domain, 16), int(bus, 16), int(rest[:2], 16)
    info.busId = f"{info.domain:08X}:{bus}:{rest}".upper()


def _end(device: Target, link: Any) -> str:
    ends = device.gpu.entry.nvlinks
    if not ends or device.instance is not None:
        raise NvmlFailureError("NOT_SUPPORTED")
    if number(link) >= len(ends):
        raise NvmlFailureError("INVALID_ARGUMENT")
    return ends[number(link)]


DEVICE: Final[dict[str, Callable[..., None]]] = {
    "nvmlDeviceGetNvLinkState": state,
    "nvmlDeviceGetNvLinkRemoteDeviceType": remote_type,
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": remote_pci,
}
