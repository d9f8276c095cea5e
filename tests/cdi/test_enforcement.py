"""Tests of the limits' rendering."""

from pathlib import Path

import pytest

from cdi.enforcement import (
    DEVICES_MAX,
    CorePolicy,
    DeviceLimit,
    Enforcement,
    enforcement_edits,
)
from gpu.refusal import RefusedError
from tests.cdi.trees import enforcement

ONE = DeviceLimit(memory_mib=1024, cores_percent=50)


def changed(root: Path, **fields: object) -> Enforcement:
    """Return an enforcement of one limit with *fields* instead of its own."""
    plain = enforcement(root, ONE)
    names = ("library", "region_host_path", "limits", "priority", "core_policy", "log_level")
    values = {name: getattr(plain, name) for name in names} | fields
    return Enforcement(**values)


@pytest.mark.parametrize(
    ("memory_mib", "cores_percent", "code"),
    [
        (0, 50, "MemoryLimitInvalid"),
        (-1, 50, "MemoryLimitInvalid"),
        (2**44, 50, "MemoryLimitInvalid"),
        (1, 0, "CoreLimitInvalid"),
        (1, -5, "CoreLimitInvalid"),
        (1, 101, "CoreLimitInvalid"),
    ],
)
def test_limits_that_would_mean_none_are_refused(
    memory_mib: int, cores_percent: int, code: str
) -> None:
    """A limit of 0, or one that overflows, would be read as no limit."""
    with pytest.raises(RefusedError) as caught:
        DeviceLimit(memory_mib=memory_mib, cores_percent=cores_percent)
    assert caught.value.refusal.code == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"limits": ()}, "TooManyDevices"),
        ({"limits": (ONE,) * (DEVICES_MAX + 1)}, "TooManyDevices"),
        ({"priority": 2}, "PriorityInvalid"),
        ({"priority": -1}, "PriorityInvalid"),
        ({"log_level": 5}, "LogLevelInvalid"),
        ({"log_level": -1}, "LogLevelInvalid"),
    ],
)
def test_what_the_library_cannot_take_is_refused(
    tmp_path: Path, fields: dict[str, object], code: str
) -> None:
    """Too many devices and numbers that the library would misread are refused."""
    with pytest.raises(RefusedError) as caught:
        changed(tmp_path, **fields)
    assert caught.value.refusal.code == code


@pytest.mark.parametrize(
    ("fields", "added"),
    [
        ({}, set()),
        ({"priority": 0}, {"CUDA_TASK_PRIORITY=0"}),
        ({"priority": 1}, {"CUDA_TASK_PRIORITY=1"}),
        ({"core_policy": "force"}, {"GPU_CORE_UTILIZATION_POLICY=FORCE"}),
        ({"core_policy": "disable"}, {"GPU_CORE_UTILIZATION_POLICY=DISABLE"}),
        ({"log_level": 0}, {"LIBCUDA_LOG_LEVEL=0"}),
    ],
)
def test_options_are_written_only_when_set(
    tmp_path: Path, fields: dict[str, CorePolicy | int], added: set[str]
) -> None:
    """An option that is not set leaves the library's default."""
    plain = set(enforcement_edits(enforcement(tmp_path, ONE)).env)
    assert set(enforcement_edits(changed(tmp_path, **fields)).env) - plain == added


def test_library_comes_from_its_own_copy(tmp_path: Path) -> None:
    """The library and the preload file are mounted read-only from the hash's directory."""
    made = enforcement(tmp_path, ONE)
    mounts = {mount.container_path: mount for mount in enforcement_edits(made).mounts}
    assert set(mounts) == {
        "/run/gpuslice/region.cache",
        "/usr/local/vgpu/libvgpu.so",
        "/etc/ld.so.preload",
    }
    for path in ("/usr/local/vgpu/libvgpu.so", "/etc/ld.so.preload"):
        assert made.library.sha256 in mounts[path].host_path
        assert mounts[path].options == ("ro", "bind", "nosuid", "nodev")
    assert mounts["/run/gpuslice/region.cache"].options == ("rw", "bind", "nosuid", "nodev")
