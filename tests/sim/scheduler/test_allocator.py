"""Whatever claims come and go, no device is given away twice."""

from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.quantity import Quantity, parse
from sim.scheduler.allocator import Allocator, Cluster, Outcome
from sim.scheduler.devices import DeviceId
from sim.scheduler.errors import SchedulerError
from sim.scheduler.usage import usage_of

DRIVER = "gpu.example.com"
NODE = {"metadata": {"name": "node-a"}}
TOTALS = {"memory": "40Gi", "cores": "100", "shares": "3"}
CLASSES = {"gpu": {"metadata": {"name": "gpu"}, "spec": {}}}

Claim = dict[str, Any]


def _slice(version: int = 1, shared: int = 2, dedicated: int = 1) -> dict[str, Any]:
    policies = {
        "memory": {"default": "40Gi", "validRange": {"min": "1Mi", "step": "1Mi"}},
        "cores": {"default": "0", "validRange": {"min": "0", "max": "100", "step": "1"}},
        "shares": {"default": "1", "validValues": ["1"]},
    }
    devices: list[dict[str, Any]] = [
        {
            "name": f"shared-{index}",
            "allowMultipleAllocations": True,
            "capacity": {
                name: {"value": value, "requestPolicy": policies[name]}
                for name, value in TOTALS.items()
            },
        }
        for index in range(shared)
    ]
    devices += [
        {"name": f"whole-{index}", "capacity": {"memory": {"value": "40Gi"}}}
        for index in range(dedicated)
    ]
    return {
        "metadata": {"name": "slice", "resourceVersion": str(version), "uid": "s"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "node-a",
            "devices": devices,
        },
    }


def _claim(name: str, requests: list[tuple[dict[str, str], int]]) -> Claim:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": f"r{index}",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "count": number,
                            "capacity": {"requests": asked},
                        },
                    }
                    for index, (asked, number) in enumerate(requests)
                ]
            }
        },
    }


def _cluster(claims: list[Claim]) -> Cluster:
    return Cluster(slices=[_slice()], classes=CLASSES, usage=usage_of(claims))


ASKED = st.fixed_dictionaries(
    {"memory": st.integers(0, 50 * 2**30).map(str)},
    optional={"cores": st.integers(0, 110).map(str), "shares": st.just("1")},
)
REQUESTS = st.lists(st.tuples(ASKED, st.integers(1, 2)), min_size=1, max_size=3)


@pytest.mark.parametrize("profile", ["1.36", "1.37"])
@settings(max_examples=60)
@given(steps=st.lists(st.tuples(REQUESTS, st.integers(0, 4)), max_size=10))
def test_never_gives_more_than_there_is(
    profile: str, steps: list[tuple[list[tuple[dict[str, str], int]], int]]
) -> None:
    """Over any sequence of claims that come and go, sums stay within the devices' capacity."""
    allocator = Allocator(profile)
    live: list[Claim] = []
    for number, (requests, leaving) in enumerate(steps):
        claim = _claim(f"c{number}", requests)
        result = allocator.allocate([claim], node=NODE, cluster=_cluster(live))
        assert result.outcome in {Outcome.ALLOCATED, Outcome.NONE}
        if result.outcome is Outcome.ALLOCATED:
            live.append({**claim, "status": {"allocation": result.allocations[0]}})
        else:
            assert result.verdicts
        _check_sums(live)
        if leaving and live:
            live.pop(leaving % len(live))


def _check_sums(claims: list[Claim]) -> None:
    results = [
        result for claim in claims for result in claim["status"]["allocation"]["devices"]["results"]
    ]
    usage = usage_of(claims)
    for amounts in usage.used.values():
        for name, amount in amounts.items():
            assert Quantity(0) <= amount <= parse(TOTALS[name])
    whole = Counter(result["device"] for result in results if "shareID" not in result)
    assert all(times == 1 for times in whole.values())
    assert not usage.dedicated & usage.used.keys()
    ids = [result["shareID"] for result in results if "shareID" in result]
    assert len(ids) == len(set(ids))


def test_share_ids_come_from_the_given_source() -> None:
    """With its own source of share ids an allocation is the same down to the last letter."""
    claim = _claim("c", [({"memory": "1Gi"}, 2)])

    def once() -> object:
        numbers = count(1)
        allocator = Allocator("1.36", new_share_id=lambda: f"share-{next(numbers)}")
        return allocator.allocate([claim], node=NODE, cluster=_cluster([])).allocations

    assert once() == once()
    assert "share-2" in str(once())


def test_admin_results_hold_nothing() -> None:
    """A claim with admin access does not count as use of its devices."""
    result = {"driver": DRIVER, "pool": "p", "device": "d", "adminAccess": True}
    claim = {"status": {"allocation": {"devices": {"results": [result]}}}}
    assert not usage_of([claim]).holds(DeviceId(DRIVER, "p", "d"))


def test_changed_slice_is_read_again() -> None:
    """A slice with a new resourceVersion replaces what was parsed before."""
    allocator = Allocator("1.36")
    claim = _claim("c", [({}, 1)])
    outcomes = []
    for version, shared in ((1, 0), (2, 1)):
        part = _slice(version, shared=shared, dedicated=0)
        cluster = Cluster(slices=[part], classes=CLASSES, usage=usage_of([]))
        outcomes.append(allocator.allocate([claim], node=NODE, cluster=cluster).outcome)
    assert outcomes == [Outcome.NONE, Outcome.ALLOCATED]


def test_unreadable_slice_spoils_only_its_pool() -> None:
    """A slice that cannot be read makes its pool incomplete and leaves others alone."""
    broken = _slice()
    broken["metadata"] = {"name": "broken"}
    broken["spec"]["pool"] = {"name": "bad", "generation": 1, "resourceSliceCount": 1}
    broken["spec"]["devices"][0]["capacity"]["memory"]["value"] = "lots"
    cluster = Cluster(slices=[broken, _slice()], classes=CLASSES, usage=usage_of([]))
    result = Allocator("1.36").allocate([_claim("c", [({}, 1)])], node=NODE, cluster=cluster)
    assert result.allocations[0]["devices"]["results"][0]["pool"] == "node-a"


def test_malformed_claim_is_fatal() -> None:
    """A claim whose capacity is no quantity ends the attempt with a reason."""
    claim = _claim("c", [({"memory": "lots"}, 1)])
    result = Allocator("1.36").allocate([claim], node=NODE, cluster=_cluster([]))
    assert (result.outcome, result.code) == (Outcome.FATAL, "ClaimMalformed")


def test_endless_search_gives_up() -> None:
    """A search that would take ages ends with an error for the node."""
    claim = _claim("c", [({}, 16)])
    claim["spec"]["devices"]["constraints"] = [{"distinctAttribute": f"{DRIVER}/colour"}]
    part = _slice(shared=0, dedicated=31)
    for index, device in enumerate(part["spec"]["devices"]):
        device["attributes"] = {"colour": {"int": index % 15}}
    cluster = Cluster(slices=[part], classes=CLASSES, usage=usage_of([]))
    result = Allocator("1.37").allocate([claim], node=NODE, cluster=cluster)
    assert result.outcome is Outcome.NODE_ERROR
    assert "gave up" in result.message


def test_unknown_profile_is_refused() -> None:
    """A release that is not known is named together with those that are."""
    with pytest.raises(SchedulerError, match=r"1\.20.*1\.36"):
        Allocator("1.20")
