"""What HAMi's own scheduler books for a container: its `GenerateResourceRequests` for NVIDIA.

A model of HAMi v2.10 (`pkg/device/nvidia/device.go`) over Go's `Quantity.AsInt64`, written from
their behaviour.
"""

import re
from collections.abc import Mapping
from typing import Any

from hami.deviceconfig import NvidiaConfig

_SUFFIXES = {"": 1, **{suffix: 1000**power for power, suffix in enumerate("kMGTPE", 1)}}
_SUFFIXES |= {f"{suffix}i": 1024**power for power, suffix in enumerate("KMGTPE", 1)}
_MAX_INT32 = 2**31 - 1
_UNSET = 101


def as_int64(written: Any) -> int | None:
    """Return what Go's `AsInt64` gives; `None` for what it calls not ok."""
    match = re.fullmatch(r"([0-9]+)(?:[eE]\+?([0-9]+)|([kMGTPE]i?|Ki)?)", str(written))
    if match is None:
        return None
    digits, exponent, suffix = match.groups()
    scale: int = 10 ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return int(digits) * scale


def booked(
    limits: Mapping[str, Any], requests: Mapping[str, Any], config: NvidiaConfig
) -> tuple[int, int, int, int] | None:
    """Return count, MiB, percent and cores as HAMi books them; `None` for an empty request."""
    said = {**requests, **limits}
    count = as_int64(said.get(config.resource_count_name))
    if not count:
        return None
    memory = 0
    if config.resource_memory_name in said:
        units, factor = as_int64(said[config.resource_memory_name]), max(1, config.memory_factor)
        if units is None or units > _MAX_INT32 // factor:
            return None
        memory = units * factor
    percent = as_int64(said.get(config.resource_memory_percentage_name)) or _UNSET
    if percent == _UNSET and memory == 0:
        memory = config.default_memory_mib
        percent = percent if memory else 100
    cores = as_int64(said.get(config.resource_core_name))
    effective = (memory, 0) if memory else (0, percent)
    return (count, *effective, config.default_cores if cores is None else cores)
