"""Tests of whether a pod has ended for good."""

import pytest

from hami.plugin.finding import Finder
from hami.plugin.podends import PodEnds
from kube.objects import ObjectKey
from tests.hami.plugin.placed import NODE, RESOURCE, Cluster, given

A = ObjectKey("default", "a")


def ends(cluster: Cluster, alive: frozenset[str] | None = frozenset()) -> PodEnds:
    """Return what a node whose watch knows *alive* makes of its pods."""
    finder = Finder(cluster.server.client(), node=NODE, resource=RESOURCE)
    return PodEnds(finder, lambda: alive)


@pytest.mark.parametrize(
    ("phase", "has_ended"),
    [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True)],
)
def test_the_phase_says_it(cluster: Cluster, phase: str, *, has_ended: bool) -> None:
    """A pod that the watch lacks is looked up."""
    uid = cluster.pod("a", f"{given(0)};")
    cluster.set_status("a", {"phase": phase})
    assert ends(cluster).has_ended(A, uid) is has_ended


def test_a_pod_that_is_gone(cluster: Cluster) -> None:
    """It has ended, also where another has its name."""
    uid = cluster.pod("a", f"{given(0)};")
    cluster.delete("a")
    assert ends(cluster).has_ended(A, uid)
    again = cluster.pod("a", f"{given(0)};")
    assert ends(cluster).has_ended(A, uid)
    assert not ends(cluster).has_ended(A, again)


def test_what_the_watch_knows_is_not_asked(cluster: Cluster) -> None:
    """A pod that lives costs no request, nor does one while nothing is known."""
    uid = cluster.pod("a", f"{given(0)};")
    before = cluster.asked()
    assert not ends(cluster, frozenset({uid})).has_ended(A, uid)
    assert not ends(cluster, None).has_ended(A, "another")
    assert cluster.asked() == before
