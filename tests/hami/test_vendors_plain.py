"""Vendors whose devices are counted, or shared by memory and cores."""

import pytest

from hami.requests import DeviceRequest, Edits
from tests.hami.vendorreading import FIELD, pod, read, read_pod, reasons, request, warnings

VMLU = "cambricon.com/vmlu"
VMEMORY = "cambricon.com/mlu.smlu.vmemory"
VCORE = "cambricon.com/mlu.smlu.vcore"
VXPU = "kunlunxin.com/vxpu"
VXPU_MEMORY = "kunlunxin.com/vxpu-memory"


@pytest.mark.parametrize(
    ("word", "limits", "expected"),
    [
        ("MLU", {VMLU: "1"}, request("MLU", 1, cores=100)),
        (
            "MLU",
            {VMLU: "2", VMEMORY: "4", VCORE: "30"},
            request("MLU", 2, memory_mib=1024, cores=30),
        ),
        ("MLU", {VMLU: "1", VMEMORY: "1k"}, request("MLU", 1, memory_mib=256000, cores=100)),
        ("DCU", {"hygon.com/dcunum": "1"}, request("DCU", 1, cores=100)),
        (
            "DCU",
            {"hygon.com/dcunum": "2", "hygon.com/dcumem": "2k", "hygon.com/dcucores": "60"},
            request("DCU", 2, memory_mib=2000, cores=60),
        ),
        (
            "HCU",
            {"hygon.com/hcunum": "1", "hygon.com/hcumem": "2k"},
            request("HCU", 1, memory_mib=2000, cores=100),
        ),
        ("AMD", {"amd.com/gpu": "1"}, request("AMD", 1, cores=100)),
        (
            "AMD",
            {"amd.com/gpu": "1", "amd.com/gpumem": "8192", "amd.com/gpucores": "1"},
            request("AMD", 1, memory_mib=8192, cores=1),
        ),
        ("Metax-GPU", {"metax-tech.com/gpu": "4"}, request("Metax-GPU", 4, cores=100)),
        ("GCU", {"enflame.com/gcu": "2"}, request("GCU", 2, cores=100)),
        ("Vastai", {"vastaitech.com/va": "3"}, request("Vastai", 3)),
        ("Biren", {"birentech.com/gpu": "1"}, request("Biren", 1)),
        ("kunlun", {"kunlunxin.com/xpu": "8"}, request("kunlun", 8)),
        ("XPU", {VXPU: "1"}, request("XPU", 1, memory_mib=98304, cores=100)),
    ],
)
def test_accepted(word: str, limits: dict[str, str], expected: DeviceRequest) -> None:
    """A request is read with the vendor's unit and defaults, and nothing is written."""
    reading = read(word, limits)
    assert not reading.reasons
    assert reading.request == expected
    assert reading.edits == Edits()
    assert reading.warnings == ()


@pytest.mark.parametrize("word", ["MLU", "DCU", "AMD", "Vastai", "Biren", "kunlun", "XPU", "GCU"])
def test_absent(word: str) -> None:
    """A container without the vendor's resources is nothing to it."""
    reading = read(word, {"cpu": "1", "nvidia.com/gpu": "1"})
    assert (reading.request, reading.edits) == (None, Edits())
    assert (reading.reasons, reading.warnings) == ((), ())


@pytest.mark.parametrize(
    ("word", "limits", "code", "said"),
    [
        (
            "DCU",
            {"hygon.com/dcunum": "500m"},
            "AmountNotWhole",
            "hygon.com/dcunum must be a whole number",
        ),
        ("DCU", {"hygon.com/dcunum": "-1"}, "AmountOutOfRange", "hygon.com/dcunum must be 0.."),
        ("DCU", {"hygon.com/dcunum": "50%"}, "AmountUnreadable", "hygon.com/dcunum"),
        (
            "DCU",
            {"hygon.com/dcunum": "1", "hygon.com/dcumem": "500m"},
            "AmountNotWhole",
            "hygon.com/dcumem must be a whole number",
        ),
        (
            "MLU",
            {VMLU: "1", VMEMORY: "3M"},
            "MemoryTooLarge",
            "memory request 768000000 MiB exceeds the limit 16777216 MiB",
        ),
        ("MLU", {VMLU: "1", VCORE: "150"}, "AmountOutOfRange", f"{VCORE} must be 0..100"),
        ("MLU", {VMLU: "1", VMEMORY: "384Mi"}, "MemoryNotWholeUnit", "not a multiple of 256 MiB"),
        (
            "DCU",
            {"hygon.com/dcumem": "2k"},
            "CountMissing",
            "hygon.com/dcumem needs hygon.com/dcunum",
        ),
        (
            "DCU",
            {"hygon.com/dcunum": "0", "hygon.com/dcucores": "10"},
            "CountMissing",
            "hygon.com/dcucores needs hygon.com/dcunum",
        ),
        (
            "AMD",
            {"amd.com/gpu": "1", "amd.com/gpucores": "0"},
            "AmountOutOfRange",
            "must be 1..100",
        ),
        (
            "AMD",
            {"amd.com/gpu": "1", "amd.com/gpucores": "101"},
            "AmountOutOfRange",
            "must be 0..100",
        ),
        ("AMD", {"amd.com/gpumem": "1k"}, "CountMissing", "amd.com/gpumem needs amd.com/gpu"),
        ("kunlun", {"kunlunxin.com/xpu": "3"}, "CountNotOffered", "must be one of 1, 2, 4, 8"),
        ("XPU", {VXPU: "5", VXPU_MEMORY: "24576"}, "CountNotOffered", "must be one of 1, 2, 4, 8"),
        ("XPU", {VXPU_MEMORY: "24576"}, "CountMissing", f"{VXPU_MEMORY} needs {VXPU}"),
        ("Vastai", {"vastaitech.com/va": "1.5"}, "AmountNotWhole", "must be a whole number"),
        ("Biren", {"birentech.com/gpu": "3G"}, "AmountOutOfRange", "must be 0..2147483647"),
    ],
)
def test_refused(word: str, limits: dict[str, str], code: str, said: str) -> None:
    """What HAMi's scheduler could not read, or could never place, is refused with the reason."""
    found = reasons(read(word, limits))
    assert said in found[code]
    assert "{main}" in found[code]


def test_all_reasons_are_told() -> None:
    """Every mistake of a container is in one answer."""
    limits = {"hygon.com/dcunum": "500m", "hygon.com/dcumem": "-1", "hygon.com/dcucores": "101"}
    assert len(read("DCU", limits).reasons) == 3


def test_zero_devices() -> None:
    """A count of 0 alone asks for nothing."""
    reading = read("DCU", {"hygon.com/dcunum": "0"})
    assert (reading.request, reading.reasons) == (None, ())


def test_zero_memory() -> None:
    """Memory of 0 is the whole device, as for HAMi, but not without a word."""
    reading = read("DCU", {"hygon.com/dcunum": "1", "hygon.com/dcumem": "0"})
    assert reading.request == request("DCU", 1, cores=100)
    assert "whole device" in warnings(reading)["MemoryIsZero"]


def test_memory_in_bytes() -> None:
    """A binary suffix is bytes; the units are written, since HAMi's scheduler reads the number."""
    reading = read("MLU", {VMLU: "1", VMEMORY: "16Gi"})
    assert reading.request == request("MLU", 1, memory_mib=16384, cores=100)
    assert reading.edits == Edits(limits={VMEMORY: "64"}, requests={VMEMORY: "64"})
    assert f"{VMEMORY}: 16Gi read as 16384 MiB" in warnings(reading)["MemoryReadAsBytes"]


def test_a_decimal_point_is_written_anew() -> None:
    """Whole numbers that HAMi's scheduler would not see are written as it sees them."""
    reading = read("DCU", {"hygon.com/dcunum": "1.0"})
    assert reading.request == request("DCU", 1, cores=100)
    assert reading.edits.limits == {"hygon.com/dcunum": "1"}


def test_cambricons_own_parts() -> None:
    """Memory and cores without a count are a matter between the user and Cambricon."""
    reading = read("MLU", {VMEMORY: "4", VCORE: "10"})
    assert reading.request is None
    assert f"needs {VMLU}" in warnings(reading)["CountMissing"]
    assert len(reading.warnings) == 2


def test_requests_and_limits() -> None:
    """A request without a limit or unlike it is refused before the API server does."""
    asked = pod({"amd.com/gpu": "1"})
    resources = asked["spec"]["containers"][0]["resources"]
    resources["requests"] = {"amd.com/gpu": "2"}
    assert "RequestDiffersFromLimit" in reasons(read_pod("AMD", asked))
    del resources["limits"]
    assert "LimitMissing" in reasons(read_pod("AMD", asked))


@pytest.mark.parametrize(
    ("asked_mib", "given_mib", "cores"),
    [("1", 24576, 25), ("24577", 49152, 50), ("50k", 98304, 100), ("200k", 98304, 100)],
)
def test_kunlun_rounds_memory(asked_mib: str, given_mib: int, cores: int) -> None:
    """Memory of a shared XPU becomes a quarter, a half or all, in limits and requests."""
    asked = pod({VXPU: "1", VXPU_MEMORY: asked_mib})
    del asked["spec"]["containers"][0]["resources"]["requests"]
    reading = read_pod("XPU", asked)
    assert reading.request == request("XPU", 1, memory_mib=given_mib, cores=cores)
    assert reading.edits == Edits(
        limits={VXPU_MEMORY: str(given_mib)}, requests={VXPU_MEMORY: str(given_mib)}
    )
    assert str(given_mib) in warnings(reading)["MemoryRounded"]


def test_field_of_a_refusal() -> None:
    """A refusal tells where the value stands."""
    (refusal,) = read("AMD", {"amd.com/gpumem": "1k"}).reasons
    assert refusal.field == f"{FIELD}[amd.com/gpumem]"
    assert refusal.value == "1k"
