"""What is left behind when a request to the API server goes wrong, whichever it is."""

from collections.abc import Iterator

import pytest

from gpu.refusal import RefusedError
from hami.plugin.insisting import TRIES
from kube.errors import KubeError
from tests.hami.plugin.faulty import FOR_CLIENTS, Fault, FaultyWay
from tests.hami.plugin.placed import Cluster, given, parts_of, uuid

ONE = [[f"{uuid(0)}-0"]]
OTHER = [[f"{uuid(1)}-0"]]


@pytest.fixture
def way(cluster: Cluster) -> Iterator[FaultyWay]:
    """Return a way to the API server."""
    with FaultyWay(cluster.server) as found:
        yield found


@pytest.mark.parametrize("fault", FOR_CLIENTS)
@pytest.mark.parametrize("lock", [True, False])
def test_one_fault_costs_nobody_anything(
    cluster: Cluster, way: FaultyWay, fault: Fault, *, lock: bool
) -> None:
    """Whichever request it befalls, the pod has its devices and the lock is free."""
    for number in range(10):
        name = f"pod-{number}"
        cluster.pod(name, f"{given(0)};", lock=lock)
        parts = parts_of(way.client())
        way.break_at(number, fault)
        answer = parts.allocator.allocate(ONE)
        assert answer.container_responses[0].envs["POD"] == name
        assert (cluster.left(name), cluster.phase(name)) == ([[]], "success")
        assert cluster.locked_by() == ""
        if way.count <= number:
            assert number == (6 if lock else 3)
            return
    pytest.fail("the fault always came")


@pytest.mark.parametrize("fault", FOR_CLIENTS)
def test_one_fault_in_a_refusal_leaves_no_lock(
    cluster: Cluster, way: FaultyWay, fault: Fault
) -> None:
    """The pod says that it failed, or can still be served where it could not be told."""
    for number in range(10):
        name = f"pod-{number}"
        cluster.pod(name, f"{given(0)};")
        parts = parts_of(way.client())
        way.break_at(number, fault)
        with pytest.raises(RefusedError):
            parts.allocator.allocate(OTHER)
        assert cluster.locked_by() == ""
        assert cluster.phase(name) in {"failed", "allocating"}
        assert cluster.left(name) == [[uuid(0)]]
        cluster.set_status(name, {"phase": "Failed"})
        if way.count <= number:
            assert number == 6
            return
    pytest.fail("the fault always came")


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_server_that_is_gone_for_long_leaves_no_lock_once_it_is_back(
    cluster: Cluster, way: FaultyWay, number: int
) -> None:
    """Kubelet has refused the pod meanwhile; the lock is looked at until it is free."""
    cluster.pod("a", f"{given(0)};")
    parts = parts_of(way.client())
    way.break_at(number, Fault.CUT, times=1000)
    with pytest.raises((KubeError, RefusedError)):
        parts.allocator.allocate(ONE)
    assert parts.allocator.see_to()
    way.heal()
    cluster.set_status("a", {"phase": "Failed"})
    assert cluster.left("a") == [[uuid(0)]]
    assert not parts.allocator.see_to()
    assert cluster.locked_by() == ""
    way.heal()
    assert not parts.allocator.see_to()
    assert way.count == 0


def test_a_lock_that_cannot_be_removed_does_not_take_the_devices_away(
    cluster: Cluster, way: FaultyWay
) -> None:
    """Kubelet has its answer, and the lock goes as soon as it can."""
    cluster.pod("a", f"{given(0)};")
    parts = parts_of(way.client())
    way.break_at(4, Fault.FAILED, times=2 * TRIES)
    assert len(parts.allocator.allocate(ONE).container_responses) == 1
    assert (cluster.phase("a"), cluster.locked_by()) == ("success", "a")
    way.heal()
    assert not parts.allocator.see_to()
    assert cluster.locked_by() == ""


def test_the_lock_of_a_pod_that_can_still_be_served_stays(cluster: Cluster) -> None:
    """So does that of a pod which is about to be bound; a deleted pod has none."""
    cluster.pod("a", f"{given(0)};")
    parts = parts_of(cluster.server.client())
    assert parts.allocator.see_to()
    assert cluster.locked_by() == "a"
    cluster.delete("a")
    assert not parts.allocator.see_to()
    assert cluster.locked_by() == ""
    cluster.create({"name": "b"}, node=None)
    cluster.lock("b")
    parts = parts_of(cluster.server.client())
    assert parts.allocator.see_to()
    assert cluster.locked_by() == "b"
