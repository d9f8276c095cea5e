"""Devices and vendors for the tests of codecs."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from hami.annotations import Backend, NvidiaBackend, Undecodable, backends
from hami.deviceconfig import DeviceConfig
from hami.devices import MigPlacement, MigProfile, PodDevice, RegisteredDevice
from hami.vendor_rules.vendor import Register
from hami.vendors import from_sections

NVIDIA = NvidiaBackend(count_name="nvidia.com/gpu")
ALL = backends(DeviceConfig(vendors=from_sections({}, ascend=True, iluvatar=True)))
BY_WORD = {each.word: each for each in ALL}
REGISTERING = tuple(each for each in ALL if each.register is not Register.CAPACITY)

INT32 = st.integers(0, 2**31 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters=",:;"), min_size=1)
TIMES = st.datetimes(
    datetime(1000, 1, 3),  # noqa: DTZ001 - hypothesis wants it so
    datetime(9999, 12, 28),  # noqa: DTZ001
    timezones=st.just(UTC),
)
PLACEMENTS = st.builds(
    MigPlacement, start=st.integers(0, 2**32 - 1), size=st.integers(1, 2**32 - 1)
)
PROFILES = st.builds(
    MigProfile,
    name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=9),
    memory_mib=INT32,
    cores=INT32,
    slice_count=st.integers(0, 2**32 - 1),
    placements=st.lists(PLACEMENTS, max_size=3).map(tuple),
)
POD_DEVICES = st.builds(PodDevice, uuid=NAMES, type=NAMES, memory_mib=INT32, cores=INT32)


def a_device(uuid: str = "GPU-0", **changes: Any) -> RegisteredDevice:
    """Return a healthy A100 with *changes*."""
    fields: dict[str, Any] = {
        "word": "NVIDIA",
        "index": 0,
        "count": 10,
        "memory_mib": 40960,
        "cores": 100,
        "type": "NVIDIA A100-SXM4-40GB",
        "numa": 0,
        "mode": "hami-core",
        "healthy": True,
    }
    return RegisteredDevice(uuid=uuid, **(fields | changes))


def reason(found: object) -> str:
    """Return why *found* is nothing."""
    assert isinstance(found, Undecodable)
    assert found.reason
    assert found.reason.isprintable()
    return found.reason


def word_of(backend: Backend) -> str:
    """Return the name of a test's case."""
    return backend.word
