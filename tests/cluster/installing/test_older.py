"""The chart on an older cluster: the extender beside its scheduler, and device plugins."""

import json
from dataclasses import replace
from typing import Final

import pytest

from kube import paths
from tests.charts.rendering import NAMESPACE, merged, nested
from tests.cluster.installing.release import READY_S, Release
from tests.cluster.installing.test_claims import examined, node_of
from tests.cluster.scenes import rights
from tests.cluster.scenes.cards import expect_given
from tests.cluster.scenes.expectations import L4
from tests.cluster.scenes.test_legacy import legacy
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

_WELL: Final = (
    *("webhook-configured", "webhook-endpoints", "webhook-answers", "webhook-certificate"),
    *("node-agents", "published-gpus", "registrations", "extender", "preflight"),
)
_ACCOUNTS: Final = ("gpuslice-node-agent", "gpuslice-webhook", "gpuslice-scheduler")


def test_limits_become_pods(release: Release) -> None:
    """HAMi's words go through webhook, second scheduler and device plugin to the container."""
    limits = {"gpu": "1", "gpumem": "4096", "gpucores": "40"}
    eventually(lambda: _offered(release), READY_S)
    release.create(legacy("legacy", limits, node=node_of(release), gputype="L4"))
    try:
        expect_given(release.report("legacy"), {L4: ("4096m", "40")}, with_nodes=True)
        assert release.pod("legacy")["spec"]["schedulerName"] == "hami-scheduler"
    finally:
        release.delete_pods("legacy")


def test_doctor_finds_it_well(release: Release) -> None:
    """The doctor finds the extender, its leader and the device plugins, and a limit arrives."""
    eventually(lambda: _offered(release), READY_S)
    eventually(lambda: len(_deciding(release)) == 1, READY_S)
    status, found = examined(release)
    assert {name: found[name] for name in _WELL if found[name]["status"] != "ok"} == {}
    assert [each for each in found.values() if each["status"] == "failed"] == []
    assert status == 0


def _offered(release: Release) -> bool:
    node = json.loads(release.client.get(paths.nodes(node_of(release))))
    return int(node["status"]["allocatable"].get("nvidia.com/gpu", "0")) > 0


def test_device_plugins_find_the_extender_that_decides(release: Release) -> None:
    """The Service leads to one of two replicas that are ready, and to another when it goes."""
    eventually(lambda: len(_deciding(release)) == 1, READY_S)
    replace(release, values=merged(release.values, nested("scheduler.replicas", 2))).upgrade()
    replicas = {
        pod["status"]["podIP"]: pod["metadata"]["name"] for pod in release.pods("scheduler")
    }
    assert len(replicas) == 2
    eventually(lambda: len(_deciding(release)) == 1, READY_S)
    (before,) = _deciding(release)
    release.client.delete(paths.pods(NAMESPACE, replicas[before]))
    # Either the one that has waited or the one that takes the place of the first.
    eventually(lambda: len(now := _deciding(release)) == 1 and before not in now, READY_S)
    release.upgrade()


def _deciding(release: Release) -> list[str]:
    """Return the addresses to which the scheduler's Service leads."""
    slices = paths.resource("discovery.k8s.io/v1", "endpointslices", namespace=NAMESPACE)
    chosen = {"labelSelector": "kubernetes.io/service-name=gpuslice-scheduler"}
    found = json.loads(release.client.get(slices, chosen))["items"]
    return [
        address
        for each in found
        for endpoint in each.get("endpoints") or ()
        if endpoint["conditions"]["ready"]
        for address in endpoint["addresses"]
    ]


def test_rights_suffice(release: Release) -> None:
    """No program is refused anything."""
    for account in _ACCOUNTS:
        assert not rights.refused(release.cluster.state.audit_log, account), account
