"""Specs of claims: a specimen with other names is what rendering in full gives."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.record import GpuLimit, PreparedClaim, PreparedDevice
from gpu.refusal import RefusedError
from tests.dra.builders import a_gpu, a_held, a_limited_record, a_mig_gpu, a_record, a_view

GPUS = (a_gpu(0), a_gpu(1), a_mig_gpu(2))
RENDERER = a_view(*GPUS).renderer

_devices = st.sampled_from(
    [a_held(GPUS[0]), a_held(GPUS[1]), a_held(GPUS[2].mig_devices[1])]
).flatmap(
    lambda held: st.sampled_from([None, *map(str, range(3))]).map(
        lambda tail: replace(held, share_id=tail and f"5a5a0000-0000-4000-8000-00000000000{tail}")
    )
)


def _limited(record: PreparedClaim, memory_mib: int) -> PreparedClaim:
    limits = (GpuLimit(uuid=record.devices[0].uuid, memory_mib=memory_mib, cores_percent=7),)
    return replace(record, limits=limits, options=a_limited_record().options)


@given(number=st.integers(0, 3), device=_devices, memory_mib=st.sampled_from([0, 500, 501]))
def test_render_specimen(number: int, device: PreparedDevice, memory_mib: int) -> None:
    """A spec made from a specimen is byte for byte the one that is rendered in full."""
    record = replace(a_record(number), devices=(device,))
    if memory_mib:
        record = _limited(record, memory_mib)
    assert RENDERER.render(record) == RENDERER.render_in_full(record)


def test_render_own_names() -> None:
    """Two claims of one form get specs that name their own UID, share and region, and no other."""
    first = a_limited_record(1)
    second = a_limited_record(2, devices=(replace(first.devices[0], share_id="5" * 36),))
    specs = [RENDERER.render(record) for record in (first, second)]
    for record, spec, other in zip((first, second), specs, (second, first), strict=True):
        assert f"/host/regions/{record.uid}/region.cache".encode() in spec
        assert str(record.devices[0].share_id).encode() in spec
        assert other.uid.encode() not in spec
        assert str(other.devices[0].share_id).encode() not in spec


def test_render_uncommon_lengths() -> None:
    """A UID that is no UUID is rendered too."""
    record = a_limited_record(1, uid="short")
    assert RENDERER.render(record) == RENDERER.render_in_full(record)


@pytest.mark.parametrize(
    ("field", "value"), [("uid", "a/../b"), ("uid", ""), ("share_id", 'a"b'), ("share_id", " ")]
)
def test_render_bad_names(field: str, value: str) -> None:
    """A text that cannot be part of a device name is refused, whatever was rendered before."""
    record = a_limited_record(1)
    RENDERER.render(record)
    if field == "uid":
        record = replace(record, uid=value.ljust(36, "/") if value else value)
    else:
        record = replace(record, devices=(replace(record.devices[0], share_id=value.ljust(36)),))
    with pytest.raises(RefusedError):
        RENDERER.render(record)


def test_render_device_gone() -> None:
    """A device that is not on the node is refused each time."""
    record = a_record(1, a_held(a_gpu(9)))
    for _ in range(2):
        with pytest.raises(RefusedError, match="DeviceGone"):
            RENDERER.render(record)


def test_render_forms_bounded() -> None:
    """Claims of ever new forms do not grow the memory for specimens without end."""
    renderer = a_view(*GPUS).renderer
    for memory_mib in range(1, 600):
        record = _limited(a_record(1), memory_mib)
        assert f"LIMIT_0={memory_mib}m".encode() in renderer.render(record)
    assert len(renderer._specimens) <= 256
