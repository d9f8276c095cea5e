"""XIDs and the driver's advice, as the simulated library reports them."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.sim.driving import Driver, a_driver, gpu


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """Lend a driver and give the binding back afterwards."""
    with a_driver(tmp_path / "gpus.yaml") as driver:
        yield driver


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
