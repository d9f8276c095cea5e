"""Tests of what a pod costs on HAMi's path."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami import resources
from hami.deviceconfig import DeviceConfig, NvidiaConfig
from hami.quota import (
    ALLOCATED,
    NOTHING,
    Cost,
    allocated_mib,
    cost_of,
    ended_init_containers,
    is_over,
    quota_names,
    total,
)
from hami.requests import ContainerRequest, Valid

CONFIG = DeviceConfig()
NAMES = quota_names(CONFIG.nvidia, CONFIG.vendors)
GPU, MEMORY, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"


def container(name: str, *, sidecar: bool = False, **asked: int) -> dict[str, Any]:
    """Return a container; without a count it asks for nothing."""
    keys = {"gpu": GPU, "mem": MEMORY, "cores": CORES, "percent": f"{MEMORY}-percentage"}
    limits = {keys[word]: str(amount) for word, amount in asked.items()}
    found: dict[str, Any] = {"name": name, "resources": {"limits": limits}}
    return found | ({"restartPolicy": "Always"} if sidecar else {})


def requests(
    *apps: dict[str, Any], inits: tuple[dict[str, Any], ...] = (), config: DeviceConfig = CONFIG
) -> tuple[ContainerRequest, ...]:
    """Return what the containers are read as."""
    pod = {"spec": {"initContainers": list(inits), "containers": list(apps)}}
    found = resources.read(pod, config)
    assert isinstance(found, Valid)
    return found.requests


def memory(cost: Cost) -> int:
    """Return the MiB."""
    return cost.amounts.get(MEMORY, 0)


def test_sizes_count_as_often_as_there_are_devices() -> None:
    """Two GPUs of 2048 MiB and 20 percent cost 4096 MiB and 40 percent."""
    cost = cost_of(requests(container("a", gpu=2, mem=2048, cores=20)), NAMES)
    assert cost == Cost(amounts={GPU: 2, MEMORY: 4096, CORES: 40})


@pytest.mark.parametrize(
    ("apps", "inits", "expected"),
    [
        ((100,), (), 100),
        ((400, 400), (), 800),
        ((500,), (800, 800), 800),
        ((0,), (1500,), 1500),
        ((10000,), (20000,), 20000),
        ((200, 300), (100,), 500),
    ],
)
def test_init_containers_cost_their_peak(
    apps: tuple[int, ...], inits: tuple[int, ...], expected: int
) -> None:
    """Ordinary init containers run one by one, app containers together."""
    found = requests(
        *(
            container(f"a{n}", gpu=1, mem=mib) if mib else container("a")
            for n, mib in enumerate(apps)
        ),
        inits=tuple(container(f"i{n}", gpu=1, mem=mib) for n, mib in enumerate(inits)),
    )
    assert memory(cost_of(found, NAMES)) == expected


def test_sidecars_run_beside_later_init_containers_and_apps() -> None:
    """Init 1, sidecar 1, init 2, app 1: three at the peak, and two once init is over."""
    found = requests(
        container("app", gpu=1, mem=10),
        inits=(
            container("one", gpu=1, mem=10),
            container("beside", sidecar=True, gpu=1, mem=10),
            container("two", gpu=2, mem=10),
        ),
    )
    assert cost_of(found, NAMES).amounts[GPU] == 3
    assert cost_of(found, NAMES, ended=frozenset({"one"})).amounts[GPU] == 3
    assert cost_of(found, NAMES, ended=frozenset({"one", "two"})).amounts[GPU] == 2


def test_each_resource_has_a_peak_of_its_own() -> None:
    """Memory may peak in init while cores peak in the app."""
    found = requests(
        container("app", gpu=1, mem=100, cores=60),
        inits=(container("i", gpu=1, mem=500, cores=10),),
    )
    assert cost_of(found, NAMES).amounts == {GPU: 1, MEMORY: 500, CORES: 60}


def test_a_percentage_counts_on_the_largest_gpu() -> None:
    """Half of at most 80000 MiB is 40000, and a whole GPU is all of it."""
    half = requests(container("a", gpu=2, percent=50))
    assert memory(cost_of(half, NAMES, largest_mib=80000)) == 80000
    whole = requests(container("a", gpu=1))
    assert cost_of(whole, NAMES, largest_mib=80000).amounts[MEMORY] == 80000


def test_an_unknown_size_is_left_to_the_scheduler() -> None:
    """Without any GPU known a percentage is asked but counts nothing."""
    cost = cost_of(requests(container("a", gpu=1, percent=50, cores=10)), NAMES)
    assert cost == Cost(amounts={GPU: 1, CORES: 10}, unsized=frozenset({MEMORY}))
    assert cost.asks(MEMORY)
    assert not cost.asks("other")


def test_what_was_allocated_counts_instead_of_a_percentage() -> None:
    """The container's own slot tells its size; an absolute request stays as asked."""
    found = requests(
        container("a"), container("b", gpu=1, percent=50), container("c", gpu=1, mem=7)
    )
    pod = {"metadata": {"annotations": {ALLOCATED: ";GPU-1,NVIDIA,3000,50:;GPU-1,NVIDIA,9,0:;"}}}
    given_mib = allocated_mib(pod, 3)
    assert given_mib == (0, 3000, 9)
    assert memory(cost_of(found, NAMES, largest_mib=80000, allocated_mib=given_mib)) == 3007


@pytest.mark.parametrize(
    "text", ["", ";", "GPU-1,NVIDIA,3000:;", "GPU-1,NVIDIA,x,0:;;", "GPU-1,NVIDIA,-5,0:;;", 7]
)
def test_an_unreadable_allocation_tells_nothing(text: object) -> None:
    """Another number of slots, or of fields, is not trusted."""
    assert allocated_mib({"metadata": {"annotations": {ALLOCATED: text}}}, 2) == ()


def test_the_memory_factor_is_in_the_request() -> None:
    """1024 units of 2 MiB cost 2048 MiB, and the quota's unit is the same."""
    config = DeviceConfig(nvidia=NvidiaConfig(memory_factor=2))
    names = quota_names(config.nvidia, config.vendors)
    assert memory(cost_of(requests(container("a", gpu=1, mem=1024), config=config), names)) == 2048
    assert names[0].memory_factor == 2


def test_other_vendors_count_under_their_own_names() -> None:
    """A Cambricon share costs its memory in MiB and its cores."""
    names = next(each for each in NAMES if each.word == "MLU")
    limits = {"cambricon.com/vmlu": "1", names.memory: "4", names.cores: "30"}
    cost = cost_of(requests({"name": "a", "resources": {"limits": limits}}), NAMES)
    assert cost.amounts == {names.memory: 4 * 256, names.cores: 30}


def test_only_what_exited_well_has_ended() -> None:
    """A failed init container runs again."""
    states = {"done": {"terminated": {"exitCode": 0}}, "bad": {"terminated": {"exitCode": 1}}}
    statuses = [{"name": name, "state": state} for name, state in states.items()]
    pod = {"status": {"initContainerStatuses": [*statuses, {"name": "now", "state": {}}, None]}}
    assert ended_init_containers(pod) == {"done"}
    assert ended_init_containers({}) == frozenset()


def test_a_pod_that_ended_is_over() -> None:
    """Succeeded and failed pods hold nothing."""
    phases = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
    assert [is_over({"status": {"phase": phase}}) for phase in phases] == [
        *(False, False),
        *(True, True),
        False,
    ]


costs = st.builds(
    lambda amounts: Cost(amounts=amounts),
    st.dictionaries(st.sampled_from([GPU, MEMORY, CORES]), st.integers(1, 9)),
)


@given(costs, costs)
def test_sums_and_peaks_are_what_they_are_by_name(one: Cost, two: Cost) -> None:
    """Each name is added, or the larger one taken, by itself."""
    for name in (GPU, MEMORY, CORES):
        a, b = one.amounts.get(name, 0), two.amounts.get(name, 0)
        assert (one + two).amounts.get(name, 0) == a + b
        assert (one | two).amounts.get(name, 0) == max(a, b)
    assert total([one, two]) == one + two
    assert bool(NOTHING) is False
