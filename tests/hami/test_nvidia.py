"""Tests of reading one container's NVIDIA requests; most rows are those of HAMi's own tests."""

from typing import Any

import pytest

from hami import nvidia
from hami.containers import all_containers
from hami.deviceconfig import NvidiaConfig
from hami.requests import Edits
from hami.vendors import VendorReading

GPU = "nvidia.com/gpu"
MEMORY = "nvidia.com/gpumem"
PERCENT = "nvidia.com/gpumem-percentage"
CORES = "nvidia.com/gpucores"
PRIORITY = "nvidia.com/priority"


def reading(
    limits: dict[str, Any] | None = None,
    *,
    requests: dict[str, Any] | None = None,
    least_memory_mib: int = 0,
    **config: Any,
) -> VendorReading:
    """Read a container with *limits*; *config* differs from the chart's."""
    resources = {"limits": limits or {}, **({"requests": requests} if requests else {})}
    pod = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    return nvidia.read(
        all_containers(pod)[0], NvidiaConfig(**config), least_memory_mib=least_memory_mib
    )


def asked(limits: dict[str, Any], **config: Any) -> tuple[Any, ...]:
    """Return count, MiB, percent and cores."""
    found = reading(limits, **config).request
    assert found
    return found.count, found.memory_mib, found.memory_percent, found.cores


def codes(found: VendorReading) -> list[str]:
    """Return the codes of reasons, then of warnings."""
    return [each.code for each in (*found.reasons, *found.warnings)]


@pytest.mark.parametrize(
    ("limits", "config", "expected"),
    [
        ({GPU: "1", CORES: "0"}, {}, (1, None, 100, 0)),
        ({GPU: "2", MEMORY: "4096"}, {}, (2, 4096, None, 0)),
        ({GPU: "1", PERCENT: "50"}, {}, (1, None, 50, 0)),
        ({GPU: "1", CORES: "50"}, {}, (1, None, 100, 50)),
        ({GPU: "1", PERCENT: "0"}, {}, (1, None, 100, 0)),
        ({GPU: "1", PERCENT: "0", MEMORY: "2k"}, {}, (1, 2000, None, 0)),
        ({GPU: "1", PERCENT: "100", MEMORY: "2k"}, {}, (1, 2000, None, 0)),
        ({GPU: "1", MEMORY: "1024"}, {"memory_factor": 2}, (1, 2048, None, 0)),
        ({GPU: "1", CORES: "0"}, {"default_memory_mib": 512}, (1, 512, None, 0)),
        ({GPU: "1", PERCENT: "0"}, {"default_memory_mib": 512}, (1, 512, None, 0)),
        ({GPU: "1", MEMORY: "0"}, {"default_memory_mib": 512}, (1, 512, None, 0)),
        ({GPU: "1", MEMORY: "0", PERCENT: "30"}, {}, (1, None, 30, 0)),
        ({GPU: "1"}, {"default_memory_mib": 512}, (1, 512, None, 100)),
        ({GPU: "1", MEMORY: "1k"}, {"default_cores": 25}, (1, 1000, None, 25)),
        ({GPU: "1", MEMORY: "1k", CORES: "0"}, {"default_cores": 25}, (1, 1000, None, 0)),
        ({MEMORY: "1k"}, {}, (1, 1000, None, 0)),
        ({PERCENT: "40"}, {"default_gpu_num": 2}, (2, None, 40, 0)),
        ({CORES: "30"}, {}, (1, None, 100, 30)),
        ({GPU: "5k"}, {}, (5000, None, 100, 100)),
    ],
)
def test_request(
    limits: dict[str, str], config: dict[str, Any], expected: tuple[int | None, ...]
) -> None:
    """Memory goes before percentage, and defaults fill what is missing."""
    assert asked(limits, **config) == expected


@pytest.mark.parametrize(
    ("limits", "config", "cores", "written"),
    [
        ({GPU: "1"}, {}, 100, "100"),
        ({GPU: "1", PERCENT: "100"}, {}, 100, "100"),
        ({GPU: "1", PERCENT: "50"}, {}, 0, None),
        ({GPU: "1", MEMORY: "8192"}, {}, 0, None),
        ({GPU: "1", MEMORY: "0"}, {}, 0, None),
        ({GPU: "1", MEMORY: "8192", PERCENT: "100"}, {}, 0, None),
        ({GPU: "1", CORES: "70"}, {}, 70, None),
        ({GPU: "1", CORES: "0"}, {}, 0, None),
        ({GPU: "1", PERCENT: "100", CORES: "30"}, {}, 30, None),
        ({GPU: "1"}, {"resource_memory_name": ""}, 100, "100"),
        ({GPU: "1", MEMORY: "8192"}, {"resource_memory_name": ""}, 100, "100"),
    ],
)
def test_exclusive_cores(
    limits: dict[str, str], config: dict[str, Any], cores: int, written: str | None
) -> None:
    """Whoever takes all memory takes all cores, unless he says how many."""
    found = reading(limits, **config)
    assert found.request
    assert found.request.cores == cores
    assert found.edits.limits.get(CORES) == written


def test_renamed_keys() -> None:
    """Other names are read in the place of the usual ones, and those mean nothing."""
    names: dict[str, Any] = {
        "resource_count_name": "hami.io/gpu",
        "resource_memory_name": "hami.io/gpumem",
        "resource_memory_percentage_name": "hami.io/gpumem-percentage",
        "resource_core_name": "hami.io/gpucores",
        "resource_priority_name": "hami.io/priority",
    }
    found = reading({"hami.io/gpu": "1", "hami.io/gpumem-percentage": "100"}, **names)
    assert found.edits == Edits(limits={"hami.io/gpucores": "100"})
    assert reading({GPU: "1", MEMORY: "x"}, **names) == VendorReading()
    wrong = reading({"hami.io/gpu": "500m"}, **names)
    assert "use hami.io/gpumem-percentage: 50 for half a GPU" in str(wrong.reasons[0])


@pytest.mark.parametrize(
    ("limits", "written"),
    [
        ({GPU: "1"}, {CORES: "100"}),
        ({MEMORY: "1k", PRIORITY: "1"}, {GPU: "1"}),
        ({CORES: "30"}, {GPU: "1"}),
        ({GPU: "1", MEMORY: "5k"}, {}),
        ({GPU: "1.0", MEMORY: "16Gi"}, {GPU: "1", MEMORY: "16384"}),
    ],
)
def test_written_limits(limits: dict[str, str], written: dict[str, str]) -> None:
    """Defaults and numbers that HAMi's scheduler would not see are written into the limits."""
    assert reading(limits).edits.limits == written


def test_rewritten_requests() -> None:
    """What is written anew in the limits is written anew in the requests that are there."""
    found = reading({GPU: "1", MEMORY: "3Gi"}, requests={GPU: "1", MEMORY: "3Gi"})
    assert found.edits.limits == found.edits.requests == {MEMORY: "3072"}
    assert reading({GPU: "1"}, requests={GPU: "1"}).edits.requests == {}


@pytest.mark.parametrize(
    ("written", "read", "expected"),
    [
        ("0", 0, ["PriorityWithoutEffect"]),
        ("1", 1, ["PriorityWithoutEffect"]),
        ("7", 1, ["PriorityReadAsLow", "PriorityWithoutEffect"]),
    ],
)
def test_priority(written: str, read: int, expected: list[str]) -> None:
    """Every priority above 0 is low, and none has an effect without a core limit."""
    found = reading({GPU: "1", MEMORY: "1k", PRIORITY: written})
    assert found.request
    assert found.request.priority == read
    assert found.edits.env == (("CUDA_TASK_PRIORITY", str(read)),)
    assert codes(found) == expected


@pytest.mark.parametrize(("cores", "warned"), [("0", True), ("1", False), ("99", False),
                                               ("100", True)])  # fmt: skip
def test_priority_needs_a_core_limit(*, cores: str, warned: bool) -> None:
    """With 1 to 99 percent of cores a priority has its effect."""
    found = reading({GPU: "1", MEMORY: "1k", CORES: cores, PRIORITY: "0"})
    assert (codes(found) == ["PriorityWithoutEffect"]) is warned


@pytest.mark.parametrize("written", ["-1", "x", "500m"])
def test_no_priority(written: str) -> None:
    """What is no whole number from 0 is refused."""
    assert reading({GPU: "1", PRIORITY: written}).reasons


def test_priority_without_a_gpu() -> None:
    """The variable is set as HAMi does, and a warning says that it is in vain."""
    found = reading({PRIORITY: "1"})
    assert found.request is None
    assert codes(found) == ["PriorityWithoutGpu"]
    assert found.edits == Edits(env=(("CUDA_TASK_PRIORITY", "1"),))


def test_core_policy() -> None:
    """A policy of the site reaches every container, the default one none."""
    expected = (("GPU_CORE_UTILIZATION_POLICY", "force"),)
    assert reading({GPU: "1"}, gpu_core_policy="force").edits.env == expected
    assert reading(gpu_core_policy="force").edits.env == expected
    assert reading({GPU: "1"}).edits.env == ()


def test_overwrite_env() -> None:
    """Where the site says so, containers without a GPU are shown none."""
    assert reading(overwrite_env=True).edits.env == (("NVIDIA_VISIBLE_DEVICES", "none"),)
    assert reading({GPU: "1"}, overwrite_env=True).edits.env == ()
    assert reading().edits == Edits()


def test_runtime_class() -> None:
    """The site's runtime class is for containers that ask."""
    assert reading({GPU: "1"}, runtime_class_name="nvidia").edits.runtime_class_name == "nvidia"
    assert reading(runtime_class_name="nvidia").edits.runtime_class_name is None
    assert reading({GPU: "1"}).edits.runtime_class_name is None


def test_all_reasons_in_order() -> None:
    """Every wrong value is named, in the order of HAMi's keys."""
    wrong = {CORES: "150", PRIORITY: "-1", PERCENT: "50%", MEMORY: "16G", GPU: "500m"}
    found = reading(wrong)
    assert found.request is None
    assert codes(found) == [
        "AmountNotWhole",
        "MemoryTooLarge",
        "AmountUnreadable",
        "AmountOutOfRange",
        "AmountOutOfRange",
    ]


def test_no_count() -> None:
    """Without a count and a default for it, each size is refused; a count of 0 is no default."""
    sizes = {MEMORY: "1k", CORES: "30"}
    assert codes(reading(sizes, default_gpu_num=0)) == ["CountMissing"] * 2
    assert codes(reading(sizes | {GPU: "0"})) == ["CountMissing"] * 2
    assert reading({GPU: "0"}) == VendorReading()


def test_a_small_share_is_warned_about() -> None:
    """Less than the setting is a warning, also where it is the site's default; 0 is off."""
    assert codes(reading({GPU: "1", MEMORY: "511"}, least_memory_mib=512)) == ["MemoryIsSmall"]
    assert codes(reading({GPU: "1", MEMORY: "512"}, least_memory_mib=512)) == []
    assert codes(reading({GPU: "1", MEMORY: "1"}, least_memory_mib=0)) == []
    assert codes(reading({GPU: "1", PERCENT: "1"}, least_memory_mib=512)) == []
    default = reading({GPU: "1"}, least_memory_mib=512, default_memory_mib=100)
    assert codes(default) == ["MemoryIsSmall"]


def test_an_ignored_percentage_is_warned_about() -> None:
    """A percentage beside a memory, or of 0, has no effect and says so."""
    assert codes(reading({GPU: "1", MEMORY: "1k", PERCENT: "50"})) == ["PercentageIgnored"]
    assert codes(reading({GPU: "1", PERCENT: "0"})) == ["PercentageIgnored"]
    assert codes(reading({GPU: "1", MEMORY: "1k", PERCENT: "0"})) == ["PercentageIgnored"]
