"""Registered devices of Enflame's DRS: how many slices each has, and the profiles of the node.

A profile is named `<size>g.<memory>gb`; names of another form are passed over, as by HAMi
(v2.10: `pkg/device/enflame/device.go`). What the scheduler writes on pods of index, minor and
profiles is kept in `custom`, under HAMi's own names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hami import gojson
from hami.devices import RegisteredDevice
from hami.gojson import Fields
from hami.reading import INT32_MAX, bounded, integer, unreadable

INDEX: Final = "index"
MINOR: Final = "minor"
PROFILES: Final = "profiles"
MAX_SLICE: Final = "maxSlice"
"""What is in `custom` of each device: two texts, ids by name, the size of the largest profile."""
_DOCUMENT: Final = frozenset({"devices", "profiles"})
_DEVICE: Final = frozenset({"index", "minor", "capacity"})
_PROFILE: Final = re.compile(r"\s*([0-9]{1,9})\s*g?\.\s*([0-9]{1,9})\s*(?:gb)?\s*", re.IGNORECASE)
_MIB_PER_GB: Final = 1024


def profile_size(name: str) -> tuple[int, int] | None:
    """Return slices and GB of the profile *name*, both above zero; `None` for another name."""
    found = _PROFILE.fullmatch(name)
    size, memory_gb = map(int, found.groups()) if found else (0, 0)
    return (size, memory_gb) if size and memory_gb else None


def read(text: str, word: str, node_name: str) -> tuple[RegisteredDevice, ...]:
    """Return the devices; raises `UnreadableError` if one of them or all profiles are none."""
    document = Fields(gojson.parsed(text), _DOCUMENT, "")
    profiles = document.texts("profiles")
    sizes = [size for size in map(profile_size, profiles) if size]
    if not sizes:
        raise unreadable("profiles", profiles, "name none of the form <size>g.<memory>gb")
    memory_gb = max(memory for _, memory in sizes)
    shared = {PROFILES: profiles, MAX_SLICE: max(size for size, _ in sizes)}
    memory_mib = bounded(memory_gb * _MIB_PER_GB, "memory", low=1, high=INT32_MAX)
    return tuple(
        RegisteredDevice(
            word=word,
            uuid=f"{node_name}-enflame-drs-{index}",
            index=index,
            count=_capacity(fields),
            memory_mib=memory_mib,
            cores=100,
            type=word,
            numa=0,
            mode="",
            healthy=True,
            custom={
                INDEX: str(index),
                MINOR: fields.text("minor").strip() or str(index),
                **shared,
            },
        )
        for index, fields in _indexed(document)
    )


def write(devices: Sequence[RegisteredDevice]) -> str:
    """Return what Enflame's writer would."""
    profiles: Mapping[str, str] = devices[0].custom[PROFILES] if devices else {}
    entries: list[dict[str, Any]] = [
        {
            "index": device.custom[INDEX],
            "minor": device.custom[MINOR],
            "capacity": device.count,
        }
        for device in devices
    ]
    return gojson.written({"devices": entries, "profiles": gojson.sorted_keys(profiles)})


def _indexed(document: Fields) -> Iterator[tuple[int, Fields]]:
    """Yield each device with its index; one that names none has that of its place."""
    for position, fields in enumerate(document.objects("devices", _DEVICE)):
        text = fields.text("index")
        numeric = text.isascii() and text.isdecimal()
        yield (integer(text, "index", high=INT32_MAX) if numeric else position), fields


def _capacity(fields: Fields) -> int:
    """Return the slices of a device, which some write as a text."""
    found = fields.raw("capacity")
    if isinstance(found, str):
        found = integer(found.strip(), "capacity", high=INT32_MAX)
    elif isinstance(found, float) and found.is_integer():
        found = int(found)
    if type(found) is not int:
        raise unreadable("capacity", found, "is no whole number")
    return bounded(found, "capacity", low=1, high=INT32_MAX)
