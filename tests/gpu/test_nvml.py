"""The inventory, read by the real binding from simulated GPUs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.errors import DriverNotLoadedError, LibraryNotFoundError, NvmlError, StoppedError
from gpu.model import ComputeMode, GpuFault, Inventory
from gpu.nvml import Nvml
from sim import gpufile, nvml


@contextmanager
def simulated(text: str) -> Iterator[None]:
    """Let the binding see the GPUs that *text* describes."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "gpus.yaml"
        path.write_text(text, encoding="utf-8")
        nvml.install(path)
        try:
            yield
        finally:
            nvml.uninstall()


def inventory(text: str) -> Inventory:
    """Return what the inventory reads on a node with these GPUs."""
    with simulated(text), Nvml() as session:
        return session.inventory()


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


def test_a_missing_kernel_module_is_its_own_error() -> None:
    """A library without a kernel module is told apart from no library."""
    text = "{errors: {nvmlInitWithFlags: DRIVER_NOT_LOADED}, gpus: []}"
    with simulated(text), pytest.raises(DriverNotLoadedError) as caught:
        Nvml().open()
    assert str(caught.value) == "nvmlInitWithFlags failed: DRIVER_NOT_LOADED"


def test_any_other_failure_names_call_and_reason() -> None:
    """An error that concerns the node is raised with its word."""
    text = "{errors: {nvmlSystemGetDriverVersion: LIB_RM_VERSION_MISMATCH}, gpus: []}"
    with simulated(text), Nvml() as session, pytest.raises(NvmlError) as caught:
        session.inventory()
    assert caught.value.reason == "LIB_RM_VERSION_MISMATCH"
    assert caught.value.call == "nvmlSystemGetDriverVersion"


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    """A placeholder in the library's place is named with the loader's words."""
    library = tmp_path / "libnvidia-ml.so.1"
    library.write_text("no library", encoding="utf-8")
    with pytest.raises(LibraryNotFoundError, match=r"libnvidia-ml\.so\.1"):
        Nvml(library).open()


def test_no_library_at_all_is_said(tmp_path: Path) -> None:
    """A path where nothing lies is named."""
    with pytest.raises(LibraryNotFoundError, match="absent"):
        Nvml(tmp_path / "absent").open()


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


def test_a_session_that_is_to_end_asks_only_for_its_end() -> None:
    """A scan ends in the middle, without faults that are none, and the session can be closed."""
    asked: list[str] = []

    def stopping() -> bool:
        asked.append("whether to stop")
        return len(asked) > 8

    with simulated("gpus: [{profile: t4}, {profile: t4}]"):
        session = Nvml(stopping=stopping).open()
        with pytest.raises(StoppedError):
            session.read()
        with pytest.raises(StoppedError):
            session.events()
        session.close()
        assert pynvml.nvmlLib.node.sessions == 0


def mapped_libraries() -> list[Path]:
    """Return shared libraries of this machine that can be loaded, none of them NVIDIA's."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    files = {Path(line.split(maxsplit=5)[-1]) for line in maps if ".so" in line}
    return sorted(path for path in files if path.name.startswith(("libc.", "libm.", "libz.")))


def test_the_library_at_the_path_is_used_and_can_change() -> None:
    """The binding gets the file that was found, and another one after a driver update."""
    used = []
    try:
        for library in mapped_libraries():
            with pytest.raises(NvmlError) as caught:
                Nvml(library).open()
            assert (caught.value.call, caught.value.reason) == (
                "nvmlInitWithFlags",
                "FUNCTION_NOT_FOUND",
            )
            used.append(Path(pynvml.nvmlLib._name))
    finally:
        nvml.uninstall()
    assert used == mapped_libraries()
    assert len(used) > 1


def test_a_stand_in_stays(tmp_path: Path) -> None:
    """A simulated library is not replaced by the placeholder file of its driver root."""
    placeholder = tmp_path / "libnvidia-ml.so.580.1"
    placeholder.write_text("placeholder", encoding="utf-8")
    with simulated("gpus: [{profile: t4}]"), Nvml(placeholder) as session:
        assert len(session.inventory().gpus) == 1


def test_a_change_of_the_node_is_seen_by_the_same_session(tmp_path: Path) -> None:
    """A session keeps reading what is true now: errors come and go, GPUs disappear."""
    path = tmp_path / "gpus.yaml"
    path.write_text("gpus: [{profile: t4}, {profile: l4}]", encoding="utf-8")
    nvml.install(path)
    try:
        with Nvml() as session:
            assert len(session.inventory().gpus) == 2
            path.write_text("gpus: [{profile: t4, errors: {all: GPU_IS_LOST}}]", encoding="utf-8")
            broken = session.inventory()
            path.write_text("gpus: [{profile: t4}]", encoding="utf-8")
            healed = session.inventory()
    finally:
        nvml.uninstall()
    assert (len(broken.gpus), len(broken.faults)) == (0, 1)
    assert (len(healed.gpus), len(healed.faults)) == (1, 0)
