"""The publisher where others change its slices, or the server refuses them."""

from functools import partial

from structlog.testing import capture_logs

from kube.paths import resource_slices
from tests.dra.publishing import (
    NODE,
    an_inventory,
    at_rest,
    cluster,
    has_memory,
    publishing,
    settled,
)
from tests.patience import eventually


def test_a_deleted_slice_is_back_at_once() -> None:
    """Whoever deletes the slice, the node publishes a newer one."""
    with cluster() as where, publishing(where, found=an_inventory()) as publisher:
        settled(publisher)
        where.delete_slices()
        eventually(lambda: where.generations() == [2])
        assert where.modes() == ["shared"]


def test_a_deleted_collection_comes_back_whole() -> None:
    """A pool of several slices is one generation again, with the right count in each."""
    with cluster() as where, publishing(where, found=an_inventory(300)) as publisher:
        settled(publisher)
        assert where.generations() == [1, 1, 1]
        where.delete_slices()

        def is_whole() -> bool:
            slices = where.slices()
            counts = [item["spec"]["pool"]["resourceSliceCount"] for item in slices]
            return counts == [3, 3, 3] and len(set(where.generations())) == 1

        eventually(is_whole)
        assert where.generations()[0] > 1
        assert len(where.modes()) == 300


def test_edits_by_others_are_undone() -> None:
    """Devices that somebody removed from the slice are put back."""
    with cluster() as where, publishing(where, found=an_inventory(2)) as publisher:
        settled(publisher)
        (item,) = where.slices()
        item["spec"]["devices"] = item["spec"]["devices"][:1]
        where.admin.replace(resource_slices(item["metadata"]["name"]), item)
        eventually(lambda: where.modes() == ["shared", "shared"])
        assert where.generations() == [1]


def test_leftovers_of_another_version_are_removed() -> None:
    """Slices of this driver on this node that are not wanted go; those of others stay."""
    with cluster() as where:
        for name, driver in (("old", "gpuslice.io"), ("foreign", "gpu.example.com")):
            spec = {
                "driver": driver,
                "nodeName": NODE,
                "pool": {"name": f"{NODE}/old", "generation": 7, "resourceSliceCount": 1},
            }
            where.admin.create(
                resource_slices(),
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceSlice",
                    "metadata": {"name": name},
                    "spec": spec,
                },
            )
        with publishing(where, found=an_inventory()) as publisher:
            settled(publisher)
            names = [item["metadata"]["name"] for item in where.slices()]
            assert len(names) == 2
            assert "foreign" in names
            assert "old" not in names


def test_conflicts_and_failures_are_tried_again() -> None:
    """A conflict, a busy server and a refusal delay a change and do not lose it."""
    with cluster() as where, publishing(where, found=an_inventory()) as publisher:
        settled(publisher)
        for status in (409, 429, 422, 503):
            where.call(where.server.fail_next, 1, status, verb="update")
            publisher.set_inventory(an_inventory(memory_mib=status))
            eventually(partial(has_memory, publisher, f"{status}Mi"))
        settled(publisher)
        assert where.generations() == [1]
        assert where.verbs() == ["create"] + ["update"] * 4


def test_conflicts_are_resolved_at_once() -> None:
    """Slices that changed meanwhile are read again: that is no failure to wait after."""
    with cluster() as where, publishing(where, found=an_inventory()) as publisher:
        settled(publisher)
        where.call(where.server.fail_next, 4, 409, verb="update")
        with capture_logs() as logs:
            publisher.set_inventory(an_inventory(memory_mib=4000))
            eventually(lambda: has_memory(publisher, "4000Mi"))
        assert [entry["event"] for entry in logs] == ["slice written"]


def test_a_failure_says_why_it_is_not_ready() -> None:
    """While the server refuses the slices, readiness carries its words."""
    with cluster() as where, publishing(where) as publisher:
        where.call(where.server.fail_next, 10_000, 403, verb="list")
        publisher.set_inventory(an_inventory())
        eventually(lambda: "injected fault" in (publisher.ready() or ""))
        where.call(where.server.clear_faults)
        settled(publisher)


def test_a_server_that_is_away_is_waited_for() -> None:
    """A publisher that starts without a server publishes when there is one."""
    with cluster() as where:
        where.run(where.server.pause())
        with publishing(where, found=an_inventory()) as publisher:
            eventually(lambda: "sharing" in (publisher.ready() or ""))
            where.run(where.server.resume())
            settled(publisher)
            assert where.modes() == ["shared"]


def test_two_publishers_agree() -> None:
    """During a rolling update two processes end with one set of slices and then rest."""
    with (
        cluster() as where,
        publishing(where, found=an_inventory(2)) as first,
        publishing(where, found=an_inventory(2)) as second,
    ):
        settled(first)
        settled(second)
        where.delete_slices()

        def is_whole() -> bool:
            return where.modes() == ["shared", "shared"] and len(where.slices()) == 1

        eventually(is_whole)
        at_rest(where)
        assert is_whole()
        assert first.published_devices() == second.published_devices()


def test_hostile_changes_are_answered_ever_more_rarely() -> None:
    """Someone who keeps deleting the slices cannot make the node flood the server."""
    with cluster() as where, publishing(where, found=an_inventory()) as publisher:
        settled(publisher)

        def gives_way() -> bool:
            where.delete_slices()
            return "again and again" in (publisher.ready() or "")

        eventually(gives_way)
