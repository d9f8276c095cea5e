"""What a spec of ours tells of its claim is what it was made of."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdi.claim import claim_spec, device_name
from cdi.edits import ContainerEdits, DeviceNode, merge
from cdi.enforcement import DEVICES_MAX, DeviceLimit, Enforcement, enforcement_edits
from cdi.errors import SpecError
from cdi.library import HookLibrary
from cdi.recovery import recover
from cdi.spec import render
from tests.cdi.trees import CLAIM

SHA256 = "ab" * 32
LIBRARY = HookLibrary(
    host_library_path=f"/var/lib/x/{SHA256}/libvgpu.so",
    host_preload_path=f"/var/lib/x/{SHA256}/ld.so.preload",
    sha256=SHA256,
    placeholder=False,
)
_NODE = DeviceNode(path="/dev/nvidia0", type="c", major=195, minor=0, permissions="rw")
NODE = ContainerEdits(device_nodes=(_NODE,))

LIMITS = st.builds(
    DeviceLimit, memory_mib=st.integers(1, 200_000), cores_percent=st.integers(1, 100)
)
ENFORCEMENTS = st.builds(
    Enforcement,
    library=st.just(LIBRARY),
    region_host_path=st.just("/var/lib/x/region.cache"),
    limits=st.lists(LIMITS, min_size=1, max_size=DEVICES_MAX).map(tuple),
    priority=st.sampled_from([None, 0, 1]),
    core_policy=st.sampled_from(["default", "force", "disable"]),
    log_level=st.none() | st.integers(0, 4),
)


def spec_of(enforcement: Enforcement | None, *devices: str) -> bytes:
    """Return the spec of a claim with *devices*."""
    common = [NODE] if enforcement is None else [NODE, enforcement_edits(enforcement)]
    own = {device_name(CLAIM, each): NODE for each in devices}
    return render(claim_spec(CLAIM, common=merge(common), devices=own))


@given(ENFORCEMENTS)
def test_limits_are_read_back(enforcement: Enforcement) -> None:
    """All of them, in their order, with what else was asked of HAMi-core."""
    found = recover(CLAIM, spec_of(enforcement, "gpu-1", "gpu-0-share"))
    assert found.devices == ("gpu-0-share", "gpu-1")
    assert found.library_sha256 == SHA256
    assert found.limits == enforcement.limits
    assert found.priority == enforcement.priority
    assert found.core_policy == enforcement.core_policy
    assert found.log_level == enforcement.log_level


def test_a_spec_without_limits_has_none() -> None:
    """A whole GPU or a MIG device."""
    found = recover(CLAIM, spec_of(None, "gpu-0"))
    assert (found.devices, found.limits, found.library_sha256) == (("gpu-0",), (), None)


ONE = spec_of(
    Enforcement(
        library=LIBRARY,
        region_host_path="/r",
        limits=(DeviceLimit(memory_mib=1, cores_percent=1),),
        priority=1,
        core_policy="force",
    ),
    "gpu-0",
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ONE, b""),
        (ONE, b"{}"),
        (ONE, b"\x00garbage"),
        (b"k8s.gpuslice.io/claim", b"nvidia.com/gpu"),
        (CLAIM.encode(), b"another"),
        (b"LIMIT_0=1m", b"LIMIT_0=0m"),
        (b"LIMIT_0=1m", b"LIMIT_0=1g"),
        (b"LIMIT_0=1m", b"LIMIT_0=-1m"),
        (b"LIMIT_0=1m", b"LIMIT_0=010m"),
        (b"MEMORY_LIMIT_0=1m", b"MEMORY_LIMIT_1=1m"),
        (b"MEMORY_LIMIT_0=1m", b"MEMORX_LIMIT_0=1m"),
        (b"SM_LIMIT_0=1", b"SM_LIMIT_0=101"),
        (b"SM_LIMIT_0=1", b"SM_LIMIT_9=1"),
        (b"PRIORITY=1", b"PRIORITY=high"),
        (b"=FORCE", b"=MAYBE"),
        (b'"containerPath":"/usr/local/vgpu/libvgpu.so"', b'"containerPath":"/elsewhere"'),
    ],
)
def test_what_does_not_tell_is_an_error(old: bytes, new: bytes) -> None:
    """Nothing is guessed: half of a claim would be half of what it holds."""
    assert ONE.count(old) >= 1
    with pytest.raises(SpecError):
        recover(CLAIM, ONE.replace(old, new))


@given(st.data())
def test_any_bytes_are_a_spec_or_an_error(data: Any) -> None:
    """A file that somebody or a bad disk has changed ends no rebuild."""
    content = bytearray(ONE)
    for _change in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(SpecError):
        assert recover(CLAIM, bytes(content)).devices
