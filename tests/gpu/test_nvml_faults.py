"""GPUs that cannot be read, and how far they can still be named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.nvml import Nvml
from sim import gpufile, nvml
from tests.gpu.simulating import inventory

PER_GPU = (
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetAttributes",
    "all",
)


@given(
    broken=st.lists(
        st.dictionaries(st.sampled_from(PER_GPU), st.sampled_from(gpufile.REASONS)),
        min_size=1,
        max_size=4,
    )
)
def test_no_error_of_one_gpu_hides_another(broken: list[dict[str, str]]) -> None:
    """Whatever fails on some GPUs, the sound one is read and each broken one is accounted for."""
    entries = [
        f"{{profile: a100-80gb, uuid: GPU-{index}, mig: [1g.10gb], errors: {errors}}}"
        for index, errors in enumerate(broken)
    ]
    found = inventory(f"gpus: [{', '.join([*entries, '{profile: t4, uuid: GPU-sound}'])}]")
    uuids = [gpu.uuid for gpu in found.gpus]
    assert "GPU-sound" in uuids
    assert len(found.gpus) + len(found.faults) == len(broken) + 1
    for fault in found.faults:
        told = broken[fault.index]
        assert fault.reason in told.values()
        assert fault.call.startswith("nvml")


@pytest.mark.parametrize("reason", ["GPU_IS_LOST", "NO_PERMISSION", "UNKNOWN"])
def test_a_fault_names_the_gpu_as_far_as_it_can_be_read(reason: str) -> None:
    """A fault carries the identity that still answers, and the call that did not."""
    (fault,) = inventory(f"""
gpus: [{{profile: t4, uuid: GPU-x, pci: "0000:3b:00.0",
         errors: {{nvmlDeviceGetMemoryInfo: {reason}}}}}]
""").faults
    assert (fault.uuid, fault.pci_bus_id) == ("GPU-x", "0000:3b:00.0")
    assert (fault.reason, fault.call) == (reason, "nvmlDeviceGetMemoryInfo")


LOST = "errors: {all: GPU_IS_LOST}"


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        # A GPU, a letter each; small ones are lost.
        ("ABC", "AbC", "B"),
        ("ABC", "abC", "AB"),
        ("ABC", "abc", "ABC"),
        ("aBC", "abC", "-B"),
        ("aBC", "AbC", "B"),
        ("ABC", "Ab", "-"),
        ("ABC", "ABCd", "-"),
        ("ABC", "BAc", "-"),
        ("aBC", "BcA", "-"),
    ],
)
def test_a_lost_gpu_is_named_if_it_can_be_only_that(
    before: str, after: str, named: str, tmp_path: Path
) -> None:
    """By its index, if there are as many GPUs as before and the others are where they were."""

    def node(letters: str) -> str:
        gpus = [
            f"{{profile: t4, uuid: GPU-{letter.upper()}, pci: '0000:0{letter.lower()}:00.0', "
            f"minor: {ord(letter.upper())}, {LOST if letter.islower() else ''}}}"
            for letter in letters
        ]
        return f"gpus: [{', '.join(gpus)}]"

    path = tmp_path / "gpus.yaml"
    path.write_text(node(before), encoding="utf-8")
    nvml.install(path)
    try:
        with Nvml() as session:
            session.read()
            path.write_text(node(after) + " # ", encoding="utf-8")
            faults = session.read().inventory.faults
            assert session.read().inventory.faults == faults
        with Nvml() as session:
            unknown = session.read().inventory.faults
    finally:
        nvml.uninstall()
    assert "".join((fault.uuid or "-").removeprefix("GPU-") for fault in faults) == named
    assert all((fault.pci_bus_id is None) == (fault.uuid is None) for fault in faults)
    assert {fault.uuid for fault in unknown} == {None}
