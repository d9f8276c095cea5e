"""The publisher against an API server that speaks real HTTP: what it writes, and when nothing."""

import time

from gpu.model import ComputeMode
from tests.dra.publishing import (
    an_inventory,
    at_rest,
    cluster,
    has_memory,
    publishing,
    settled,
)
from tests.patience import eventually


def test_gpus_are_published_in_one_slice() -> None:
    """Eight GPUs become one slice of the node's pool, owned by the node."""
    with cluster() as where, publishing(where) as publisher:
        assert publisher.ready() == "the GPUs have not been read yet"
        publisher.set_inventory(an_inventory(8))
        settled(publisher)
        (item,) = where.slices()
        assert item["metadata"]["ownerReferences"][0]["uid"] == where.uid
        assert item["metadata"]["name"].startswith("00000-gpuslice.io-node-1-")
        assert where.modes() == ["shared"] * 8
        devices = {device["name"]: device for device in item["spec"]["devices"]}
        assert publisher.published_devices() == devices
        assert publisher.sharing().kept
        assert where.verbs() == ["create"]


def test_no_gpus_are_published_as_an_empty_slice() -> None:
    """A node without GPUs has a slice that says so."""
    with cluster() as where, publishing(where, found=an_inventory(0)) as publisher:
        settled(publisher)
        (item,) = where.slices()
        assert "devices" not in item["spec"]
        assert publisher.published_devices() == {}


def test_withheld_devices_are_told() -> None:
    """A GPU that is not offered is named with the reason."""
    with cluster() as where:
        closed = an_inventory(compute_mode=ComputeMode.PROHIBITED)
        with publishing(where, found=closed) as publisher:
            settled(publisher)
            (withheld,) = publisher.noted()
            assert withheld.refusal.code == "ComputeModeProhibited"
            assert where.modes() == []


def test_nothing_is_asked_at_rest() -> None:
    """Many resyncs and repeated inventories lead to no request at all."""
    with cluster() as where, publishing(where, found=an_inventory(2), resync_s=0.02) as publisher:
        settled(publisher)
        at_rest(where)
        before = where.requests(), where.requests("probe")
        for _ in range(5):
            publisher.set_inventory(an_inventory(2))
            time.sleep(0.05)
        assert (where.requests(), where.requests("probe")) == before
        assert where.verbs() == ["create"]


def test_a_burst_of_changes_is_one_write() -> None:
    """Changes close together become one update, of the same generation."""
    with cluster() as where, publishing(where, found=an_inventory(2), debounce_s=0.5) as publisher:
        settled(publisher)
        for memory_mib in range(1000, 1020):
            publisher.set_inventory(an_inventory(2, memory_mib=memory_mib))
        eventually(lambda: has_memory(publisher, "1019Mi"))
        assert where.generations() == [1]
        assert where.verbs().count("create") == 1
        assert 1 <= where.verbs().count("update") <= 2


def test_more_slices_are_a_new_generation() -> None:
    """A node whose devices need a second slice says so on both."""
    with cluster() as where, publishing(where, found=an_inventory(2)) as publisher:
        settled(publisher)
        publisher.set_inventory(an_inventory(129))
        eventually(lambda: where.generations() == [2, 2])
        publisher.set_inventory(an_inventory(1))
        eventually(lambda: where.generations() == [3])


def test_a_publisher_that_stops_leaves_its_slices() -> None:
    """At exit nothing is deleted, and nothing is repaired afterwards."""
    with cluster() as where:
        with publishing(where, found=an_inventory()) as publisher:
            settled(publisher)
        assert where.modes() == ["shared"]
        before = where.verbs()
        where.delete_slices()
        time.sleep(0.2)
        assert where.slices() == []
        assert where.verbs() == before


def test_a_restarted_publisher_writes_nothing() -> None:
    """A process that finds its slices as they should be leaves them alone."""
    with cluster() as where:
        for _ in range(2):
            with publishing(where, found=an_inventory(3)) as publisher:
                settled(publisher)
        assert where.verbs() == ["create"]
