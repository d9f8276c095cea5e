"""A claim may take several of a GPU's shares, or all, to be alone with less than all of it."""

from typing import Any

import pytest
from prometheus_client import generate_latest

from dra import overlap
from dra.allocation import AllocatedDevice
from dra.devices import SharingPolicy, build_devices
from dra.grants import devices_by_name, grant, limits
from dra.layout import build_slices
from dra.metrics import Metrics
from dra.record import PREPARED_CLAIM
from gpu import names
from gpu.refusal import RefusedError
from sim.scheduler.allocator import Allocator, Cluster
from sim.scheduler.usage import usage_of
from tests.dra.builders import NODE, a_gpu, a_held, a_record, a_share, an_inventory, consumed

GPU = a_gpu()
ON_NODE = devices_by_name(an_inventory(GPU))
CLASSES = {names.CLASS_SHARE: {"metadata": {"name": names.CLASS_SHARE}, "spec": {}}}


def a_claim(**asked: str) -> dict[str, Any]:
    """Build a claim that asks for these capacities."""
    exactly = {
        "deviceClassName": names.CLASS_SHARE,
        "allocationMode": "ExactCount",
        "count": 1,
        "capacity": {"requests": {"memory": "1000Mi", **asked}},
    }
    return {
        "metadata": {"name": "c", "namespace": "team-a"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def given(*claims: dict[str, Any]) -> list[dict[str, Any] | None]:
    """Return what the scheduler gives to *claims*, one after the other; `None` for nothing."""
    offer = build_devices(an_inventory(GPU), sharing_kept=True, policy=SharingPolicy())
    slices = build_slices(offer.devices, node_name=NODE, node_uid="u")
    for item in slices:
        item["metadata"] |= {"name": "slice", "uid": "s", "resourceVersion": "1"}
        item["spec"]["pool"]["generation"] = 1
    live: list[dict[str, Any]] = []
    found: list[dict[str, Any] | None] = []
    for claim in claims:
        cluster = Cluster(slices=list(slices), classes=CLASSES, usage=usage_of(live))
        result = Allocator("1.36").allocate(
            [claim], node={"metadata": {"name": NODE}}, cluster=cluster
        )
        found.append(None)
        for allocation in result.allocations:
            live.append(claim | {"status": {"allocation": allocation}})
            found[-1] = allocation["devices"]["results"][0]["consumedCapacity"]
    return found


def a_grant(shares: str) -> AllocatedDevice:
    """Return the allocation of 1000 MiB that takes so many shares."""
    return a_share(GPU, consumed=consumed("1000Mi", "100", shares))


def test_all_shares_keep_others_away() -> None:
    """Who holds all shares is alone, whether he was first or comes later."""
    alone, plain = a_claim(shares="10"), a_claim()
    first, second, third = given(alone, plain, alone)
    assert first == {"memory": "1000Mi", "cores": "0", "shares": "10"}
    assert (second, third) == (None, None)
    assert given(plain, alone)[1] is None


def test_what_is_asked_is_counted() -> None:
    """Nothing asked is one share; parts of a share do not exist; more than all is not given."""
    assert given(a_claim())[0] == {"memory": "1000Mi", "cores": "0", "shares": "1"}
    assert given(a_claim(shares="1500m"))[0] == {"memory": "1000Mi", "cores": "0", "shares": "2"}
    assert given(a_claim(shares="11")) == [None]
    assert [each is not None for each in given(*[a_claim(shares="4")] * 3)] == [True, True, False]


def test_node_counts_them() -> None:
    """The node's own record, its sums and its metrics say how many they are."""
    held = grant(a_grant("10"), ON_NODE)
    assert held.shares == 10
    record = a_record(1, held)
    assert PREPARED_CLAIM.validate_json(PREPARED_CLAIM.dump_json(record)) == record
    metrics = Metrics()
    metrics.show_grants(lambda: {record.uid: record}, lambda: an_inventory(GPU))
    lines = generate_latest(metrics.registry).decode().splitlines()
    (line,) = [each for each in lines if each.startswith("gpuslice_granted_shares{")]
    assert line.endswith(" 10.0")


@pytest.mark.parametrize(("other", "fits"), [(1, False), (0, True)])
def test_node_refuses_more_than_there_are(other: int, *, fits: bool) -> None:
    """A share beside one that has all of them waits, however little it takes of the rest."""
    alone = a_record(1, grant(a_grant("10"), ON_NODE))
    others = [a_record(2, a_held(GPU, memory_mib=1, cores_percent=0))] * other
    if fits:
        overlap.check(alone, others, ON_NODE, dict.fromkeys(ON_NODE, 10))
        return
    with pytest.raises(RefusedError, match="11 shares with what `team-a/claim-2`"):
        overlap.check(alone, others, ON_NODE, dict.fromkeys(ON_NODE, 10))


def test_limits_stay() -> None:
    """Being alone is no reason to get more memory than was asked for."""
    (limit,) = limits((grant(a_grant("10"), ON_NODE),), ON_NODE)
    assert (limit.memory_mib, limit.cores_percent) == (1000, 100)
