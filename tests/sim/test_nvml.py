"""The simulated library, called through the real binding."""

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from sim import boards, gpufile, nvml


class Driver:
    """A simulated driver in this process, its GPU file, and how to change it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._edits = 0

    def has(self, text: str) -> None:
        """Describe the node anew; the time stamp moves even if the clock has not."""
        self._path.write_text(text, encoding="utf-8")
        self._edits += 1
        os.utime(self._path, ns=(self._edits, self._edits))

    def starts(self, text: str) -> None:
        """Describe the node and open a session on it."""
        self.has(text)
        nvml.install(self._path)
        pynvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """Lend a driver and give the binding back afterwards."""
    yield Driver(tmp_path / "gpus.yaml")
    nvml.uninstall()


def gpu(index: int = 0) -> Any:
    """Return a handle."""
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def test_a_gpu_is_found_by_index_and_uuid(driver: Driver) -> None:
    """Both ways lead to the same handle, and the handle to its identity."""
    driver.starts("gpus: [{profile: t4}, {profile: l4, uuid: GPU-a}]")
    assert pynvml.nvmlDeviceGetCount() == 2
    handle = pynvml.nvmlDeviceGetHandleByUUID("GPU-a")
    assert pynvml.nvmlDeviceGetUUID(gpu(1)) == pynvml.nvmlDeviceGetUUID(handle) == "GPU-a"
    assert pynvml.nvmlDeviceGetIndex(handle) == 1
    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA L4"
    assert len(pynvml.nvmlDeviceGetSerial(handle)) > 0
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        gpu(2)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID("GPU-b")


def test_the_bus_id_has_nvmls_form(driver: Driver) -> None:
    """Eight digits of domain in upper case, four in the old field."""
    driver.starts("gpus: [{profile: t4, pci: '0001:ab:1c.0'}]")
    info = pynvml.nvmlDeviceGetPciInfo(gpu())
    assert (info.busId, info.busIdLegacy) == ("00000001:AB:1C.0", "0001:AB:1C.0")
    assert (info.domain, info.bus, info.device) == (1, 0xAB, 0x1C)


def test_memory_adds_up(driver: Driver) -> None:
    """Free, used and reserved make the total, in both versions of the call."""
    driver.starts("gpus: [{profile: t4}]")
    old = pynvml.nvmlDeviceGetMemoryInfo(gpu())
    new = pynvml.nvmlDeviceGetMemoryInfo(gpu(), version=pynvml.nvmlMemory_v2)
    assert old.total == new.total == 15360 * 1024 * 1024
    assert old.free + old.used == old.total
    assert new.free + new.used + new.reserved == new.total
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        pynvml.nvmlDeviceGetMemoryInfo(gpu(), version=1)


def test_unified_memory_is_not_supported(driver: Driver) -> None:
    """A GPU without memory of its own answers as such GPUs do."""
    driver.starts("gpus: [{profile: gb10}]")
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMemoryInfo(gpu())


def test_versions_and_processes(driver: Driver) -> None:
    """The system's versions are the file's, and nothing runs."""
    driver.starts("{driver: {version: '570.1', cuda: '12.8'}, gpus: [{profile: t4}]}")
    assert pynvml.nvmlSystemGetDriverVersion() == "570.1"
    assert pynvml.nvmlSystemGetNVMLVersion() == "12.570.1"
    assert pynvml.nvmlSystemGetCudaDriverVersion() == 12080
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(gpu()) == []
    assert pynvml.nvmlDeviceGetGraphicsRunningProcesses(gpu()) == []


def test_calls_need_a_session(driver: Driver) -> None:
    """Before the first init and after the last shutdown nothing answers."""
    driver.starts("gpus: []")
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 0
    pynvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_a_missing_symbol_is_the_bindings_own_error(driver: Driver) -> None:
    """An old driver lacks a function; the binding says so."""
    driver.starts("{missing: [nvmlDeviceGetSerial], gpus: [{profile: t4}]}")
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetSerial(gpu())
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetFanSpeed(gpu())


@pytest.mark.parametrize("reason", gpufile.REASONS)
def test_every_error_is_the_bindings_class(driver: Driver, reason: str) -> None:
    """A reason in the file comes out as the error with that number."""
    driver.starts(f"gpus: [{{profile: t4, errors: {{nvmlDeviceGetName: {reason}}}}}]")
    with pytest.raises(pynvml.NVMLError) as caught:
        pynvml.nvmlDeviceGetName(gpu())
    assert caught.value.value == getattr(pynvml, f"NVML_ERROR_{reason}")


def test_an_error_may_name_one_version(driver: Driver) -> None:
    """A version in the key spares the other versions; no version hits all."""
    driver.starts("gpus: [{profile: t4, errors: {nvmlDeviceGetMemoryInfo_v2: UNKNOWN}}]")
    assert pynvml.nvmlDeviceGetMemoryInfo(gpu()).total > 0
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetMemoryInfo(gpu(), version=pynvml.nvmlMemory_v2)


def test_an_edit_takes_effect_on_open_handles(driver: Driver) -> None:
    """Breaking, repartitioning and removing a GPU is seen by who holds its handle."""
    driver.starts("gpus: [{profile: a30, uuid: GPU-a, mig: [1g.6gb]}]")
    handle = gpu()
    part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
    driver.has("gpus: [{profile: a30, uuid: GPU-a, errors: {nvmlDeviceGetName: TIMEOUT}}]")
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlDeviceGetName(handle)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetUUID(part)
    driver.has("gpus: []")
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetName(handle)
    driver.has("gpus: [{profile: a30, uuid: GPU-a}]")
    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA A30"


def test_a_wrong_edit_changes_nothing(driver: Driver) -> None:
    """A mistake in the file leaves the last good state in force until it is put right."""
    driver.starts("gpus: [{profile: t4}]")
    driver.has("gpus: [{profile: nonsense}]")
    assert pynvml.nvmlDeviceGetCount() == 1
    driver.has("gpus: []")
    assert pynvml.nvmlDeviceGetCount() == 0


def test_a_wrong_file_is_refused_at_the_start(driver: Driver) -> None:
    """There is no last good state at the start."""
    with pytest.raises(gpufile.GpuFileError, match="unknown profile"):
        driver.starts("gpus: [{profile: nonsense}]")


def test_partitions_answer_for_themselves(driver: Driver) -> None:
    """A MIG handle knows its ids, resources, parent and profile; slots after the last are empty."""
    driver.starts("gpus: [{profile: h100-80gb, uuid: GPU-a, mig: [1g.20gb, 3g.40gb]}]")
    assert pynvml.nvmlDeviceGetMigMode(gpu()) == [1, 1]
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu()) == 7
    part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 1)
    assert pynvml.nvmlDeviceIsMigDeviceHandle(part).value == 1
    assert pynvml.nvmlDeviceGetName(part) == "NVIDIA H100 80GB HBM3 MIG 1g.20gb"
    assert pynvml.nvmlDeviceGetUUID(part).startswith("MIG-")
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)
    assert pynvml.nvmlDeviceGetUUID(parent) == "GPU-a"
    attributes = pynvml.nvmlDeviceGetAttributes_v2(part)
    assert (attributes.multiprocessorCount, attributes.memorySizeMB) == (26, 20096)
    assert (attributes.gpuInstanceSliceCount, attributes.sharedDecoderCount) == (1, 1)
    assert pynvml.nvmlDeviceGetMemoryInfo(part).total == 20096 * 1024 * 1024
    assert pynvml.nvmlDeviceGetComputeInstanceId(part) == 0
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 2)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetGpuInstanceId(gpu())


def test_boards_without_mig_say_so(driver: Driver) -> None:
    """Mode and profiles are not supported, and no partition is possible."""
    driver.starts("gpus: [{profile: t4}]")
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu()) == 0
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMigMode(gpu())
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 0)


@pytest.mark.parametrize("board", ["a100-40gb", "h200-141gb", "a30"])
def test_the_mig_table_comes_through_the_structures(driver: Driver, board: str) -> None:
    """Profiles and their placements read through NVML are the board's table."""
    driver.starts(f"gpus: [{{profile: {board}}}]")
    table = boards.board(board).mig
    assert table is not None
    for profile in table.profiles:
        info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), profile.enum)
        older = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), profile.enum, version=1)
        assert (info.name, info.id, info.memorySizeMB) == (
            f"MIG {profile.name}",
            profile.id,
            profile.memory_mib,
        )
        assert (older.id, older.instanceCount) == (profile.id, profile.instances)
        found = ctypes.c_uint()
        call = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
        call(gpu(), info.id, None, ctypes.byref(found))
        places = (pynvml.c_nvmlGpuInstancePlacement_t * found.value)()
        call(gpu(), info.id, places, ctypes.byref(found))
        assert [place.start for place in places] == profile.starts
        assert {place.size for place in places} == {profile.memory_slices}


def test_topology_follows_root_and_numa_node(driver: Driver) -> None:
    """GPUs meet at their own board, their root, their node or nowhere closer than the system."""
    driver.starts("""
gpus:
- {profile: t4, pcie_root: "pci0000:00", numa_node: 0}
- {profile: t4, pcie_root: "pci0000:00", numa_node: 0}
- {profile: t4, pcie_root: "pci0000:40", numa_node: 0}
- {profile: t4, pcie_root: "pci0000:80", numa_node: 1}
""")
    levels = [pynvml.nvmlDeviceGetTopologyCommonAncestor(gpu(0), gpu(other)) for other in range(4)]
    assert levels == [
        pynvml.NVML_TOPOLOGY_INTERNAL,
        pynvml.NVML_TOPOLOGY_HOSTBRIDGE,
        pynvml.NVML_TOPOLOGY_NODE,
        pynvml.NVML_TOPOLOGY_SYSTEM,
    ]


def watching(*indexes: int) -> Any:
    """Return an event set that reports XIDs of these GPUs."""
    events = pynvml.nvmlEventSetCreate()
    for index in indexes:
        supported = pynvml.nvmlDeviceGetSupportedEventTypes(gpu(index))
        assert supported & pynvml.nvmlEventTypeXidCriticalError
        pynvml.nvmlDeviceRegisterEvents(gpu(index), supported, events)
    return events


def test_each_xid_is_delivered_once(driver: Driver) -> None:
    """XIDs come in order with their GPU; afterwards a wait runs out."""
    driver.starts("gpus: [{profile: t4}, {profile: t4, uuid: GPU-a}]")
    events = watching(0, 1)
    driver.has("gpus: [{profile: t4}, {profile: t4, uuid: GPU-a, xids: [48, 79]}]")
    delivered = [pynvml.nvmlEventSetWait_v2(events, 1000) for _ in range(2)]
    assert [event.eventData for event in delivered] == [48, 79]
    assert {event.eventType for event in delivered} == {pynvml.nvmlEventTypeXidCriticalError}
    assert {event.gpuInstanceId for event in delivered} == {0xFFFFFFFF}
    assert pynvml.nvmlDeviceGetUUID(delivered[0].device) == "GPU-a"
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, 1)
    pynvml.nvmlEventSetFree(events)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlEventSetWait_v2(events, 1)


def test_an_xid_before_the_registration_is_not_delivered(driver: Driver) -> None:
    """Recording starts with the registration, also with that of another set."""
    driver.starts("gpus: [{profile: t4, xids: [48]}]")
    for _ in range(2):
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlEventSetWait_v2(watching(0), 1)
    events = watching(0)
    driver.has("gpus: [{profile: t4, xids: [79]}]")
    assert pynvml.nvmlEventSetWait_v2(events, 1000).eventData == 79


def test_an_xid_reaches_a_wait_that_is_under_way(driver: Driver) -> None:
    """A wait blocks until the file is edited, and other calls go on meanwhile."""
    driver.starts("gpus: [{profile: t4, xids: [13]}]")
    events = watching(0)
    found: list[int] = []
    waiting = threading.Thread(
        target=lambda: found.append(pynvml.nvmlEventSetWait_v2(events, 60_000).eventData)
    )
    waiting.start()
    assert pynvml.nvmlDeviceGetName(gpu()) == "Tesla T4"
    assert found == []
    driver.has("gpus: [{profile: t4, xids: [13, 79]}]")
    waiting.join()
    assert found == [79]


def test_an_xid_of_a_partition_names_it(driver: Driver) -> None:
    """The event has the GPU's handle and the partition's ids, also of one that is no more."""
    node = "profile: a30, uuid: GPU-a, mig: [{profile: 1g.6gb, uuid: MIG-a}]"
    driver.starts(f"gpus: [{{{node}}}]")
    part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 0)
    events = watching(0)
    xids = "[{xid: 94, partition: MIG-a}, {xid: 95, partition: MIG-b}]"
    driver.has(f"gpus: [{{{node}, xids: {xids}}}]")
    own, other = (pynvml.nvmlEventSetWait_v2(events, 1000) for _ in range(2))
    assert pynvml.nvmlDeviceGetUUID(own.device) == "GPU-a"
    assert own.gpuInstanceId == pynvml.nvmlDeviceGetGpuInstanceId(part)
    assert own.computeInstanceId == pynvml.nvmlDeviceGetComputeInstanceId(part)
    assert other.gpuInstanceId not in {own.gpuInstanceId, 0xFFFFFFFF}


def test_only_registered_gpus_report(driver: Driver) -> None:
    """An XID of a GPU that is not watched comes to nobody."""
    driver.starts("gpus: [{profile: t4}, {profile: t4}]")
    events = watching(0)
    driver.has("gpus: [{profile: t4}, {profile: t4, xids: [79]}]")
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, 1)


def recovery_action(index: int = 0) -> Any:
    """Return the field that says what the driver advises."""
    field = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    (value,) = pynvml.nvmlDeviceGetFieldValues(gpu(index), [field])
    return value


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("none", pynvml.NVML_GPU_RECOVERY_ACTION_NONE),
        ("gpu-reset", pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET),
        ("node-reboot", pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT),
        ("drain-p2p", pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P),
        ("drain-and-reset", pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET),
        ("recover-imex-domain", pynvml.NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN),
        ("bus-reset", pynvml.NVML_GPU_RECOVERY_ACTION_BUS_RESET),
        ("system-reboot", pynvml.NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT),
        ("77", 77),
    ],
)
def test_the_advice_is_a_field(driver: Driver, word: str, number: int) -> None:
    """Words are NVML's numbers, and a number that no word has is one from the future."""
    driver.starts(f"gpus: [{{profile: t4, recovery_action: {word}}}]")
    value = recovery_action()
    assert (value.nvmlReturn, value.value.uiVal) == (pynvml.NVML_SUCCESS, number)


def test_a_driver_may_give_no_advice(driver: Driver) -> None:
    """By default it advises nothing; one that does not know the field says so."""
    driver.starts("gpus: [{profile: t4}, {profile: t4, recovery_action: null}]")
    assert recovery_action(0).value.uiVal == pynvml.NVML_GPU_RECOVERY_ACTION_NONE
    assert recovery_action(1).nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED
    (unknown,) = pynvml.nvmlDeviceGetFieldValues(gpu(0), [1])
    assert unknown.nvmlReturn == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_a_call_takes_as_long_as_the_file_says(driver: Driver) -> None:
    """A driver can be made slow."""
    driver.starts("{delays_s: {nvmlDeviceGetName: 0.05}, gpus: [{profile: t4}]}")
    started_s = time.monotonic()
    pynvml.nvmlDeviceGetName(gpu())
    assert time.monotonic() - started_s >= 0.05
