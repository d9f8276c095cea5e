"""Tests of what instances GPUs could be partitioned into."""

from gpu.instances import InstanceProfile, Profiles, read_profiles
from gpu.nvml import Nvml
from tests.gpu.simulating import simulated


def profiles(text: str) -> Profiles:
    """Return what is read on a node with these GPUs."""
    with simulated(text), Nvml() as session:
        session.inventory()
        return read_profiles(session.call, session.handles())


def test_profiles_of_an_a100() -> None:
    """Each number of slices is one profile, with its places as NVML tells them."""
    (found,) = profiles("gpus: [{profile: a100-40gb, mig: []}]").values()
    assert [each.slices for each in found] == ["1g", "2g", "3g", "4g", "7g"]
    assert found[2] == InstanceProfile(
        slices="3g",
        memory_mib=19968,
        multiprocessors=42,
        slice_count=3,
        instances=2,
        placements=((0, 4), (4, 4)),
    )


def test_a_gpu_that_cannot_be_partitioned() -> None:
    """It has no profiles, which is an answer."""
    assert list(profiles("gpus: [{profile: t4}]").values()) == [()]


def test_a_gpu_that_fails() -> None:
    """It is left out, and the others are there."""
    text = """
gpus:
  - {profile: a30, uuid: GPU-a, errors: {nvmlDeviceGetGpuInstanceProfileInfo: GPU_IS_LOST}}
  - {profile: a30, uuid: GPU-b}
"""
    assert list(profiles(text)) == ["GPU-b"]
