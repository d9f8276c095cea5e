"""The check of the extender."""

from typing import Any

import pytest

from cli.doctor.model import Status
from kube import paths
from tests.cli.doctor.world import World, ago, part, pods, world


def lease(at: World, name: str, **spec: Any) -> None:
    """Create a Lease in kube-system."""
    metadata = {"name": name, "namespace": "kube-system"}
    at.put(paths.leases("kube-system"), {"metadata": metadata, "spec": spec})


def test_none_is_needed() -> None:
    """Where shares are claimed nobody misses it; elsewhere it is missed."""
    with world() as at:
        assert at.verdict("extender").status is Status.SKIPPED
    with world("1.35") as at:
        assert at.verdict("extender").status is Status.WARNING
        at.front.missing.append("/apis/resource.k8s.io")
        assert at.verdict("extender").status is Status.WARNING


def test_leader_renews() -> None:
    """Ready pods and a Lease that was renewed just now are well."""
    with world("1.35") as at:
        flag = "--leader-elect-resource-name=mine"
        pods(at.front, part("scheduler", "one", args=(flag,)))
        lease(at, "mine", holderIdentity="one_1", renewTime=ago(seconds=1))
        assert at.verdict("extender").seen == "1 pod ready; one_1 leads"
        pods(at.front, part("scheduler", "two", ready=False))
        assert at.verdict("extender").status is Status.WARNING


def test_a_single_replica_needs_no_lease() -> None:
    """Where the chart has it decide without an election, nobody holds a Lease."""
    with world("1.35") as at:
        pods(at.front, part("scheduler", "one", args=("--no-leader-elect",)))
        assert at.verdict("extender").seen == "1 pod ready; decides without a Lease"


def test_pods_that_have_ended_are_nobody() -> None:
    """An evicted pod is listed for long, and another has its place."""
    with world("1.35") as at:
        gone = part("scheduler", "gone", ready=False)
        gone["status"]["phase"] = "Failed"
        pods(at.front, gone, part("scheduler", "one", args=("--no-leader-elect",)))
        assert at.verdict("extender").status is Status.OK


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"holderIdentity": "x", "renewTime": ago(minutes=5)}, "x has not renewed"),
        ({"holderIdentity": "", "renewTime": ago(minutes=5)}, "nobody holds the Lease"),
    ],
)
def test_nobody_leads(spec: dict[str, str], said: str) -> None:
    """A Lease that nobody holds or renews means that no pod is decided about."""
    with world("1.35") as at:
        pods(at.front, part("scheduler", "one"))
        lease(at, "hami-scheduler", **spec)
        verdict = at.verdict("extender")
        assert (verdict.status, said in verdict.seen) == (Status.FAILED, True)


def test_none_is_ready() -> None:
    """Pods of which none is ready decide nothing."""
    with world("1.35") as at:
        pods(at.front, part("scheduler", "one", ready=False))
        assert at.verdict("extender").seen == "no extender is ready: one"
