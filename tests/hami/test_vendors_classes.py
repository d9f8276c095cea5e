"""Metax's shared GPUs, AWS Neuron, Enflame's profiles."""

import pytest

from hami.requests import DeviceRequest, Edits
from hami.vendors import from_sections
from tests.hami.vendorreading import pod, read, read_pod, reasons, request, warnings

SGPU = "metax-tech.com/sgpu"
VMEMORY = "metax-tech.com/vmemory"
VCORE = "metax-tech.com/vcore"
QOS = "metax-tech.com/sgpu-qos-policy"
APP_CLASS = "metax-tech.com/sgpu-app-class"
BEST_EFFORT = Edits(pod_annotations={QOS: "best-effort"})

NEURON = "aws.amazon.com/neuron"
NEURON_CORE = "aws.amazon.com/neuroncore"

DRS = "enflame.com/drs-gcu"
GCU_MEMORY = "enflame.com/gcu-memory"
GCU_CORE = "enflame.com/gcu-core"


@pytest.mark.parametrize(
    ("limits", "memory_mib", "cores"),
    [
        ({}, None, 100),
        ({VMEMORY: "16"}, 16384, 100),
        ({VMEMORY: "16Gi"}, 16384, 100),
        ({VMEMORY: "512Mi", VCORE: "30"}, 512, 30),
        ({VMEMORY: "1500M"}, 1430, 100),
        ({VCORE: "0"}, None, 0),
    ],
)
def test_memory_of_metax(limits: dict[str, str], memory_mib: int | None, cores: int) -> None:
    """A bare number is GiB, one with a suffix bytes; nothing of it is written anew."""
    reading = read("Metax-SGPU", {SGPU: "1", **limits})
    assert reading.request == request("Metax-SGPU", 1, memory_mib=memory_mib, cores=cores)
    assert reading.edits == BEST_EFFORT
    in_bytes = memory_mib and limits[VMEMORY] != "16"
    assert set(warnings(reading)) == ({"MemoryReadAsBytes"} if in_bytes else set())


@pytest.mark.parametrize("amount", ["4k", "1000", "1Ki", "2e3", "500m", "64Ti", "20k"])
def test_memory_of_metax_that_would_be_none(amount: str) -> None:
    """Fewer bytes than a MiB would be the whole card to HAMi: refused, with what to write."""
    found = reasons(read("Metax-SGPU", {SGPU: "1", VMEMORY: amount}))
    assert "write 16Gi, or 16 for GiB" in found["MemoryReadAsBytes"]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({SGPU: "1", VMEMORY: "20001"}, "MemoryTooLarge"),
        ({SGPU: "1", VMEMORY: "-1"}, "AmountOutOfRange"),
        ({SGPU: "1", VMEMORY: "some"}, "AmountUnreadable"),
        ({SGPU: "1", VCORE: "101"}, "AmountOutOfRange"),
        ({VMEMORY: "16Gi"}, "CountMissing"),
    ],
)
def test_refused_metax(limits: dict[str, str], code: str) -> None:
    """Impossible sizes are refused."""
    assert code in reasons(read("Metax-SGPU", limits))


@pytest.mark.parametrize("policy", ["best-effort", "fixed-share", "burst-share"])
def test_policy_of_metax(policy: str) -> None:
    """A policy that the user chose is kept."""
    reading = read("Metax-SGPU", {SGPU: "2"}, annotations={QOS: policy})
    assert reading.request == request("Metax-SGPU", 2, cores=100)
    assert reading.edits == Edits()


def test_online_pods_have_no_policy() -> None:
    """The policy of an online pod is neither written nor checked; an offline one's is."""
    limits = {SGPU: "1"}
    reading = read("Metax-SGPU", limits, annotations={APP_CLASS: "online", QOS: "any"})
    assert (reading.reasons, reading.edits) == ((), Edits())
    assert read("Metax-SGPU", limits, annotations={APP_CLASS: "offline"}).edits == BEST_EFFORT


@pytest.mark.parametrize(
    ("count", "annotations", "code", "said"),
    [
        ("1", {QOS: "fast"}, "QosPolicyUnknown", "best-effort, fixed-share, burst-share"),
        ("1", {APP_CLASS: "batch"}, "AppClassUnknown", "must be one of online, offline"),
        ("2", {APP_CLASS: "online"}, "CountNotOffered", f"{SGPU} must be 1"),
    ],
)
def test_refused_classes(count: str, annotations: dict[str, str], code: str, said: str) -> None:
    """Unknown policies and classes, and classes of several devices, are refused."""
    assert said in reasons(read("Metax-SGPU", {SGPU: count}, annotations=annotations))[code]


def neuron(count: int, cores: int) -> DeviceRequest:
    """Return a request for all of the memory that cores bring along."""
    return request("AWSNeuron", count, memory_mib=0, cores=cores)


@pytest.mark.parametrize(
    ("limits", "count", "cores"),
    [
        ({NEURON: "1"}, 1, 2),
        ({NEURON: "4"}, 4, 2),
        ({NEURON_CORE: "1"}, 1, 1),
        ({NEURON_CORE: "2"}, 1, 2),
        ({NEURON_CORE: "8"}, 4, 2),
    ],
)
def test_neuron(limits: dict[str, str], count: int, cores: int) -> None:
    """Devices have all their cores; cores are a part of one device or fill several."""
    reading = read("AWSNeuron", limits)
    assert reading.request == neuron(count, cores)
    assert reading.edits == Edits()
    assert warnings(reading) == {}


def test_neuron_with_more_cores() -> None:
    """How many cores a device has is a setting."""
    (vendor,) = (
        each for each in from_sections({}, neuron_cores_per_device=4) if each.word == "AWSNeuron"
    )
    assert read(vendor, {NEURON_CORE: "3"}).request == neuron(1, 3)
    assert read(vendor, {NEURON: "2"}).request == neuron(2, 4)
    assert "CoresNotWholeDevices" in reasons(read(vendor, {NEURON_CORE: "6"}))


def test_neuron_devices_go_first() -> None:
    """Cores beside devices mean nothing, and a warning says so."""
    reading = read("AWSNeuron", {NEURON: "1", NEURON_CORE: "1"})
    assert reading.request == neuron(1, 2)
    assert f"{NEURON_CORE} has no effect" in warnings(reading)["AmountIgnored"]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({NEURON_CORE: "3"}, "CoresNotWholeDevices"),
        ({NEURON_CORE: "500m"}, "AmountNotWhole"),
        ({NEURON: "-1"}, "AmountOutOfRange"),
        ({NEURON: "0", NEURON_CORE: "1"}, "CountMissing"),
    ],
)
def test_refused_neuron(limits: dict[str, str], code: str) -> None:
    """Cores that leave a device half used are refused."""
    assert code in reasons(read("AWSNeuron", limits))


def test_neuron_of_nothing() -> None:
    """Zero cores ask for nothing."""
    assert read("AWSNeuron", {NEURON_CORE: "0"}).request is None
    assert read("AWSNeuron", {NEURON: "0"}).request is None


@pytest.mark.parametrize(
    ("limits", "size", "cores"),
    [
        ({DRS: "3"}, 3, 0),
        ({GCU_MEMORY: "12"}, 12, 0),
        ({GCU_CORE: "50"}, 0, 50),
        ({GCU_MEMORY: "12288", GCU_CORE: "100"}, 12288, 100),
    ],
)
@pytest.mark.parametrize("section", ["limits", "requests", "both"])
def test_profile_of_enflame(limits: dict[str, str], size: int, cores: int, section: str) -> None:
    """A profile is one of one device; what stands in one place is copied to the other."""
    asked = pod(limits)
    resources = asked["spec"]["containers"][0]["resources"]
    if section != "both":
        del resources["requests" if section == "limits" else "limits"]
    reading = read_pod("Enflame", asked)
    assert reading.request == request("Enflame", 1, memory_mib=size, cores=cores)
    expected = {
        "limits": Edits(requests=limits),
        "requests": Edits(limits=limits),
        "both": Edits(),
    }[section]
    assert reading.edits == expected


def test_size_goes_before_memory() -> None:
    """Memory and cores beside a profile's size mean nothing, and warnings say so."""
    reading = read("Enflame", {DRS: "1", GCU_MEMORY: "4", GCU_CORE: "10"})
    assert reading.request == request("Enflame", 1, memory_mib=1)
    assert len(reading.warnings) == 2


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({DRS: "0"}, f"{DRS} must be 1.."),
        ({DRS: "1.5"}, "must be a whole number"),
        ({GCU_MEMORY: "0"}, f"{GCU_MEMORY} must be 1.."),
        ({GCU_MEMORY: "16Gi"}, f"{GCU_MEMORY} must be 1..16777216"),
        ({GCU_CORE: "0"}, f"{GCU_CORE} must be 1..100"),
        ({GCU_CORE: "101"}, f"{GCU_CORE} must be 1..100"),
    ],
)
def test_refused_enflame(limits: dict[str, str], said: str) -> None:
    """Nothing, and more than everything, are refused."""
    assert any(said in text for text in reasons(read("Enflame", limits)).values())
