"""Registered devices in HAMi's JSON, which most vendors' plugins write.

All fields are left out where they are zero, so that absent means zero (HAMi v2.10: `DeviceInfo` and
`MarshalNodeDevices` in `pkg/device/devices.go`).
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hami import gojson
from hami.devices import MigPlacement, MigProfile, RegisteredDevice
from hami.gojson import Fields
from hami.reading import INT64_MAX
from hami.requests import NVIDIA

_DEVICE: Final = frozenset(
    {
        *("id", "index", "count", "devmem", "devcore", "type", "numa", "mode", "migProfiles"),
        *("health", "custominfo"),
    }
)
_PROFILE: Final = frozenset({"name", "memoryMB", "core", "sliceCount", "placements"})
_NOTHING: Final[Mapping[str, Any]] = {}
PLACEMENT: Final = frozenset({"start", "size"})
UINT32_MAX: Final = 2**32 - 1
_WHOLE_CORES: Final = frozenset({"Vastai", "Biren"})
"""Whatever their plugins say of cores, HAMi counts a device as 100."""


def read(text: str, word: str) -> tuple[RegisteredDevice, ...]:
    """Return the devices; raises `UnreadableError` if one of them is none."""
    found = gojson.entries(gojson.parsed(text), "the document")
    return tuple(
        _device(Fields(raw, _DEVICE, f"device {index}"), word) for index, raw in enumerate(found)
    )


def write(devices: Sequence[RegisteredDevice]) -> str:
    """Return what HAMi's writer would; what only a vendor knows comes last where there is any."""
    return gojson.written([_written(device) for device in devices])


def _device(fields: Fields, word: str) -> RegisteredDevice:
    return RegisteredDevice(
        word=word,
        uuid=sys.intern(fields.text("id", needed=True)),
        index=fields.integer("index"),
        count=fields.integer("count"),
        memory_mib=fields.integer("devmem"),
        cores=100 if word in _WHOLE_CORES else fields.integer("devcore"),
        type=sys.intern(fields.text("type")),
        numa=fields.integer("numa", low=-INT64_MAX - 1, high=INT64_MAX),
        mode=sys.intern(fields.text("mode")),
        mig_profiles=tuple(map(_profile, fields.objects("migProfiles", _PROFILE))),
        healthy=fields.flag("health"),
        # HAMi reads none of NVIDIA's.
        custom=_NOTHING if word == NVIDIA else fields.mapping("custominfo"),
    )


def _profile(fields: Fields) -> MigProfile:
    return MigProfile(
        name=fields.text("name", needed=True),
        memory_mib=fields.integer("memoryMB"),
        cores=fields.integer("core"),
        slice_count=fields.integer("sliceCount", high=UINT32_MAX),
        placements=tuple(map(placement, fields.objects("placements", PLACEMENT))),
    )


def placement(fields: Fields) -> MigPlacement:
    """Return a place on a GPU, which has a size; raises `UnreadableError`."""
    return MigPlacement(
        start=fields.integer("start", high=UINT32_MAX),
        size=fields.positive("size", high=UINT32_MAX),
    )


def _written(device: RegisteredDevice) -> dict[str, Any]:
    fields = {
        "id": device.uuid,
        "index": device.index,
        "count": device.count,
        "devmem": device.memory_mib,
        "devcore": device.cores,
        "type": device.type,
        "numa": device.numa,
        "mode": device.mode,
        "migProfiles": list(map(_written_profile, device.mig_profiles)),
        "health": device.healthy,
        "custominfo": gojson.sorted_keys(device.custom),
    }
    return {name: value for name, value in fields.items() if value}


def _written_profile(profile: MigProfile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "memoryMB": profile.memory_mib,
        "core": profile.cores,
        "sliceCount": profile.slice_count,
        "placements": written_placements(profile.placements),
    }


def written_placements(placements: Iterable[MigPlacement]) -> list[dict[str, int]]:
    """Return places as JSON has them."""
    return [{"start": each.start, "size": each.size} for each in placements]
