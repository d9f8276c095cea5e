"""The inventory, read by the real binding from simulated GPUs."""

import pytest

from gpu.model import ComputeMode, GpuFault
from gpu.nvml import Nvml
from sim import gpufile
from tests.gpu.simulating import inventory, simulated


def test_a_gpu_is_described_in_full() -> None:
    """Every field of a GPU comes from the driver."""
    found = inventory("""
driver: {version: 580.65.06, cuda: "13.0"}
gpus: [{profile: h100-80gb, uuid: GPU-a, pci: "0000:3b:00.0", minor: 4,
        compute_mode: exclusive-process}]
""")
    (gpu,) = found.gpus
    assert (found.driver_version, found.cuda_driver_version) == ("580.65.06", "13.0")
    assert (gpu.uuid, gpu.pci_bus_id, gpu.minor) == ("GPU-a", "0000:3b:00.0", 4)
    assert (gpu.name, gpu.brand, gpu.architecture) == ("NVIDIA H100 80GB HBM3", "Nvidia", "Hopper")
    assert (gpu.memory_mib, gpu.memory_reserved_mib) == (81559, 551)
    assert (gpu.compute_capability, gpu.driver_version) == ("9.0", "580.65.06")
    assert gpu.compute_mode is ComputeMode.EXCLUSIVE_PROCESS
    assert (gpu.mig_enabled, gpu.mig_devices) == (False, ())


def test_odd_hardware_keeps_order_names_and_neighbours() -> None:
    """Long names stay whole, unified memory is none, a lost GPU is named, order is by PCI id."""
    name = "NVIDIA GeForce RTX Example Super Long Marketing Name Edition With More Than 64 Letters"
    found = inventory(f"""
gpus:
- {{profile: l4, uuid: GPU-d0, pci: "0000:03:00.0", name: "{name}", memory_mib: 24564}}
- {{profile: gb10, uuid: GPU-d1, pci: "0000:01:00.0"}}
- {{profile: a30, uuid: GPU-d2, pci: "0000:02:00.0", errors: {{all: GPU_IS_LOST}}}}
- {{profile: a30, uuid: GPU-d3, pci: "0000:00:1f.0", mig: [{{profile: 1g.6gb, uuid: MIG-d3}}]}}
""")
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-d3", "GPU-d1", "GPU-d0"]
    partitioned, unified, named = found.gpus
    assert (named.name, named.memory_mib) == (name, 24564)
    assert (unified.memory_mib, unified.memory_reserved_mib) == (None, 0)
    assert [(mig.uuid, mig.profile, mig.memory_mib) for mig in partitioned.mig_devices] == [
        ("MIG-d3", "1g.6gb", 5952)
    ]
    assert found.faults == (
        GpuFault(
            index=2,
            uuid=None,
            pci_bus_id=None,
            reason="GPU_IS_LOST",
            call="nvmlDeviceGetHandleByIndex",
        ),
    )


@pytest.mark.parametrize(
    ("board", "layout", "expected"),
    [
        (
            "a100-40gb",
            "[3g.20gb, 2g.10gb, 1g.5gb+me]",
            [("3g.20gb", 19968, 42), ("2g.10gb", 9856, 28), ("1g.5gb+me", 4864, 14)],
        ),
        ("a100-80gb", "[4g.40gb, 3g.40gb]", [("4g.40gb", 40192, 56), ("3g.40gb", 40192, 42)]),
        ("h100-80gb", "[1g.20gb]", [("1g.20gb", 20096, 26)]),
        ("h200-141gb", "[7g.141gb]", [("7g.141gb", 143104, 132)]),
        ("a30", "[2g.12gb, 2g.12gb]", [("2g.12gb", 12032, 28)] * 2),
    ],
)
def test_partitions_carry_their_boards_table(
    board: str, layout: str, expected: list[tuple[str, int, int]]
) -> None:
    """MIG devices have the profile, memory and multiprocessors that the driver reports."""
    (gpu,) = inventory(f"gpus: [{{profile: {board}, mig: {layout}}}]").gpus
    assert gpu.mig_enabled
    assert {mig.parent_uuid for mig in gpu.mig_devices} == {gpu.uuid}
    found = [(mig.profile, mig.memory_mib, mig.multiprocessors) for mig in gpu.mig_devices]
    assert sorted(found) == sorted(expected)
    ids = [(mig.gpu_instance_id, mig.compute_instance_id) for mig in gpu.mig_devices]
    assert ids == sorted(set(ids))


def test_mig_mode_without_partitions_is_seen() -> None:
    """A GPU in MIG mode that nobody partitioned is not taken for a whole one."""
    (gpu,) = inventory("gpus: [{profile: a100-80gb, mig: []}]").gpus
    assert (gpu.mig_enabled, gpu.mig_devices) == (True, ())


def test_an_old_driver_lacks_the_second_memory_call() -> None:
    """Without the newer call the total comes from the older one and nothing counts as reserved."""
    (gpu,) = inventory("{missing: [nvmlDeviceGetMemoryInfo_v2], gpus: [{profile: t4}]}").gpus
    assert (gpu.memory_mib, gpu.memory_reserved_mib) == (15360, 0)


def test_an_old_driver_lacks_descriptive_calls() -> None:
    """What only describes a GPU falls back to a word."""
    (gpu,) = inventory("""
missing: [nvmlDeviceGetArchitecture, nvmlDeviceGetBrand, nvmlDeviceGetMigMode]
gpus: [{profile: t4}]
""").gpus
    assert (gpu.brand, gpu.architecture, gpu.mig_enabled) == ("Unknown", "Unknown", False)


def test_cuda_version_survives_a_hidden_libcuda() -> None:
    """The CUDA version is known although the driver root's libcuda is not on the library path."""
    found = inventory("""
driver: {cuda: "12.4"}
errors: {nvmlSystemGetCudaDriverVersion_v2: LIBRARY_NOT_FOUND}
gpus: []
""")
    assert (found.cuda_driver_version, found.gpus, found.faults) == ("12.4", (), ())


@pytest.mark.parametrize(
    ("node", "gpu", "action"),
    [
        ("", "", 0),
        ("", "recovery_action: gpu-reset", 1),
        ("", "recovery_action: 8", 8),
        ("", "recovery_action: null", None),
        ("missing: [nvmlDeviceGetFieldValues]", "recovery_action: gpu-reset", None),
        *(
            ("", f"errors: {{nvmlDeviceGetFieldValues: {reason}}}", None)
            for reason in gpufile.REASONS
        ),
    ],
)
def test_advice_is_read_where_there_is_some(node: str, gpu: str, action: int | None) -> None:
    """A driver that gives none, in whatever way, makes no fault."""
    text = f"{{{node}{',' if node else ''} gpus: [{{profile: t4, uuid: GPU-a, {gpu}}}]}}"
    with simulated(text), Nvml() as session:
        reading = session.read()
    assert reading.actions == {"GPU-a": action}
    assert (reading.inventory.faults, reading.inventory.ailments) == ((), ())


def test_an_inventory_has_what_the_driver_advises() -> None:
    """Whoever reads once sees that a GPU needs a reset."""
    found = inventory("gpus: [{profile: t4, uuid: GPU-a, recovery_action: gpu-reset}]")
    assert [(each.uuid, each.code) for each in found.ailments] == [("GPU-a", "GpuResetNeeded")]
