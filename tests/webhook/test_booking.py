"""Tests of what claims cost."""

from typing import Any

import pytest

from hami.deviceconfig import DeviceConfig
from hami.quota import Cost, quota_names
from webhook.booking import Tariff, cost_of_claim, cost_of_spec
from webhook.claimspec import CLASSES
from webhook.facts import ClusterFacts

GPU, MEMORY, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
TARIFF = Tariff(names=quota_names(DeviceConfig().nvidia, ())[0], classes=CLASSES | {"lab.example"})
FACTS = ClusterFacts(
    gpus_by_memory_mib={24000: 2, 80000: 1},
    gpus_by_shares={10: 3},
    mig_by_memory_mib={10000: 4, 20000: 1},
)


def option(device_class: str = "share.gpuslice.io", **more: Any) -> dict[str, Any]:
    """Return one way to serve a request; `memory` and `cores` become capacity."""
    asked = {key: more.pop(key) for key in ("memory", "cores") if key in more}
    found: dict[str, Any] = {"deviceClassName": device_class, **more}
    return found | ({"capacity": {"requests": asked}} if asked else {})


def spec(*options: dict[str, Any]) -> dict[str, Any]:
    """Return a claim's spec with a request for each of *options*."""
    requests = [{"name": f"r{n}", "exactly": each} for n, each in enumerate(options)]
    return {"devices": {"requests": requests}}


def either(*options: dict[str, Any]) -> dict[str, Any]:
    """Return a claim's spec with one request of alternatives."""
    named = [{"name": f"s{n}", **each} for n, each in enumerate(options)]
    return {"devices": {"requests": [{"name": "r0", "firstAvailable": named}]}}


def cost(gpu: int, memory: int, cores: int = 0) -> Cost:
    """Return a cost without zeros."""
    amounts = {GPU: gpu, MEMORY: memory, CORES: cores}
    return Cost(amounts={name: amount for name, amount in amounts.items() if amount})


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (spec(option(memory="3000Mi", cores="30")), cost(1, 3000, 30)),
        (spec(option(memory="3000Mi", count=2)), cost(2, 6000)),
        (spec(option(memory="1Gi"), option(memory="2Gi", cores="5")), cost(2, 3072, 5)),
        (spec(option(memory="8000000001")), cost(1, 7630)),
        (spec(option(memory="1")), cost(1, 1)),
        (spec(option()), cost(1, 80000, 100)),
        (spec(option("gpu.gpuslice.io", cores="100", count=2)), cost(2, 160000, 200)),
        (spec(option("gpu.gpuslice.io", memory="5Gi")), cost(1, 5120)),
        (spec(option("mig.gpuslice.io")), cost(1, 20000)),
        (spec(option("lab.example", memory="1Gi")), cost(1, 1024)),
        (spec(option("other.example", memory="1Gi", count=8)), Cost()),
        (spec(option(memory="1Gi", adminAccess=True)), Cost()),
        (either(option(memory="12000Mi"), option(memory="40000Mi")), cost(1, 40000)),
        (
            either(option(memory="9Mi", cores="70", count=2), option(memory="90Mi")),
            cost(2, 90, 140),
        ),
        ({}, Cost()),
    ],
)
def test_a_claim_costs_the_most_it_may_book(asked: dict[str, Any], expected: Cost) -> None:
    """Before it is allocated each request costs the largest of its alternatives."""
    assert cost_of_spec(asked, FACTS, TARIFF) == expected
    assert cost_of_claim({"spec": asked, "status": {}}, FACTS, TARIFF) == expected


def test_a_class_that_takes_exclusive_gpus_may_book_a_whole_one() -> None:
    """A GPU that cannot be shared is given whole, whatever memory is named."""
    facts = ClusterFacts(gpus_by_memory_mib={24000: 1, 80000: 1}, gpus_by_shares={10: 1})
    assert cost_of_spec(spec(option("gpu.gpuslice.io", memory="1Gi")), facts, TARIFF) == cost(
        1, 80000, 100
    )
    assert cost_of_spec(spec(option(memory="1Gi")), facts, TARIFF) == cost(1, 1024)


def test_all_devices_cannot_be_counted() -> None:
    """`allocationMode: All` asks for a number that nobody knows."""
    found = cost_of_spec(spec(option(allocationMode="All")), FACTS, TARIFF)
    assert found.amounts == {}
    assert found.unknown.keys() == {GPU, MEMORY, CORES}


@pytest.mark.parametrize("device_class", ["gpu.gpuslice.io", "mig.gpuslice.io"])
def test_a_whole_device_of_no_known_size_cannot_be_counted(device_class: str) -> None:
    """Without any device known its memory is unknown, its number is not."""
    found = cost_of_spec(spec(option(device_class)), ClusterFacts(), TARIFF)
    assert found.amounts[GPU] == 1
    assert found.unknown.keys() == {MEMORY}


def result(request: str = "r0", **more: Any) -> dict[str, Any]:
    """Return one allocated device."""
    return {
        "request": request,
        "driver": "gpuslice.io",
        "pool": "n1",
        "device": "gpu-1",
        **more,
    }


def allocated(asked: dict[str, Any], *results: dict[str, Any]) -> dict[str, Any]:
    """Return an allocated claim."""
    return {"spec": asked, "status": {"allocation": {"devices": {"results": list(results)}}}}


def consumed(memory: str, cores: str) -> dict[str, Any]:
    """Return what the scheduler took of a shared GPU."""
    return {"consumedCapacity": {"memory": memory, "cores": cores, "shares": "1"}}


def test_an_allocated_claim_costs_what_was_consumed() -> None:
    """The alternative that was taken counts, not the largest."""
    asked = either(option(memory="12000Mi", cores="7"), option(memory="40000Mi"))
    claim = allocated(asked, result("r0/s0", **consumed("12000Mi", "7")))
    assert cost_of_claim(claim, FACTS, TARIFF) == cost(1, 12000, 7)


def test_a_whole_share_costs_all_cores() -> None:
    """Nobody else fits beside it, though the scheduler books no cores."""
    claim = allocated(spec(option()), result(**consumed("24000Mi", "0")))
    assert cost_of_claim(claim, FACTS, TARIFF) == cost(1, 24000, 100)


def test_our_devices_count_whatever_class_was_named() -> None:
    """A result of our driver counts; others and administrators' do not."""
    claim = allocated(
        spec(option("other.example", memory="1Gi")),
        result(**consumed("1Gi", "3")),
        result(driver="gpu.nvidia.com"),
        result(adminAccess=True),
    )
    assert cost_of_claim(claim, FACTS, TARIFF) == cost(1, 1024, 3)


def test_a_dedicated_device_costs_its_size() -> None:
    """Where the view knows the device, its memory counts, else the largest of its kind."""
    sizes = {("n1", "gpu-1"): 24000, ("n1", "mig-1"): 10000}
    known = Tariff(names=TARIFF.names, memory_of=lambda pool, device: sizes.get((pool, device)))
    claim = allocated(spec(option("gpu.gpuslice.io")), result(), result(device="mig-1"))
    assert cost_of_claim(claim, FACTS, known) == cost(2, 34000, 100)
    assert cost_of_claim(claim, FACTS, TARIFF) == cost(2, 100000, 100)


@pytest.mark.parametrize(
    "broken",
    [
        *(None, [], "x", 5, {"devices": 3}, {"devices": {"requests": [4]}}),
        {"devices": {"requests": [{"exactly": {"deviceClassName": ["share.gpuslice.io"]}}]}},
    ],
)
def test_nothing_that_is_no_claim_raises(broken: Any) -> None:
    """Whatever the JSON is, a cost comes back."""
    assert cost_of_claim({"spec": broken, "status": broken}, FACTS, TARIFF) == Cost()
    claim = {"spec": broken, "status": {"allocation": broken}}
    assert cost_of_claim(claim, FACTS, TARIFF) == Cost()
