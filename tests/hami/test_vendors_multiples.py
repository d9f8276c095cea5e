"""Iluvatar and Moore Threads: several devices are whole ones."""

import pytest

from hami.requests import Edits
from tests.hami.vendorreading import CHART, pod, read, read_pod, reasons, request, warnings

VGPU = "iluvatar.ai/MR-V100-vgpu"
VMEM = "iluvatar.ai/MR-V100.vMem"
VCORE = "iluvatar.ai/MR-V100.vCore"
NAMED = (("SOL_CONTINER_NAME", "main"),)

MTHREADS = "mthreads.com/vgpu"
MEMORY = "mthreads.com/sgpu-memory"
CORE = "mthreads.com/sgpu-core"
COUNT_KEY = "mthreads.com/request-gpu-num"


@pytest.mark.parametrize("chip", ["MR-V100", "MR-V50", "BI-V150", "BI-V100"])
def test_share_of_iluvatar(chip: str) -> None:
    """One device is shared by memory and cores, and the container learns its name."""
    limits = {
        f"iluvatar.ai/{chip}-vgpu": "1",
        f"iluvatar.ai/{chip}.vMem": "16",
        f"iluvatar.ai/{chip}.vCore": "25",
    }
    reading = read(chip, limits)
    assert reading.request == request(chip, 1, memory_mib=4096, cores=25)
    assert reading.edits == Edits(env=NAMED)
    assert [word for word, each in CHART.items() if each.keys & limits.keys()] == [chip]


def test_whole_iluvatar() -> None:
    """Without memory it is the whole of it, and without cores none are booked."""
    assert read("MR-V100", {VGPU: "1"}).request == request("MR-V100", 1)


def test_several_iluvatars() -> None:
    """The limit of several devices' cores is their sum, where a request stands there too."""
    reading = read("MR-V100", {VGPU: "2", VCORE: "50"})
    assert reading.request == request("MR-V100", 2, cores=100)
    assert reading.edits == Edits(limits={VCORE: "200"}, requests={VCORE: "200"}, env=NAMED)
    assert "becomes 200" in warnings(reading)["AmountReplaced"]


def test_several_iluvatars_without_cores() -> None:
    """Cores that nobody asked for are written without a warning, into the limits."""
    reading = read("MR-V100", {VGPU: "10"})
    assert reading.edits == Edits(limits={VCORE: "1k"}, env=NAMED)
    assert warnings(reading) == {}


def test_name_of_the_container_is_kept() -> None:
    """A container that says its name itself keeps it."""
    asked = pod({VGPU: "1"})
    asked["spec"]["containers"][0]["env"] = [{"name": "SOL_CONTINER_NAME", "value": "other"}]
    assert read_pod("MR-V100", asked).edits == Edits()


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({VGPU: "1", VCORE: "101"}, "AmountOutOfRange"),
        ({VGPU: "1", VMEM: "1M"}, "MemoryTooLarge"),
        ({VMEM: "16"}, "CountMissing"),
    ],
)
def test_refused_iluvatar(limits: dict[str, str], code: str) -> None:
    """Impossible sizes, and sizes of no device, are refused."""
    assert code in reasons(read("MR-V100", limits))


@pytest.mark.parametrize("units", [2, 4, 8, 16, 32, 64, 96])
def test_part_of_mthreads(units: int) -> None:
    """A part of one device has one of seven sizes, in units of 512 MiB."""
    reading = read("Mthreads", {MTHREADS: "1", MEMORY: str(units), CORE: "4"})
    assert reading.request == request("Mthreads", 1, memory_mib=units * 512, cores=4)
    assert reading.edits == Edits()


def test_whole_mthreads() -> None:
    """One device without memory is a whole one, whatever cores are asked for."""
    reading = read("Mthreads", {MTHREADS: "1"})
    assert reading.request == request("Mthreads", 1, memory_mib=49152, cores=16)
    assert reading.edits == Edits(limits={MEMORY: "96", CORE: "16"})
    assert warnings(reading) == {}
    reading = read("Mthreads", {MTHREADS: "1", CORE: "4"})
    assert reading.edits == Edits(limits={MEMORY: "96", CORE: "16"}, requests={CORE: "16"})
    assert "becomes 16" in warnings(reading)["AmountReplaced"]


def test_several_mthreads() -> None:
    """Several devices are whole ones: limits carry the sums, an annotation the count."""
    reading = read("Mthreads", {MTHREADS: "2", MEMORY: "32"})
    assert reading.request == request("Mthreads", 2, memory_mib=49152, cores=16)
    assert reading.edits == Edits(
        limits={MEMORY: "192", CORE: "32"},
        requests={MEMORY: "192"},
        pod_annotations={COUNT_KEY: "2"},
    )
    assert "becomes 192" in warnings(reading)["AmountReplaced"]


def test_annotation_that_stands_already() -> None:
    """An annotation that says the same is not written again."""
    limits = {MTHREADS: "2", MEMORY: "192", CORE: "32"}
    assert read("Mthreads", limits, annotations={COUNT_KEY: "2"}).edits == Edits()


@pytest.mark.parametrize(
    ("limits", "code", "said"),
    [
        ({MTHREADS: "0"}, "CountIsZero", f"{MTHREADS} must be greater than 0"),
        ({MTHREADS: "0", MEMORY: "2"}, "CountMissing", f"{MEMORY} needs {MTHREADS}"),
        ({MTHREADS: "1", MEMORY: "3"}, "MemoryNotOffered", "one of 2, 4, 8, 16, 32, 64, 96"),
        ({MTHREADS: "1", MEMORY: "2", CORE: "17"}, "AmountOutOfRange", f"{CORE} must be 0..16"),
        ({MTHREADS: "-1"}, "AmountOutOfRange", f"{MTHREADS} must be 0.."),
        ({MEMORY: "2"}, "CountMissing", f"{MEMORY} needs {MTHREADS}"),
    ],
)
def test_refused_mthreads(limits: dict[str, str], code: str, said: str) -> None:
    """Sizes that no device has, and no device at all, are refused."""
    assert said in reasons(read("Mthreads", limits))[code]


def test_bytes_of_mthreads() -> None:
    """A size in bytes is written in units."""
    reading = read("Mthreads", {MTHREADS: "1", MEMORY: "4Gi"})
    assert reading.request == request("Mthreads", 1, memory_mib=4096)
    assert reading.edits == Edits(limits={MEMORY: "8"}, requests={MEMORY: "8"})
