"""The publisher on servers that drop what sharing needs, or do not say whether they do."""

import pytest

from dra.sharing import Sharing, SharingVerdict
from dra.sharing_state import remedy
from kube.paths import events
from tests.dra.publishing import (
    NODE,
    an_inventory,
    at_rest,
    cluster,
    publishing,
    settled,
)
from tests.patience import eventually


def test_a_server_that_drops_sharing_gets_whole_gpus() -> None:
    """On a server with the gate off GPUs are exclusive, and one event names the gate."""
    with cluster("1.34") as where, publishing(where, found=an_inventory(2)) as publisher:
        settled(publisher)
        assert where.modes() == ["exclusive", "exclusive"]
        assert where.verbs() == ["create"]
        assert publisher.sharing().state is Sharing.DROPPED
        eventually(where.node_events)
        at_rest(where)
        probes = len(where.verbs("probe"))
        where.call(where.server.drop_watches)
        eventually(lambda: len(where.verbs("probe")) > probes)
        at_rest(where)
        (event,) = where.items(events("default"))
        assert (event["type"], event["reason"]) == ("Warning", "SharingNotSupported")
        assert event["involvedObject"]["name"] == NODE
        assert "DRAConsumableCapacity" in event["message"]
        assert "whole GPUs" in event["message"]
        assert event.get("count", 1) == 1


@pytest.mark.parametrize(
    ("version", "advice"),
    [("v1.34.4", "update to Kubernetes 1.35 or newer and switch on"), ("v1.35.4", "switch on")],
)
def test_no_gate_is_advised_for_a_scheduler_that_it_ends(version: str, advice: str) -> None:
    """The scheduler of 1.34 cannot live with the gate, so that an update is advised there."""
    verdict = SharingVerdict(state=Sharing.DROPPED, server_version=version)
    assert remedy(verdict).startswith(advice)
    assert "DRAConsumableCapacity" in remedy(verdict)


def test_an_upgraded_server_gets_shares_without_a_restart() -> None:
    """The verdict follows the server up and down, and each turn is told once."""
    with cluster("1.34") as where, publishing(where, found=an_inventory()) as publisher:
        settled(publisher)
        assert where.modes() == ["exclusive"]
        where.switch_to("1.37")
        eventually(lambda: where.modes() == ["shared"])
        eventually(lambda: ("Normal", "SharingSupported") in where.node_events())
        where.switch_to("1.35")
        eventually(lambda: where.modes() == ["exclusive"])
        assert where.generations() == [1]
        assert where.verbs() == ["create", "update", "update"]


def test_a_written_slice_overrules_the_probe() -> None:
    """A server that changes its mind unseen is found out by what it makes of a real slice."""
    with cluster() as where, publishing(where, found=an_inventory()) as publisher:
        settled(publisher)
        at_rest(where)
        where.call(where.server.set_version, "1.34")
        where.delete_slices()
        eventually(lambda: where.modes() == ["exclusive"])
        assert not publisher.sharing().kept
        eventually(lambda: where.node_events() == [("Warning", "SharingNotSupported")])


def test_a_passing_error_of_the_probe_does_not_close_gpus() -> None:
    """The very first question is repeated before anything is published."""
    with cluster() as where:
        where.call(where.server.fail_next, 2, 503, verb="create")
        with publishing(where, found=an_inventory()) as publisher:
            settled(publisher)
            assert where.modes() == ["shared"]
            assert where.verbs() == ["create"]


def test_an_unanswered_probe_closes_gpus_until_there_is_an_answer() -> None:
    """Without an answer GPUs are offered whole, and in shares once it comes."""
    with cluster() as where:
        where.call(where.server.fail_next, 3, 503, verb="create")
        with publishing(where, found=an_inventory()) as publisher:
            eventually(lambda: where.verbs() == ["create", "update"])
            eventually(lambda: where.modes() == ["shared"])
            assert publisher.sharing().kept
